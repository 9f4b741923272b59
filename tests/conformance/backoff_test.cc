// S9: how often and when a failed message is tried again, and what happens when it is exhausted.

#include <cstdint>
#include <set>
#include <string>

#include "conformance/suite.h"

namespace strand::conformance {

namespace {

QueueSettings attempts(std::uint32_t max, OnExhausted then = OnExhausted::dead) {
  QueueSettings settings;
  settings.max_attempts = max;
  settings.backoff = {};
  settings.on_exhausted = then;
  return settings;
}

}  // namespace

// The defaults are a promise: four tries within 36 minutes.
// Rules: S9
TEST_P(StoreConformance, By_default_a_message_is_tried_four_times_after_1_5_and_30_minutes) {
  enqueue("orders", key("cust-7"), "a");
  for (const Duration wait : {Duration{1min}, Duration{5min}, Duration{30min}}) {
    ASSERT_TRUE(retry(lease_one("orders")));
    EXPECT_EQ(peek_one("orders", "a").retry_at, now() + wait);
    clock().advance(wait - 1ms);
    EXPECT_THAT(lease_all("orders"), IsEmpty());
    clock().advance(1ms);
  }
  ASSERT_TRUE(retry(lease_one("orders")));

  EXPECT_EQ(dead_letter("orders", "a").attempts, 4U);
  EXPECT_EQ(stats("orders").live(), 0U);
}

// A short list means "and so on".
// Rules: S9
TEST_P(StoreConformance, The_last_step_of_the_backoff_repeats) {
  QueueSettings settings = attempts(6);
  settings.backoff = {1s, 10s};
  configure("orders", settings);
  enqueue("orders", key("cust-7"), "a");

  for (const Duration wait : {1s, 10s, 10s, 10s, 10s}) {
    ASSERT_TRUE(retry(lease_one("orders")));
    EXPECT_EQ(peek_one("orders", "a").retry_at, now() + wait);
    clock().advance(wait);
  }
  ASSERT_TRUE(retry(lease_one("orders")));
  EXPECT_EQ(stats("orders").dead, 1U);
}

// The step is that of the failures so far; one that chose its own delay is a failure as well.
// Rules: S8 S9
TEST_P(StoreConformance, A_failure_with_a_delay_of_its_own_counts_for_the_next_step) {
  enqueue("orders", key("cust-7"), "a");
  ASSERT_TRUE(retry(lease_one("orders"), 0s));
  ASSERT_TRUE(retry(lease_one("orders")));

  EXPECT_EQ(peek_one("orders", "a").retry_at, now() + 5min);
}

// No backoff at all is a legal wish.
// Rules: S9
TEST_P(StoreConformance, An_empty_backoff_is_no_wait) {
  configure("orders", attempts(4));
  enqueue("orders", key("cust-7"), "a");

  ASSERT_TRUE(retry(lease_one("orders")));

  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"a"});
}

