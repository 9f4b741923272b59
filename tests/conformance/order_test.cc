// S3 and S4: the order of a lane, and what a lease carries of it.
#include <algorithm>
#include <atomic>
#include <thread>

#include "conformance/suite.h"

namespace strand::conformance {

// First in, first out, is what a lane is for.
// Rules: S3 S4
// Behaviours: worker_queue_fifo_ordering, worker_item_immediate_visibility
// Trap: ordering an inbox by received_at DESC is LIFO
TEST_P(StoreConformance, A_lane_is_served_in_the_order_of_its_commits) {
  for (const char* body : {"a", "b", "c"}) {
    enqueue("orders", key("cust-7"), body);
    clock().advance(1s);
  }
  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"a", "b", "c"}));
}

// Messages of one transaction have one time, so only their order in it can tell them apart.
// Rules: S3
TEST_P(StoreConformance, Messages_of_one_transaction_keep_their_order) {
  const Ids sent = enqueue_all("orders", key("cust-7"), {"c", "a", "b"});
  EXPECT_TRUE(std::ranges::is_sorted(sent));
  EXPECT_EQ(ids(lease_one("orders")), sent);
}

// The place is that of the due time, also when only some of the lane fit into the lease.
// Rules: S3 S4
TEST_P(StoreConformance, A_limited_lease_takes_the_first_places_and_not_the_first_sent) {
  SendOptions later;
  later.delay = 10s;
  enqueue("orders", key("cust-7"), "sent first", later);
  clock().advance(5s);
  enqueue("orders", key("cust-7"), "due first");
  clock().advance(10s);
  const Lease first = lease({.queue = "orders", .messages = 1}).at(0);
  EXPECT_EQ(bodies(first), Bodies{"due first"});
  ASSERT_TRUE(ack(first));
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"sent first"});
}

// A database returns updated rows in the order it likes. A hundred messages make it show.
// Rules: S3 S4
// Trap: UPDATE … RETURNING has no order
TEST_P(StoreConformance, A_long_lane_comes_in_order_and_whole) {
  Bodies sent;
  for (int i = 0; i < 500; ++i)
    sent.push_back(std::to_string(i));
  for (const Bytes& body : sent)
    enqueue("orders", key("cust-7"), body);
  const Lease first = lease_one("orders");
  ASSERT_EQ(bodies(first), sent);

  // And again after each message was touched, last first.
  std::vector<Outcome> outcomes;
  for (const Message& message : first.messages)
    outcomes.push_back(retried(message.id, 0s));
  std::ranges::reverse(outcomes);
  ASSERT_TRUE(settle(first, outcomes));

  EXPECT_EQ(bodies(lease_one("orders")), sent);
}

// A lane's order is a promise about time: what is due first comes first.
// Rules: S3 S7
TEST_P(StoreConformance, What_is_due_first_comes_first_whenever_it_was_sent) {
  enqueue("orders", key("cust-7"), "due at 20", {.delay = 20s});
  enqueue("orders", key("cust-7"), "due at 10", {.delay = 10s});
  clock().advance(15s);
  enqueue("orders", key("cust-7"), "due at 15");
  clock().advance(5s);

  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"due at 10", "due at 15", "due at 20"}));
}

// Sequence breaks ties of due time, and sequence is the order of commits.
// Rules: S3
TEST_P(StoreConformance, Of_equal_due_times_the_earlier_commit_comes_first) {
  const MessageId early = enqueue("orders", key("cust-7"), "sent early", {.delay = 10s});
  clock().advance(10s);
  const MessageId late = enqueue("orders", key("cust-7"), "sent late");

  const Lease lease = lease_one("orders");

  EXPECT_EQ(ids(lease), (Ids{early, late}));
  EXPECT_EQ(lease.messages[0].due, lease.messages[1].due);
}

