// S6: what a lease that runs out does to its messages, and only to them.
#include "conformance/suite.h"

namespace strand::conformance {

// The worker died of one message at most, and most likely of the one it had begun with.
// Rules: S6
// Behaviours: worker_attempt_count_increments_on_lock_expiry, attempt_count_is_per_message
TEST_P(StoreConformance, Expiry_charges_only_the_oldest_unsettled_message) {
  enqueue_all("orders", key("cust-7"), {"a", "b", "c"});
  std::ignore = lease_one("orders", 30s);
  clock().advance(30s);

  EXPECT_EQ(peek_one("orders", "a").attempts, 1U);
  EXPECT_EQ(peek_one("orders", "b").attempts, 0U);
  EXPECT_EQ(peek_one("orders", "c").attempts, 0U);
}

// What was finished before the crash was not the cause of it.
// Rules: S6
TEST_P(StoreConformance, Expiry_does_not_charge_what_was_settled_before) {
  enqueue_all("orders", key("cust-7"), {"a", "b", "c"});
  const Lease lease = lease_one("orders", 30s);
  ASSERT_TRUE(settle(lease, {acked(id_of(lease, "a"))}, Then::keep));
  clock().advance(30s);

  EXPECT_EQ(peek_one("orders", "b").attempts, 1U);
  EXPECT_EQ(peek_one("orders", "c").attempts, 0U);
  EXPECT_EQ(stats("orders").acked, 1U) << "an ack is not undone by the end of its lease";
}

// Oldest means first in the lane, whichever way it came into the lease.
// Rules: S6
TEST_P(StoreConformance, Expiry_charges_the_oldest_by_place_even_if_it_was_pulled_last) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  const Lease lease = lease_one("orders", 30s);
  ASSERT_TRUE(settle(lease, {released(id_of(lease, "a"))}, Then::keep));
  ASSERT_EQ(bodies(*pull(lease)), Bodies{"a"});
  clock().advance(30s);

  EXPECT_EQ(peek_one("orders", "a").attempts, 1U);
  EXPECT_EQ(peek_one("orders", "b").attempts, 0U);
}

// A crash is no reason to wait: another worker may do better at once.
// Rules: S6 S10
TEST_P(StoreConformance, An_expired_message_comes_back_without_backoff) {
  enqueue("orders", key("cust-7"), "a");
  std::ignore = lease_one("orders", 30s);
  clock().advance(30s);

  const PeekedMessage peeked = peek_one("orders", "a");
  EXPECT_EQ(peeked.state, MessageState::ready);
  EXPECT_EQ(peeked.retry_at, std::nullopt);
  EXPECT_EQ(peeked.last_reason, "lease expired");
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"a"});
}

// Alone with its next holder, a poison message can only harm itself.
// Rules: S6
TEST_P(StoreConformance, The_lease_after_an_expired_one_carries_one_message) {
  enqueue_all("orders", key("cust-7"), {"a", "b", "c"});
  EXPECT_FALSE(lease_one("orders", 30s).isolated);
  clock().advance(30s);

  const Lease next = lease_one("orders");

  EXPECT_EQ(bodies(next), Bodies{"a"});
  EXPECT_TRUE(next.isolated);
  EXPECT_EQ(peek_one("orders", "b").state, MessageState::waiting);
}

// Asking for the lane by name is no way around it.
// Rules: S6 One-lane
TEST_P(StoreConformance, A_request_for_the_key_of_an_expired_lane_is_isolated_too) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  std::ignore = lease_one("orders", 30s);
  clock().advance(30s);

  const Lease next = lease_key("orders", "cust-7");

  EXPECT_EQ(bodies(next), Bodies{"a"});
  EXPECT_TRUE(next.isolated);
}

// A holder that could pull would have its innocent neighbours with it after all.
// Rules: S6
TEST_P(StoreConformance, An_isolated_lease_pulls_nothing) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  std::ignore = lease_one("orders", 30s);
  clock().advance(30s);
  const Lease isolated = lease_one("orders");
  enqueue("orders", key("cust-7"), "c");

  const Pulled pulled = pull(isolated).value();

  EXPECT_THAT(pulled.messages, IsEmpty());
  EXPECT_EQ(pulled.cursor, isolated.cursor);
  EXPECT_EQ(peek_one("orders", "b").state, MessageState::waiting);
}

