// S16: what was accepted is always somewhere, and is counted where it is.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "conformance/parts.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

// Operators see a backlog by these numbers: each message is in exactly one of them.
// Rules: S16
// Behaviours: get_queue_depths, get_system_metrics
TEST_P(StoreConformance, Each_place_where_a_message_can_live_has_a_count) {
  enqueue("orders", key("ready"), "ready");
  enqueue("orders", key("ready"), "ready too");
  enqueue("orders", unkeyed, "delayed", {.delay = 1h});
  enqueue_all("orders", key("blocked"), {"backoff", "behind a block"});
  ASSERT_TRUE(retry(lease_key("orders", "blocked"), 1h));
  enqueue("orders", key("held"), "leased");
  ASSERT_EQ(bodies(lease_key("orders", "held")), Bodies{"leased"});
  enqueue("orders", key("held"), "behind a lease");
  enqueue("orders", key("parked"), "parked");
  ASSERT_TRUE(park(lease_key("orders", "parked")));
  enqueue("orders", key("parked"), "parked on arrival");

  const QueueStats all = stats("orders");
  EXPECT_EQ(all.ready, 2U);
  EXPECT_EQ(all.delayed, 2U);
  EXPECT_EQ(all.backoff, 1U);
  EXPECT_EQ(all.waiting, 2U);
  EXPECT_EQ(all.leased, 1U);
  EXPECT_EQ(all.parked, 2U);
  EXPECT_EQ(all.live(), 9U);
  EXPECT_EQ(all.accepted, 9U);
  EXPECT_EQ(all.lanes_ready, 1U);
  EXPECT_EQ(all.leases, 1U);
}

// "Where did my message go?" has one answer for each message.
// Rules: S16
TEST_P(StoreConformance, Each_end_that_a_message_can_come_to_has_a_count) {
  enqueue("orders", key("acked"), "acked");
  ASSERT_TRUE(ack(lease_one("orders")));
  enqueue("orders", unkeyed, "expired", {.ttl = 1s});
  clock().advance(1s);
  enqueue("orders", unkeyed, "cancelled", {.name = "n"});
  ASSERT_TRUE(cancel("orders", "n"));
  enqueue("orders", unkeyed, "purged");
  purge("orders");
  enqueue("orders", unkeyed, "dropped");
  ASSERT_TRUE(dead(lease_one("orders")));
  ASSERT_TRUE(admin(DropDead{"orders", ids(dead_letters("orders"))}));
  enqueue("orders", unkeyed, "moved");
  ASSERT_TRUE(dead(lease_one("orders")));
  redrive("orders", ids(dead_letters("orders")), "other");
  enqueue("orders", unkeyed, "dead");
  ASSERT_TRUE(dead(lease_one("orders")));

  const QueueStats all = stats("orders");
  EXPECT_EQ(all.accepted, 7U);
  EXPECT_EQ(all.acked, 1U);
  EXPECT_EQ(all.expired, 1U);
  EXPECT_EQ(all.dropped, 2U) << "cancelled, and dropped as a dead letter";
  EXPECT_EQ(all.purged, 1U);
  EXPECT_EQ(all.moved, 1U);
  EXPECT_EQ(all.dead, 1U);
  EXPECT_EQ(all.live(), 0U);
  EXPECT_EQ(stats("other").accepted, 1U);
}

// A redrive into the same queue is the same message again: accepted once.
// Rules: S16 S10
TEST_P(StoreConformance, A_message_redriven_into_its_queue_is_not_accepted_twice) {
  const MessageId id = enqueue("orders", key("7"), "a");
  ASSERT_TRUE(dead(lease_one("orders")));
  redrive("orders", {id});

  const QueueStats all = stats("orders");
  EXPECT_EQ(all.accepted, 1U);
  EXPECT_EQ(all.dead, 0U);
  EXPECT_EQ(all.moved, 0U);
  EXPECT_EQ(all.ready, 1U);
}

// It is still there, to be redriven: counting it twice would break the balance.
// Rules: S16 S11
TEST_P(StoreConformance, What_expires_into_a_dead_letter_is_counted_as_dead_not_as_expired) {
  configure("orders", {.ttl = 1s, .on_expired = OnExpired::dead});
  enqueue("orders", unkeyed, "a");
  clock().advance(1s);
  EXPECT_EQ(stats("orders").dead, 1U);
  EXPECT_EQ(stats("orders").expired, 0U);
}

