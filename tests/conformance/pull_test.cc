// S2, S4 and S5: how a holder gets what has arrived since.
#include "conformance/suite.h"

namespace strand::conformance {

// The one way to a late arrival: through the holder of its lane.
// Rules: S2 S4
TEST_P(StoreConformance, A_holder_may_pull_what_has_arrived) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders");
  enqueue_all("orders", key("cust-7"), {"b", "c"});
  enqueue("orders", key("cust-8"), "another lane's");

  const Pulled pulled = pull(lease).value();

  EXPECT_EQ(bodies(pulled), (Bodies{"b", "c"}));
  EXPECT_FALSE(pulled.more);
  EXPECT_EQ(pulled.messages[0].deliveries, 1U);
  EXPECT_EQ(peek_one("orders", "a").deliveries, 1U) << "only what a pull carries is delivered";
  EXPECT_EQ(stats("orders").leased, 3U);
  EXPECT_TRUE(settle(lease, {acked(pulled.messages[1].id)}, Then::keep));
}

// What was pulled belongs to the lease like the rest, in its end as well.
// Rules: S4
TEST_P(StoreConformance, What_was_pulled_is_released_with_the_lease) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders");
  enqueue("orders", key("cust-7"), "b");
  ASSERT_EQ(bodies(*pull(lease)), Bodies{"b"});

  ASSERT_TRUE(settle(lease, {acked(id_of(lease, "a"))}));

  const Lease next = lease_one("orders");
  EXPECT_EQ(bodies(next), Bodies{"b"});
  EXPECT_EQ(next.messages[0].deliveries, 2U);
}

// A lease cut short by its limits goes on where it stopped.
// Rules: S4
TEST_P(StoreConformance, Pulls_go_through_a_lane_piece_by_piece) {
  enqueue_all("orders", key("cust-7"), {"a", "b", "c", "d"});
  const Lease lease = StoreConformance::lease({.queue = "orders", .messages = 1}).at(0);

  const Pulled second = pull(lease, {.messages = 2}).value();
  const Pulled third = pull(lease, second.cursor).value();

  EXPECT_EQ(bodies(second), (Bodies{"b", "c"}));
  EXPECT_TRUE(second.more);
  EXPECT_EQ(bodies(third), Bodies{"d"});
  EXPECT_FALSE(third.more);
}

// The limits of a pull are those of a lease: in order, the first always fits.
// Rules: S4
TEST_P(StoreConformance, A_pull_stops_at_the_first_message_that_passes_its_limit_of_bytes) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders");
  enqueue_all("orders", key("cust-7"), {Bytes(300, 'b'), Bytes(60, 'c'), Bytes(60, 'd'), "e"});

  const Pulled first = pull(lease, {.bytes = 100}).value();
  const Pulled second = pull(lease, first.cursor, {.bytes = 100}).value();

  EXPECT_EQ(bodies(first), Bodies{Bytes(300, 'b')});
  EXPECT_TRUE(first.more);
  EXPECT_EQ(bodies(second), Bodies{Bytes(60, 'c')});
}

// A lost reply costs nothing: the same question has the same answer, and no second delivery.
// Rules: S5
TEST_P(StoreConformance, Repeating_a_cursor_repeats_the_answer) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders");
  enqueue("orders", key("cust-7"), "b");
  const Pulled first = pull(lease).value();
  enqueue("orders", key("cust-7"), "c");

  const Pulled again = pull(lease).value();

  EXPECT_EQ(again.messages, first.messages);
  EXPECT_EQ(again.cursor, first.cursor);
  EXPECT_EQ(peek_one("orders", "b").deliveries, 1U);
  EXPECT_EQ(peek_one("orders", "c").deliveries, 0U);
  EXPECT_EQ(bodies(*pull(lease, again.cursor)), Bodies{"c"});
}

// A repeated answer must not offer as work what has been done.
// Rules: S5
TEST_P(StoreConformance, A_repeated_answer_leaves_out_what_was_settled) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders");
  enqueue_all("orders", key("cust-7"), {"b", "c"});
  const Pulled first = pull(lease).value();
  ASSERT_TRUE(settle(lease, {acked(first.messages.at(0).id)}, Then::keep));

  EXPECT_EQ(bodies(*pull(lease)), Bodies{"c"});
}

