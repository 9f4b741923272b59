// One lane by its key, and taking it from whoever has it.
#include "conformance/suite.h"

namespace strand::conformance {

// --- One lane ---

// An operator, or a client that waits for one customer, wants this lane and no other.
// Rules: One-lane
TEST_P(StoreConformance, A_request_for_a_key_gets_that_lane_only) {
  enqueue("orders", key("a"), "a", {.priority = Priority::urgent});
  enqueue("orders", key("b"), "b", {.priority = Priority::low});
  enqueue("orders", unkeyed, "c");

  const std::vector<Lease> leases = lease({.queue = "orders", .key = "b", .lanes = 10});

  EXPECT_EQ(bodies(leases), Bodies{"b"});
  EXPECT_EQ(leases.at(0).key, "b");
  EXPECT_EQ(stats("orders").leases, 1U);
}

// Asking for one lane is asking, not taking.
// Rules: One-lane S2
TEST_P(StoreConformance, A_request_for_a_key_waits_like_any_other) {
  enqueue("orders", key("leased"), "a");
  enqueue("orders", key("parked"), "b");
  enqueue("orders", key("blocked"), "c");
  enqueue("orders", key("delayed"), "d", {.delay = 1h});
  const Lease holder = lease_key("orders", "leased");
  ASSERT_TRUE(park(lease_key("orders", "parked")));
  ASSERT_TRUE(retry(lease_key("orders", "blocked"), 1h));

  for (const char* lane : {"leased", "parked", "blocked", "delayed", "never seen"}) {
    EXPECT_THAT(lease({.queue = "orders", .key = lane}), IsEmpty()) << lane;
  }
  EXPECT_TRUE(ack(holder));
}

// --- Seize ---

// To terminate an instance is to take it from its worker, which must notice.
// Rules: Seize S5
TEST_P(StoreConformance, Seizing_takes_a_leased_lane_under_a_new_epoch) {
  enqueue_all("workflow", key("order-1"), {"a", "b"});
  const Lease worker = lease_one("workflow");

  const Lease admin = seize("workflow", "order-1");

  EXPECT_EQ(bodies(admin), (Bodies{"a", "b"}));
  EXPECT_GT(admin.token.epoch(), worker.token.epoch());
  EXPECT_EQ(ack(worker).error().code, Errc::lease_lost);
  EXPECT_EQ(renew(worker, 1min).error().code, Errc::lease_lost);
  EXPECT_EQ(stats("workflow").leases, 1U);
  EXPECT_TRUE(ack(admin));
}

// The worker did nothing wrong.
// Rules: Seize S6
TEST_P(StoreConformance, A_seized_lease_ends_uncharged) {
  enqueue_all("workflow", key("order-1"), {"a", "b"});
  std::ignore = lease_one("workflow");

  const Lease seized = seize("workflow", "order-1");

  EXPECT_EQ(seized.messages.at(0).attempts, 0U);
  EXPECT_EQ(seized.messages.at(0).deliveries, 2U);
  EXPECT_FALSE(seized.isolated);
  ASSERT_TRUE(release(seized));
  const Lease next = lease_one("workflow");
  EXPECT_EQ(bodies(next), (Bodies{"a", "b"}));
  EXPECT_FALSE(next.isolated);
}

// A seized lane is held like any other: arrivals wait, and the lease runs out in its time.
// Rules: Seize S2 S6
TEST_P(StoreConformance, A_seized_lane_is_leased) {
  enqueue("workflow", key("order-1"), "a");
  const Lease seized = seize("workflow", "order-1", 30s);
  enqueue("workflow", key("order-1"), "b");

  EXPECT_THAT(lease_all("workflow"), IsEmpty());
  EXPECT_EQ(bodies(*pull(seized)), Bodies{"b"});
  clock().advance(30s);
  EXPECT_EQ(ack(seized).error().code, Errc::lease_lost);
  EXPECT_EQ(peek_one("workflow", "a").attempts, 1U);
}

// Whoever takes a stopped lane means to deal with it.
// Rules: Seize S9
TEST_P(StoreConformance, A_seized_lane_is_not_parked_any_more) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(park(lease_one("workflow"), "needs a person"));

  const Lease seized = seize("workflow", "order-1");

  EXPECT_EQ(bodies(seized), Bodies{"a"});
  EXPECT_EQ(stats("workflow").parked, 0U);
  ASSERT_TRUE(release(seized));
  EXPECT_EQ(bodies(lease_one("workflow")), Bodies{"a"});
}

