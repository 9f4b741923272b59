#include "cli/bench/queue_bench.h"

#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <strand/consumer.h>
#include <strand/store.h>

#include "cli/bench/baselines.h"
#include "cli/bench/bench_place.h"
#include "cli/bench/measure.h"
#include "cli/bench/postgres_baseline.h"

namespace strand::cli {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// So many, so that a disk that is slow for a second slows one round and not the median.
constexpr unsigned rounds = 9;
constexpr Duration lease_length = 10min;

// Wakes consumers when there may be something for them.
class Bell {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    ++rings_;
    changed_.notify_all();
  }
  [[nodiscard]] std::uint64_t rings() {
    const std::lock_guard lock(mutex_);
    return rings_;
  }
  void wait_beyond(std::uint64_t rings) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 20ms, [&] { return rings_ > rings; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t rings_ = 0;
};

// Sends batches and settles them, for one queue.
class Load {
 public:
  Load(Store& store, const QueueBenchOptions& options, std::string queue)
      : store_(store),
        options_(options),
        queue_(std::move(queue)),
        body_(options.size_bytes, 'x') {}

  Result<std::uint64_t> send(std::mt19937_64& random, std::size_t count, Durability durability) {
    Transaction transaction;
    transaction.durability = durability;
    transaction.sends.resize(count);
    std::uint64_t key = 0;
    for (std::size_t i = 0; i < count; ++i) {
      Send& send = transaction.sends[i];
      send.queue = queue_;
      send.body = body_;
      if (options_.keys == 0) continue;
      if (i % options_.per_key == 0) key = random() % options_.keys;
      send.key = fmt::format("key-{:08}", key);
    }
    const auto receipt = store_.apply(transaction);
    if (!receipt) return std::unexpected(receipt.error());
    return count;
  }

  Result<std::vector<Lease>> lease(std::size_t count) {
    LeaseRequest request;
    request.queue = queue_;
    request.lanes = static_cast<std::uint32_t>(count);
    request.messages = static_cast<std::uint32_t>(count);
    request.lease = lease_length;
    return store_.lease(request);
  }

  Result<void> settle(const std::vector<Lease>& leases, Outcome::Kind kind) {
    Transaction transaction;
    transaction.durability = options_.durability;
    transaction.settles.resize(leases.size());
    for (std::size_t i = 0; i < leases.size(); ++i) {
      transaction.settles[i].token = leases[i].token;
      for (const Message& message : leases[i].messages) {
        Outcome outcome;
        outcome.id = message.id;
        outcome.kind = kind;
        transaction.settles[i].outcomes.push_back(std::move(outcome));
      }
    }
    const auto receipt = store_.apply(transaction);
    if (!receipt) return std::unexpected(receipt.error());
    return {};
  }

  [[nodiscard]] Store& store() const { return store_; }
  [[nodiscard]] const std::string& queue() const { return queue_; }

 private:
  Store& store_;
  const QueueBenchOptions& options_;
  const std::string queue_;
  const std::string body_;
};

std::uint64_t count_messages(const std::vector<Lease>& leases) {
  std::uint64_t count = 0;
  for (const Lease& lease : leases)
    count += lease.messages.size();
  return count;
}

// What one thread does, and what it has seen.
struct Worker {
  std::mt19937_64 random;
  Samples enqueue;
  Samples lease;
  Samples ack;
};

class QueueBench {
 public:
  QueueBench(const QueueBenchOptions& options, const Progress& progress)
      : options_(options), progress_(progress) {}
  QueueBench(const QueueBench&) = delete;
  QueueBench& operator=(const QueueBench&) = delete;
  ~QueueBench() = default;

  Result<QueueBenchReport> run();

