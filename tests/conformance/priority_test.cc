// S12: which lane is served next.

#include "conformance/suite.h"

namespace strand::conformance {
namespace {

// The whole point of a priority; and 0 is the urgent end of the scale, not the low one.
// Rules: S12
// Trap: ORDER BY priority DESC with 0 = urgent serves the least urgent first
TEST_P(StoreConformance, Lanes_are_served_from_urgent_to_low_whatever_came_first) {
  enqueue("orders", key("1"), "low", {.priority = Priority::low});
  enqueue("orders", key("2"), "normal");
  enqueue("orders", key("3"), "high", {.priority = Priority::high});
  enqueue("orders", key("4"), "urgent", {.priority = Priority::urgent});

  EXPECT_EQ(drain("orders"), (Bodies{"urgent", "high", "normal", "low"}));
}

// A caller that wants ten lanes at once gets the ten that matter, in the order that matters.
// Rules: S12 S4
TEST_P(StoreConformance, One_request_for_many_lanes_gets_the_most_urgent_of_them_first) {
  enqueue("orders", key("1"), "low", {.priority = Priority::low});
  enqueue("orders", key("2"), "urgent", {.priority = Priority::urgent});
  enqueue("orders", key("3"), "normal");

  EXPECT_EQ(bodies(lease({.queue = "orders", .lanes = 2})), (Bodies{"urgent", "normal"}));
}

// "Cancel order" must not overtake "create order", however urgent it is.
// Rules: S12 S3
// Behaviours: session_items_processed_in_order
TEST_P(StoreConformance, Priority_never_reorders_inside_a_lane) {
  enqueue("orders", key("7"), "create", {.priority = Priority::low});
  enqueue("orders", key("7"), "cancel", {.priority = Priority::urgent});

  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"create", "cancel"}));
}

// What is urgent can only be reached by working off what stands before it in its lane.
// Rules: S12
TEST_P(StoreConformance, A_lane_counts_as_its_most_urgent_visible_message) {
  enqueue("orders", key("plain"), "normal");
  enqueue("orders", key("mixed"), "low", {.priority = Priority::low});
  enqueue("orders", key("mixed"), "urgent", {.priority = Priority::urgent});

  EXPECT_EQ(lease_one("orders").key, "mixed");
}

// Work for tomorrow is not urgent today.
// Rules: S12 S7
TEST_P(StoreConformance, A_delayed_urgent_message_lifts_its_lane_only_when_it_is_due) {
  enqueue("orders", key("mixed"), "low", {.priority = Priority::low});
  enqueue("orders", key("mixed"), "urgent", {.priority = Priority::urgent, .delay = 10s});
  enqueue("orders", key("plain"), "normal");

  const Lease first = lease_one("orders");
  EXPECT_EQ(first.key, "plain");
  ASSERT_TRUE(release(first));

  clock().advance(10s);
  EXPECT_EQ(lease_one("orders").key, "mixed");
}

// A message behind a block cannot be handed out, so it may not attract a worker either.
// Rules: S12 S8
TEST_P(StoreConformance, An_urgent_message_behind_a_block_does_not_lift_its_lane) {
  enqueue("orders", key("mixed"), "low", {.priority = Priority::low});
  enqueue("orders", key("mixed"), "failing", {.priority = Priority::low});
  enqueue("orders", key("mixed"), "urgent", {.priority = Priority::urgent});
  const Lease failed = lease_one("orders");
  ASSERT_TRUE(settle(failed, {retried(id_of(failed, "failing"), 1h)}));
  enqueue("orders", key("plain"), "normal");

  EXPECT_EQ(lease_one("orders").key, "plain");
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"low"});
}

// When the urgent message is gone, the rest of the lane has no claim to its rank.
// Rules: S12 S11
TEST_P(StoreConformance, A_lane_sinks_when_its_urgent_message_ends) {
  enqueue("orders", key("mixed"), "low", {.priority = Priority::low});
  enqueue("orders", key("mixed"), "urgent", {.priority = Priority::urgent, .ttl = 5s});
  enqueue("orders", key("plain"), "normal");
  clock().advance(5s);

  EXPECT_EQ(lease_one("orders").key, "plain");
}

// First come, first served: neither the key nor a hash of it decides.
// Rules: S12
TEST_P(StoreConformance, Among_equals_the_lane_that_became_ready_first_is_served_first) {
  enqueue("orders", key("b"), "1");
  enqueue("orders", key("c"), "2");
  enqueue("orders", key("a"), "3");

  EXPECT_EQ(drain("orders"), (Bodies{"1", "2", "3"}));
}

