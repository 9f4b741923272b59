// Owner hints: a lane waits a moment for the one who has its state in memory.
#include "conformance/suite.h"

namespace strand::conformance {

namespace {

OwnerHint hint(std::string owner, Duration valid_for, Duration grace = 1s) {
  return {.owner = std::move(owner), .valid_for = valid_for, .grace = grace};
}

// Acks all of the lease and leaves the hint.
Settle done_with(const Lease& lease, OwnerHint owner_hint, Then then = Then::end) {
  std::vector<Outcome> outcomes;
  for (const Message& message : lease.messages)
    outcomes.push_back(acked(message.id));
  Settle settle = settlement(lease, std::move(outcomes), then);
  settle.owner_hint = std::move(owner_hint);
  return settle;
}

LeaseRequest by(std::string owner) {
  return {.queue = "workflow", .owner = std::move(owner), .lanes = 10};
}

}  // namespace

// Whoever has the instance in its cache should have the first chance at its next message.
// Rules: Owner-hints
// Behaviours: session_affinity_same_worker
TEST_P(StoreConformance, The_hinted_owner_finds_the_lane_at_once) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(settle(done_with(lease(by("me")).at(0), hint("me", 1min))));

  enqueue("workflow", key("order-1"), "b");

  EXPECT_EQ(bodies(lease(by("me"))), Bodies{"b"});
}

// Others wait for the grace, to the millisecond, and no longer: a dead owner costs a second.
// Rules: Owner-hints
// Behaviours: session_affinity_blocks_other_worker, session_takeover_after_lock_expiry
TEST_P(StoreConformance, Others_find_a_hinted_lane_after_the_grace) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(settle(done_with(lease(by("me")).at(0), hint("me", 1min, 700ms))));
  enqueue("workflow", key("order-1"), "b");

  EXPECT_THAT(lease(by("other")), IsEmpty());
  EXPECT_THAT(lease(by("")), IsEmpty()) << "who gives no name is another, too";
  clock().advance(699ms);
  EXPECT_THAT(lease(by("other")), IsEmpty());
  clock().advance(1ms);
  EXPECT_EQ(bodies(lease(by("other"))), Bodies{"b"});
}

// The grace begins when there is something to do, not when the hint was given.
// Rules: Owner-hints
TEST_P(StoreConformance, The_grace_counts_from_when_the_lane_became_ready) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(settle(done_with(lease(by("me")).at(0), hint("me", 1min))));
  clock().advance(30s);
  enqueue("workflow", key("order-1"), "b");

  clock().advance(999ms);
  EXPECT_THAT(lease(by("other")), IsEmpty());
  clock().advance(1ms);
  EXPECT_EQ(bodies(lease(by("other"))), Bodies{"b"});
}

// A lane that is ready the moment its lease ends has its grace from then on.
// Rules: Owner-hints
TEST_P(StoreConformance, A_lane_released_with_a_hint_has_its_grace) {
  enqueue("workflow", key("order-1"), "a");
  clock().advance(10s);
  const Lease lease = lease_one("workflow");
  Settle giving_back = settlement(lease, {});
  giving_back.owner_hint = hint("me", 1min);
  ASSERT_TRUE(settle(giving_back));

  EXPECT_THAT(StoreConformance::lease(by("other")), IsEmpty());
  clock().advance(1s);
  EXPECT_EQ(bodies(StoreConformance::lease(by("other"))), Bodies{"a"});
}

// A hint is for a while.
// Rules: Owner-hints
// Behaviours: session_claimable_after_lock_expiry, both_locks_expire_different_worker_claims
TEST_P(StoreConformance, After_its_end_a_hint_holds_nobody_back) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(settle(done_with(lease(by("me")).at(0), hint("me", 10s))));
  clock().advance(9'500ms);
  enqueue("workflow", key("order-1"), "b");

  EXPECT_THAT(lease(by("other")), IsEmpty());
  clock().advance(500ms);
  EXPECT_EQ(bodies(lease(by("other"))), Bodies{"b"}) << "the grace of 1 s is not over, the hint is";
}

// An owner that shuts down sets its lanes free.
// Rules: Owner-hints
TEST_P(StoreConformance, A_hint_that_is_valid_for_nothing_ends_the_one_there_is) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(settle(done_with(lease(by("me")).at(0), hint("me", 1min))));
  enqueue("workflow", key("order-1"), "b");
  const Lease last = lease(by("me")).at(0);
  ASSERT_TRUE(settle(done_with(last, hint("me", 0s, 0s))));

  enqueue("workflow", key("order-1"), "c");

  EXPECT_EQ(bodies(lease(by("other"))), Bodies{"c"});
}

