// S8: what a failed message does to its lane.
#include "conformance/suite.h"

namespace strand::conformance {

namespace {

QueueSettings skipping() {
  QueueSettings settings;
  settings.retry_policy = RetryPolicy::skip;
  return settings;
}

}  // namespace

// "Ship" must not overtake "charge" because the card machine was busy.
// Rules: S8
// Behaviours: abandon_work_item_with_delay
TEST_P(StoreConformance, A_retried_message_blocks_its_lane_for_the_delay) {
  enqueue_all("orders", key("cust-7"), {"charge", "ship"});
  ASSERT_TRUE(retry(lease_one("orders"), 10s, "busy"));

  EXPECT_EQ(peek_one("orders", "charge").state, MessageState::backoff);
  EXPECT_EQ(peek_one("orders", "ship").state, MessageState::waiting);
  clock().advance(9'999ms);
  EXPECT_THAT(lease_all("orders"), IsEmpty());
  clock().advance(1ms);
  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"charge", "ship"}));
}

// Whoever comes later is behind it all the same.
// Rules: S8
TEST_P(StoreConformance, A_block_holds_back_arrivals_too) {
  enqueue("orders", key("cust-7"), "charge");
  ASSERT_TRUE(retry(lease_one("orders"), 10s));
  enqueue("orders", key("cust-7"), "arrival");
  enqueue("orders", key("cust-7"), "due meanwhile", {.delay = 5s});

  clock().advance(9s);

  EXPECT_THAT(lease_all("orders"), IsEmpty());
  EXPECT_EQ(peek_one("orders", "due meanwhile").state, MessageState::waiting);
  clock().advance(1s);
  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"charge", "arrival", "due meanwhile"}));
}

// A block looks back, not ahead: earlier messages do not depend on a later one.
// Rules: S8
TEST_P(StoreConformance, A_block_does_not_hold_back_what_is_before_it) {
  enqueue_all("orders", key("cust-7"), {"a", "b", "c"});
  const Lease lease = lease_one("orders");
  ASSERT_TRUE(settle(lease, {retried(id_of(lease, "b"), 10s)}));

  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"a"});
}

// The place decides who is before whom, so an old dead letter passes a younger block.
// Rules: S3 S8 S10
TEST_P(StoreConformance, A_redriven_message_with_an_earlier_place_passes_a_block) {
  const Ids sent = enqueue_all("orders", key("cust-7"), {"a", "b", "c"});
  const Lease lease = lease_one("orders");
  ASSERT_TRUE(settle(lease, {made_dead(sent[0]), retried(sent[1], 10s)}));
  ASSERT_THAT(lease_all("orders"), IsEmpty());

  redrive("orders", {sent[0]});

  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"a"});
}

// One customer's trouble is not another's.
// Rules: S8
TEST_P(StoreConformance, A_block_holds_back_one_lane_only) {
  enqueue("orders", key("a"), "a");
  enqueue("orders", key("b"), "b");
  enqueue("orders", unkeyed, "c");
  ASSERT_TRUE(retry(lease_key("orders", "a"), 10s));

  EXPECT_EQ(bodies(lease_all("orders")), (Bodies{"b", "c"}));
}

// Where messages of a key do not depend on each other, none waits for a failed one.
// Rules: S3 S8
TEST_P(StoreConformance, Under_skip_the_lane_goes_on_and_the_failed_one_comes_back_in_its_place) {
  configure("mails", skipping());
  enqueue_all("mails", key("cust-7"), {"a", "b"});
  ASSERT_TRUE(retry(lease_one("mails"), 10s));
  enqueue("mails", key("cust-7"), "c");

  const Lease meanwhile = lease_one("mails");
  EXPECT_EQ(bodies(meanwhile), (Bodies{"b", "c"}));
  ASSERT_TRUE(release(meanwhile));
  clock().advance(10s);
  EXPECT_EQ(bodies(lease_one("mails")), (Bodies{"a", "b", "c"}));
}