// A thousand messages that a broken neighbour made fail must not come back in the same instant. The
// formula is in settings.h: stores agree on it, and so can whoever wants to know beforehand.
// Rules: S9
TEST_P(StoreConformance, Jitter_lengthens_the_backoff_by_message_and_attempt) {
  const auto wait = [](MessageId id, std::uint32_t attempts, std::int64_t step_ms) {
    std::uint64_t x = static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15U + attempts;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    x = x ^ (x >> 31U);
    return Duration{step_ms + (step_ms * 40 * static_cast<std::int64_t>(x % 1001) / 100'000)};
  };
  QueueSettings settings = attempts(3);
  settings.backoff = {10s, 1h};
  settings.backoff_jitter_percent = 40;
  configure("orders", settings);
  std::set<Duration> waits;
  for (int i = 0; i < 20; ++i) {
    const MessageId id = enqueue("orders", unkeyed, std::to_string(i));
    ASSERT_TRUE(retry(lease_one("orders")));
    const auto peeked = peek_one("orders", std::to_string(i));
    ASSERT_TRUE(peeked.retry_at);
    EXPECT_EQ(*peeked.retry_at - now(), wait(id, 1, 10'000));
    waits.insert(*peeked.retry_at - now());
  }
  EXPECT_GE(waits.size(), 10U) << "they differ";
  EXPECT_GE(*waits.begin(), 10s);
  EXPECT_LE(*waits.rbegin(), 14s);

  clock().advance(14s);
  const Lease again = lease_one("orders");
  ASSERT_TRUE(retry(again));
  const auto peeked = peek("orders", MessageState::backoff);
  ASSERT_THAT(peeked, SizeIs(1));
  EXPECT_EQ(*peeked[0].retry_at - now(), wait(again.messages.at(0).id, 2, 3'600'000));
}

// Who names a delay means it.
// Rules: S8 S9
TEST_P(StoreConformance, Jitter_leaves_an_explicit_delay_alone) {
  QueueSettings settings = attempts(3);
  settings.backoff = {10s};
  settings.backoff_jitter_percent = 100;
  configure("orders", settings);
  enqueue("orders", key("cust-7"), "a");
  ASSERT_TRUE(retry(lease_one("orders"), 10s));
  EXPECT_EQ(peek_one("orders", "a").retry_at, now() + 10s);
}

// There must be no moment at which a message is neither waiting nor dead.
// Rules: S9 S10
TEST_P(StoreConformance, Exhaustion_is_decided_at_the_failure_itself) {
  configure("orders", attempts(2));
  enqueue("orders", key("cust-7"), "a");
  ASSERT_TRUE(retry(lease_one("orders")));
  EXPECT_EQ(stats("orders").dead, 0U);

  const Receipt last = retry(lease_one("orders"), {}, "the last straw").value();

  const DeadLetter letter = dead_letter("orders", "a");
  EXPECT_EQ(letter.dead_at, last.time);
  EXPECT_EQ(letter.reason, "the last straw");
  EXPECT_THAT(peek("orders"), IsEmpty());
}

// "Try it again in an hour" does not buy another try.
// Rules: S8 S9
TEST_P(StoreConformance, An_explicit_delay_does_not_save_an_exhausted_message) {
  configure("orders", attempts(1));
  enqueue("orders", key("cust-7"), "a");

  ASSERT_TRUE(retry(lease_one("orders"), 1h));

  EXPECT_EQ(stats("orders").dead, 1U);
}

// A dead head must not go on blocking the living.
// Rules: S8 S9
TEST_P(StoreConformance, A_lane_goes_on_at_once_when_its_head_is_dead) {
  configure("orders", attempts(1));
  enqueue_all("orders", key("cust-7"), {"a", "b"});

  ASSERT_TRUE(retry(lease_one("orders")));

  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"b"});
}

// Some work must be done however long it takes.
// Rules: S9
TEST_P(StoreConformance, Zero_max_attempts_is_without_limit) {
  configure("orders", attempts(0));
  enqueue("orders", key("cust-7"), "a");

  for (std::uint32_t failed = 0; failed < 50; ++failed) {
    const Lease lease = lease_one("orders");
    EXPECT_EQ(lease.messages[0].attempts, failed);
    ASSERT_TRUE(retry(lease));
  }
  EXPECT_EQ(stats("orders").dead, 0U);
}

// Activities bring their own policy.
// Rules: S9
TEST_P(StoreConformance, A_messages_own_max_attempts_come_before_the_queues) {
  configure("work", attempts(2));
  enqueue("work", key("once"), "once", {.max_attempts = 1});
  enqueue("work", key("thrice"), "thrice", {.max_attempts = 3});
  enqueue("work", key("always"), "always", {.max_attempts = 0});
  enqueue("work", key("usual"), "usual");

  for (int round = 0; round < 3; ++round) {
    for (const Lease& lease : lease_all("work"))
      ASSERT_TRUE(retry(lease));
  }

  EXPECT_EQ(bodies(peek("work")), Bodies{"always"});
  EXPECT_EQ(dead_letter("work", "once").attempts, 1U);
  EXPECT_EQ(dead_letter("work", "usual").attempts, 2U);
  EXPECT_EQ(dead_letter("work", "thrice").attempts, 3U);
}

// Settings can be corrected while messages wait.
// Rules: S9
TEST_P(StoreConformance, Changed_settings_bind_messages_from_their_next_failure_on) {
  enqueue("orders", key("a"), "a");
  enqueue("orders", key("b"), "b");
  for (const char* lane : {"a", "b"})
    ASSERT_TRUE(retry(lease_key("orders", lane), 0s));
  ASSERT_TRUE(retry(lease_key("orders", "b"), 0s));

  QueueSettings stricter = attempts(3);
  stricter.backoff = {7s};
  configure("orders", stricter);

  EXPECT_EQ(stats("orders").dead, 0U);
  ASSERT_TRUE(retry(lease_key("orders", "a")));
  ASSERT_TRUE(retry(lease_key("orders", "b")));
  EXPECT_EQ(peek_one("orders", "a").retry_at, now() + 7s);
  EXPECT_EQ(bodies(dead_letters("orders")), Bodies{"b"});
}

// --- Park ---

// A workflow must not skip a step because it failed: it stops, and someone can see why.
// Rules: S9
TEST_P(StoreConformance, Under_park_the_lane_stops_with_its_reason) {
  configure("workflow", attempts(2, OnExhausted::park));
  enqueue_all("workflow", key("order-1"), {"a", "b"});
  enqueue("workflow", key("order-2"), "c");
  ASSERT_TRUE(retry(lease_key("workflow", "order-1")));
  ASSERT_TRUE(retry(lease_key("workflow", "order-1"), {}, "out of stock"));

  EXPECT_EQ(bodies(lease_all("workflow")), Bodies{"c"});
  EXPECT_THAT(lease({.queue = "workflow", .key = "order-1"}), IsEmpty());
  const PeekedMessage a = peek_one("workflow", "a");
  EXPECT_EQ(a.state, MessageState::parked);
  EXPECT_EQ(a.park_reason, "out of stock");
  EXPECT_EQ(a.attempts, 2U);
  EXPECT_EQ(peek_one("workflow", "b").state, MessageState::parked);
  EXPECT_EQ(stats("workflow").parked, 2U);
  EXPECT_EQ(stats("workflow").dead, 0U);
  clock().advance(24h * 365);
  EXPECT_THAT(lease({.queue = "workflow", .key = "order-1"}), IsEmpty());
}

// A stopped lane has no holder, even if the last one meant to go on.
// Rules: S9
TEST_P(StoreConformance, Parking_by_exhaustion_ends_the_lease_even_under_keep) {
  configure("workflow", attempts(1, OnExhausted::park));
  enqueue_all("workflow", key("order-1"), {"a", "b"});
  const Lease lease = lease_one("workflow");

  ASSERT_TRUE(settle(lease, {retried(id_of(lease, "a"))}, Then::keep));

  EXPECT_EQ(settle(lease, {acked(id_of(lease, "b"))}).error().code, Errc::lease_lost);
  EXPECT_EQ(stats("workflow").leases, 0U);
  EXPECT_EQ(stats("workflow").parked, 2U);
  EXPECT_EQ(peek_one("workflow", "b").attempts, 0U);
}

// What went well went well, whatever became of the rest.
// Rules: S4 S9
TEST_P(StoreConformance, Parking_by_exhaustion_does_not_undo_the_other_outcomes) {
  configure("workflow", attempts(1, OnExhausted::park));
  enqueue_all("workflow", key("order-1"), {"a", "b", "c"});
  const Lease lease = lease_one("workflow");

  ASSERT_TRUE(settle(lease, {retried(id_of(lease, "b")), acked(id_of(lease, "a"))}));

  EXPECT_EQ(stats("workflow").acked, 1U);
  EXPECT_EQ(bodies(peek("workflow", MessageState::parked)), (Bodies{"b", "c"}));
}

// Park is for what might still succeed. What is settled as dead has no such hope.
// Rules: S9 S10
TEST_P(StoreConformance, A_message_settled_as_dead_does_not_park_its_lane) {
  configure("workflow", attempts(1, OnExhausted::park));
  enqueue_all("workflow", key("order-1"), {"a", "b"});

  ASSERT_TRUE(dead(lease_one("workflow")));

  EXPECT_EQ(bodies(dead_letters("workflow")), Bodies{"a"});
  EXPECT_EQ(bodies(lease_one("workflow")), Bodies{"b"});
}

// A holder may stop its lane itself, for a reason of its own.
// Rules: S9
TEST_P(StoreConformance, A_holder_may_park_its_lane) {
  enqueue_all("workflow", key("order-1"), {"a", "b"});
  const Lease lease = lease_one("workflow");
  Settle parking = settlement(lease, {acked(id_of(lease, "a"))}, Then::park);
  parking.park_reason = "needs a person";
  ASSERT_TRUE(settle(parking));

  EXPECT_THAT(lease_all("workflow"), IsEmpty());
  EXPECT_EQ(ack(lease).error().code, Errc::lease_lost);
  EXPECT_EQ(peek_one("workflow", "b").park_reason, "needs a person");
  EXPECT_EQ(peek_one("workflow", "b").attempts, 0U);
  EXPECT_EQ(stats("workflow").acked, 1U);
}

// Senders need not know that a lane has stopped.
// Rules: S9 S16
TEST_P(StoreConformance, Arrivals_in_a_parked_lane_are_accepted_and_parked) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(park(lease_one("workflow")));

  enqueue("workflow", key("order-1"), "b");
  enqueue("workflow", key("order-1"), "later", {.delay = 1h});

  EXPECT_THAT(lease_all("workflow"), IsEmpty());
  EXPECT_EQ(stats("workflow").parked, 3U);
  EXPECT_EQ(stats("workflow").delayed, 0U);
  EXPECT_EQ(peek_one("workflow", "later").state, MessageState::parked);
}

// What is too late is too late, parked or not.
// Rules: S9 S11
TEST_P(StoreConformance, TTL_goes_on_in_a_parked_lane) {
  enqueue("workflow", key("order-1"), "a", {.ttl = 10s});
  enqueue("workflow", key("order-1"), "b");
  ASSERT_TRUE(park(lease_one("workflow")));

  clock().advance(10s);

  EXPECT_EQ(stats("workflow").expired, 1U);
  EXPECT_EQ(bodies(peek("workflow")), Bodies{"b"});
}

// An emptied lane is still stopped: nobody has resumed it.
// Rules: S9
TEST_P(StoreConformance, A_parked_lane_stays_parked_when_it_is_empty) {
  enqueue("workflow", key("order-1"), "a", {.name = "a"});
  ASSERT_TRUE(park(lease_one("workflow")));
  ASSERT_TRUE(cancel("workflow", "a"));
  ASSERT_EQ(stats("workflow").live(), 0U);

  enqueue("workflow", key("order-1"), "b");

  EXPECT_THAT(lease_all("workflow"), IsEmpty());
  EXPECT_EQ(stats("workflow").parked, 1U);
}

// To resume is to say "the cause is gone": the messages start afresh.
// Rules: S9
TEST_P(StoreConformance, A_resumed_lane_goes_on_with_attempts_at_zero) {
  configure("workflow", attempts(2, OnExhausted::park));
  enqueue_all("workflow", key("order-1"), {"a", "b"});
  for (int failure = 0; failure < 2; ++failure)
    ASSERT_TRUE(retry(lease_one("workflow")));

  resume_lane("workflow", "order-1");

  const Lease lease = lease_one("workflow");
  EXPECT_EQ(bodies(lease), (Bodies{"a", "b"}));
  EXPECT_EQ(lease.messages[0].attempts, 0U);
  EXPECT_EQ(lease.messages[0].deliveries, 3U);
  ASSERT_TRUE(retry(lease));
  EXPECT_EQ(stats("workflow").parked, 0U) << "one failure of two must not park it again";
}

// Who resumes wants it to run now, not in half an hour.
// Rules: S9
TEST_P(StoreConformance, Resuming_a_lane_ends_the_backoff_of_its_messages) {
  enqueue_all("workflow", key("order-1"), {"a", "b"});
  const Lease lease = lease_one("workflow");
  Settle parking = settlement(lease, {retried(id_of(lease, "a"), 1h)}, Then::park);
  ASSERT_TRUE(settle(parking));

  resume_lane("workflow", "order-1");

  EXPECT_EQ(bodies(lease_one("workflow")), (Bodies{"a", "b"}));
}

// A delay is no backoff: the sender asked for it.
// Rules: S7 S9
TEST_P(StoreConformance, Resuming_a_lane_leaves_delays_as_they_are) {
  enqueue("workflow", key("order-1"), "a");
  enqueue("workflow", key("order-1"), "timer", {.delay = 10s});
  ASSERT_TRUE(park(lease_one("workflow")));

  resume_lane("workflow", "order-1");

  EXPECT_EQ(bodies(lease_one("workflow")), Bodies{"a"});
  EXPECT_EQ(peek_one("workflow", "timer").state, MessageState::delayed);
}

// The past of a message is evidence; resuming it does not destroy it.
// Rules: S9 S10
TEST_P(StoreConformance, Failures_recorded_before_a_resume_are_kept) {
  configure("workflow", attempts(1, OnExhausted::park));
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(retry(lease_one("workflow"), {}, "out of stock"));
  resume_lane("workflow", "order-1");
  clock().advance(1min);

  ASSERT_TRUE(dead(lease_one("workflow"), "still out of stock"));

  EXPECT_EQ(reasons(dead_letter("workflow", "a").failures),
            (std::vector<std::string>{"out of stock", "still out of stock"}));
}

// Resuming what does not stand still is a mistake worth an error.
// Rules: S9
TEST_P(StoreConformance, Resuming_a_lane_that_is_not_parked_is_not_found) {
  enqueue("workflow", key("order-1"), "a");
  const auto resume_of = [](const char* queue, const char* lane) {
    return ResumeLane{.queue = queue, .key = lane, .id = {}};
  };

  EXPECT_EQ(admin(resume_of("workflow", "order-1")).error().code, Errc::not_found);
  EXPECT_EQ(admin(resume_of("workflow", "order-2")).error().code, Errc::not_found);
  EXPECT_EQ(admin(resume_of("no-such-queue", "order-1")).error().code, Errc::not_found);
  ASSERT_TRUE(park(lease_one("workflow")));
  EXPECT_TRUE(admin(resume_of("workflow", "order-1")));
  EXPECT_EQ(admin(resume_of("workflow", "order-1")).error().code, Errc::not_found);
}

// An unkeyed message has no lane to stop with it.
// Rules: S9 Unkeyed
TEST_P(StoreConformance, An_unkeyed_message_parks_alone_and_is_resumed_by_its_id) {
  configure("work", attempts(1, OnExhausted::park));
  const MessageId a = enqueue("work", unkeyed, "a");
  enqueue("work", unkeyed, "b");
  ASSERT_TRUE(retry(lease_one("work"), {}, "broken"));

  EXPECT_EQ(drain("work"), Bodies{"b"});
  EXPECT_EQ(peek_one("work", "a").state, MessageState::parked);
  EXPECT_EQ(peek_one("work", "a").park_reason, "broken");
  ASSERT_TRUE(admin(ResumeLane{.queue = "work", .key = {}, .id = a}));
  EXPECT_EQ(drain("work"), Bodies{"a"});
}

// What stands still must stand still after a restart, and say why.
// Rules: S1 S9
TEST_P(StoreConformance, A_parked_lane_is_parked_after_a_reopen) {
  enqueue("workflow", key("order-1"), "a");
  enqueue("workflow", unkeyed, "b");
  ASSERT_TRUE(park(lease_key("workflow", "order-1"), "needs a person"));
  ASSERT_TRUE(park(lease_one("workflow"), "alone"));

  reopen();

  EXPECT_THAT(lease_all("workflow"), IsEmpty());
  EXPECT_EQ(peek_one("workflow", "a").park_reason, "needs a person");
  EXPECT_EQ(peek_one("workflow", "b").park_reason, "alone");
  resume_lane("workflow", "order-1");
  EXPECT_EQ(bodies(lease_one("workflow")), Bodies{"a"});
}

}  // namespace strand::conformance
