#include "crash/load.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include <strand/consumer.h>

namespace strand::crash {

namespace {

using namespace std::chrono_literals;

constexpr unsigned senders = 2;
constexpr unsigned movers = 2;
constexpr unsigned keys_a_sender = 40;

// Anything that a sound store would not answer here. The test sees the process end by itself.
[[noreturn]] void give_up(std::string_view what, const Error& error) {
  fmt::print(stderr, "{}: {}\n", what, error.message);
  std::_Exit(9);
}

class Worker {
 public:
  Worker(Store& store, int pipe, std::uint64_t seed) : store_(store), pipe_(pipe), random_(seed) {}

  // A line of up to PIPE_BUF bytes is written whole or not at all.
  void say(const std::string& lines) const {
    std::size_t begin = 0;
    while (begin < lines.size()) {
      const std::size_t end = lines.find('\n', begin) + 1;
      if (::write(pipe_, lines.data() + begin, end - begin) < 0) std::_Exit(0);
      begin = end;
    }
  }

  // What a handler of a consumer does with a batch.
  Verdict handle(Work& work) {
    const bool moves = work.queue() == "in";
    if (is_new(work.epoch())) say(shown(work.lease(), work.lease().messages));
    if (random_() % 8 == 0) return Verdict::release();
    if (random_() % 16 == 0) throw std::runtime_error("handlers fail");
    std::string done;
    add_work(work.transaction(), *work.key(), work.messages(), moves, done);
    if (random_() % 2 == 0) return Verdict::ok();  // committed later, and nobody hears of it
    const auto committed = work.commit();
    if (committed) {
      say(done);
    } else if (committed.error().code != Errc::lease_lost) {
      give_up("commit", committed.error());
    }
    return Verdict::ok();
  }

  Durability durability() { return random_() % 4 == 0 ? Durability::async : Durability::sync; }

  void send_some(unsigned sender, std::uint64_t& sequence, unsigned batch_max) {
    Transaction transaction;
    transaction.durability = durability();
    std::string intent;
    std::string done;
    const auto count = 1 + random_() % batch_max;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string name = fmt::format("{}-{}", sender, random_() % keys_a_sender);
      const std::uint64_t number = ++sequence;
      fmt::format_to(std::back_inserter(intent), "s {} {}\n", name, number);
      fmt::format_to(std::back_inserter(done), "S {} {}\n", name, number);
      Send send;
      send.queue = "in";
      send.key = name;
      send.body = fmt::format("{} ", number);
      send.body.resize(send.body.size() + random_() % 1'500, 'x');  // some are entries of their own
      transaction.sends.push_back(std::move(send));
    }
    say(intent);
    if (auto sent = store_.apply(transaction); !sent) give_up("send", sent.error());
    say(done);
  }

  // Settles one lease of a queue, if there is one.
  bool take_one(const std::string& queue) {
    LeaseRequest request;
    request.queue = queue;
    request.lease = 1s;
    auto leases = store_.lease(request);
    if (!leases) {
      if (leases.error().code == Errc::not_found) return false;  // nothing was sent yet
      give_up("lease", leases.error());
    }
    if (leases->empty()) return false;
    const Lease& lease = leases->front();
    say(shown(lease, lease.messages));
    if (random_() % 8 == 0) {
      release(lease);
    } else {
      settle(lease, queue == "in");
    }
    return true;
  }

 private:
  static std::uint64_t number_of(const Message& message) {
    return std::strtoull(message.body.c_str(), nullptr, 10);
  }

  // A handler may be called several times under one lease.
  static bool is_new(Epoch epoch) {
    static std::mutex mutex;
    static std::set<Epoch> seen;
    const std::lock_guard lock(mutex);
    return seen.insert(epoch).second;
  }

  static std::string shown(const Lease& lease, std::span<const Message> messages) {
    std::string line = fmt::format("L {} {} {}", static_cast<std::uint64_t>(lease.token.epoch()),
                                   lease.queue, *lease.key);
    for (const Message& message : messages)
      fmt::format_to(std::back_inserter(line), " {}", number_of(message));
    return line + "\n";
  }