// The last word counts: a lane has one owner at most.
// Rules: Owner-hints
// Behaviours: original_worker_reclaims_expired_session,
// session_lock_expires_new_owner_gets_redelivery
TEST_P(StoreConformance, A_new_hint_replaces_the_old_one) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(settle(done_with(lease(by("me")).at(0), hint("me", 1h))));
  enqueue("workflow", key("order-1"), "b");
  clock().advance(1s);
  ASSERT_TRUE(settle(done_with(lease(by("other")).at(0), hint("other", 1h))));

  enqueue("workflow", key("order-1"), "c");

  EXPECT_THAT(lease(by("me")), IsEmpty());
  EXPECT_EQ(bodies(lease(by("other"))), Bodies{"c"});
}

// A settle that says nothing about owners leaves the hint: it belongs to the lane.
// Rules: Owner-hints
TEST_P(StoreConformance, A_hint_stays_when_others_settle_without_one) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(settle(done_with(lease(by("me")).at(0), hint("me", 1h))));
  enqueue("workflow", key("order-1"), "b");
  clock().advance(1s);
  ASSERT_TRUE(ack(lease(by("other")).at(0)));

  enqueue("workflow", key("order-1"), "c");

  EXPECT_THAT(lease(by("other")), IsEmpty());
  EXPECT_EQ(bodies(lease(by("me"))), Bodies{"c"});
}

// Asking by name is no way around it.
// Rules: Owner-hints One-lane
TEST_P(StoreConformance, A_request_for_the_key_waits_for_the_grace_as_well) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(settle(done_with(lease(by("me")).at(0), hint("me", 1min))));
  enqueue("workflow", key("order-1"), "b");
  const LeaseRequest request{.queue = "workflow", .key = "order-1", .owner = "other"};

  EXPECT_THAT(lease(request), IsEmpty());
  clock().advance(1s);
  EXPECT_EQ(bodies(lease(request)), Bodies{"b"});
}

// A hint gives a head start, never a second holder.
// Rules: Owner-hints S2
// Behaviours: shared_worker_id_any_caller_can_fetch_owned_session,
// concurrent_session_claim_only_one_wins
TEST_P(StoreConformance, A_hint_does_not_help_against_a_lease) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(settle(done_with(lease(by("me")).at(0), hint("me", 1min))));
  enqueue("workflow", key("order-1"), "b");
  const Lease holder = lease(by("me")).at(0);
  enqueue("workflow", key("order-1"), "c");

  EXPECT_THAT(lease(by("me")), IsEmpty());
  EXPECT_TRUE(ack(holder));
}

// A cache is as good for the second try as for the first.
// Rules: Owner-hints S8
// Behaviours: abandoned_session_item_retryable, abandoned_session_item_ignore_attempt
TEST_P(StoreConformance, A_message_given_back_with_a_hint_comes_to_its_owner_first) {
  for (const char* lane : {"retried", "released"})
    enqueue("workflow", key(lane), lane);
  Settle retrying = settlement(lease_key("workflow", "retried"), {});
  retrying.outcomes = {retried(peek_one("workflow", "retried").id, 0s)};
  retrying.owner_hint = hint("me", 1min);
  Settle releasing = settlement(lease_key("workflow", "released"), {});
  releasing.owner_hint = hint("me", 1min);
  ASSERT_TRUE(settle(retrying));
  ASSERT_TRUE(settle(releasing));

  EXPECT_THAT(lease(by("other")), IsEmpty());
  EXPECT_EQ(bodies(lease(by("me"))), (Bodies{"retried", "released"}));
}

// The lease and the hint are two clocks: the lease is what counts for an ack.
// Rules: Owner-hints S5
// Behaviours: session_lock_expires_activity_lock_valid_ack_succeeds
TEST_P(StoreConformance, A_lease_outlives_the_hint_under_which_it_was_taken) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(settle(done_with(lease(by("me")).at(0), hint("me", 10s))));
  enqueue("workflow", key("order-1"), "b");
  const Lease holder = lease(by("me")).at(0);

  clock().advance(15s);

  EXPECT_THAT(lease(by("other")), IsEmpty());
  EXPECT_TRUE(ack(holder));
  enqueue("workflow", key("order-1"), "c");
  EXPECT_EQ(bodies(lease(by("me"))), Bodies{"c"}) << "without a hint it is anybody's, also mine";
}

// An owner that let its lease run out may only have been slow: it still has the cache.
// Rules: Owner-hints S6
// Behaviours: activity_lock_expires_session_lock_valid_same_worker_refetches,
//             session_lock_expires_same_worker_reacquires
TEST_P(StoreConformance, A_hint_outlives_the_lease_of_its_owner) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(settle(done_with(lease(by("me")).at(0), hint("me", 10min))));
  enqueue("workflow", key("order-1"), "b");
  ASSERT_THAT(lease(by("me")), SizeIs(1));

  clock().advance(30s);

  EXPECT_THAT(lease(by("other")), IsEmpty());
  EXPECT_EQ(bodies(lease(by("me"))), Bodies{"b"});
}

