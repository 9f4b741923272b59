// S7: a delayed message waits by itself.
#include "conformance/suite.h"

namespace strand::conformance {

// Due is due: not a millisecond early, and no poll late.
// Rules: S7 S17
// Behaviours: timer_delayed_visibility
TEST_P(StoreConformance, A_delayed_message_is_visible_when_it_is_due) {
  enqueue("orders", key("cust-7"), "timer", {.delay = 10s});
  EXPECT_EQ(peek_one("orders", "timer").state, MessageState::delayed);

  clock().advance(9'999ms);
  EXPECT_THAT(lease_all("orders"), IsEmpty());
  EXPECT_THAT(lease({.queue = "orders", .key = "cust-7"}), IsEmpty());
  clock().advance(1ms);
  EXPECT_EQ(peek_one("orders", "timer").state, MessageState::ready);
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"timer"});
}

// A reminder for tomorrow must not stop today's orders.
// Rules: S7
// Behaviours: worker_delayed_visibility_skips_future_items
TEST_P(StoreConformance, A_delayed_message_does_not_hold_back_those_behind_it) {
  enqueue("orders", key("cust-7"), "tomorrow", {.delay = 24h});
  enqueue_all("orders", key("cust-7"), {"a", "b"});

  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"a", "b"}));
}

// The delay starts with acceptance, and the holder can see both.
// Rules: S3 S7
TEST_P(StoreConformance, Due_is_acceptance_time_plus_delay) {
  clock().advance(5s);
  const Time accepted = now();
  enqueue("orders", key("cust-7"), "timer", {.delay = 10s});
  clock().advance(20s);

  const Lease lease = lease_one("orders");

  EXPECT_EQ(lease.messages[0].enqueued_at, accepted);
  EXPECT_EQ(lease.messages[0].due, accepted + 10s);
}

// Timers of one instance fire in the order of their times.
// Rules: S3 S7
TEST_P(StoreConformance, Delayed_messages_come_due_one_by_one) {
  enqueue("orders", key("cust-7"), "third", {.delay = 30s});
  enqueue("orders", key("cust-7"), "first", {.delay = 10s});
  enqueue("orders", key("cust-7"), "second", {.delay = 20s});

  for (const char* body : {"first", "second", "third"}) {
    EXPECT_EQ(drain("orders"), Bodies{});
    clock().advance(10s);
    EXPECT_EQ(drain("orders"), Bodies{body});
  }
}

// Without a lane there is still a delay.
// Rules: S7
TEST_P(StoreConformance, An_unkeyed_message_may_be_delayed) {
  enqueue("orders", unkeyed, "later", {.delay = 10s});
  enqueue("orders", unkeyed, "now");

  EXPECT_EQ(bodies(lease_all("orders")), Bodies{"now"});
  clock().advance(10s);
  EXPECT_EQ(bodies(lease_all("orders")), Bodies{"later"});
}

// Who watches a queue sees what is coming.
// Rules: S7 S16
TEST_P(StoreConformance, Delayed_messages_are_counted_as_delayed) {
  enqueue("orders", key("cust-7"), "later", {.delay = 10s});
  enqueue("orders", key("cust-7"), "now");

  const QueueStats before = stats("orders");
  EXPECT_EQ(before.delayed, 1U);
  EXPECT_EQ(before.backoff, 0U);
  EXPECT_EQ(before.ready, 1U);
  clock().advance(10s);
  EXPECT_EQ(stats("orders").delayed, 0U);
  EXPECT_EQ(stats("orders").ready, 2U);
}

// A holder of the lane does not change when a timer is due; the timer only waits for it.
// Rules: S2 S7
TEST_P(StoreConformance, A_delayed_message_of_a_leased_lane_is_delayed_until_it_is_due) {
  enqueue("orders", key("cust-7"), "a");
  std::ignore = lease_one("orders", 1h);
  enqueue("orders", key("cust-7"), "timer", {.delay = 10s});

  EXPECT_EQ(peek_one("orders", "timer").state, MessageState::delayed);
  clock().advance(10s);
  EXPECT_EQ(peek_one("orders", "timer").state, MessageState::waiting);
}

// A timer is a promise that outlives the process; the time that it was down counts.
// Rules: S1 S7 S17
TEST_P(StoreConformance, A_delay_goes_on_while_the_store_is_closed) {
  enqueue("orders", key("cust-7"), "timer", {.delay = 10s});
  clock().advance(4s);
  close();
  clock().advance(5s);
  reopen();

  EXPECT_THAT(lease_all("orders"), IsEmpty());
  clock().advance(1s);
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"timer"});
}

// Nobody has to ask: what comes due is announced like what arrives.
// Rules: S7 S17
TEST_P(StoreConformance, A_message_that_comes_due_wakes_those_who_watch_its_queue) {
  enqueue("orders", key("cust-7"), "timer", {.delay = 10s});
  Calls calls;
  const Watch watch = store().watch(WatchQueue{"orders"}, calls.callback());
  const std::uint64_t seen = calls.count();

  clock().advance(10s);

  EXPECT_TRUE(calls.more_than(seen));
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"timer"});
}

}  // namespace strand::conformance
