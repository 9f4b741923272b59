// Unkeyed messages: each is its own lane.
#include "conformance/parts.h"
#include "conformance/suite.h"

namespace strand::conformance {

// Work without an order is done by as many as there are.
// Rules: Unkeyed S2
TEST_P(StoreConformance, Each_unkeyed_message_has_a_lease_and_a_token_of_its_own) {
  enqueue_all("work", unkeyed, {"a", "b", "c"});

  const std::vector<Lease> leases = lease({.queue = "work", .lanes = 2});

  ASSERT_THAT(leases, SizeIs(2));
  EXPECT_EQ(bodies(leases[0]), Bodies{"a"});
  EXPECT_EQ(bodies(leases[1]), Bodies{"b"});
  EXPECT_EQ(leases[0].key, std::nullopt);
  EXPECT_NE(leases[0].token, leases[1].token);
  EXPECT_EQ(bodies(lease_one("work")), Bodies{"c"}) << "a leased one holds no other back";
  EXPECT_EQ(stats("work").leases, 3U);
}

// Each is settled by itself.
// Rules: Unkeyed S4
TEST_P(StoreConformance, Unkeyed_messages_are_settled_one_by_one) {
  enqueue_all("work", unkeyed, {"a", "b"});
  const std::vector<Lease> leases = lease_all("work");

  EXPECT_EQ(settle(leases.at(0), {acked(id_of(leases.at(1), "b"))}).error().code,
            Errc::message_not_leased);
  EXPECT_TRUE(ack(leases[1]));
  EXPECT_TRUE(retry(leases[0], 0s));
  EXPECT_EQ(bodies(lease_all("work")), Bodies{"a"});
}

// Fair is first come, first served, also without keys.
// Rules: Unkeyed S3 S12
// Behaviours: worker_queue_fifo_ordering
TEST_P(StoreConformance, Unkeyed_messages_are_served_oldest_first) {
  for (int i = 0; i < 100; ++i) {
    enqueue("work", unkeyed, std::to_string(i));
    clock().advance(1ms);
  }
  Bodies served;
  for (int i = 0; i < 10; ++i) {
    for (const Lease& lease : lease({.queue = "work", .lanes = 10})) {
      served.push_back(lease.messages.at(0).body);
    }
  }

  ASSERT_THAT(served, SizeIs(100));
  for (std::size_t i = 0; i < served.size(); ++i)
    EXPECT_EQ(served[i], std::to_string(i));
}

// The limits of a request are its client's, not each message's.
// Rules: Unkeyed S4
TEST_P(StoreConformance, Limits_count_over_all_unkeyed_messages_of_a_request) {
  enqueue_all("work", unkeyed, {Bytes(60, 'a'), Bytes(40, 'b'), "c", "d"});

  EXPECT_THAT(lease({.queue = "work", .lanes = 10, .bytes = 100}), SizeIs(2));
  EXPECT_THAT(lease({.queue = "work", .lanes = 10, .messages = 1}), SizeIs(1));
}

// Trouble with one is nobody else's.
// Rules: Unkeyed S8
TEST_P(StoreConformance, A_failed_unkeyed_message_holds_back_nothing_but_itself) {
  enqueue_all("work", unkeyed, {"a", "b"});
  ASSERT_TRUE(retry(lease_one("work"), 10s));
  enqueue("work", unkeyed, "c");

  EXPECT_EQ(bodies(lease_all("work")), (Bodies{"b", "c"}));
  clock().advance(10s);
  EXPECT_EQ(bodies(lease_all("work")), Bodies{"a"});
}

// Keyed and unkeyed work share a queue, each by its own rules.
// Rules: Unkeyed S4
TEST_P(StoreConformance, Keyed_and_unkeyed_messages_may_be_mixed) {
  enqueue("work", unkeyed, "u1");
  enqueue("work", key("k"), "k1");
  enqueue("work", unkeyed, "u2");
  enqueue("work", key("k"), "k2");

  const std::vector<Lease> leases = lease_all("work");

  ASSERT_THAT(leases, SizeIs(3));
  EXPECT_EQ(bodies(leases[0]), Bodies{"u1"});
  EXPECT_EQ(bodies(leases[1]), (Bodies{"k1", "k2"}));
  EXPECT_EQ(bodies(leases[2]), Bodies{"u2"});
}

// A consumer commits what several handlers have done at once, whatever they were given.
// Rules: Unkeyed S4
TEST_P(StoreConformance, Unkeyed_messages_and_whole_lanes_are_acked_in_one_transaction) {
  enqueue_all("work", key("k"), {"k1", "k2", "k3"});
  enqueue("work", unkeyed, "u");
  Transaction transaction;
  for (const Lease& lease : lease_all("work")) {
    Settle& settle = transaction.settles.emplace_back(Settle{.token = lease.token});
    for (const Message& message : lease.messages)
      settle.outcomes.push_back(acked(message.id));
  }
  ASSERT_THAT(transaction.settles, SizeIs(2));

  EXPECT_TRUE(apply(transaction));

  EXPECT_EQ(stats("work").acked, 4U);
  EXPECT_EQ(stats("work").live(), 0U);
}

// Nothing can follow in a lane of one, so there is nothing to pull.
// Rules: Unkeyed
TEST_P(StoreConformance, An_unkeyed_lease_gets_nothing_by_pulling) {
  enqueue_all("work", unkeyed, {"a", "b"});
  const Lease lease = lease_one("work");

  const Answer<Pulled> pulled = pull(lease);

  EXPECT_TRUE(!pulled || pulled->messages.empty());
  EXPECT_EQ(peek_one("work", "b").deliveries, 0U);
  EXPECT_TRUE(ack(lease));
}

// A label or an owner is a lane's, and there is none that could keep it.
// Rules: Unkeyed Labels Owner-hints
TEST_P(StoreConformance, An_unkeyed_lease_can_neither_be_labelled_nor_hinted) {
  enqueue("work", unkeyed, "a");
  const Lease lease = lease_one("work");
  Settle labelling = settlement(lease, {acked(id_of(lease, "a"))});
  labelling.label = "gpu";
  Settle hinting = settlement(lease, {acked(id_of(lease, "a"))});
  hinting.owner_hint = OwnerHint{.owner = "me", .valid_for = 1min, .grace = 1s};

  EXPECT_FALSE(settle(labelling));
  EXPECT_FALSE(settle(hinting));

  EXPECT_EQ(stats("work").acked, 0U) << "the whole transaction fails";
  EXPECT_TRUE(ack(lease));
}

// Whoever scales workers by the number of ready lanes must see each unkeyed message.
// Rules: Unkeyed S16
TEST_P(StoreConformance, Each_unkeyed_message_counts_as_a_ready_lane) {
  enqueue_all("work", unkeyed, {"a", "b", "c"});
  enqueue_all("work", key("k"), {"d", "e"});
  EXPECT_EQ(stats("work").lanes_ready, 4U);

  const Lease lease = lease_one("work");

  EXPECT_EQ(bodies(lease), Bodies{"a"});
  EXPECT_EQ(stats("work").lanes_ready, 3U);
}

// The id says which of many identical messages it was.
// Rules: Unkeyed S1
TEST_P(StoreConformance, Unkeyed_leases_survive_a_reopen) {
  const Ids sent = enqueue_all("work", unkeyed, {"same", "same", "same"});
  const std::vector<Lease> leases = lease({.queue = "work", .lanes = 2});
  reopen();

  EXPECT_TRUE(ack(leases.at(0)));
  EXPECT_TRUE(release(leases.at(1)));
  std::vector<MessageId> left;
  for (const PeekedMessage& message : peek("work"))
    left.push_back(message.id);
  EXPECT_EQ(left, (Ids{sent[1], sent[2]}));
}

// A person who stops a failing message wants it stopped, however it was given back.
// Rules: S9 S22
TEST_P(StoreConformance, Parking_stops_an_unkeyed_message_that_is_retried_or_released) {
  for (const Outcome::Kind kind : {Outcome::Kind::retry, Outcome::Kind::release}) {
    enqueue("jobs", unkeyed, "a");
    const Lease lease = lease_one("jobs");
    Outcome outcome = released(lease.messages.at(0).id);
    outcome.kind = kind;
    Settle settle = settlement(lease, {outcome}, Then::park);
    settle.park_reason = "stopped";
    ASSERT_TRUE(apply(together(settle)));
    EXPECT_EQ(stats("jobs").parked, 1U);
    clock().advance(1h);
    EXPECT_EQ(stats("jobs").parked, 1U) << "the end of its backoff does not resume it";
    ASSERT_TRUE(admin(ResumeLane{"jobs", {}, lease.messages.at(0).id}));
    ASSERT_TRUE(ack(lease_one("jobs")));
  }
}

}  // namespace strand::conformance