// A cursor from further back would name an answer that nobody remembers.
// Rules: S5
TEST_P(StoreConformance, Any_other_cursor_is_refused) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders");
  enqueue("orders", key("cust-7"), "b");
  const Pulled b = pull(lease).value();
  enqueue("orders", key("cust-7"), "c");
  const Pulled c = pull(lease, b.cursor).value();
  enqueue("orders", key("cust-7"), "d");

  EXPECT_EQ(pull(lease, lease.cursor).error().code, Errc::invalid_cursor);
  EXPECT_EQ(pull(lease, Cursor{987'654'321}).error().code, Errc::invalid_cursor);
  EXPECT_EQ(peek_one("orders", "d").state, MessageState::waiting) << "a refusal changes nothing";
  EXPECT_EQ(bodies(*pull(lease, c.cursor)), Bodies{"d"});
}

// Asking in vain must not use up the cursor: nothing was answered that could be lost.
// Rules: S5
TEST_P(StoreConformance, A_pull_that_finds_nothing_returns_the_same_cursor) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders");

  const Pulled nothing = pull(lease).value();
  EXPECT_THAT(nothing.messages, IsEmpty());
  EXPECT_EQ(nothing.cursor, lease.cursor);
  EXPECT_FALSE(nothing.more);

  enqueue("orders", key("cust-7"), "b");
  EXPECT_EQ(bodies(*pull(lease, nothing.cursor)), Bodies{"b"});
}

// Not yet due is not yet there.
// Rules: S4 S7
TEST_P(StoreConformance, A_pull_brings_a_delayed_message_when_it_is_due) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders", 1min);
  enqueue("orders", key("cust-7"), "timer", {.delay = 10s});

  EXPECT_THAT(pull(lease)->messages, IsEmpty());
  clock().advance(10s);
  EXPECT_EQ(bodies(*pull(lease)), Bodies{"timer"});
}

// A holder that gave something back within its lease can have it again, as a new delivery.
// Rules: S4
TEST_P(StoreConformance, A_message_released_under_keep_may_be_pulled_again) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  const Lease lease = lease_one("orders");
  ASSERT_TRUE(settle(lease, {released(id_of(lease, "a"))}, Then::keep));
  EXPECT_EQ(stats("orders").leased, 1U);
  EXPECT_THAT(lease_all("orders"), IsEmpty()) << "the lane is still held";

  const Pulled again = pull(lease).value();

  EXPECT_EQ(bodies(again), Bodies{"a"});
  EXPECT_EQ(again.messages[0].deliveries, 2U);
  EXPECT_EQ(again.messages[0].attempts, 0U);
}

// Places are not a queue of arrivals: a message may come to stand before what the holder has.
// Rules: S3 S4 S10
TEST_P(StoreConformance, A_pull_brings_a_redriven_message_from_before_what_the_lease_carries) {
  const Ids sent = enqueue_all("orders", key("cust-7"), {"a", "b"});
  const Lease first = lease_one("orders");
  ASSERT_TRUE(settle(first, {made_dead(sent[0])}));
  const Lease holder = lease_one("orders");
  ASSERT_EQ(bodies(holder), Bodies{"b"});
  redrive("orders", {sent[0]});
  enqueue("orders", key("cust-7"), "c");

  EXPECT_EQ(bodies(*pull(holder)), (Bodies{"a", "c"}));
}

// The block binds the holder, too: what is behind a failed message waits for it.
// Rules: S4 S8
TEST_P(StoreConformance, A_pull_brings_nothing_from_behind_a_blocked_message) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  const Lease lease = lease_one("orders", 1h);
  ASSERT_TRUE(settle(lease, {retried(id_of(lease, "a"), 10s)}, Then::keep));
  enqueue("orders", key("cust-7"), "c");

  EXPECT_THAT(pull(lease)->messages, IsEmpty());
  clock().advance(10s);
  EXPECT_EQ(bodies(*pull(lease)), (Bodies{"a", "c"}));
  EXPECT_EQ(stats("orders").leased, 3U) << "b has been in the lease all the time";
}

// The cursor is part of the lease, and lives as long as it does.
// Rules: S5 S22
TEST_P(StoreConformance, A_holder_goes_on_pulling_after_a_reopen) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders", 1min);
  enqueue("orders", key("cust-7"), "b");
  const Pulled b = pull(lease).value();
  enqueue("orders", key("cust-7"), "c");

  reopen();

  EXPECT_EQ(bodies(*pull(lease, b.cursor)), Bodies{"c"});
}

}  // namespace strand::conformance