  // What is to happen with the acks of these messages. Says so; `done` is for when it has.
  void add_work(Transaction& transaction, const std::string& key, std::span<const Message> messages,
                bool moves, std::string& done) const {
    std::string intent;
    for (const Message& message : messages) {
      const std::uint64_t number = number_of(message);
      fmt::format_to(std::back_inserter(intent), "{} {} {}\n", moves ? 'm' : 'd', key, number);
      fmt::format_to(std::back_inserter(done), "{} {} {}\n", moves ? 'M' : 'D', key, number);
      if (!moves) continue;
      Send send;
      send.queue = "out";
      send.key = key;
      send.body = message.body;
      transaction.sends.push_back(std::move(send));
    }
    if (moves) {
      WriteRecord record;
      record.space = "moved";
      record.key = key;
      record.value = fmt::format("{}", number_of(messages.back()));
      transaction.records.push_back(std::move(record));
    }
    say(intent);
  }

  void release(const Lease& lease) {
    Transaction transaction;
    transaction.settles.push_back({.token = lease.token});
    transaction.durability = durability();
    const auto released = store_.apply(transaction);
    if (!released && released.error().code != Errc::lease_lost) {
      give_up("release", released.error());
    }
  }

  void settle(const Lease& lease, bool moves) {
    Transaction transaction;
    transaction.durability = durability();
    Settle& settle = transaction.settles.emplace_back();
    settle.token = lease.token;
    for (const Message& message : lease.messages)
      settle.outcomes.push_back({.id = message.id, .kind = Outcome::Kind::ack});
    std::string done;
    add_work(transaction, *lease.key, lease.messages, moves, done);
    const auto settled = store_.apply(transaction);
    if (settled) {
      say(done);
    } else if (settled.error().code != Errc::lease_lost) {
      give_up("settle", settled.error());
    }
  }

  Store& store_;
  const int pipe_;
  std::mt19937_64 random_;
};

void configure(Store& store) {
  for (const char* queue : {"in", "out"}) {
    Transaction transaction;
    ConfigureQueue configure;
    configure.queue = queue;
    configure.settings.max_attempts = 0;  // leases of the dead run out, as often as they die
    configure.settings.backoff = {};
    transaction.admin = std::move(configure);
    if (auto done = store.apply(transaction); !done) give_up("configure", done.error());
  }
}

std::unique_ptr<Consumer> start_consumer(Store& store, std::uint64_t seed, int pipe) {
  ConsumerOptions options;
  options.queues = {"in", "out"};
  options.workers = movers;
  options.lease = 1s;
  options.lanes_in_flight = 2 * movers;
  auto consumer = Consumer::start(store, options, [&store, seed, pipe](Work& work) {
    static std::atomic<std::uint64_t> workers = 0;
    thread_local Worker worker(store, pipe, seed + senders + workers++);
    return worker.handle(work);
  });
  if (!consumer) give_up("consume", consumer.error());
  return *std::move(consumer);
}

}  // namespace

void work(Store& store, std::uint64_t run, std::uint64_t seed, unsigned batch_max, int pipe) {
  constexpr std::uint64_t sequences_a_run = 10'000'000;
  configure(store);
  Worker(store, pipe, seed).say("R\n");
  std::vector<std::jthread> threads;
  for (unsigned sender = 0; sender < senders; ++sender) {
    threads.emplace_back([&store, run, seed, batch_max, pipe, sender] {
      Worker worker(store, pipe, seed + sender);
      std::uint64_t sequence = run * sequences_a_run;
      while (true)
        worker.send_some(sender, sequence, batch_max);
    });
  }
  // By turns: threads of our own, and a consumer.
  std::unique_ptr<Consumer> consumer;
  const bool by_consumer = run % 2 == 1;
  if (by_consumer) consumer = start_consumer(store, seed, pipe);
  for (unsigned mover = 0; mover < movers && !by_consumer; ++mover) {
    threads.emplace_back([&store, seed, pipe, mover] {
      Worker worker(store, pipe, seed + senders + mover);
      while (true) {
        const bool moved = worker.take_one("in");
        const bool finished = worker.take_one("out");
        if (!moved && !finished) std::this_thread::yield();
      }
    });
  }
  threads.clear();  // never returns
  std::_Exit(1);
}

}  // namespace strand::crash
