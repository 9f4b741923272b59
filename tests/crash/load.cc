#include "crash/load.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

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
    std::string shown = fmt::format("L {} {} {}", static_cast<std::uint64_t>(lease.token.epoch()),
                                    queue, *lease.key);
    for (const Message& message : lease.messages)
      fmt::format_to(std::back_inserter(shown), " {}", number_of(message));
    say(shown + "\n");
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
    std::string intent;
    std::string done;
    for (const Message& message : lease.messages) {
      settle.outcomes.push_back({.id = message.id, .kind = Outcome::Kind::ack});
      const std::uint64_t number = number_of(message);
      fmt::format_to(std::back_inserter(intent), "{} {} {}\n", moves ? 'm' : 'd', *lease.key,
                     number);
      fmt::format_to(std::back_inserter(done), "{} {} {}\n", moves ? 'M' : 'D', *lease.key, number);
      if (!moves) continue;
      Send send;
      send.queue = "out";
      send.key = lease.key;
      send.body = message.body;
      transaction.sends.push_back(std::move(send));
    }
    if (moves) {
      WriteRecord record;
      record.space = "moved";
      record.key = *lease.key;
      record.value = fmt::format("{}", number_of(lease.messages.back()));
      transaction.records.push_back(std::move(record));
    }
    say(intent);
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
    transaction.admin = std::move(configure);
    if (auto done = store.apply(transaction); !done) give_up("configure", done.error());
  }
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
  for (unsigned mover = 0; mover < movers; ++mover) {
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