// Suspicion is for one lease; a lane must not crawl for ever because of one crash.
// Rules: S6
TEST_P(StoreConformance, Isolation_is_over_after_one_lease) {
  enqueue_all("orders", key("a"), {"a1", "a2", "a3"});
  enqueue_all("orders", key("b"), {"b1", "b2", "b3"});
  ASSERT_THAT(lease_all("orders", 30s), SizeIs(2));
  clock().advance(30s);
  const std::vector<Lease> isolated = lease_all("orders");
  ASSERT_EQ(bodies(isolated), (Bodies{"a1", "b1"}));

  ASSERT_TRUE(ack(isolated[0]));
  ASSERT_TRUE(release(isolated[1]));

  const Lease a = lease_key("orders", "a");
  const Lease b = lease_key("orders", "b");
  EXPECT_EQ(bodies(a), (Bodies{"a2", "a3"}));
  EXPECT_FALSE(a.isolated);
  EXPECT_EQ(bodies(b), (Bodies{"b1", "b2", "b3"}));
  EXPECT_FALSE(b.isolated);
}

// A whole life of a poison message: it dies alone, and its lane goes on untouched.
// Rules: S6 S9 S10
// Behaviours: max_attempt_count_across_message_batch
TEST_P(StoreConformance, A_poison_message_never_takes_its_neighbours_along) {
  enqueue_all("orders", key("cust-7"), {"poison", "b", "c"});
  for (std::uint32_t crash = 1; crash <= 4; ++crash) {
    const Lease lease = lease_one("orders", 30s);
    ASSERT_EQ(lease.messages.at(0).body, "poison") << "crash " << crash;
    EXPECT_EQ(lease.isolated, crash > 1);
    clock().advance(30s);
  }

  const DeadLetter letter = dead_letter("orders", "poison");
  EXPECT_EQ(letter.attempts, 4U);
  EXPECT_EQ(reasons(letter.failures), std::vector<std::string>(4, "lease expired"));
  EXPECT_EQ(peek_one("orders", "b").attempts, 0U);
  EXPECT_EQ(peek_one("orders", "c").attempts, 0U);
  EXPECT_EQ(drain("orders"), (Bodies{"b", "c"}));
}

// Whether a message is exhausted is decided when it fails, not when someone next asks for it.
// Rules: S6 S9
TEST_P(StoreConformance, A_message_exhausted_by_expiry_is_dead_at_once) {
  enqueue_all("orders", key("cust-7"), {"a", "b"}, {.max_attempts = 1});
  std::ignore = lease_one("orders", 30s);
  const Time end = now() + 30s;
  clock().advance(30s);

  const DeadLetter letter = dead_letter("orders", "a");
  EXPECT_EQ(letter.reason, "lease expired");
  EXPECT_EQ(letter.failures, (std::vector<Failure>{{.at = end, .reason = "lease expired"}}));
  EXPECT_EQ(letter.dead_at, end);
  EXPECT_EQ(bodies(peek("orders")), Bodies{"b"});
}

// A workflow that kills its worker stops, and says why.
// Rules: S6 S9
TEST_P(StoreConformance, A_lane_exhausted_by_expiry_is_parked_where_the_queue_says_so) {
  QueueSettings parking;
  parking.max_attempts = 1;
  parking.on_exhausted = OnExhausted::park;
  configure("workflow", parking);
  enqueue_all("workflow", key("order-1"), {"a", "b"});
  std::ignore = lease_one("workflow", 30s);
  clock().advance(30s);

  EXPECT_THAT(lease_all("workflow"), IsEmpty());
  EXPECT_EQ(stats("workflow").parked, 2U);
  EXPECT_EQ(peek_one("workflow", "a").park_reason, "lease expired");
}

// A holder that waits with empty hands and dies has done no harm to anything.
// Rules: S6
TEST_P(StoreConformance, An_empty_lease_that_expires_charges_and_isolates_nothing) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders", 30s);
  ASSERT_TRUE(ack(lease, Then::keep));
  enqueue_all("orders", key("cust-7"), {"b", "c"});
  clock().advance(30s);

  const Lease next = lease_one("orders");

  EXPECT_EQ(bodies(next), (Bodies{"b", "c"}));
  EXPECT_FALSE(next.isolated);
  EXPECT_EQ(next.messages[0].attempts, 0U);
  EXPECT_EQ(next.messages[0].deliveries, 1U);
}

