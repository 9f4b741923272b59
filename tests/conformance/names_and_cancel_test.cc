// Names of messages, and cancelling by name.
#include "conformance/suite.h"

namespace strand::conformance {

// A name is a handle: two messages under one name could not be told apart.
// Rules: Names
TEST_P(StoreConformance, A_name_is_unique_among_the_live_messages_of_a_queue) {
  enqueue("timers", key("a"), "first", {.delay = 1h, .name = "remind"});

  Transaction second;
  second.sends.push_back(send("timers", key("b"), "innocent"));
  second.sends.push_back(send("timers", key("b"), "second", {.name = "remind"}));
  EXPECT_EQ(apply(second).error().code, Errc::name_taken);
  EXPECT_EQ(try_enqueue("timers", unkeyed, "third", {.name = "remind"}).error().code,
            Errc::name_taken);

  EXPECT_EQ(bodies(peek("timers")), Bodies{"first"}) << "the whole transaction fails";
  EXPECT_TRUE(try_enqueue("other", key("a"), "fourth", {.name = "remind"}))
      << "another queue has names of its own";
}

// Both sides of a clash may be in one transaction.
// Rules: Names
TEST_P(StoreConformance, A_name_cannot_be_given_twice_in_one_transaction) {
  Transaction twice;
  twice.sends.push_back(send("timers", key("a"), "a", {.name = "remind"}));
  twice.sends.push_back(send("timers", key("b"), "b", {.name = "remind"}));

  EXPECT_EQ(apply(twice).error().code, Errc::name_taken);
  EXPECT_FALSE(has_queue("timers"));
}

// A name belongs to the living, however a life ends.
// Rules: Names
TEST_P(StoreConformance, A_name_is_free_once_its_message_has_ended) {
  const auto is_free = [this](const char* how) {
    EXPECT_TRUE(try_enqueue("timers", key("k"), how, {.ttl = 10s, .name = "remind"})) << how;
  };
  is_free("at first");
  ASSERT_TRUE(ack(lease_one("timers")));
  is_free("after an ack");
  ASSERT_TRUE(dead(lease_one("timers")));
  is_free("after death");
  ASSERT_TRUE(cancel("timers", "remind"));
  is_free("after a cancel");
  clock().advance(10s);
  is_free("after its TTL");
  purge("timers");
  is_free("after a purge");
}

// Nothing but the end of a message frees its name: not a lease, a retry, a park, a restart.
// Rules: Names S1
TEST_P(StoreConformance, A_name_is_taken_as_long_as_its_message_lives) {
  const auto is_taken = [this](const char* when) {
    EXPECT_EQ(try_enqueue("timers", unkeyed, when, {.name = "remind"}).error().code,
              Errc::name_taken)
        << when;
  };
  enqueue("timers", key("k"), "a", {.name = "remind"});
  const Lease first = lease_one("timers");
  is_taken("leased");
  ASSERT_TRUE(retry(first, 10s));
  is_taken("in backoff");
  reopen();
  is_taken("after a reopen");
  clock().advance(10s);
  ASSERT_TRUE(park(lease_one("timers")));
  is_taken("parked");
}

// The holder sees the name, so that it knows which of its timers fired.
// Rules: Names
TEST_P(StoreConformance, A_lease_shows_the_names_of_its_messages) {
  enqueue("timers", key("k"), "a", {.name = Bytes{"bin\0ary", 7}});
  enqueue("timers", key("k"), "b");

  const Lease lease = lease_one("timers");

  EXPECT_EQ(message_of(lease, "a").name, (Bytes{"bin\0ary", 7}));
  EXPECT_EQ(message_of(lease, "b").name, std::nullopt);
}

// To cancel is to make undone: not delivered, not dead, and counted.
// Rules: Cancel S16
// Behaviours: cancelled_activities_deleted_from_worker_queue,
// ack_work_item_none_deletes_without_enqueue
TEST_P(StoreConformance, A_cancelled_message_is_dropped) {
  enqueue("timers", key("k"), "a", {.name = "remind"});

  EXPECT_TRUE(cancel("timers", "remind"));

  EXPECT_THAT(lease_all("timers"), IsEmpty());
  EXPECT_THAT(dead_letters("timers"), IsEmpty());
  EXPECT_EQ(stats("timers").dropped, 1U);
}

// Cancelling is "make sure that it does not happen", which can be said twice.
// Rules: Cancel
// Behaviours: cancelling_nonexistent_activities_is_idempotent
TEST_P(StoreConformance, Cancelling_what_does_not_exist_does_nothing) {
  enqueue("timers", key("k"), "a", {.name = "remind"});
  ASSERT_TRUE(cancel("timers", "remind"));

  EXPECT_FALSE(cancel("timers", "remind"));
  EXPECT_FALSE(cancel("timers", "never was"));
  EXPECT_FALSE(cancel("no-such-queue", "remind"));
  EXPECT_EQ(stats("timers").dropped, 1U);
}

// Wherever it stands.
// Rules: Cancel
TEST_P(StoreConformance, A_message_can_be_cancelled_while_delayed_in_backoff_waiting_or_parked) {
  enqueue("timers", key("delayed"), "delayed", {.delay = 1h, .name = "delayed"});
  enqueue("timers", key("failed"), "backoff", {.name = "backoff"});
  enqueue("timers", key("failed"), "waiting", {.name = "waiting"});
  enqueue("timers", key("parked"), "parked", {.name = "parked"});
  ASSERT_TRUE(retry(lease_key("timers", "failed"), 1h));
  ASSERT_TRUE(park(lease_key("timers", "parked")));

  for (const char* name : {"waiting", "delayed", "backoff", "parked"}) {
    EXPECT_TRUE(cancel("timers", name)) << name;
  }

  EXPECT_EQ(stats("timers").live(), 0U);
  EXPECT_EQ(stats("timers").dropped, 4U);
}

// Cancelling an activity that runs takes the lease from under it: its result must not count.
// Rules: Cancel S5
// Behaviours: ack_work_item_fails_when_entry_deleted, renew_fails_when_entry_deleted
TEST_P(StoreConformance, Cancelling_a_leased_message_revokes_its_lease) {
  enqueue("work", unkeyed, "activity", {.name = "activity"});
  const Lease lease = lease_one("work");

  EXPECT_TRUE(cancel("work", "activity"));

  EXPECT_EQ(renew(lease, 1min).error().code, Errc::lease_lost);
  EXPECT_EQ(ack(lease).error().code, Errc::lease_lost);
  EXPECT_EQ(stats("work").leases, 0U);
  EXPECT_EQ(stats("work").dropped, 1U);
  EXPECT_EQ(stats("work").acked, 0U);
}

// The neighbours of a cancelled message are innocent: no charge, no suspicion, their old places.
// Rules: Cancel S6
TEST_P(StoreConformance, The_other_messages_of_a_revoked_lease_are_given_back_uncharged) {
  enqueue("work", key("k"), "a");
  enqueue("work", key("k"), "b", {.name = "b"});
  enqueue("work", key("k"), "c");
  const Lease revoked = lease_one("work");

  ASSERT_TRUE(cancel("work", "b"));

  EXPECT_EQ(ack(revoked).error().code, Errc::lease_lost);
  const Lease next = lease_one("work");
  EXPECT_EQ(bodies(next), (Bodies{"a", "c"}));
  EXPECT_FALSE(next.isolated);
  EXPECT_EQ(next.messages[0].attempts, 0U);
  EXPECT_GT(next.token.epoch(), revoked.token.epoch());
}

// A message that waits behind the lease is not carried by it.
// Rules: Cancel S2
TEST_P(StoreConformance, Cancelling_a_message_that_waits_behind_a_lease_leaves_the_lease_alone) {
  enqueue("work", key("k"), "a");
  const Lease lease = lease_one("work");
  enqueue("work", key("k"), "b", {.name = "b"});
  enqueue("work", key("other"), "c", {.name = "c"});

  EXPECT_TRUE(cancel("work", "b"));
  EXPECT_TRUE(cancel("work", "c"));

  EXPECT_TRUE(ack(lease));
}

// What a turn no longer needs, it drops together: all of it, in its own transaction.
// Rules: Cancel
// Behaviours: batch_cancellation_deletes_multiple_activities
TEST_P(StoreConformance, One_transaction_may_cancel_many) {
  for (const char* name : {"a", "b", "c"})
    enqueue("work", unkeyed, name, {.name = name});

  Transaction step;
  step.cancels = {{.queue = "work", .name = "a"},
                  {.queue = "work", .name = "no such"},
                  {.queue = "work", .name = "c"},
                  {.queue = "work", .name = "a"}};
  const Receipt receipt = apply(step).value();

  EXPECT_EQ(receipt.cancelled, (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(bodies(peek("work")), Bodies{"b"});
}

// A step may drop what its own lease carries; the rest of the lease goes back with it.
// Rules: Cancel S4
TEST_P(StoreConformance, A_step_may_cancel_what_its_own_lease_carries) {
  enqueue_all("work", key("k"), {"a"});
  enqueue("work", key("k"), "b", {.name = "b"});
  enqueue("work", key("k"), "c");
  const Lease lease = lease_one("work");

  Transaction step;
  step.settles.push_back(settlement(lease, {acked(id_of(lease, "a"))}, Then::keep));
  step.cancels.push_back({.queue = "work", .name = "b"});
  EXPECT_EQ(apply(step).value().cancelled, std::vector<bool>{true});

  EXPECT_EQ(stats("work").acked, 1U);
  EXPECT_EQ(ack(lease).error().code, Errc::lease_lost) << "revoked, although it was to be kept";
  EXPECT_EQ(bodies(lease_one("work")), Bodies{"c"});
}

// A cancel is part of its transaction: if that fails, the timer still fires.
// Rules: Cancel S1
TEST_P(StoreConformance, A_failed_transaction_cancels_nothing) {
  enqueue("work", unkeyed, "a", {.name = "a"});
  const Lease lease = lease_one("work");

  Transaction step;
  step.cancels.push_back({.queue = "work", .name = "a"});
  step.records.push_back({.space = "s", .key = "k", .value = "v", .expected = Version{4711}});
  ASSERT_EQ(apply(step).error().code, Errc::version_mismatch);

  EXPECT_TRUE(ack(lease)) << "the lease was not revoked either";
}

// Setting a timer anew is one step: cancels come before sends.
// Rules: Names Cancel
// Behaviours: same_activity_in_worker_items_and_cancelled_is_noop
TEST_P(StoreConformance, A_cancel_frees_the_name_for_a_send_of_the_same_transaction) {
  enqueue("timers", key("k"), "old", {.delay = 1h, .name = "remind"});

  Transaction step;
  step.cancels.push_back({.queue = "timers", .name = "remind"});
  step.sends.push_back(send("timers", key("k"), "new", {.delay = 2h, .name = "remind"}));
  ASSERT_TRUE(apply(step));

  EXPECT_EQ(bodies(peek("timers")), Bodies{"new"});
  EXPECT_EQ(try_enqueue("timers", unkeyed, "x", {.name = "remind"}).error().code, Errc::name_taken);
}

// A repeating timer renews itself in the step that handles it: settles come before sends.
// Rules: Names
TEST_P(StoreConformance, A_settle_frees_the_name_for_a_send_of_the_same_transaction) {
  enqueue("timers", key("k"), "tick", {.name = "ticker"});
  const Lease lease = lease_one("timers");

  Transaction step;
  step.settles.push_back(settlement(lease, {acked(id_of(lease, "tick"))}));
  step.sends.push_back(send("timers", key("k"), "tock", {.delay = 1s, .name = "ticker"}));
  ASSERT_TRUE(apply(step));

  EXPECT_EQ(bodies(peek("timers")), Bodies{"tock"});
}

// What a step has acked, it cannot cancel: it is done, and the count says so.
// Rules: Cancel S16
TEST_P(StoreConformance, A_message_acked_by_the_same_transaction_cannot_be_cancelled) {
  enqueue("timers", key("k"), "a", {.name = "a"});
  const Lease lease = lease_one("timers");

  Transaction step;
  step.settles.push_back(settlement(lease, {acked(id_of(lease, "a"))}));
  step.cancels.push_back({.queue = "timers", .name = "a"});
  const Receipt receipt = apply(step).value();

  EXPECT_EQ(receipt.cancelled, std::vector<bool>{false});
  EXPECT_EQ(stats("timers").acked, 1U);
  EXPECT_EQ(stats("timers").dropped, 0U);
}

// A dead letter is not live: its name does not reach it.
// Rules: Cancel S10
TEST_P(StoreConformance, A_dead_letter_cannot_be_cancelled) {
  enqueue("work", unkeyed, "a", {.name = "a"});
  ASSERT_TRUE(dead(lease_one("work")));

  EXPECT_FALSE(cancel("work", "a"));
  EXPECT_EQ(bodies(dead_letters("work")), Bodies{"a"});
}

// An empty lane after a cancel must not trip over the next message.
// Rules: Cancel S2
TEST_P(StoreConformance, A_lane_goes_on_after_its_only_message_was_cancelled) {
  enqueue("work", key("k"), "a", {.name = "a"});
  std::ignore = lease_one("work");
  ASSERT_TRUE(cancel("work", "a"));

  enqueue("work", key("k"), "b");

  EXPECT_EQ(bodies(lease_one("work")), Bodies{"b"});
}

// A timer is set anew by cancelling it and sending it again: a full queue must not be in the way.
// Rules: S19 Cancel
TEST_P(StoreConformance, A_cancel_makes_room_in_a_full_queue) {
  QueueSettings settings;
  settings.max_length = 1;
  ASSERT_TRUE(admin(ConfigureQueue{"timers", settings}));
  enqueue("timers", key("7"), "old", {.delay = 1h, .name = "timer"});
  Transaction again;
  again.cancels.push_back({"timers", "timer"});
  again.sends.push_back(send("timers", key("7"), "new", {.name = "timer"}));
  ASSERT_TRUE(apply(again));
  EXPECT_EQ(bodies(lease_one("timers")), Bodies{"new"});
}

}  // namespace strand::conformance
