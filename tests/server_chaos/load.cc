#include "server_chaos/load.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/random.h"

namespace strand::server_chaos {

using namespace std::chrono_literals;

namespace {

using sim::Random;

constexpr std::uint64_t keys = 30;
constexpr std::uint64_t backlog_max = 500;
constexpr std::uint64_t reopened_permille = 10;

// Closes the handle and opens another, now and then: with it goes what has no answer yet.
class Reopening {
 public:
  Reopening(Client& client, const LoadOptions& options, Random random)
      : client_(client), options_(options), random_(random) {}

  void maybe() {
    if (!options_.reopen || !random_.permille(reopened_permille)) return;
    handle_ = options_.reopen();
    client_.use(*handle_);
  }

 private:
  Client& client_;
  const LoadOptions& options_;
  Random random_;
  std::shared_ptr<Store> handle_;
};

class Producer {
 public:
  Producer(Client& client, Random random) : client_(client), random_(random) {}

  void send_some() {
    std::vector<Transaction> transactions(random_.one_in(4) ? random_.below(4) + 1 : 1);
    for (Transaction& transaction : transactions) {
      for (std::uint64_t i = random_.one_in(4) ? random_.below(4) : 0;; --i) {
        transaction.sends.push_back(message());
        if (i == 0) break;
      }
    }
    client_.apply(std::move(transactions));
  }

 private:
  Send message() {
    Send send;
    send.queue = random_.one_in(4) ? pipeline[random_.below(std::size(pipeline))] : pipeline[0];
    if (!random_.one_in(8)) send.key = fmt::format("lane {}", random_.below(keys));
    if (random_.one_in(6)) send.delay = Duration{random_.between(0, 20)};
    send.body = fmt::format("{}-{} ", client_.name(), ++number_);
    send.body.resize(send.body.size() + random_.below(random_.one_in(10) ? 1000 : 30), 'x');
    return send;
  }

  Client& client_;
  Random random_;
  std::uint64_t number_ = 0;
};

class Consumer {
 public:
  Consumer(Client& client, const LoadOptions& options, Random random)
      : client_(client), options_(options), random_(random) {}

  void work() {
    // Who doubts passes on, and from the last one there is nowhere to go.
    stage_ = random_.below(std::size(pipeline) - (doubts() ? 1 : 0));
    LeaseRequest request{.queue = pipeline[stage_]};
    request.lanes = static_cast<std::uint32_t>(random_.between(1, 3));
    request.messages = static_cast<std::uint32_t>(random_.between(1, 20));
    request.lease = lease_length;
    const std::vector<Lease> leases = client_.lease(std::move(request));
    if (leases.empty()) return client_.wait(pipeline[stage_], 50ms);
    if (leases.size() > 1 && random_.one_in(4)) return settle_together(leases);
    for (const Lease& lease : leases)
      work_on(lease);
  }

 private:
  using Outcomes = std::vector<Outcome>;
  using Then = Settle::Then;

  [[nodiscard]] bool doubts() const { return client_.manner() == Manner::doubting; }
  [[nodiscard]] bool last() const { return stage_ + 1 == std::size(pipeline); }

  void work_on(const Lease& lease) {
    if (random_.permille(options_.forgotten_permille)) return;
    if (random_.permille(8)) {
      std::this_thread::sleep_for(lease_length + Duration{random_.between(-20, 60)});
    }
    const std::uint64_t dice = random_.below(20);
    if (dice < 2) return pull_more(lease);
    if (dice == 2) client_.renew(lease, 2 * lease_length);
    if (dice == 3) return give_back(lease);
    settle(lease, dice < 8 ? mixed(lease.messages) : acks(lease.messages), Then::end);
  }

  void give_back(const Lease& lease) { settle(lease, {}, Then::end); }

  // Acks the first half and keeps the rest, with what has come since.
  void pull_more(const Lease& lease) {
    const auto half =
        lease.messages.begin() + static_cast<std::ptrdiff_t>(lease.messages.size() / 2);
    std::vector<Message> rest(half, lease.messages.end());
    if (!settle(lease, acks({lease.messages.begin(), half}), Then::keep)) return;
    if (lease.key) {
      const auto pulled = client_.pull(lease, {.messages = 8});
      if (!pulled) return;
      rest.insert(rest.end(), pulled->messages.begin(), pulled->messages.end());
    }
    settle(lease, mixed(rest), Then::end);
  }