// An owner that stays keeps its lanes by saying so with each turn.
// Rules: Owner-hints
// Behaviours: session_lock_renewal_extends_past_original_timeout
TEST_P(StoreConformance, A_hint_given_again_lasts_from_then_on) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(settle(done_with(lease(by("me")).at(0), hint("me", 10s))));
  clock().advance(9s);
  enqueue("workflow", key("order-1"), "b");
  ASSERT_TRUE(settle(done_with(lease(by("me")).at(0), hint("me", 10s))));
  clock().advance(9s);
  enqueue("workflow", key("order-1"), "c");

  EXPECT_THAT(lease(by("other")), IsEmpty());
  EXPECT_EQ(bodies(lease(by("me"))), Bodies{"c"});
}

// Lanes without a hint are anybody's, and a hinted one before them is no obstacle.
// Rules: Owner-hints
// Behaviours: mixed_session_and_non_session_items, non_session_items_fetchable_by_any_worker,
//             different_sessions_different_workers, session_item_claimable_when_no_session,
//             non_session_items_returned_with_session_config
TEST_P(StoreConformance, A_hinted_lane_does_not_hold_back_the_lanes_behind_it) {
  for (const char* lane : {"mine", "theirs"})
    enqueue("workflow", key(lane), lane);
  for (const Lease& lease : lease(by(""))) {
    ASSERT_TRUE(settle(done_with(lease, hint(*lease.key == "mine" ? "me" : "them", 1min))));
  }
  enqueue("workflow", key("theirs"), "theirs");
  enqueue("workflow", key("mine"), "mine");
  enqueue("workflow", key("free"), "free");
  enqueue("workflow", unkeyed, "unkeyed");

  EXPECT_EQ(bodies(lease({.queue = "workflow", .owner = "nobody"})), Bodies{"free"});
  EXPECT_EQ(bodies(lease(by("me"))), (Bodies{"mine", "unkeyed"}));
  EXPECT_EQ(bodies(lease(by("them"))), Bodies{"theirs"});
}

// Whoever waits as "other" must be told when the grace is over, or it sleeps on.
// Rules: Owner-hints S17
TEST_P(StoreConformance, The_end_of_the_grace_wakes_those_who_watch_the_queue) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(settle(done_with(lease(by("me")).at(0), hint("me", 1min))));
  enqueue("workflow", key("order-1"), "b");
  Calls calls;
  const Watch watch = store().watch(WatchQueue{"workflow"}, calls.callback());
  const std::uint64_t seen = calls.count();
  ASSERT_THAT(lease(by("other")), IsEmpty());

  clock().advance(1s);

  EXPECT_TRUE(calls.more_than(seen));
  EXPECT_EQ(bodies(lease(by("other"))), Bodies{"b"});
}

// A hint may be given while the work goes on; it counts once the lease is over.
// Rules: Owner-hints
TEST_P(StoreConformance, A_hint_may_be_given_with_a_settle_that_keeps_the_lease) {
  enqueue("workflow", key("order-1"), "a");
  const Lease lease = StoreConformance::lease(by("me")).at(0);
  ASSERT_TRUE(settle(done_with(lease, hint("me", 1min), Then::keep)));
  enqueue("workflow", key("order-1"), "b");
  ASSERT_TRUE(release(lease));

  EXPECT_THAT(StoreConformance::lease(by("other")), IsEmpty());
  EXPECT_EQ(bodies(StoreConformance::lease(by("me"))), Bodies{"b"});
}

// A second is the most that a lost owner may cost.
// Rules: Owner-hints S19
TEST_P(StoreConformance, A_grace_beyond_its_limit_is_refused) {
  enqueue("workflow", key("order-1"), "a");
  const Lease lease = lease_one("workflow");

  EXPECT_EQ(settle(done_with(lease, hint("me", 1min, 1'001ms))).error().code, Errc::limit_exceeded);
  EXPECT_TRUE(settle(done_with(lease, hint("me", 1min, 1'000ms))));
}

// After a restart the caches are still warm: they are in the clients.
// Rules: Owner-hints S1
TEST_P(StoreConformance, A_hint_survives_a_reopen) {
  enqueue("workflow", key("order-1"), "a");
  ASSERT_TRUE(settle(done_with(lease(by("me")).at(0), hint("me", 1min))));
  reopen();
  enqueue("workflow", key("order-1"), "b");

  EXPECT_THAT(lease(by("other")), IsEmpty());
  EXPECT_EQ(bodies(lease(by("me"))), Bodies{"b"});
}

}  // namespace strand::conformance