// Changing the policy is for failures to come; it must not tear open a lane that waits.
// Rules: S8
TEST_P(StoreConformance, The_policy_is_that_of_the_time_of_the_failure) {
  enqueue_all("orders", key("blocked"), {"a", "b"});
  ASSERT_TRUE(retry(lease_key("orders", "blocked"), 10s));
  configure("orders", skipping());
  enqueue_all("orders", key("skipped"), {"c", "d"});
  ASSERT_TRUE(retry(lease_key("orders", "skipped"), 10s));
  configure("orders", QueueSettings{});

  EXPECT_EQ(bodies(lease_all("orders")), Bodies{"d"});
  clock().advance(10s);
  EXPECT_EQ(bodies(lease_key("orders", "blocked")), (Bodies{"a", "b"}));
}

// The worker often knows better than a table when to try again ("retry after 2 s").
// Rules: S8 S9
TEST_P(StoreConformance, An_explicit_delay_overrides_the_backoff) {
  enqueue("orders", key("short"), "short");
  enqueue("orders", key("long"), "long");
  ASSERT_TRUE(retry(lease_key("orders", "short"), 2s));
  ASSERT_TRUE(retry(lease_key("orders", "long"), 2h));

  EXPECT_EQ(peek_one("orders", "short").retry_at, now() + 2s);
  EXPECT_EQ(peek_one("orders", "long").retry_at, now() + 2h);
  clock().advance(2s);
  EXPECT_EQ(drain("orders"), Bodies{"short"});
}

// Nothing is a delay, too, and not the same as none given.
// Rules: S8
TEST_P(StoreConformance, An_explicit_delay_of_zero_retries_at_once) {
  enqueue("orders", key("cust-7"), "a");
  ASSERT_TRUE(retry(lease_one("orders"), 0s));

  const Lease again = lease_one("orders");
  EXPECT_EQ(bodies(again), Bodies{"a"});
  EXPECT_EQ(again.messages[0].attempts, 1U);
}

// A lane must not wait for a message that will never be tried again.
// Rules: S8 S11
TEST_P(StoreConformance, A_blocked_head_whose_TTL_ends_unblocks_its_lane_at_that_instant) {
  enqueue("orders", key("cust-7"), "a", {.ttl = 20s});
  enqueue("orders", key("cust-7"), "b");
  ASSERT_TRUE(retry(lease_one("orders"), 1min));

  clock().advance(19'999ms);
  EXPECT_THAT(lease_all("orders"), IsEmpty());
  clock().advance(1ms);
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"b"});
}

// The same for any other end.
// Rules: S8
TEST_P(StoreConformance, A_blocked_head_that_is_cancelled_unblocks_its_lane) {
  enqueue("orders", key("cust-7"), "a", {.name = "a"});
  enqueue("orders", key("cust-7"), "b");
  ASSERT_TRUE(retry(lease_one("orders"), 1min));
  ASSERT_THAT(lease_all("orders"), IsEmpty());

  ASSERT_TRUE(cancel("orders", "a"));

  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"b"});
}

// Several failures of one lane: each block ends in its own time.
// Rules: S8
TEST_P(StoreConformance, A_lane_with_two_blocks_opens_up_to_the_next_one) {
  enqueue_all("orders", key("cust-7"), {"a", "b", "c", "d"});
  const Lease lease = lease_one("orders");
  ASSERT_TRUE(settle(lease, {retried(id_of(lease, "a"), 10s), retried(id_of(lease, "c"), 20s)}));

  clock().advance(10s);
  const Lease first = lease_one("orders");
  EXPECT_EQ(bodies(first), (Bodies{"a", "b"}));
  ASSERT_TRUE(ack(first));
  EXPECT_THAT(lease_all("orders"), IsEmpty());
  clock().advance(10s);
  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"c", "d"}));
}