  void settle_together(const std::vector<Lease>& leases) {
    Transaction transaction;
    for (const Lease& lease : leases)
      add(transaction, lease, mixed(lease.messages), Then::end);
    finish(std::move(transaction));
  }
  bool settle(const Lease& lease, Outcomes outcomes, Then then) {
    Transaction transaction;
    add(transaction, lease, std::move(outcomes), then);
    return finish(std::move(transaction));
  }

  bool finish(Transaction transaction) {
    if (doubts() && transaction.sends.empty()) {
      transaction.sends.push_back(following(std::nullopt, "a sign"));
    }
    return client_.apply(std::move(transaction));
  }

  // Half of what is acked goes on to the next queue, in the same transaction.
  void add(Transaction& transaction, const Lease& lease, Outcomes outcomes, Then then) {
    if (!last() && (doubts() || random_.one_in(2))) {
      for (const Outcome& outcome : outcomes) {
        if (outcome.kind != Outcome::Kind::ack) continue;
        transaction.sends.push_back(
            following(lease.key, fmt::format("of {}", static_cast<std::uint64_t>(outcome.id))));
      }
    }
    transaction.settles.push_back(
        {.token = lease.token, .outcomes = std::move(outcomes), .then = then});
  }

  Send following(std::optional<std::string> key, const std::string& what) {
    Send send;
    send.queue = pipeline[stage_ + 1];
    send.key = std::move(key);
    send.body = fmt::format("{}-{} {}", client_.name(), ++number_, what);
    return send;
  }

  static Outcomes acks(const std::vector<Message>& messages) {
    Outcomes outcomes;
    for (const Message& message : messages)
      outcomes.push_back({.id = message.id});
    return outcomes;
  }

  Outcomes mixed(const std::vector<Message>& messages) {
    Outcomes outcomes = acks(messages);
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

  Client& client_;
  const LoadOptions& options_;
  Random random_;
  std::size_t stage_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace

void produce(Client& client, const LoadOptions& options, const std::stop_token& stop) {
  const Random random(options.seed);
  Producer producer(client, random.fork(1));
  Random turns = random.fork(2);
  Reopening reopening(client, options, random.fork(3));
  while (!stop.stop_requested()) {
    reopening.maybe();
    const char* queue = pipeline[turns.below(std::size(pipeline))];
    if (turns.one_in(8)) {
      while (!stop.stop_requested()) {
        const auto stats = client.stats(queue);
        if (!stats || stats->live() <= backlog_max) break;
        std::this_thread::sleep_for(10ms);
      }
    }
    producer.send_some();
  }
}

void consume(Client& client, const LoadOptions& options, const std::stop_token& stop) {
  const Random random(options.seed);
  Consumer consumer(client, options, random.fork(1));
  Reopening reopening(client, options, random.fork(3));
  while (!stop.stop_requested()) {
    reopening.maybe();
    consumer.work();
  }
}

// Leases that were forgotten and have met the end of their server are not waited for: what they
// hold is still there.
void drain(Client& client) {
  const auto until = std::chrono::steady_clock::now() + 2 * lease_length;
  for (const char* queue : pipeline) {
    while (true) {
      const auto leases = client.lease({.queue = queue, .lanes = 100});
      for (const Lease& lease : leases) {
        Transaction transaction;
        Settle& settle = transaction.settles.emplace_back();
        settle.token = lease.token;
        for (const Message& message : lease.messages)
          settle.outcomes.push_back({.id = message.id});
        client.apply(std::move(transaction));
      }
      if (!leases.empty()) continue;
      const auto stats = client.stats(queue);
      if (!stats || stats->live() == 0 || std::chrono::steady_clock::now() > until) break;
      std::this_thread::sleep_for(5ms);
    }
  }
}

}  // namespace strand::server_chaos