 private:
  Result<void> find_place();
  Result<void> fill_and_die(const std::string& url, std::uint64_t messages) const;
  Result<void> measure_backlog();
  Result<void> measure_leases(Store& small, Store& large);
  Result<void> round(unsigned number);
  Result<void> baselines();
  Result<void> enqueue(Load& load);
  Result<void> drain(Load& load);
  Result<void> cycle(Load& load);
  Result<void> compare_consumer(unsigned number);
  Result<double> drain_bare(Load& load, std::uint64_t messages) const;
  Result<double> drain_by_consumer(Load& load, std::uint64_t messages) const;
  Result<void> remove_queue(const std::string& queue);
  std::vector<Worker>& workers(unsigned count);
  [[nodiscard]] Duration slice() const { return options_.duration / rounds; }

  const QueueBenchOptions& options_;
  const Progress& progress_;
  QueueBenchReport report_;
  std::unique_ptr<BenchPlace> place_;
  std::unique_ptr<PostgresBaseline> postgres_;  // of a store in a database only
  std::unique_ptr<Store> store_;
  std::vector<Worker> workers_;
  struct {
    std::vector<double> file, rocksdb, postgres, enqueue, lease, ack, cycle, consumer, bare, added;
  } rates_;
};

Result<void> QueueBench::find_place() {
  auto place = BenchPlace::find({.store = options_.store,
                                 .memory_filesystem = options_.memory_filesystem,
                                 .keep = options_.keep});
  if (!place) return std::unexpected(std::move(place.error()));
  place_ = *std::move(place);
  report_.filesystem = place_->filesystem();
  if (place_->conninfo().empty()) return {};
  auto baseline = PostgresBaseline::open(place_->conninfo());
  if (!baseline) return std::unexpected(std::move(baseline.error()));
  postgres_ = *std::move(baseline);
  return {};
}

std::vector<Worker>& QueueBench::workers(unsigned count) {
  while (workers_.size() < count) {
    workers_.push_back(
        {.random = std::mt19937_64(workers_.size()), .enqueue = {}, .lease = {}, .ack = {}});
  }
  return workers_;
}

// --- What waits ---

// In a process of its own, which is killed: so that opening has a log to read.
Result<void> QueueBench::fill_and_die(const std::string& url, std::uint64_t messages) const {
  const pid_t child = ::fork();
  if (child < 0) return failure(Errc::io_error, "cannot start a process");
  if (child == 0) {
    auto store = strand::open(url);
    if (!store) ::_exit(1);
    Load load(**store, options_, "backlog");
    std::mt19937_64 random;
    constexpr std::uint64_t batch = 1'000;
    for (std::uint64_t sent = 0; sent < messages; sent += batch) {
      const auto count = std::min(batch, messages - sent);
      const bool last = sent + count == messages;
      if (!load.send(random, count, last ? Durability::sync : Durability::async)) ::_exit(1);
    }
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) {
    return failure(Errc::io_error, fmt::format("the process that filled {} failed", url));
  }
  return {};
}

Result<void> QueueBench::measure_backlog() {
  if (options_.backlog == 0) return {};
  if (place_->place().empty()) {
    return failure(Errc::invalid_argument, "--backlog needs a store on disk");
  }
  const fs::path small_place = place_->scratch() / "small";
  const std::string small_url =
      place_->url().substr(0, place_->url().find(':') + 1) + small_place.native();
  progress_(fmt::format("filling the store with {} messages", options_.backlog));
  constexpr std::uint64_t few = 10'000;
  if (auto filled = fill_and_die(small_url, few); !filled) return filled;
  if (auto filled = fill_and_die(place_->url(), options_.backlog); !filled) return filled;

  progress_("opening it after its process was killed");
  BacklogReport& report = report_.backlog.emplace();
  report.messages = options_.backlog;
  const auto begin = Stopwatch::now();
  auto large = place_->open();
  if (!large) return std::unexpected(std::move(large).error());
  report.reopen_s = seconds_since(begin);
  report.rss_mb = rss_mb();
  store_ = std::move(*large);
  auto small = place_->open(small_url);
  if (!small) return std::unexpected(std::move(small).error());
  return measure_leases(**small, *store_);
}

// Both take turns, because a busy machine would otherwise slow one and not the other.
Result<void> QueueBench::measure_leases(Store& small, Store& large) {
  progress_("leasing from it");
  std::vector<double> us[2];
  Load loads[] = {{small, options_, "backlog"}, {large, options_, "backlog"}};
  for (int turn = 0; turn < 2'000; ++turn) {
    for (int which = 0; which < 2; ++which) {
      const auto begin = Stopwatch::now();
      const auto leases = loads[which].lease(1);
      us[which].push_back(seconds_since(begin) * 1e6);
      if (!leases) return std::unexpected(leases.error());
      if (turn % 100 == 99) {  // a few come back now and then, so that none runs out of lanes
        if (auto settled = loads[which].settle(*leases, Outcome::Kind::release); !settled) {
          return settled;
        }
      }
    }
  }
  report_.backlog->lease_us_small = median(us[0]);
  report_.backlog->lease_us = median(us[1]);
  return {};
}

// --- The rounds ---

Result<void> QueueBench::baselines() {
  if (postgres_) {
    progress_("the queue that people write in SQL");
    const auto counted = postgres_->cycle(options_, slice());
    if (!counted) return std::unexpected(counted.error());
    rates_.postgres.push_back(counted->per_s());
    return {};
  }
  for (const bool rocksdb : {false, true}) {
    progress_(rocksdb ? "raw RocksDB, one put a message" : "a plain file");
    const fs::path folder = place_->scratch() / "round";
    fs::create_directories(folder);
    const auto counted = rocksdb ? baseline_rocksdb(folder, options_, slice())
                                 : baseline_file(folder, options_, slice());
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    if (!counted) return std::unexpected(counted.error());
    (rocksdb ? rates_.rocksdb : rates_.file).push_back(counted->per_s());
  }
  return {};
}

Result<void> QueueBench::enqueue(Load& load) {
  progress_("enqueue");
  auto& workers = this->workers(options_.producers);
  const auto counted =
      run_threads(options_.producers, slice(), [&](unsigned thread) -> Result<std::uint64_t> {
        const auto begin = Stopwatch::now();
        auto sent = load.send(workers[thread].random, options_.batch, options_.durability);
        workers[thread].enqueue.add(seconds_since(begin));
        return sent;
      });
  if (!counted) return std::unexpected(counted.error());
  rates_.enqueue.push_back(counted->per_s());
  return {};
}

// Lease and ack by turns; the rate of each is by the time that was spent in it.
Result<void> QueueBench::drain(Load& load) {
  progress_("lease and ack");
  auto& workers = this->workers(options_.consumers);
  std::vector<double> lease_s(options_.consumers);
  std::vector<double> ack_s(options_.consumers);
  const auto counted =
      run_threads(options_.consumers, slice(), [&](unsigned thread) -> Result<std::uint64_t> {
        const auto begin = Stopwatch::now();
        const auto leases = load.lease(options_.batch);
        const auto leased = Stopwatch::now();
        if (!leases) return std::unexpected(leases.error());
        if (leases->empty()) {  // all is done
          std::this_thread::sleep_for(1ms);
          return 0;
        }
        if (auto acked = load.settle(*leases, Outcome::Kind::ack); !acked) {
          return std::unexpected(acked.error());
        }
        const double took = std::chrono::duration<double>(leased - begin).count();
        workers[thread].lease.add(took);
        lease_s[thread] += took;
        workers[thread].ack.add(seconds_since(leased));
        ack_s[thread] += seconds_since(leased);
        return count_messages(*leases);
      });
  if (!counted) return std::unexpected(counted.error());
  const auto rate = [&](const std::vector<double>& seconds) {
    double sum = 0;
    for (const double one : seconds)
      sum += one;
    return sum > 0 ? static_cast<double>(counted->messages) * options_.consumers / sum : 0;
  };
  rates_.lease.push_back(rate(lease_s));
  rates_.ack.push_back(rate(ack_s));
  return {};
}

// Producers and consumers at once. Producers keep ahead, but not far: what counts is what was
// acked.
Result<void> QueueBench::cycle(Load& load) {
  progress_("the whole cycle");
  auto& workers = this->workers(options_.producers + options_.consumers);
  const std::uint64_t ahead_max =
      std::uint64_t{20} * options_.batch * (options_.producers + options_.consumers);
  std::atomic<std::uint64_t> sent = options_.batch;  // what the caller sent already
  std::atomic<std::uint64_t> acked = 0;
  Bell arrived;
  Bell room;
  const Watch watch = load.store().watch(WatchQueue{load.queue()}, [&] { arrived.ring(); });
  const auto produce = [&](unsigned thread) -> Result<std::uint64_t> {
    const std::uint64_t rings = room.rings();
    if (sent - acked >= ahead_max) {
      room.wait_beyond(rings);
      return 0;
    }
    sent += options_.batch;
    auto done = load.send(workers[thread].random, options_.batch, options_.durability);
    if (!done) return done;
    return 0;
  };
  const auto consume = [&]() -> Result<std::uint64_t> {
    const std::uint64_t rings = arrived.rings();
    const auto leases = load.lease(options_.batch);
    if (!leases) return std::unexpected(leases.error());
    if (leases->empty()) {
      arrived.wait_beyond(rings);
      return 0;
    }
    if (auto done = load.settle(*leases, Outcome::Kind::ack); !done) {
      return std::unexpected(done.error());
    }
    const std::uint64_t count = count_messages(*leases);
    acked += count;
    room.ring();
    return count;
  };
  const auto counted = run_threads(
      options_.producers + options_.consumers, slice(),
      [&](unsigned thread) { return thread < options_.producers ? produce(thread) : consume(); });
  if (!counted) return std::unexpected(counted.error());
  rates_.cycle.push_back(counted->per_s());
  return {};
}

// --- The consumer, beside a bare loop ---

// Seconds.
Result<double> QueueBench::drain_bare(Load& load, std::uint64_t messages) const {
  std::atomic<std::uint64_t> left = messages;
  const auto begin = Stopwatch::now();
  std::vector<std::thread> threads;
  std::atomic<bool> failed = false;
  for (unsigned i = 0; i < options_.consumers; ++i) {
    threads.emplace_back([&] {
      while (left > 0 && !failed) {
        const auto leases = load.lease(options_.batch);
        if (!leases || (!leases->empty() && !load.settle(*leases, Outcome::Kind::ack))) {
          failed = true;
          return;
        }
        left -= count_messages(*leases);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  if (failed) return failure(Errc::io_error, "a bare loop of lease and ack failed");
  return seconds_since(begin);
}

Result<double> QueueBench::drain_by_consumer(Load& load, std::uint64_t messages) const {
  std::atomic<std::uint64_t> handled = 0;
  ConsumerOptions options;
  options.queues = {load.queue()};
  options.workers = options_.consumers;
  options.durability = options_.durability;
  options.lease = lease_length;
  const auto begin = Stopwatch::now();
  auto consumer = Consumer::start(load.store(), options,
                                  [&](Work& work) { handled += work.messages().size(); });
  if (!consumer) return std::unexpected(std::move(consumer).error());
  (*consumer)->wait_idle();
  const double seconds = seconds_since(begin);
  if (handled == messages) return seconds;
  return failure(Errc::corrupt,
                 fmt::format("the consumer handled {} of {} messages", handled.load(), messages));
}

Result<void> QueueBench::compare_consumer(unsigned number) {
  progress_("the consumer");
  const std::uint64_t messages = 500 * options_.batch;
  double seconds[2] = {};
  for (const bool by_consumer : {number % 2 == 0, number % 2 != 0}) {
    Load load(*store_, options_, fmt::format("drained-{}-{}", number, by_consumer));
    std::mt19937_64 random(number);
    for (std::uint64_t sent = 0; sent < messages; sent += options_.batch) {
      const auto done = load.send(random, options_.batch, Durability::async);
      if (!done) return std::unexpected(done.error());
    }
    const auto took = by_consumer ? drain_by_consumer(load, messages) : drain_bare(load, messages);
    if (!took) return std::unexpected(took.error());
    seconds[by_consumer ? 1 : 0] = *took;
    if (auto removed = remove_queue(load.queue()); !removed) return removed;
  }
  rates_.bare.push_back(static_cast<double>(messages) / seconds[0]);
  rates_.consumer.push_back(static_cast<double>(messages) / seconds[1]);
  rates_.added.push_back(seconds[1] / seconds[0] - 1);
  return {};
}

Result<void> QueueBench::remove_queue(const std::string& queue) {
  Transaction transaction;
  transaction.admin = RemoveQueue{.queue = queue, .force = true};
  const auto removed = store_->apply(transaction);
  if (!removed) return std::unexpected(removed.error());
  return {};
}

Result<void> QueueBench::round(unsigned number) {
  if (auto done = baselines(); !done) return done;
  Load filled(*store_, options_, fmt::format("filled-{}", number));
  // So that the queue is there when the first consumer asks.
  std::mt19937_64 random(number);
  if (auto sent = filled.send(random, options_.batch, options_.durability); !sent) {
    return std::unexpected(sent.error());
  }
  if (auto done = enqueue(filled); !done) return done;
  if (auto done = drain(filled); !done) return done;
  report_.rss_mb = std::max(report_.rss_mb, rss_mb());
  if (auto done = remove_queue(filled.queue()); !done) return done;
  Load cycled(*store_, options_, fmt::format("cycled-{}", number));
  if (auto sent = cycled.send(random, options_.batch, options_.durability); !sent) {
    return std::unexpected(sent.error());
  }
  if (auto done = cycle(cycled); !done) return done;
  if (auto done = remove_queue(cycled.queue()); !done) return done;
  if (!options_.consumer_api) return {};
  return compare_consumer(number);
}

Result<QueueBenchReport> QueueBench::run() {
  if (auto found = find_place(); !found) return std::unexpected(found.error());
  if (auto done = measure_backlog(); !done) return std::unexpected(done.error());
  if (!store_) {
    auto opened = place_->open();
    if (!opened) return std::unexpected(std::move(opened).error());
    store_ = std::move(*opened);
  }
  for (unsigned number = 1; number <= rounds; ++number) {
    if (auto done = round(number); !done) return std::unexpected(done.error());
  }
  if (postgres_) {
    report_.baseline_postgres_per_s = median(rates_.postgres);
  } else {
    report_.baseline_file_per_s = median(rates_.file);
    report_.baseline_rocksdb_per_s = median(rates_.rocksdb);
  }
  report_.enqueue_per_s = median(rates_.enqueue);
  report_.lease_per_s = median(rates_.lease);
  report_.ack_per_s = median(rates_.ack);
  report_.cycle_per_s = median(rates_.cycle);
  if (options_.consumer_api) {
    report_.consumer = {.consumer_per_s = median(rates_.consumer),
                        .bare_per_s = median(rates_.bare),
                        .added = median(rates_.added)};
  }
  Worker all;
  for (const Worker& worker : workers_) {
    all.enqueue.add(worker.enqueue);
    all.lease.add(worker.lease);
    all.ack.add(worker.ack);
  }
  report_.enqueue_ms = all.enqueue.percentiles();
  report_.lease_ms = all.lease.percentiles();
  report_.ack_ms = all.ack.percentiles();
  report_.syncs = place_->syncs();
  return report_;
}

}  // namespace

Result<QueueBenchReport> bench_queue(const QueueBenchOptions& options, const Progress& progress) {
  return QueueBench(options, progress).run();
}

}  // namespace strand::cli