// An earlier message with the longer delay keeps its lane closed, whatever is ready behind it.
// Rules: S8
TEST_P(StoreConformance, The_end_of_a_later_block_does_not_open_an_earlier_one) {
  enqueue_all("orders", key("cust-7"), {"a", "b", "c"});
  const Lease lease = lease_one("orders");
  ASSERT_TRUE(settle(lease, {retried(id_of(lease, "a"), 20s), retried(id_of(lease, "b"), 10s)}));

  clock().advance(10s);
  EXPECT_THAT(lease_all("orders"), IsEmpty());
  EXPECT_EQ(peek_one("orders", "b").state, MessageState::waiting);
  clock().advance(10s);
  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"a", "b", "c"}));
}

// Giving up a batch: one message failed, the others only happened to be there.
// Rules: S4 S8
TEST_P(StoreConformance, Retrying_the_oldest_releases_the_rest_uncharged) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  ASSERT_TRUE(retry(lease_one("orders"), 10s));
  clock().advance(10s);

  const Lease next = lease_one("orders");

  EXPECT_EQ(message_of(next, "a").attempts, 1U);
  EXPECT_EQ(message_of(next, "b").attempts, 0U);
  EXPECT_FALSE(next.isolated) << "a reported failure is no reason for suspicion";
}

// A delayed retry must hide what the lease carried, not what another lease or lane has.
// Rules: S4 S8
TEST_P(StoreConformance, A_holder_may_go_on_with_the_rest_after_a_retry) {
  enqueue_all("orders", key("cust-7"), {"a", "b", "c"});
  const Lease lease = lease_one("orders");

  ASSERT_TRUE(settle(lease, {retried(id_of(lease, "a"), 10s)}, Then::keep));

  EXPECT_EQ(peek_one("orders", "b").state, MessageState::leased);
  EXPECT_TRUE(settle(lease, {acked(id_of(lease, "b")), acked(id_of(lease, "c"))}));
  EXPECT_EQ(stats("orders").acked, 2U);
  EXPECT_EQ(bodies(peek("orders")), Bodies{"a"});
}

// Backoff is a kind of delay for whoever counts; behind a block is a kind of waiting.
// Rules: S8 S16
TEST_P(StoreConformance, Blocked_messages_are_counted_as_delayed_and_waiting) {
  enqueue_all("orders", key("cust-7"), {"a", "b", "c"});
  ASSERT_TRUE(retry(lease_one("orders"), 10s));

  const QueueStats counted = stats("orders");
  EXPECT_EQ(counted.delayed, 1U);
  EXPECT_EQ(counted.backoff, 1U);
  EXPECT_EQ(counted.waiting, 2U);
  EXPECT_EQ(counted.ready, 0U);
  EXPECT_EQ(counted.lanes_ready, 0U);
}

// A restart is no way past a block.
// Rules: S1 S8
TEST_P(StoreConformance, Blocks_and_skips_survive_a_reopen) {
  enqueue_all("orders", key("blocked"), {"a", "b"});
  ASSERT_TRUE(retry(lease_key("orders", "blocked"), 10s));
  configure("orders", skipping());
  enqueue_all("orders", key("skipped"), {"c", "d"});
  ASSERT_TRUE(retry(lease_key("orders", "skipped"), 10s));

  reopen();

  EXPECT_EQ(bodies(lease_all("orders")), Bodies{"d"});
  clock().advance(10s);
  EXPECT_EQ(bodies(lease_key("orders", "blocked")), (Bodies{"a", "b"}));
}

// What comes off its backoff is announced, or a waiting worker sleeps through it.
// Rules: S8 S17
TEST_P(StoreConformance, The_end_of_a_block_wakes_those_who_watch_the_queue) {
  enqueue("orders", key("cust-7"), "a");
  ASSERT_TRUE(retry(lease_one("orders"), 10s));
  Calls calls;
  const Watch watch = store().watch(WatchQueue{"orders"}, calls.callback());
  const std::uint64_t seen = calls.count();

  clock().advance(10s);

  EXPECT_TRUE(calls.more_than(seen));
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"a"});
}

}  // namespace strand::conformance