// A delayed message or a backoff in a parked lane waits for the person, not for its time.
// Rules: S16 S9
TEST_P(StoreConformance, All_messages_of_a_parked_lane_count_as_parked) {
  enqueue("orders", key("7"), "first");
  enqueue("orders", key("7"), "delayed", {.delay = 1h});
  ASSERT_TRUE(park(lease_one("orders")));
  EXPECT_EQ(stats("orders").parked, 2U);
  EXPECT_EQ(stats("orders").delayed, 0U);

  clock().advance(1h);
  EXPECT_EQ(stats("orders").parked, 2U);
  EXPECT_EQ(stats("orders").lanes_ready, 0U);
}

// Policy skip: nothing waits behind a failed message, and the count says so.
// Rules: S16 S8
TEST_P(StoreConformance, Nothing_counts_as_waiting_behind_a_skipped_message) {
  configure("orders", {.retry_policy = RetryPolicy::skip, .ttl = {}});
  enqueue_all("orders", key("7"), {"a", "b"});
  ASSERT_TRUE(retry(lease_one("orders"), 1h));
  EXPECT_EQ(stats("orders").backoff, 1U);
  EXPECT_EQ(stats("orders").waiting, 0U);
  EXPECT_EQ(stats("orders").ready, 1U);
}

// The gauge for "how many workers would have something to do".
// Rules: S16
TEST_P(StoreConformance, Ready_lanes_are_the_leases_that_could_be_had_now) {
  enqueue_all("orders", key("a"), {"a1", "a2"});
  enqueue("orders", key("b"), "b");
  enqueue("orders", unkeyed, "c");
  enqueue("orders", unkeyed, "d");
  EXPECT_EQ(stats("orders").lanes_ready, 4U);
  EXPECT_TRUE(stats("orders").oldest_ready.has_value());

  EXPECT_THAT(lease_all("orders"), SizeIs(4));
  EXPECT_EQ(stats("orders").lanes_ready, 0U);
  EXPECT_EQ(stats("orders").leases, 4U);
  EXPECT_FALSE(stats("orders").oldest_ready.has_value());
}

// A kept lease with nothing left in it still keeps the lane from others.
// Rules: S16 S4
TEST_P(StoreConformance, An_empty_kept_lease_is_counted_and_so_is_what_waits_behind_it) {
  enqueue("orders", key("7"), "a");
  const Lease lease = lease_one("orders");
  ASSERT_TRUE(ack(lease, Then::keep));
  enqueue("orders", key("7"), "b");

  EXPECT_EQ(stats("orders").leases, 1U);
  EXPECT_EQ(stats("orders").leased, 0U);
  EXPECT_EQ(stats("orders").waiting, 1U);
}

// Counters that only grow are the easiest thing to forget in an undo.
// Rules: S16 S22
TEST_P(StoreConformance, A_failed_transaction_counts_nothing) {
  enqueue("orders", key("7"), "a");
  const Lease lease = lease_one("orders");
  const QueueStats before = stats("orders");
  ASSERT_EQ(apply(together(all_acked(lease), send("orders", key("7"), "b"),
                           write("state", "k", "v", Version{99})))
                .error()
                .code,
            Errc::version_mismatch);
  EXPECT_EQ(stats("orders"), before);
}

// --- A long random walk through all of it ---

class Walk {
 public:
  Walk(Store& store, ManualClock& clock, std::uint64_t seed)
      : store_(store), clock_(clock), random_(seed) {}

