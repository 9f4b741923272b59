#include "postgres_faults/load.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <strand/consumer.h>
#include <strand/producer.h>

#include "sim/random.h"

namespace strand::postgres_faults {
namespace {

using namespace std::chrono_literals;
using sim::Random;

constexpr std::uint64_t keys = 12;
constexpr std::uint64_t backlog_max = 200;
constexpr Duration lease_length = 400ms;

[[noreturn]] void give_up(const char* what, const Error& error) {
  fmt::print(stderr, "{}: {} ({})\n", what, error.message, to_string(error.code));
  std::fflush(stderr);
  std::_Exit(8);
}

// The one thing that may happen to a holder; whether rightly so, the model judges.
void expect_lost(const char* what, const Error& error) {
  if (error.code != Errc::lease_lost) give_up(what, error);
}

SendOptions options(Random& random) {
  SendOptions options;
  if (!random.one_in(8)) options.key = fmt::format("lane {}", random.below(keys));
  if (random.one_in(6)) options.delay = Duration{random.between(0, 20)};
  return options;
}

class ByHand {
 public:
  ByHand(Store& store, const std::string& name, std::uint64_t seed)
      : store_(store), name_(name), random_(seed) {}

  // False if there was nothing to do.
  bool work() {
    LeaseRequest request{.queue = work_queue};
    request.lanes = static_cast<std::uint32_t>(random_.between(1, 3));
    request.messages = static_cast<std::uint32_t>(random_.between(1, 20));
    request.lease = lease_length;
    const auto leases = store_.lease(request);
    if (!leases) give_up("lease", leases.error());
    for (const Lease& lease : *leases)
      work_on(lease);
    return !leases->empty();
  }

 private:
  void work_on(const Lease& lease) {
    switch (random_.below(40)) {
      case 0:
        return stall(lease);
      case 1:
        return;  // forgets it: the lease runs out
      case 2:
      case 3:
        return settle(lease.token, {}, Settle::Then::end);
      case 4:
      case 5:
      case 6:
        return pull_more(lease);
      case 7:
      case 8:
        return renew(lease);
      case 9:
      case 10:
      case 11:
      case 12:
        return settle(lease.token, mixed(lease.messages), Settle::Then::end);
      case 13:
      case 14:
      case 15:
      case 16:
        return forward(lease);
      default:
        return settle(lease.token, acks(lease.messages), Settle::Then::end);
    }
  }

  void stall(const Lease& lease) {
    std::this_thread::sleep_for(lease_length + Duration{random_.between(-20, 60)});
    settle(lease.token, acks(lease.messages), Settle::Then::end);
  }

  void pull_more(const Lease& lease) {
    const auto half = static_cast<std::ptrdiff_t>(lease.messages.size() / 2);
    std::vector<Message> rest(lease.messages.begin() + half, lease.messages.end());
    const std::vector<Message> first(lease.messages.begin(), lease.messages.begin() + half);
    if (!try_settle(lease.token, acks(first), Settle::Then::keep)) return;
    if (lease.key) {
      const auto pulled = store_.pull(lease.token, lease.cursor, {.messages = 8});
      if (!pulled) return expect_lost("pull", pulled.error());
      rest.insert(rest.end(), pulled->messages.begin(), pulled->messages.end());
    }
    settle(lease.token, mixed(rest), Settle::Then::end);
  }

  void renew(const Lease& lease) {
    const auto renewed = store_.renew(std::span(&lease.token, 1), 2 * lease_length);
    // Whatever became of it: who cannot renew may still settle.
    static_cast<void>(renewed);
    settle(lease.token, acks(lease.messages), Settle::Then::end);
  }

  void forward(const Lease& lease) {
    Transaction transaction;
    transaction.settles.push_back({.token = lease.token, .outcomes = acks(lease.messages)});
    for (const Message& message : lease.messages) {
      Send& send = transaction.sends.emplace_back();
      send.queue = done_queue;
      send.key = lease.key;
      send.body =
          fmt::format("{}-{} of {}", name_, ++forwarded_, static_cast<std::uint64_t>(message.id));
    }
    const auto applied = store_.apply(transaction);
    if (!applied) expect_lost("forward", applied.error());
  }