// A number drawn before the commit may show up after a later one. A holder that has seen message n
// must never be given one that belongs before it.
// Rules: S3
// Trap: sequence order is not commit order
TEST_P(StoreConformance, No_commit_slips_in_before_what_a_holder_has_seen) {
  constexpr int senders = 3;
  constexpr int messages = 100;
  enqueue("orders", key("cust-7"), "first");
  const Lease holder = lease_one("orders", 1h);
  Ids seen = ids(holder);
  {
    std::atomic<int> sending = senders;
    std::vector<std::jthread> threads;
    for (int i = 0; i < senders; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < messages; ++n)
          EXPECT_TRUE(try_enqueue("orders", key("cust-7"), "m"));
        --sending;
      });
    }
    Cursor cursor = holder.cursor;
    while (seen.size() <= 1 + senders * messages) {
      const bool more_to_come = sending > 0;
      const Pulled pulled = pull(holder, cursor).value();
      cursor = pulled.cursor;
      for (const Message& message : pulled.messages)
        seen.push_back(message.id);
      if (pulled.messages.empty() && !more_to_come) break;
    }
  }
  EXPECT_THAT(seen, SizeIs(1 + senders * messages));
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end()) << "a message was handed out twice";
}

// A failed message is still the oldest: what follows may depend on it.
// Rules: S3 S8
TEST_P(StoreConformance, A_retried_message_keeps_its_place) {
  enqueue_all("orders", key("cust-7"), {"a", "b", "c"});
  const Lease lease = lease_one("orders");

  ASSERT_TRUE(settle(lease, {retried(id_of(lease, "b"), 10s)}));
  clock().advance(10s);

  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"a", "b", "c"}));
}

// Giving work back must not send it to the end of the line.
// Rules: S3 S4
TEST_P(StoreConformance, A_released_message_keeps_its_place) {
  enqueue_all("orders", key("cust-7"), {"a", "b", "c"});
  const Lease lease = lease_one("orders");
  clock().advance(1s);
  enqueue("orders", key("cust-7"), "d");

  ASSERT_TRUE(settle(lease, {released(id_of(lease, "c")), acked(id_of(lease, "b"))}));

  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"a", "c", "d"}));
}

// What a crashed worker had comes back before anything newer.
// Rules: S3 S6
TEST_P(StoreConformance, An_expired_lease_gives_its_messages_back_in_their_places) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  std::ignore = lease_one("orders", 30s);
  enqueue("orders", key("cust-7"), "c");
  clock().advance(30s);

  EXPECT_EQ(bodies(peek_lane("orders", "cust-7")), (Bodies{"a", "b", "c"}));
  EXPECT_EQ(drain("orders"), (Bodies{"a", "b", "c"}));
}

// A dead letter that is given another chance goes back where it was, not behind the rest.
// Rules: S3 S10
TEST_P(StoreConformance, A_redriven_message_takes_its_old_place) {
  const Ids sent = enqueue_all("orders", key("cust-7"), {"a", "b", "c"});
  const Lease lease = lease_one("orders");
  ASSERT_TRUE(settle(lease, {made_dead(sent[1])}));
  clock().advance(1h);
  enqueue("orders", key("cust-7"), "d");

  redrive("orders", {sent[1]});

  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"a", "b", "c", "d"}));
}

// The place survives a restart, not only the message.
// Rules: S1 S3
TEST_P(StoreConformance, A_lane_has_the_same_order_after_a_reopen) {
  enqueue("orders", key("cust-7"), "c", {.delay = 20s});
  enqueue("orders", key("cust-7"), "b", {.delay = 10s});
  enqueue("orders", key("cust-7"), "a");
  ASSERT_TRUE(retry(lease_one("orders"), 15s));
  reopen();
  clock().advance(20s);
  reopen();

  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"a", "b", "c"}));
}

// A limit cuts the lane at its end, never in the middle.
// Rules: S4
TEST_P(StoreConformance, A_lease_stops_at_the_limit_of_messages) {
  enqueue_all("orders", key("cust-7"), {"a", "b", "c"});

  const Lease lease = StoreConformance::lease({.queue = "orders", .messages = 2}).at(0);

  EXPECT_EQ(bodies(lease), (Bodies{"a", "b"}));
  EXPECT_TRUE(lease.more);
  EXPECT_EQ(peek_one("orders", "c").state, MessageState::waiting);
  ASSERT_TRUE(ack(lease));
  const Lease rest = lease_one("orders");
  EXPECT_EQ(bodies(rest), Bodies{"c"});
  EXPECT_FALSE(rest.more);
}

