// What a store in PostgreSQL costs where others fall down: a claim while a million messages wait,
// messages that pass while somebody's transaction stays open, several processes that work off the
// backlog of an outbox, and the way of a message to a consumer that waits for it. The rates beside
// a queue in plain SQL are those of `strand bench queue --store postgres://…`.
//
//   ./dev bench postgres [-o json] [--only backlog|pinned|processes|latency] [--store URL]
//                        [--messages N]
//
// Without a URL it starts a server of its own, on the disk of the temporary folder. With one,
// queues `small`, `large`, `passing`, `waited-for` and `outbox-…` of that store are made and
// removed. Ratios of one run are what counts.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <strand/strand.h>

#include "figures.h"
#include "postgres/server.h"
#include "pq/connection.h"
#include "store/postgres/answers.h"
#include "store/postgres/location.h"

namespace {

using namespace strand;
using namespace strand::bench;
using namespace std::chrono_literals;

constexpr std::size_t batch = 100;

struct Options {
  std::string url;
  std::size_t messages = 1'000'000;
  std::string drain;  // a process of the measurement: the queue that it works off
};

// --- Messages ---

Send message(const std::string& queue, std::optional<std::string> key) {
  Send send{.queue = queue};
  send.key = std::move(key);
  send.body = std::string(100, 'x');
  return send;
}

// Sends so many, each batch with the next `per_key` of a key in a row; keys come again.
void fill(Store& store, const std::string& queue, std::size_t messages, std::size_t keys,
          std::size_t per_key) {
  for (std::size_t sent = 0; sent < messages;) {
    Transaction transaction;
    transaction.durability = Durability::async;
    for (; transaction.sends.size() < batch && sent < messages; ++sent) {
      transaction.sends.push_back(
          message(queue, fmt::format("key-{}", sent / per_key * 7919 % keys)));
    }
    value("fill", store.apply(transaction));
  }
}

void ack(Store& store, const std::vector<Lease>& leases) {
  Transaction transaction;
  for (const Lease& lease : leases) {
    Settle& settle = transaction.settles.emplace_back();
    settle.token = lease.token;
    for (const Message& one : lease.messages)
      settle.outcomes.push_back({.id = one.id});
  }
  value("ack", store.apply(transaction));
}

std::size_t count(const std::vector<Lease>& leases) {
  std::size_t sum = 0;
  for (const Lease& lease : leases)
    sum += lease.messages.size();
  return sum;
}

void remove(Store& store, const std::string& queue) {
  Transaction transaction;
  transaction.admin = RemoveQueue{.queue = queue, .force = true};
  value("remove", store.apply(transaction));
}

// --- A backlog ---

// Milliseconds for a lease of ten lanes.
double lease_ms(Store& store, const std::string& queue) {
  const auto began = Steady::now();
  const auto leases = value("lease", store.lease({.queue = queue, .lanes = 10, .messages = 100}));
  const double took = seconds_since(began) * 1e3;
  ack(store, leases);
  return took;
}

void measure_backlog(Store& store, const Options& options, Figures& figures) {
  fill(store, "small", 10'000, 1'000, 1);
  fill(store, "large", options.messages, 100'000, 1);
  std::vector<double> small;
  std::vector<double> large;
  for (int round = 0; round < 80; ++round) {
    small.push_back(lease_ms(store, "small"));
    large.push_back(lease_ms(store, "large"));
  }
  const double few = median(small);
  const double many = median(large);
  figures.report("lease_ms_10k", few, "a lease of 10 lanes, 10,000 messages waiting, ms");
  figures.report("lease_ms_large", many,
                 fmt::format("… with {} over 100,000 keys", options.messages));
  figures.report("backlog_ratio", many / few, "ratio (<= 2)");
  remove(store, "small");
  remove(store, "large");
}

// --- Somebody's open transaction ---

// Sends, leases and acks batches; messages a second.
double pass(Store& store, std::size_t messages) {
  const auto began = Steady::now();
  for (std::size_t passed = 0; passed < messages;) {
    Transaction transaction;
    for (std::size_t i = 0; i < batch; ++i)
      transaction.sends.push_back(message("passing", std::nullopt));
    value("send", store.apply(transaction));
    const auto leases =
        value("lease", store.lease({.queue = "passing", .lanes = batch, .messages = batch}));
    passed += count(leases);
    ack(store, leases);
  }
  return static_cast<double>(messages) / seconds_since(began);
}

void measure_pinned(Store& store, const std::string& conninfo, const Options& options,
                    Figures& figures) {
  const std::size_t some = options.messages / 10;
  static_cast<void>(pass(store, some));
  const double before = pass(store, some);
  auto connection = value("connect", postgres::Connection::open(conninfo));
  if (auto begun =
          connection->script("begin isolation level repeatable read; select txid_current()");
      !begun) {
    give_up("an open transaction", postgres::error_of(begun.error(), "it"));
  }
  static_cast<void>(pass(store, options.messages - some));
  const double pinned = pass(store, some);
  connection.reset();
  figures.report("before_per_s", before, "messages a second that pass");
  figures.report("pinned_per_s", pinned,
                 fmt::format("… after {} with somebody's transaction open", options.messages));
  figures.report("pinned_ratio", pinned / before, "ratio (>= 0.5)");
  remove(store, "passing");
}

// --- Several processes ---

// As the worker of an outbox: a batch of lanes, then one transaction for all of them.
void work_off(Store& store, const std::string& queue) {
  while (true) {
    const auto leases =
        value("lease", store.lease({.queue = queue, .lanes = 10, .messages = batch}));
    if (!leases.empty()) {
      ack(store, leases);
    } else if (value("stats", store.stats(queue)).live() == 0) {
      return;
    }
  }
}

// 1 to 10 a key.
std::size_t fill_outbox(Store& store, const std::string& queue, std::size_t messages) {
  std::size_t sent = 0;
  for (std::size_t key = 0; sent < messages; ++key) {
    Transaction transaction;
    for (std::size_t i = 0; i < 1 + key % 10; ++i, ++sent)
      transaction.sends.push_back(message(queue, fmt::format("entity-{}", key)));
    value("fill", store.apply(transaction));
  }
  return sent;
}

// A process of the measurement: gets ready, waits for a word, works, and ends.
int drain(const Options& options) {
  const auto store = value("open", open(options.url));
  work_off(*store, options.drain + "-first");
  char word = '.';
  if (write(STDOUT_FILENO, &word, 1) != 1 || read(STDIN_FILENO, &word, 1) != 1) return 1;
  work_off(*store, options.drain);
  return 0;
}

class Worker {
 public:
  Worker(const Options& options, const std::string& queue) {
    int in[2];
    int out[2];
    if (pipe(in) != 0 || pipe(out) != 0) std::abort();
    pid_ = fork();
    if (pid_ < 0) std::abort();
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      execl("/proc/self/exe", "bench_postgres", "--store", options.url.c_str(), "--drain",
            queue.c_str(), nullptr);
      std::_Exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    close(to_);
    close(from_);
  }

  void wait_until_ready() const {
    char word = 0;
    if (read(from_, &word, 1) != 1) fail();
  }
  void go() const {
    if (write(to_, ".", 1) != 1) fail();
  }
  void wait() const {
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_ || status != 0) fail();
  }

 private:
  [[noreturn]] static void fail() {
    fmt::print(stderr, "bench: a process of the measurement failed\n");
    std::exit(1);
  }
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
};

// Messages a second.
double drain_by(Store& store, const Options& options, std::size_t processes) {
  const std::string queue = fmt::format("outbox-{}", processes);
  fill_outbox(store, queue + "-first", 400);
  const std::size_t waiting = fill_outbox(store, queue, 10'000);
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t i = 0; i < processes; ++i)
    workers.push_back(std::make_unique<Worker>(options, queue));
  for (const auto& worker : workers)
    worker->wait_until_ready();
  const auto began = Steady::now();
  for (const auto& worker : workers)
    worker->go();
  while (value("stats", store.stats(queue)).live() > 0)
    std::this_thread::sleep_for(5ms);
  const double seconds = seconds_since(began);
  for (const auto& worker : workers)
    worker->wait();
  remove(store, queue);
  remove(store, queue + "-first");
  return static_cast<double>(waiting) / seconds;
}

void measure_processes(Store& store, const Options& options, Figures& figures) {
  std::vector<double> one;
  std::vector<double> four;
  for (int round = 0; round < 7; ++round) {
    one.push_back(drain_by(store, options, 1));
    four.push_back(drain_by(store, options, 4));
  }
  const double alone = median(one);
  const double together = median(four);
  figures.report("one_process_per_s", alone,
                 "10,000 messages, 1 to 10 a key, by 1 process, messages a second");
  figures.report("four_processes_per_s", together, "… by 4");
  figures.report("processes_ratio", together / alone, "ratio (>= 1.3)");
}

// --- Latency ---

double commit_ms(const std::string& conninfo) {
  auto connection = value("connect", postgres::Connection::open(conninfo));
  const auto must = [](const auto& done) {
    if (!done) give_up("a plain commit", postgres::error_of(done.error(), "it"));
  };
  must(connection->script(
      "drop table if exists strand_bench_one; create table strand_bench_one (n int)"));
  std::vector<double> times;
  for (int i = 0; i < 300; ++i) {
    const auto began = Steady::now();
    must(connection->run(
        postgres::Group{postgres::Statement{.sql = "insert into strand_bench_one values (1)"}}));
    times.push_back(seconds_since(began) * 1e3);
  }
  must(connection->script("drop table strand_bench_one"));
  return median(times);
}

void measure_latency(Store& store, const std::string& conninfo, const Options& options,
                     Figures& figures) {
  // The consumer is on a handle of its own, as in another process.
  const auto other = value("open", open(options.url));
  Transaction transaction;
  transaction.sends.push_back(message("waited-for", "a"));
  value("send", store.apply(transaction));
  std::mutex mutex;
  std::condition_variable called;
  bool ring = true;
  const Watch watch = other->watch(WatchQueue{"waited-for"}, [&] {
    {
      const std::lock_guard lock(mutex);
      ring = true;
    }
    called.notify_one();
  });
  std::atomic<int> received = 0;
  std::jthread consumer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      {
        std::unique_lock lock(mutex);
        called.wait_for(lock, 1s, [&] { return ring; });
        ring = false;
      }
      const auto leases = value("lease", other->lease({.queue = "waited-for"}));
      if (leases.empty()) continue;
      received = received + 1;
      received.notify_all();
      ack(*other, leases);
    }
  });
  received.wait(0);
  std::vector<double> times;
  std::vector<double> sends;
  for (int i = 1; i <= 300; ++i) {
    std::this_thread::sleep_for(5ms);  // so that it waits again
    const auto began = Steady::now();
    value("send", store.apply(transaction));
    sends.push_back(seconds_since(began) * 1e3);
    received.wait(i);
    times.push_back(seconds_since(began) * 1e3);
  }
  consumer.request_stop();
  consumer.join();
  remove(store, "waited-for");
  const double commit = commit_ms(conninfo);
  const double way = median(times);
  figures.report("commit_ms", commit, "a commit of one row, ms");
  figures.report("send_ms", median(sends), "a send of one message, ms");
  figures.report("send_to_consumer_ms", way, "from send to a consumer that waits, ms (p50)");
  figures.report("latency_ratio", way / commit, "ratio (<= 5)");
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments =
      Arguments::parse(argc, argv, {"--store", "--messages", "--drain"},
                       "bench_postgres [-o json] [--only backlog|pinned|processes|latency] "
                       "[--store URL] [--messages N]");
  Options options{
      .url = arguments.get("--store"),
      .messages = std::strtoull(arguments.get("--messages", "1000000").c_str(), nullptr, 10),
      .drain = arguments.get("--drain")};
  options.messages = std::max(options.messages, 10 * batch);
  if (!options.drain.empty()) return drain(options);
  std::unique_ptr<postgres::TestServer> server;
  if (options.url.empty()) {
    server = std::make_unique<postgres::TestServer>(postgres::ServerOptions{
        .durable = true, .settings = {{"synchronous_commit", "on"}, {"shared_buffers", "512MB"}}});
    options.url = server->fresh_database();
  }
  const auto location = value("the address", postgres::parse_location(options.url));
  const auto store = value("open", open(options.url));
  Figures figures(arguments.json);
  if (arguments.wants("latency")) measure_latency(*store, location.conninfo, options, figures);
  if (arguments.wants("processes")) measure_processes(*store, options, figures);
  if (arguments.wants("pinned")) measure_pinned(*store, location.conninfo, options, figures);
  if (arguments.wants("backlog")) measure_backlog(*store, options, figures);
  figures.finish();
  return 0;
}
