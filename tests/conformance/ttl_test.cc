// S11: the deadline of a message.
#include "conformance/suite.h"

namespace strand::conformance {

namespace {

QueueSettings expired_is_dead() {
  QueueSettings settings;
  settings.on_expired = OnExpired::dead;
  return settings;
}

}  // namespace

// "The taxi is here" is worth nothing an hour later.
// Rules: S11 S17
TEST_P(StoreConformance, A_message_is_handed_out_before_its_deadline_and_never_after) {
  enqueue("orders", key("before"), "before", {.ttl = 10s});
  enqueue("orders", key("after"), "after", {.ttl = 10s});

  clock().advance(9'999ms);
  EXPECT_EQ(bodies(lease_key("orders", "before")), Bodies{"before"});
  clock().advance(1ms);
  EXPECT_THAT(lease_all("orders"), IsEmpty());
  EXPECT_THAT(lease({.queue = "orders", .key = "after"}), IsEmpty());
}

// Nobody has to come by for an expired message to go: it is swept, and counted once.
// Rules: S11 S16
TEST_P(StoreConformance, An_expired_message_is_swept_and_counted) {
  enqueue("orders", key("cust-7"), "a", {.ttl = 10s});
  enqueue("orders", unkeyed, "b", {.ttl = 10s});
  enqueue("orders", key("cust-7"), "c");
  clock().advance(10s + 60s);

  EXPECT_EQ(stats("orders").expired, 2U);
  EXPECT_EQ(stats("orders").ready, 1U);
  EXPECT_EQ(bodies(peek("orders")), Bodies{"c"});
  EXPECT_THAT(dead_letters("orders"), IsEmpty());
}

// Where expiry means that something went wrong, the message is kept as evidence.
// Rules: S10 S11
TEST_P(StoreConformance, An_expired_message_becomes_a_dead_letter_where_the_queue_says_so) {
  configure("orders", expired_is_dead());
  enqueue("orders", key("cust-7"), "a", {.ttl = 10s});
  ASSERT_TRUE(release(lease_one("orders")));
  clock().advance(10s);

  const DeadLetter letter = dead_letter("orders", "a");
  EXPECT_EQ(letter.reason, "expired");
  EXPECT_EQ(letter.attempts, 0U) << "nobody failed";
  EXPECT_THAT(letter.failures, IsEmpty());
  EXPECT_EQ(letter.deliveries, 1U);
  EXPECT_EQ(letter.dead_at, now());
  EXPECT_EQ(stats("orders").expired, 0U);
}

// The deadline is for being handed out; who has it in hand may finish.
// Rules: S11
TEST_P(StoreConformance, An_ack_after_the_deadline_counts_if_the_lease_began_before_it) {
  enqueue("orders", key("cust-7"), "a", {.ttl = 10s});
  const Lease lease = lease_one("orders", 30s);
  clock().advance(20s);

  EXPECT_EQ(peek_one("orders", "a").state, MessageState::leased);
  EXPECT_TRUE(ack(lease));
  EXPECT_EQ(stats("orders").acked, 1U);
  EXPECT_EQ(stats("orders").expired, 0U);
}

// Given back too late, it has nowhere to go.
// Rules: S11
TEST_P(StoreConformance, A_message_released_after_its_deadline_ends_there) {
  enqueue("orders", key("cust-7"), "a", {.ttl = 10s});
  enqueue("orders", key("cust-7"), "b");
  const Lease lease = lease_one("orders", 30s);
  clock().advance(10s);

  ASSERT_TRUE(release(lease));

  EXPECT_EQ(stats("orders").expired, 1U);
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"b"});
}

// A release in the middle of a kept lease is a release as well.
// Rules: S4 S11
TEST_P(StoreConformance, A_message_released_under_keep_after_its_deadline_ends_there) {
  enqueue("orders", key("cust-7"), "a", {.ttl = 10s});
  const Lease lease = lease_one("orders", 30s);
  clock().advance(10s);

  ASSERT_TRUE(settle(lease, {released(id_of(lease, "a"))}, Then::keep));

  EXPECT_EQ(stats("orders").expired, 1U);
  EXPECT_THAT(pull(lease)->messages, IsEmpty());
}

// There is no use in blocking a lane for a message that will never be tried again.
// Rules: S8 S11
TEST_P(StoreConformance, A_message_retried_after_its_deadline_ends_there) {
  configure("orders", expired_is_dead());
  enqueue("orders", key("cust-7"), "a", {.ttl = 10s});
  enqueue("orders", key("cust-7"), "b");
  const Lease lease = lease_one("orders", 30s);
  clock().advance(10s);

  ASSERT_TRUE(retry(lease, 1h, "failed too late"));

  EXPECT_EQ(dead_letter("orders", "a").reason, "expired");
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"b"});
}