// What had not been handed over cannot have caused the crash.
// Rules: S2 S6
TEST_P(StoreConformance, A_late_arrival_is_not_charged_by_expiry) {
  enqueue("orders", key("cust-7"), "a");
  std::ignore = lease_one("orders", 30s);
  enqueue("orders", key("cust-7"), "late");
  clock().advance(30s);

  EXPECT_EQ(peek_one("orders", "a").attempts, 1U);
  EXPECT_EQ(peek_one("orders", "late").attempts, 0U);
  EXPECT_EQ(peek_one("orders", "late").deliveries, 0U);
}

// New messages of an emptied lane have nothing to do with the old crash.
// Rules: S6
TEST_P(StoreConformance, The_mark_of_isolation_goes_when_the_lane_becomes_empty) {
  enqueue("orders", key("cust-7"), "a", {.name = "a"});
  std::ignore = lease_one("orders", 30s);
  clock().advance(30s);
  ASSERT_TRUE(cancel("orders", "a"));

  enqueue_all("orders", key("cust-7"), {"b", "c"});

  const Lease next = lease_one("orders");
  EXPECT_EQ(bodies(next), (Bodies{"b", "c"}));
  EXPECT_FALSE(next.isolated);
}

// An unkeyed message is alone anyway.
// Rules: S6
TEST_P(StoreConformance, An_unkeyed_message_is_charged_by_expiry_but_never_isolated) {
  enqueue("orders", unkeyed, "a");
  std::ignore = lease_one("orders", 30s);
  clock().advance(30s);

  const Lease next = lease_one("orders");

  EXPECT_FALSE(next.isolated);
  EXPECT_EQ(next.messages[0].attempts, 1U);
  EXPECT_EQ(next.messages[0].deliveries, 2U);
}

// A worker that dies with ten lanes charges each of them by itself.
// Rules: S6
TEST_P(StoreConformance, Each_lease_of_a_request_expires_by_itself) {
  for (const char* lane : {"a", "b"})
    enqueue_all("orders", key(lane), {Bytes{lane} + "1", "2"});
  const std::vector<Lease> leases = lease_all("orders", 30s);
  ASSERT_TRUE(renew(leases.at(1), 1min));
  clock().advance(30s);

  EXPECT_EQ(peek_one("orders", "a1").attempts, 1U);
  EXPECT_EQ(peek_one("orders", "b1").attempts, 0U);
  EXPECT_TRUE(ack(leases[1]));
}

// A store may keep leases that were got together in one place: they are several all the same.
// Rules: S6
TEST_P(StoreConformance, A_renewal_of_one_unkeyed_lease_renews_no_other_of_its_request) {
  enqueue_all("orders", unkeyed, {"1", "2", "3"});
  const std::vector<Lease> leases = lease_all("orders", 30s);
  ASSERT_EQ(leases.size(), 3U);
  ASSERT_TRUE(renew(leases[1], 1min));
  clock().advance(30s);

  EXPECT_EQ(peek_one("orders", "1").attempts, 1U);
  EXPECT_EQ(peek_one("orders", "2").attempts, 0U);
  EXPECT_EQ(peek_one("orders", "3").attempts, 1U);
  EXPECT_FALSE(ack(leases[0]));
  EXPECT_TRUE(ack(leases[1]));
}

// Acks of some of them, renewals of all that are left, and the end of those.
// Rules: S6 S16
TEST_P(StoreConformance, What_is_left_of_a_request_is_renewed_and_expires) {
  enqueue_all("orders", unkeyed, {"1", "2", "3", "4"});
  const std::vector<Lease> leases = lease_all("orders", 30s);
  ASSERT_EQ(leases.size(), 4U);
  ASSERT_TRUE(ack(leases[0]));
  ASSERT_TRUE(ack(leases[2]));
  EXPECT_EQ(ack(leases[2]).error().code, Errc::lease_lost);
  clock().advance(20s);
  const std::vector<Token> left = {leases[1].token, leases[3].token};
  for (const Result<Time>& renewed : store().renew(left, 30s))
    EXPECT_TRUE(renewed);
  clock().advance(20s);
  EXPECT_EQ(store().stats("orders").value().leased, 2U);
  EXPECT_TRUE(ack(leases[3]));
  EXPECT_EQ(ack(leases[3]).error().code, Errc::lease_lost);
  clock().advance(10s);

  EXPECT_EQ(peek_one("orders", "2").attempts, 1U);
  EXPECT_EQ(store().stats("orders").value().live(), 1U);
  EXPECT_EQ(ack(leases[1]).error().code, Errc::lease_lost);
}

