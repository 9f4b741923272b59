// S13: of every eight leases one goes to the lane that has waited longest.

#include <string>
#include <vector>

#include "conformance/suite.h"

namespace strand::conformance {
namespace {

// So many lanes that no test runs out of them.
Transaction urgent_lanes(const std::string& queue, int count = 20) {
  Transaction transaction;
  for (int i = 0; i < count; ++i) {
    transaction.sends.push_back(
        send(queue, key("rush-" + std::to_string(i)), "rush", {.priority = Priority::urgent}));
  }
  return transaction;
}

const Bodies seven_in_a_rush(7, "rush");

// A stream of urgent work must not keep the rest waiting for ever.
// Rules: S13
TEST_P(StoreConformance, The_eighth_lease_goes_to_the_lane_that_has_waited_too_long) {
  enqueue("orders", key("patient"), "patient", {.priority = Priority::low});
  clock().advance(30s);
  ASSERT_TRUE(apply(urgent_lanes("orders")));

  EXPECT_EQ(bodies(lease({.queue = "orders", .lanes = 7})), seven_in_a_rush);
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"patient"});
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"rush"});
}

// A minority share, not a takeover: the next seven are served by priority again.
// Rules: S13
TEST_P(StoreConformance, Starving_lanes_get_one_lease_of_eight_and_no_more) {
  enqueue("orders", key("first"), "first", {.priority = Priority::low});
  enqueue("orders", key("second"), "second", {.priority = Priority::low});
  clock().advance(1min);
  ASSERT_TRUE(apply(urgent_lanes("orders")));

  const Bodies served = bodies(lease({.queue = "orders", .lanes = 16}));
  Bodies expected(16, "rush");
  expected[7] = "first";
  expected[15] = "second";
  EXPECT_EQ(served, expected);
}

// Before its time is up, a lane of low priority is just that.
// Rules: S13
TEST_P(StoreConformance, A_lane_that_has_not_waited_long_enough_gets_no_turn_out_of_order) {
  enqueue("orders", key("patient"), "patient", {.priority = Priority::low});
  clock().advance(30s - 1ms);
  ASSERT_TRUE(apply(urgent_lanes("orders")));

  EXPECT_EQ(bodies(lease({.queue = "orders", .lanes = 8})), Bodies(8, "rush"));
}

// Fairness is about waiting; priority has had its say in the other seven.
// Rules: S13
TEST_P(StoreConformance, The_longest_wait_wins_whatever_its_priority) {
  enqueue("orders", key("longest"), "longest", {.priority = Priority::low});
  clock().advance(1s);
  enqueue("orders", key("shorter"), "shorter", {.priority = Priority::normal});
  clock().advance(1min);
  ASSERT_TRUE(apply(urgent_lanes("orders")));

  ASSERT_EQ(bodies(lease({.queue = "orders", .lanes = 7})), seven_in_a_rush);
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"longest"});
}

// Thirty seconds are long for payments and short for nightly reports.
// Rules: S13
TEST_P(StoreConformance, Each_queue_says_how_long_is_too_long) {
  configure("orders", {.ttl = {}, .starvation_after = 5s});
  enqueue("orders", key("patient"), "patient", {.priority = Priority::low});
  clock().advance(5s);
  ASSERT_TRUE(apply(urgent_lanes("orders")));

  ASSERT_EQ(bodies(lease({.queue = "orders", .lanes = 7})), seven_in_a_rush);
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"patient"});
}

// A lane that was served and given back has not been waiting since its message was sent.
// Rules: S13
TEST_P(StoreConformance, Waiting_begins_anew_when_a_lane_has_been_served) {
  enqueue("orders", key("served"), "served", {.priority = Priority::low});
  clock().advance(29s);
  ASSERT_TRUE(release(lease_key("orders", "served")));
  clock().advance(29s);
  ASSERT_TRUE(apply(urgent_lanes("orders")));

  EXPECT_EQ(bodies(lease({.queue = "orders", .lanes = 8})), Bodies(8, "rush"));
}