// A seize takes the lane, not the future: what is not visible stays so.
// Rules: Seize S8
TEST_P(StoreConformance, A_seized_lease_carries_what_is_visible_which_may_be_nothing) {
  enqueue_all("workflow", key("order-1"), {"a", "b"});
  ASSERT_TRUE(retry(lease_one("workflow"), 10s));
  enqueue("workflow", key("order-2"), "later", {.delay = 10s});

  const Lease blocked = seize("workflow", "order-1");
  const Lease delayed = seize("workflow", "order-2");

  EXPECT_THAT(blocked.messages, IsEmpty());
  EXPECT_THAT(delayed.messages, IsEmpty());
  EXPECT_EQ(stats("workflow").leases, 2U);
  clock().advance(10s);
  EXPECT_THAT(lease_all("workflow"), IsEmpty()) << "both lanes are held";
  EXPECT_EQ(bodies(*pull(blocked)), (Bodies{"a", "b"}));
  EXPECT_EQ(bodies(*pull(delayed)), Bodies{"later"});
}

// An instance between two messages is an empty lane, and can be terminated as well.
// Rules: Seize
TEST_P(StoreConformance, An_empty_lane_can_be_seized) {
  configure("workflow", QueueSettings{});

  const Lease seized = seize("workflow", "order-1");

  EXPECT_EQ(seized.key, "order-1");
  EXPECT_THAT(seized.messages, IsEmpty());
  enqueue("workflow", key("order-1"), "a");
  EXPECT_THAT(lease_all("workflow"), IsEmpty());
  EXPECT_TRUE(release(seized));
  EXPECT_EQ(bodies(lease_one("workflow")), Bodies{"a"});
}

// A queue that nobody made cannot have lanes.
// Rules: Seize S22
TEST_P(StoreConformance, Seizing_in_an_unknown_queue_is_not_found) {
  EXPECT_EQ(try_lease({.queue = "no-such", .key = "a", .seize = true}).error().code,
            Errc::not_found);
}

// "Everything of this queue" is not what seize is for.
// Rules: Seize
TEST_P(StoreConformance, Seizing_needs_a_key) {
  enqueue("workflow", key("order-1"), "a");

  EXPECT_EQ(try_lease({.queue = "workflow", .seize = true}).error().code, Errc::invalid_argument);
}

// An operator must get through.
// Rules: Seize S22
TEST_P(StoreConformance, A_seize_ignores_pause_labels_and_hints) {
  enqueue_all("workflow", key("order-1"), {"a", "b"}, {.label = "checkout@1"});
  const Lease lease = lease_one("workflow");
  Settle hinting = settlement(lease, {acked(id_of(lease, "a"))});
  hinting.owner_hint = OwnerHint{.owner = "me", .valid_for = 1h, .grace = 1s};
  ASSERT_TRUE(settle(hinting));
  pause("workflow");

  const LeaseRequest request{.queue = "workflow",
                             .labels = {"checkout@2"},
                             .key = "order-1",
                             .seize = true,
                             .owner = "operator"};
  EXPECT_EQ(bodies(StoreConformance::lease(request)), Bodies{"b"});
}

// The operator looks at the lane as it is, poison and all.
// Rules: Seize S6
TEST_P(StoreConformance, A_seize_ignores_isolation) {
  enqueue_all("workflow", key("order-1"), {"a", "b"});
  std::ignore = lease_one("workflow", 30s);
  clock().advance(30s);

  const Lease seized = seize("workflow", "order-1");

  EXPECT_EQ(bodies(seized), (Bodies{"a", "b"}));
  EXPECT_FALSE(seized.isolated);
  enqueue("workflow", key("order-1"), "c");
  EXPECT_EQ(bodies(*pull(seized)), Bodies{"c"});
}

// Of two operators, the last one has it.
// Rules: Seize S5
TEST_P(StoreConformance, A_seized_lane_may_be_seized_again) {
  enqueue("workflow", key("order-1"), "a");
  const Lease first = seize("workflow", "order-1");
  const Lease second = seize("workflow", "order-1");

  EXPECT_EQ(ack(first).error().code, Errc::lease_lost);
  EXPECT_TRUE(ack(second));
}

// A lost reply must not make the operator fight with himself.
// Rules: Seize S5
TEST_P(StoreConformance, A_repeated_seize_returns_the_same_lease) {
  enqueue("workflow", key("order-1"), "a");
  std::ignore = lease_one("workflow");
  const LeaseRequest request{.queue = "workflow",
                             .key = "order-1",
                             .seize = true,
                             .request = RequestId{.client = 7, .number = 1}};

  const std::vector<Lease> first = lease(request);

  EXPECT_EQ(lease(request), first);
  EXPECT_TRUE(ack(first.at(0)));
}

// Seizing one lane is no one else's business.
// Rules: Seize S2
TEST_P(StoreConformance, Seizing_one_lane_leaves_the_other_leases_alone) {
  enqueue("workflow", key("order-1"), "a");
  enqueue("workflow", key("order-2"), "b");
  const std::vector<Lease> leases = lease_all("workflow");

  std::ignore = seize("workflow", "order-1");

  EXPECT_EQ(ack(leases.at(0)).error().code, Errc::lease_lost);
  EXPECT_TRUE(ack(leases.at(1)));
}

}  // namespace strand::conformance