// An isolated lane must not cut the others of the same request short.
// Rules: S4 S6
TEST_P(StoreConformance, Isolation_concerns_one_lane_of_a_request) {
  enqueue_all("orders", key("a"), {"a1", "a2"});
  std::ignore = lease_one("orders", 30s);
  clock().advance(30s);
  enqueue_all("orders", key("b"), {"b1", "b2"});

  const std::vector<Lease> leases = lease_all("orders");

  EXPECT_EQ(bodies(leases), (Bodies{"a1", "b1", "b2"}));
}

// Two counters: how often it was handed out, and how often it failed.
// Rules: S6
// Behaviours: orchestration_attempt_count_starts_at_one, worker_attempt_count_starts_at_one,
//             orchestration_attempt_count_increments_on_refetch
TEST_P(StoreConformance, Deliveries_count_leases_and_attempts_count_failures) {
  enqueue("orders", key("cust-7"), "a");
  const auto counters = [](const Lease& lease) {
    return std::pair{lease.messages.at(0).deliveries, lease.messages.at(0).attempts};
  };

  const Lease first = lease_one("orders");
  EXPECT_EQ(counters(first), std::pair(1U, 0U));
  ASSERT_TRUE(retry(first, 0s));
  const Lease second = lease_one("orders", 30s);
  EXPECT_EQ(counters(second), std::pair(2U, 1U));
  clock().advance(30s);
  const Lease third = lease_one("orders");
  EXPECT_EQ(counters(third), std::pair(3U, 2U));
}

// A worker that is asked to stop gives its work back; that is no failure, however often it happens.
// Rules: S4 S6
// Behaviours: abandon_work_item_ignore_attempt_decrements,
//             abandon_orchestration_item_ignore_attempt_decrements,
//             ignore_attempt_never_goes_negative
TEST_P(StoreConformance, Releasing_is_never_charged) {
  enqueue("orders", key("cust-7"), "a");
  for (std::uint32_t time = 1; time <= 10; ++time) {
    const Lease lease = lease_one("orders");
    EXPECT_EQ(lease.messages[0].deliveries, time);
    EXPECT_EQ(lease.messages[0].attempts, 0U);
    ASSERT_TRUE(settle(lease, {released(lease.messages[0].id)}));
  }
}

// A restart must not wash a poison message clean, nor let it loose on its neighbours.
// Rules: S1 S6
TEST_P(StoreConformance, Charge_and_isolation_survive_a_reopen) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  std::ignore = lease_one("orders", 30s);
  clock().advance(30s);
  ASSERT_EQ(stats("orders").leases, 0U);

  reopen();

  const Lease next = lease_one("orders");
  EXPECT_EQ(bodies(next), Bodies{"a"});
  EXPECT_TRUE(next.isolated);
  EXPECT_EQ(next.messages[0].attempts, 1U);
}

// Expiry and a block meet in one lane: the block goes on, and so does the suspicion.
// Rules: S6 S8
TEST_P(StoreConformance, Expiry_does_not_lift_the_block_of_a_retried_message) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  const Lease lease = lease_one("orders", 30s);
  ASSERT_TRUE(settle(lease, {retried(id_of(lease, "a"), 1min)}, Then::keep));
  clock().advance(30s);

  EXPECT_THAT(lease_all("orders"), IsEmpty());
  EXPECT_EQ(peek_one("orders", "b").attempts, 1U);
  clock().advance(30s);
  const Lease next = lease_one("orders");
  EXPECT_EQ(bodies(next), Bodies{"a"});
  EXPECT_TRUE(next.isolated);
}

}  // namespace strand::conformance
