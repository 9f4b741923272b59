// S22: pause, purge, removal, and unknown queues.

#include <vector>

#include "conformance/parts.h"
#include "conformance/snapshot.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

// --- Unknown queues ---

// No one has to declare a queue before the first message.
// Rules: S22
TEST_P(StoreConformance, Sending_creates_a_queue_with_default_settings) {
  enqueue("orders", unkeyed, "a");
  EXPECT_EQ(settings("orders"), QueueSettings{});
}

// A typo in a consumer must not look like an idle queue.
// Rules: S22
TEST_P(StoreConformance, Receiving_from_and_reading_an_unknown_queue_is_not_found) {
  EXPECT_EQ(try_lease({.queue = "orders"}).error().code, Errc::not_found);
  EXPECT_EQ(try_lease({.queue = "orders", .key = "7", .seize = true}).error().code,
            Errc::not_found);
  EXPECT_EQ(Answer(store().stats("orders")).error().code, Errc::not_found);
  EXPECT_EQ(
      Answer(store().peek({.queue = "orders", .key = {}, .state = {}, .after = {}})).error().code,
      Errc::not_found);
  EXPECT_EQ(Answer(store().dead_letters({.queue = "orders", .after = {}})).error().code,
            Errc::not_found);
  EXPECT_THAT(Answer(store().queues()).value(), IsEmpty()) << "asking creates nothing";
}

// A typo in a command must show, and must not leave a queue of that name behind.
// Rules: S22
TEST_P(StoreConformance, Administration_of_an_unknown_queue_is_not_found_and_creates_nothing) {
  for (const Administration& unknown : std::vector<Administration>{
           PauseQueue{"orders"}, ResumeQueue{"orders"}, ResumeLane{"orders", "7", {}},
           PurgeQueue{"orders", {}}, RemoveQueue{"orders"}, Redrive{"orders", {MessageId{1}}, {}},
           DropDead{"orders", {MessageId{1}}}, Unsubscribe{"orders"}}) {
    expect_refused(store(), together(unknown), {.code = Errc::not_found, .word = "orders"});
  }
}

// --- Pause ---

// By any way of asking: for any lane, or for a known one.
// Rules: S22
TEST_P(StoreConformance, A_paused_queue_gives_no_leases) {
  enqueue("orders", key("7"), "a");
  pause("orders");
  EXPECT_THAT(lease({.queue = "orders"}), IsEmpty());
  EXPECT_THAT(lease({.queue = "orders", .key = "7"}), IsEmpty());

  resume("orders");
  EXPECT_EQ(drain("orders"), Bodies{"a"});
}

// Work in hand may be finished while the queue is paused; only new work is held back.
// Rules: S22
TEST_P(StoreConformance, Settle_renew_and_send_go_on_while_a_queue_is_paused) {
  enqueue("orders", key("7"), "a");
  const Lease lease = lease_one("orders");
  pause("orders");

  EXPECT_TRUE(renew(lease, 1min));
  EXPECT_TRUE(try_enqueue("orders", key("7"), "b"));
  EXPECT_TRUE(ack(lease));
  EXPECT_EQ(stats("orders").acked, 1U);
  EXPECT_EQ(stats("orders").live(), 1U);
}

// A long-lived holder would otherwise work on as if nothing were paused.
// Rules: S22
TEST_P(StoreConformance, A_holder_pulls_nothing_from_a_paused_queue) {
  enqueue("orders", key("7"), "a");
  const Lease lease = lease_one("orders");
  enqueue("orders", key("7"), "b");
  pause("orders");
  EXPECT_THAT(pull(lease).value().messages, IsEmpty());

  resume("orders");
  EXPECT_EQ(bodies(pull(lease).value()), Bodies{"b"});
}

// A pause is for workers; deadlines were promised to others.
// Rules: S22 S11 S6
TEST_P(StoreConformance, Time_goes_on_while_a_queue_is_paused) {
  enqueue("orders", key("1"), "expiring", {.ttl = 10s});
  enqueue("orders", key("2"), "leased");
  const Lease lease = lease_key("orders", "2", 10s);
  pause("orders");
  clock().advance(10s);
  EXPECT_EQ(stats("orders").expired, 1U);
  EXPECT_EQ(ack(lease).error().code, Errc::lease_lost);
}

// Two operators, one incident.
// Rules: S22
TEST_P(StoreConformance, Pausing_twice_and_resuming_twice_is_fine) {
  enqueue("orders", key("7"), "a");
  pause("orders");
  pause("orders");
  EXPECT_TRUE(Answer(store().queues()).value().at(0).paused);
  resume("orders");
  resume("orders");
  EXPECT_FALSE(Answer(store().queues()).value().at(0).paused);
  EXPECT_EQ(drain("orders"), Bodies{"a"});
}

// --- Purge ---

// What a worker has in hand is not the operator's any more; dead letters are evidence.
// Rules: S22
TEST_P(StoreConformance, A_purge_drops_what_waits_and_spares_leased_messages_and_dead_letters) {
  enqueue("orders", key("dead"), "dead");
  ASSERT_TRUE(dead(lease_one("orders")));
  enqueue("orders", key("held"), "leased");
  const Lease lease = lease_one("orders");
  enqueue("orders", key("held"), "behind the lease");
  enqueue("orders", key("ready"), "ready");
  enqueue("orders", unkeyed, "delayed", {.delay = 1h});
  enqueue("orders", key("blocked"), "backoff");
  ASSERT_TRUE(retry(lease_key("orders", "blocked"), 1h));

  const Receipt receipt = admin(PurgeQueue{"orders", {}}).value();
  EXPECT_EQ(receipt.affected, 4U);
  EXPECT_EQ(stats("orders").purged, 4U);
  EXPECT_EQ(bodies(peek("orders")), Bodies{"leased"});
  EXPECT_EQ(stats("orders").dead, 1U);
  EXPECT_TRUE(ack(lease));
}