// Ready means due: a lane that was filled first, but for later, has not waited yet.
// Rules: S12 S17
TEST_P(StoreConformance, Delayed_lanes_queue_up_in_the_order_in_which_they_become_due) {
  enqueue("orders", key("late"), "late", {.delay = 20s});
  enqueue("orders", key("soon"), "soon", {.delay = 10s});
  clock().advance(15s);
  enqueue("orders", key("now"), "now");
  clock().advance(5s);

  EXPECT_EQ(drain("orders"), (Bodies{"soon", "now", "late"}));
}

// The clock may jump over both due times at once (a process was suspended): the order remains.
// Rules: S12 S17
TEST_P(StoreConformance, Lanes_that_become_due_in_one_step_keep_the_order_of_their_times) {
  enqueue("orders", key("late"), "late", {.delay = 20s});
  enqueue("orders", key("soon"), "soon", {.delay = 10s});
  clock().advance(1min);

  EXPECT_EQ(drain("orders"), (Bodies{"soon", "late"}));
}

// Otherwise one busy lane would be served over and over while its equals wait.
// Rules: S12
TEST_P(StoreConformance, A_lane_just_served_goes_to_the_back) {
  enqueue_all("orders", key("busy"), {"busy 1", "busy 2"});
  enqueue("orders", key("other"), "other");

  const Lease first = lease_one("orders");
  ASSERT_EQ(first.key, "busy");
  ASSERT_TRUE(settle(first, {acked(id_of(first, "busy 1"))}));

  EXPECT_EQ(drain("orders"), (Bodies{"other", "busy 2"}));
}

// A new message for a lane that already waits must not send it to the back of the line.
// Rules: S12
TEST_P(StoreConformance, A_further_message_keeps_the_turn_of_a_ready_lane) {
  enqueue("orders", key("a"), "a1");
  enqueue("orders", key("b"), "b1");
  enqueue("orders", key("a"), "a2");

  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"a1", "a2"}));
}

// A lane that is lifted competes with the urgent ones by how long it has been ready.
// Rules: S12
TEST_P(StoreConformance, A_lane_that_is_lifted_keeps_its_turn_among_the_urgent) {
  enqueue("orders", key("lifted"), "normal");
  enqueue("orders", key("urgent"), "urgent", {.priority = Priority::urgent});
  enqueue("orders", key("lifted"), "urgent too", {.priority = Priority::urgent});

  EXPECT_EQ(lease_one("orders").key, "lifted");
  EXPECT_EQ(lease_one("orders").key, "urgent");
}

// An unkeyed message is its own lane: same rules, same line.
// Rules: S12
// Behaviours: mixed_session_and_non_session_items
TEST_P(StoreConformance, Unkeyed_messages_and_lanes_stand_in_one_line) {
  enqueue("orders", unkeyed, "1");
  enqueue("orders", key("k"), "2");
  enqueue("orders", unkeyed, "3");
  enqueue("orders", unkeyed, "0", {.priority = Priority::high});

  EXPECT_EQ(drain("orders"), (Bodies{"0", "1", "2", "3"}));
}

// Who asks for one lane wants that lane, not the most urgent one.
// Rules: S12
TEST_P(StoreConformance, A_request_for_a_key_pays_no_heed_to_priority) {
  enqueue("orders", key("urgent"), "urgent", {.priority = Priority::urgent});
  enqueue("orders", key("low"), "low", {.priority = Priority::low});

  EXPECT_EQ(bodies(lease_key("orders", "low")), Bodies{"low"});
}

// A worker that cannot run "gpu" work must find the most urgent of what it can run.
// Rules: S12
// Behaviours: fetch_filter_skips_incompatible_selects_compatible
TEST_P(StoreConformance, Priority_decides_among_the_lanes_that_the_labels_allow) {
  enqueue("orders", key("1"), "gpu urgent", {.priority = Priority::urgent, .label = "gpu"});
  enqueue("orders", key("2"), "cpu low", {.priority = Priority::low, .label = "cpu"});
  enqueue("orders", key("3"), "plain high", {.priority = Priority::high});
  enqueue("orders", key("4"), "cpu normal", {.label = "cpu"});

  EXPECT_EQ(bodies(lease({.queue = "orders", .labels = {"cpu", ""}, .lanes = 10})),
            (Bodies{"plain high", "cpu normal", "cpu low"}));
}

}  // namespace
}  // namespace strand::conformance