// Taking a later message because it is smaller would break the order of the lane.
// Rules: S3 S4
TEST_P(StoreConformance, A_lease_stops_at_the_first_message_that_passes_the_limit_of_bytes) {
  enqueue_all("orders", key("cust-7"), {Bytes(40, 'a'), Bytes(70, 'b'), "c"});

  const Lease lease = StoreConformance::lease({.queue = "orders", .bytes = 100}).at(0);

  EXPECT_EQ(bodies(lease), Bodies{Bytes(40, 'a')});
  EXPECT_TRUE(lease.more);
}

// A limit is what still fits, to the byte; headers are bytes as well.
// Rules: S4
TEST_P(StoreConformance, Bytes_are_those_of_bodies_and_headers) {
  // 10 + 4 + 6 = 20 bytes each.
  for (const char lane : {'a', 'b'}) {
    const SendOptions options{.headers = {{"name", "value!"}}};
    enqueue("orders", key({lane}), Bytes(10, '1'), options);
    enqueue("orders", key({lane}), Bytes(10, '2'), options);
  }

  EXPECT_THAT(lease({.queue = "orders", .bytes = 39}).at(0).messages, SizeIs(1));
  EXPECT_THAT(lease({.queue = "orders", .bytes = 40}).at(0).messages, SizeIs(2));
}

// A message larger than every limit must not be stuck for ever.
// Rules: S4
TEST_P(StoreConformance, The_first_message_always_fits) {
  enqueue_all("orders", key("cust-7"), {Bytes(1000, 'a'), "b"});

  const Lease lease = StoreConformance::lease({.queue = "orders", .bytes = 1}).at(0);

  EXPECT_EQ(bodies(lease), Bodies{Bytes(1000, 'a')});
}

// A client that asks for ten messages has room for ten, not for ten a lane.
// Rules: S4
TEST_P(StoreConformance, Limits_are_for_all_lanes_of_the_request_together) {
  enqueue_all("orders", key("a"), {"a1", "a2"});
  enqueue_all("orders", key("b"), {"b1", "b2"});
  enqueue_all("orders", key("c"), {"c1", "c2"});

  const std::vector<Lease> leases = lease({.queue = "orders", .lanes = 10, .messages = 3});

  ASSERT_THAT(leases, SizeIs(2));
  EXPECT_EQ(bodies(leases[0]), (Bodies{"a1", "a2"}));
  EXPECT_FALSE(leases[0].more);
  EXPECT_EQ(bodies(leases[1]), Bodies{"b1"});
  EXPECT_TRUE(leases[1].more);
  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"c1", "c2"})) << "c was not asked for any more";
}

// Skipping a lane because its message is big would let small ones overtake it for ever.
// Rules: S4
TEST_P(StoreConformance, A_lane_whose_first_message_does_not_fit_ends_the_request) {
  enqueue("orders", key("a"), Bytes(60, 'a'));
  enqueue("orders", key("b"), Bytes(60, 'b'));
  enqueue("orders", key("c"), "c");

  const std::vector<Lease> leases = lease({.queue = "orders", .lanes = 10, .bytes = 100});

  EXPECT_EQ(bodies(leases), Bodies{Bytes(60, 'a')});
  const Lease next = lease_one("orders");
  EXPECT_EQ(bodies(next), Bodies{Bytes(60, 'b')}) << "b has not lost its turn";
  EXPECT_EQ(next.messages[0].deliveries, 1U) << "b was charged a delivery that never was";
}

// No more leases than asked for: each is a promise to work on it.
// Rules: S4
TEST_P(StoreConformance, A_request_gets_no_more_lanes_than_it_asked_for) {
  for (const char* lane : {"a", "b", "c"})
    enqueue("orders", key(lane), lane);

  EXPECT_EQ(bodies(lease({.queue = "orders", .lanes = 2})), (Bodies{"a", "b"}));
  EXPECT_EQ(stats("orders").leases, 2U);
  EXPECT_EQ(stats("orders").lanes_ready, 1U);
}