// A lease that runs out gives back like any other.
// Rules: S6 S11
TEST_P(StoreConformance, A_message_whose_lease_expires_after_its_deadline_ends_there) {
  enqueue("orders", key("cust-7"), "a", {.ttl = 10s});
  enqueue("orders", key("cust-7"), "b");
  std::ignore = lease_one("orders", 30s);
  clock().advance(30s);

  EXPECT_EQ(stats("orders").expired, 1U);
  EXPECT_EQ(bodies(peek("orders")), Bodies{"b"});
}

// What happens in a long silence happens in its order: the lease was over before the deadline.
// Rules: S6 S11 S17
TEST_P(StoreConformance, A_lease_that_ended_before_the_deadline_gave_its_message_back_in_time) {
  enqueue("orders", key("cust-7"), "a", {.ttl = 40s, .max_attempts = 1});
  std::ignore = lease_one("orders", 30s);

  clock().advance(60s);

  EXPECT_EQ(dead_letter("orders", "a").reason, "lease expired")
      << "it had failed for good at 30 s, when its deadline of 40 s was still to come";
  EXPECT_EQ(stats("orders").expired, 0U);
}

// The clock starts when the message is accepted, not when it is due.
// Rules: S7 S11
TEST_P(StoreConformance, The_deadline_counts_from_acceptance_delay_or_not) {
  const Time accepted = now();
  enqueue("orders", key("a"), "never seen", {.delay = 20s, .ttl = 10s});
  enqueue("orders", key("b"), "seen", {.delay = 10s, .ttl = 20s});

  clock().advance(10s);
  EXPECT_EQ(stats("orders").expired, 1U);
  const Lease seen = lease_one("orders");
  EXPECT_EQ(bodies(seen), Bodies{"seen"});
  EXPECT_EQ(seen.messages[0].expires_at, accepted + 20s);
  clock().advance(10s);
  EXPECT_THAT(lease_all("orders"), IsEmpty());
}

// A queue's rule is for those who have none of their own.
// Rules: S11
TEST_P(StoreConformance, A_message_without_a_TTL_has_the_queues) {
  QueueSettings settings;
  settings.ttl = 10s;
  configure("orders", settings);
  enqueue("orders", key("a"), "the queue's");
  enqueue("orders", key("b"), "its own", {.ttl = 1h});

  EXPECT_EQ(peek_one("orders", "the queue's").expires_at, now() + 10s);
  EXPECT_EQ(peek_one("orders", "its own").expires_at, now() + 1h);
  clock().advance(10s);
  EXPECT_EQ(bodies(lease_all("orders")), Bodies{"its own"});
}

// Waiting behind a holder does not stop the clock.
// Rules: S2 S11
TEST_P(StoreConformance, A_message_expires_while_it_waits_behind_a_lease) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders", 1h);
  enqueue("orders", key("cust-7"), "late", {.ttl = 10s});
  clock().advance(10s);

  EXPECT_EQ(stats("orders").expired, 1U);
  EXPECT_THAT(pull(lease)->messages, IsEmpty());
  EXPECT_TRUE(ack(lease));
  EXPECT_THAT(lease_all("orders"), IsEmpty());
}

// A deadline in the middle of a lane takes nobody else with it.
// Rules: S3 S11
TEST_P(StoreConformance, The_neighbours_of_an_expired_message_stay_in_order) {
  enqueue("orders", key("cust-7"), "a");
  enqueue("orders", key("cust-7"), "b", {.ttl = 10s});
  enqueue("orders", key("cust-7"), "c");
  clock().advance(10s);

  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"a", "c"}));
}

// A deadline is a point in time, whether the process runs or not.
// Rules: S1 S11 S17
TEST_P(StoreConformance, A_message_expires_while_the_store_is_closed) {
  enqueue("orders", key("cust-7"), "a", {.ttl = 10s});
  enqueue("orders", key("cust-7"), "b", {.ttl = 1h});
  close();
  clock().advance(10s);
  reopen();

  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"b"});
  EXPECT_EQ(stats("orders").expired, 1U);
}

// Failing in time leaves the rest of the time.
// Rules: S8 S11
TEST_P(StoreConformance, A_retry_does_not_move_the_deadline) {
  enqueue("orders", key("cust-7"), "a", {.ttl = 20s});
  const Time deadline = now() + 20s;
  ASSERT_TRUE(retry(lease_one("orders"), 10s));
  clock().advance(10s);

  const Lease again = lease_one("orders");
  EXPECT_EQ(again.messages[0].expires_at, deadline);
  ASSERT_TRUE(release(again));
  clock().advance(10s);
  EXPECT_EQ(stats("orders").expired, 1U);
}

}  // namespace strand::conformance