// One customer's backlog is dropped, not everyone's.
// Rules: S22
TEST_P(StoreConformance, A_purge_of_one_lane_leaves_the_others) {
  enqueue("orders", key("7"), "a");
  enqueue("orders", key("8"), "b");
  enqueue("orders", unkeyed, "c");
  purge("orders", "7");
  EXPECT_EQ(drain("orders"), (Bodies{"b", "c"}));
}

// A purged message is gone with all that it held: its name, and the block of its lane.
// Rules: S22 S8
TEST_P(StoreConformance, A_purged_message_gives_its_name_and_its_lane_free) {
  enqueue("orders", key("7"), "blocking", {.name = "n"});
  ASSERT_TRUE(retry(lease_one("orders"), 1h));
  purge("orders", "7");

  enqueue("orders", key("7"), "next", {.name = "n"});
  EXPECT_EQ(drain("orders"), Bodies{"next"});
}

// A person parked the lane, and a person resumes it: emptying it is no answer to why it stopped.
// Rules: S22 S9
TEST_P(StoreConformance, A_parked_lane_stays_parked_when_it_is_purged) {
  enqueue("orders", key("7"), "a");
  ASSERT_TRUE(park(lease_one("orders"), "look at this"));
  purge("orders");
  enqueue("orders", key("7"), "b");
  EXPECT_EQ(peek_one("orders", "b").state, MessageState::parked);
  EXPECT_EQ(peek_one("orders", "b").park_reason, "look at this");

  resume_lane("orders", "7");
  EXPECT_EQ(drain("orders"), Bodies{"b"});
}

// --- Removal ---

// Leftovers of an old queue in a new one are ghosts: settings, names, dead letters.
// Rules: S22
TEST_P(StoreConformance, Removing_a_queue_removes_everything_of_it) {
  configure("orders", {.max_attempts = 9, .ttl = {}});
  ASSERT_TRUE(admin(Subscribe{"orders", "t", {}}));
  enqueue("orders", key("7"), "dead");
  ASSERT_TRUE(dead(lease_one("orders")));
  enqueue("orders", key("7"), "done");
  const Lease lease = lease_one("orders");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"e"}, "completed"), all_acked(lease))));
  enqueue("orders", key("7"), "live", {.name = "n"});
  ASSERT_TRUE(admin(RemoveQueue{"orders"}));
  EXPECT_THAT(Answer(store().queues()).value(), IsEmpty());
  EXPECT_EQ(try_lease({.queue = "orders"}).error().code, Errc::not_found);

  // A queue of the same name is another queue.
  enqueue("orders", key("7"), "new", {.name = "n"});
  EXPECT_EQ(settings("orders"), QueueSettings{});
  EXPECT_EQ(stats("orders").accepted, 1U);
  EXPECT_THAT(dead_letters("orders"), IsEmpty());
  EXPECT_EQ(Answer(store().history({.queue = "orders", .key = "7"})).error().code, Errc::not_found);
  EXPECT_EQ(drain("orders"), Bodies{"new"});
}

// Someone is working there; taking the floor away needs a clear word.
// Rules: S22
// Behaviours: delete_running_rejected_force_succeeds
TEST_P(StoreConformance, A_queue_with_leases_is_removed_by_force_only) {
  enqueue("orders", key("7"), "a");
  const Lease lease = lease_one("orders");
  expect_refused(store(), together(RemoveQueue{"orders", false}), {.code = Errc::in_use});
  EXPECT_TRUE(keep(lease));

  EXPECT_TRUE(admin(RemoveQueue{"orders", true}));
  EXPECT_EQ(ack(lease).error().code, Errc::lease_lost);
  EXPECT_EQ(renew(lease, 1min).error().code, Errc::lease_lost);
}

// A lease that was kept with nothing in it is a lease.
// Rules: S22
TEST_P(StoreConformance, An_empty_kept_lease_is_in_the_way_of_removing_its_queue) {
  enqueue("orders", key("7"), "a");
  ASSERT_TRUE(ack(lease_one("orders"), Then::keep));
  expect_refused(store(), together(RemoveQueue{"orders", false}), {.code = Errc::in_use});
}

// A workflow that sleeps has no lease and no message, only an open execution.
// Rules: S22 S20
TEST_P(StoreConformance, A_queue_with_open_executions_is_removed_by_force_only) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"e"}), all_acked(lease))));
  expect_refused(store(), together(RemoveQueue{"workflow", false}), {.code = Errc::in_use});
  EXPECT_TRUE(admin(RemoveQueue{"workflow", true}));
}

// The old holder's token must not reach the new queue's lane of the same key.
// Rules: S22 S5
// Behaviours: stale_activity_after_delete_recreate, orphan_activity_after_instance_force_deletion
TEST_P(StoreConformance, A_token_of_a_removed_queue_is_good_for_nothing_in_its_successor) {
  enqueue("orders", key("7"), "a");
  const Lease old = lease_one("orders");
  ASSERT_TRUE(admin(RemoveQueue{"orders", true}));
  enqueue("orders", key("7"), "b");
  const Lease current = lease_one("orders");

  EXPECT_GT(current.token.epoch(), old.token.epoch());
  EXPECT_GT(current.messages.at(0).id, old.messages.at(0).id) << "ids are never reused";
  EXPECT_EQ(settle(old, {acked(current.messages.at(0).id)}).error().code, Errc::lease_lost);
  EXPECT_TRUE(ack(current));
}

}  // namespace
}  // namespace strand::conformance