// A worker reports what it has finished, as it finishes it.
// Rules: S4
TEST_P(StoreConformance, Any_part_of_a_lease_may_be_settled_in_any_order) {
  enqueue_all("orders", key("cust-7"), {"a", "b", "c", "d", "e"});
  const Lease lease = lease_one("orders");

  EXPECT_TRUE(settle(lease, {acked(id_of(lease, "d"))}, Then::keep));
  EXPECT_TRUE(settle(lease, {acked(id_of(lease, "e")), acked(id_of(lease, "a"))}, Then::keep));
  EXPECT_EQ(stats("orders").leased, 2U);
  EXPECT_TRUE(settle(lease, {acked(id_of(lease, "c"))}, Then::end));

  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"b"});
  EXPECT_EQ(stats("orders").acked, 4U);
}

// Whoever is given back work at the end of a lease is not to blame for it.
// Rules: S4 S6
// Behaviours: abandon_releases_lock_immediately, abandon_work_item_releases_lock
TEST_P(StoreConformance, What_is_unsettled_at_the_end_is_released_uncharged) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  const Lease lease = lease_one("orders");

  ASSERT_TRUE(settle(lease, {acked(id_of(lease, "a"))}, Then::end));

  const Lease next = lease_one("orders");
  EXPECT_EQ(bodies(next), Bodies{"b"});
  EXPECT_EQ(next.messages[0].deliveries, 2U);
  EXPECT_EQ(next.messages[0].attempts, 0U);
  EXPECT_FALSE(next.isolated);
}

// A settle that names a stranger is a mistake in the client; guessing what it meant would hide it.
// Rules: S4
TEST_P(StoreConformance, A_settle_that_names_a_message_it_does_not_carry_fails_whole) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  const MessageId elsewhere = enqueue("orders", key("cust-8"), "elsewhere");
  const Lease lease = lease_key("orders", "cust-7");
  const Lease other = lease_key("orders", "cust-8");

  for (const MessageId stranger : {elsewhere, MessageId{0}, MessageId{UINT64_MAX}}) {
    EXPECT_EQ(settle(lease, {acked(id_of(lease, "a")), acked(stranger)}).error().code,
              Errc::message_not_leased);
  }
  EXPECT_EQ(stats("orders").acked, 0U);
  EXPECT_TRUE(ack(lease));
  EXPECT_TRUE(ack(other));
}

// Two outcomes of one message contradict each other; so do two fates of one lease.
// Rules: S4
TEST_P(StoreConformance, A_message_or_a_lease_settled_twice_in_one_transaction_is_refused) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  const Lease lease = lease_one("orders");
  const Outcome a = acked(id_of(lease, "a"));
  const Outcome b = acked(id_of(lease, "b"));

  EXPECT_EQ(settle(lease, {a, b, a}).error().code, Errc::invalid_argument);
  Transaction twice;
  twice.settles = {settlement(lease, {a}, Then::keep), settlement(lease, {b}, Then::end)};
  EXPECT_EQ(apply(twice).error().code, Errc::invalid_argument);

  EXPECT_EQ(stats("orders").acked, 0U);
  EXPECT_TRUE(ack(lease));
}

// A message can be finished once.
// Rules: S4
TEST_P(StoreConformance, A_message_settled_under_keep_is_not_in_the_lease_any_more) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  const Lease lease = lease_one("orders");
  const MessageId a = id_of(lease, "a");

  ASSERT_TRUE(settle(lease, {acked(a)}, Then::keep));

  EXPECT_EQ(settle(lease, {acked(a)}, Then::keep).error().code, Errc::message_not_leased);
  EXPECT_EQ(settle(lease, {retried(a)}, Then::keep).error().code, Errc::message_not_leased);
  EXPECT_EQ(stats("orders").acked, 1U);
  EXPECT_TRUE(settle(lease, {acked(id_of(lease, "b"))}));
}

// Work for two customers may be finished together, or not at all.
// Rules: S4 S22
TEST_P(StoreConformance, One_transaction_may_settle_several_leases) {
  enqueue("orders", key("a"), "a");
  enqueue("invoices", key("b"), "b");
  const Lease a = lease_one("orders");
  const Lease b = lease_one("invoices");

  Transaction both;
  both.settles = {settlement(a, {acked(id_of(a, "a"))}), settlement(b, {retried(id_of(b, "b"))})};
  ASSERT_TRUE(apply(both));

  EXPECT_EQ(stats("orders").acked, 1U);
  EXPECT_EQ(stats("invoices").backoff, 1U);
}

}  // namespace strand::conformance