// The time that a message is not due yet is no waiting of its lane.
// Rules: S13 S7
TEST_P(StoreConformance, A_lane_waits_from_when_it_is_ready_not_from_when_it_was_filled) {
  enqueue("orders", key("later"), "later", {.priority = Priority::low, .delay = 1h});
  clock().advance(1h + 29s);
  ASSERT_TRUE(apply(urgent_lanes("orders")));

  EXPECT_EQ(bodies(lease({.queue = "orders", .lanes = 8})), Bodies(8, "rush"));
}

// Traffic in one queue says nothing about fairness in another.
// Rules: S13
TEST_P(StoreConformance, The_eight_leases_are_counted_for_each_queue) {
  enqueue("orders", key("patient"), "patient", {.priority = Priority::low});
  clock().advance(30s);
  ASSERT_TRUE(apply(urgent_lanes("orders")));
  ASSERT_TRUE(apply(urgent_lanes("other")));

  ASSERT_EQ(bodies(lease({.queue = "orders", .lanes = 6})), Bodies(6, "rush"));
  ASSERT_THAT(lease({.queue = "other", .lanes = 5}), SizeIs(5));
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"rush"}) << "the seventh";
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"patient"}) << "the eighth";
}

// Looking up one lane, or taking it by force, is no service of the line.
// Rules: S13
TEST_P(StoreConformance, Requests_for_a_key_and_seizes_neither_count_nor_follow_the_order) {
  enqueue("orders", key("patient"), "patient", {.priority = Priority::low});
  enqueue("orders", key("wanted"), "wanted", {.priority = Priority::low});
  enqueue("orders", key("taken"), "taken", {.priority = Priority::low});
  clock().advance(30s);
  ASSERT_TRUE(apply(urgent_lanes("orders")));
  ASSERT_EQ(bodies(lease({.queue = "orders", .lanes = 7})), seven_in_a_rush);

  EXPECT_EQ(bodies(lease_key("orders", "wanted")), Bodies{"wanted"});
  EXPECT_EQ(bodies(seize("orders", "taken")), Bodies{"taken"});
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"patient"});
}

// An idle poller with a label of its own must not use up the turns of the starving.
// Rules: S13
TEST_P(StoreConformance, Requests_that_get_nothing_do_not_count) {
  enqueue("orders", key("patient"), "patient", {.priority = Priority::low});
  clock().advance(30s);
  ASSERT_TRUE(apply(urgent_lanes("orders")));
  ASSERT_EQ(bodies(lease({.queue = "orders", .lanes = 7})), seven_in_a_rush);

  for (int i = 0; i < 9; ++i) {
    ASSERT_THAT(lease({.queue = "orders", .labels = {"none"}}), IsEmpty());
  }
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"patient"});
}

// A lost reply must not use up a turn of the starving.
// Rules: S13 S5
TEST_P(StoreConformance, A_repeated_request_does_not_count_again) {
  enqueue("orders", key("patient"), "patient", {.priority = Priority::low});
  clock().advance(30s);
  ASSERT_TRUE(apply(urgent_lanes("orders")));
  const LeaseRequest request{.queue = "orders", .request = RequestId{1, 1}, .lanes = 7};
  ASSERT_EQ(bodies(lease(request)), seven_in_a_rush);

  ASSERT_EQ(bodies(lease(request)), seven_in_a_rush);
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"patient"});
}

// A starving lane is still only for those who can work on it.
// Rules: S13
TEST_P(StoreConformance, A_starving_lane_is_not_given_to_those_who_did_not_ask_for_its_label) {
  enqueue("orders", key("patient"), "patient", {.priority = Priority::low, .label = "gpu"});
  clock().advance(30s);
  ASSERT_TRUE(apply(urgent_lanes("orders")));

  const std::vector<Lease> leases = lease({.queue = "orders", .labels = {""}, .lanes = 16});
  EXPECT_EQ(bodies(leases), Bodies(16, "rush"));
}

}  // namespace
}  // namespace strand::conformance