  void settle(const Token& token, std::vector<Outcome> outcomes, Settle::Then then) {
    static_cast<void>(try_settle(token, std::move(outcomes), then));
  }
  bool try_settle(const Token& token, std::vector<Outcome> outcomes, Settle::Then then) {
    Transaction transaction;
    transaction.settles.push_back({.token = token, .outcomes = std::move(outcomes), .then = then});
    const auto applied = store_.apply(transaction);
    if (!applied) expect_lost("settle", applied.error());
    return applied.has_value();
  }

  static std::vector<Outcome> acks(const std::vector<Message>& messages) {
    std::vector<Outcome> outcomes;
    for (const Message& message : messages)
      outcomes.push_back({.id = message.id});
    return outcomes;
  }

  std::vector<Outcome> mixed(const std::vector<Message>& messages) {
    std::vector<Outcome> outcomes = acks(messages);
    for (Outcome& outcome : outcomes) {
      const std::uint64_t dice = random_.below(20);
      if (dice < 4) {
        outcome.kind = Outcome::Kind::retry;
        outcome.delay = Duration{random_.between(0, 10)};
      } else if (dice < 6) {
        outcome.kind = Outcome::Kind::release;
      } else if (dice < 7) {
        outcome.kind = Outcome::Kind::dead;
      }
    }
    return outcomes;
  }

  Store& store_;
  const std::string& name_;
  Random random_;
  std::uint64_t forwarded_ = 0;
};

void sleep_until_woken(Store& store, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any woken;
  bool rung = false;
  const Watch watch = store.watch(WatchQueue{work_queue}, [&] {
    const std::lock_guard lock(mutex);
    rung = true;
    woken.notify_all();
  });
  std::unique_lock lock(mutex);
  woken.wait_for(lock, stop, 20ms, [&] { return rung; });
}

}  // namespace

void produce(Store& store, const std::string& name, std::uint64_t seed,
             const std::stop_token& stop) {
  Random random(seed);
  Producer producer(store, work_queue);
  std::uint64_t number = 0;
  const auto body = [&] {
    std::string text = fmt::format("{}-{} ", name, ++number);
    text.resize(text.size() + (random.one_in(10) ? random.below(3000) : random.below(30)), 'x');
    return text;
  };
  for (std::uint64_t turn = 0; !stop.stop_requested(); ++turn) {
    if (turn % 10 == 0) {
      const auto stats = store.stats(work_queue);
      if (!stats) give_up("stats", stats.error());
      if (stats->live() > backlog_max) {
        std::this_thread::sleep_for(5ms);
        turn = std::uint64_t{0} - 1;  // look again
        continue;
      }
    }
    if (random.one_in(4)) {
      auto batch = producer.batch();
      for (std::uint64_t i = 1 + random.below(6); i > 0; --i)
        batch.add(body(), options(random)).value();
      if (const auto sent = batch.send(); !sent) give_up("send", sent.error());
    } else if (const auto sent = producer.send(body(), options(random)); !sent) {
      give_up("send", sent.error());
    }
  }
}

void consume_by_hand(Store& store, const std::string& name, std::uint64_t seed,
                     const std::stop_token& stop) {
  ByHand hand(store, name, seed);
  while (!stop.stop_requested()) {
    if (!hand.work()) sleep_until_woken(store, stop);
  }
}

void consume(Store& store, const std::string& name, std::uint64_t seed,
             const std::stop_token& stop) {
  ConsumerOptions options;
  options.queues = {work_queue};
  options.workers = 2;
  options.batch_messages = 10;
  options.lanes_in_flight = 4;
  options.lease = lease_length;
  std::atomic<std::uint64_t> calls = 0;
  const auto consumer = Consumer::start(store, options, [&](Work& work) {
    const std::uint64_t call = ++calls;
    Random random(seed + call);
    switch (random.below(20)) {
      case 0:
        throw std::runtime_error("handlers fail");
      case 1:
        return Verdict::retry("later", Duration{random.between(0, 10)});
      case 2:
        return Verdict::release();
      case 3:
        work.decide(work.messages().back(), Verdict::dead("no good"));
        return Verdict::ok();
      case 4:
      case 5:
      case 6: {
        Send& send = work.transaction().sends.emplace_back();
        send.queue = done_queue;
        send.body = fmt::format("{}-{}", name, call);
        return Verdict::ok();
      }
      default:
        return Verdict::ok();
    }
  });
  if (!consumer) give_up("consume", consumer.error());
  std::mutex mutex;
  std::condition_variable_any told;
  std::unique_lock lock(mutex);
  told.wait(lock, stop, [] { return false; });
  (*consumer)->stop();
}

}  // namespace strand::postgres_faults