  // Does one thing, sensible or not. What the store answers is its own affair: it has to add up.
  void step() {
    switch (below(12)) {
      case 0:
      case 1:
      case 2:
        return static_cast<void>(store_.apply(together(some_send(), some_send())));
      case 3:
      case 4:
        return some_lease();
      case 5:
      case 6:
        return some_settle();
      case 7:
        return static_cast<void>(store_.apply(together(Cancel{some_queue(), some_name()})));
      case 8:
        return some_administration();
      case 9:
        return static_cast<void>(
            store_.apply(together(publication("topic", key(some_key()), "published"))));
      case 10:
        return clock_.advance(std::chrono::milliseconds{below(8'000)});
      default:
        return some_redrive();
    }
  }

 private:
  std::uint32_t below(std::uint32_t end) {
    return std::uniform_int_distribution<std::uint32_t>{0, end - 1}(random_);
  }
  std::string some_queue() { return below(2) == 0 ? "one" : "two"; }
  std::string some_key() { return std::string(1, static_cast<char>('a' + below(4))); }
  std::string some_name() { return "name-" + std::to_string(below(3)); }

  Send some_send() {
    SendOptions options;
    options.priority = static_cast<Priority>(below(4));
    if (below(3) == 0) options.delay = Duration{below(10'000)};
    if (below(3) == 0) options.ttl = Duration{1 + below(20'000)};
    if (below(4) == 0) options.dedup_id = "dedup-" + std::to_string(below(5));
    if (below(4) == 0) options.name = some_name();
    if (below(5) == 0) options.dead_notice_to = Address{"notices", std::nullopt};
    return send(some_queue(), below(4) == 0 ? unkeyed : key(some_key()), "sent", options);
  }

  void some_lease() {
    LeaseRequest request{.queue = some_queue(), .lanes = 1 + below(3), .messages = 1 + below(4)};
    request.lease = Duration{1 + below(15'000)};
    if (below(6) == 0) {
      request.key = some_key();
      request.seize = true;
    }
    const auto leases = store_.lease(request);
    if (!leases) return;
    leases_.insert(leases_.end(), leases->begin(), leases->end());
  }

  // Of a lease that may be over long since.
  void some_settle() {
    if (leases_.empty()) return;
    const Lease lease = leases_[below(static_cast<std::uint32_t>(leases_.size()))];
    std::vector<Outcome> outcomes;
    for (const Message& message : lease.messages) {
      if (below(4) == 0) continue;
      outcomes.push_back({.id = message.id,
                          .kind = static_cast<Outcome::Kind>(below(4)),
                          .delay = {},
                          .reason = "walk"});
    }
    std::ignore = store_.apply(together(settlement(lease, outcomes, static_cast<Then>(below(3)))));
  }

  void some_administration() {
    switch (below(6)) {
      case 0:
        return static_cast<void>(store_.apply(together(PurgeQueue{some_queue(), some_key()})));
      case 1:
        return static_cast<void>(store_.apply(together(PurgeQueue{some_queue(), {}})));
      case 2:
        return static_cast<void>(store_.apply(together(ResumeLane{some_queue(), some_key(), {}})));
      default: {
        QueueSettings settings;
        settings.max_attempts = 1 + below(3);
        settings.backoff = {Duration{below(5'000)}};
        settings.retry_policy = static_cast<RetryPolicy>(below(2));
        settings.on_exhausted = static_cast<OnExhausted>(below(2));
        settings.on_expired = static_cast<OnExpired>(below(2));
        settings.max_length = std::uint64_t{below(2)} * 20;
        return static_cast<void>(store_.apply(together(ConfigureQueue{some_queue(), settings})));
      }
    }
  }

  void some_redrive() {
    const std::string queue = some_queue();
    const auto letters = store_.dead_letters({.queue = queue, .after = {}, .limit = 5});
    if (!letters || letters->items.empty()) return;
    const Ids some = ids(letters->items);
    switch (below(3)) {
      case 0:
        return static_cast<void>(store_.apply(together(Redrive{queue, some, {}})));
      case 1:
        return static_cast<void>(store_.apply(together(Redrive{queue, some, "two"})));
      default:
        return static_cast<void>(store_.apply(together(DropDead{queue, some})));
    }
  }

  Store& store_;
  ManualClock& clock_;
  std::mt19937_64 random_;
  std::vector<Lease> leases_;
};

// The rule holds at every commit, not only in the stories that someone thought of.
// Rules: S16
TEST_P(StoreConformance, Accounts_balance_after_every_step_of_a_random_walk) {
  const char* const given = std::getenv("STRAND_TEST_SEED");  // NOLINT(concurrency-mt-unsafe)
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : 20261115;
  SCOPED_TRACE("repeat with STRAND_TEST_SEED=" + std::to_string(seed));
  ASSERT_TRUE(admin(Subscribe{"one", "topic", {}}));
  for (const char* queue : {"one", "two", "notices"}) {
    configure(queue, {});
  }

  Walk walk(store(), clock(), seed);
  for (int step = 0; step < 600; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    walk.step();
    for (const char* queue : {"one", "two", "notices"}) {
      expect_conserved(queue);
    }
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace strand::conformance
