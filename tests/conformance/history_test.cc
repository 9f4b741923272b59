// S20: a history is one chain, and only the holder of its lane writes it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conformance/parts.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

using Events = std::vector<Bytes>;

HistoryQuery history_of(const std::string& key, std::uint64_t execution = 0) {
  return {.queue = "workflow", .key = key, .execution = execution, .from = 0, .limit = 1000};
}

RemoveHistory removal(const Lease& lease, std::uint64_t through_execution) {
  return {.token = lease.token, .through_execution = through_execution};
}

// Events are bytes; empty ones and NULs are events too.
// Rules: S20
// Behaviours: execution_history_persistence, get_execution_info, get_instance_info
TEST_P(StoreConformance, Appended_events_are_read_back_in_order) {
  enqueue("workflow", key("7"), "start", {.label = "checkout@2"});
  const Lease lease = lease_one("workflow");
  const Time opened = now();
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a", Bytes("\0b", 2)}))));
  clock().advance(1s);
  ASSERT_TRUE(apply(together(append(lease, 1, 2, {"", "d"}))));

  const History history = Answer(store().history(history_of("7"))).value();
  EXPECT_EQ(history.events, (Events{"a", Bytes("\0b", 2), "", "d"}));
  EXPECT_EQ(history.execution, (Execution{.queue = "workflow",
                                          .key = "7",
                                          .number = 1,
                                          .length = 4,
                                          .label = "checkout@2",
                                          .outcome = {},
                                          .opened_at = opened,
                                          .updated_at = opened + 1s}));
}

// A message makes no instance: that is the workflow's own first append.
// Rules: S20
// Behaviours: no_instance_creation_on_enqueue, missing_instance_metadata
TEST_P(StoreConformance, An_instance_does_not_exist_before_its_first_append) {
  enqueue("workflow", key("7"), "start");
  EXPECT_EQ(Answer(store().history(history_of("7"))).error().code, Errc::not_found);
  EXPECT_THAT(
      Answer(store().instances({.queue = "workflow", .open = {}, .after = {}})).value().items,
      IsEmpty());
}

// Two writers that both saw length 2 cannot both be right.
// Rules: S20
// Behaviours: duplicate_event_id_rejection
TEST_P(StoreConformance, An_append_at_another_length_than_the_real_one_is_refused) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a", "b"}))));

  for (const std::uint64_t wrong : {0U, 1U, 3U}) {
    EXPECT_EQ(apply(together(append(lease, 1, wrong, {"x"}))).error().code, Errc::history_mismatch)
        << "expected length " << wrong;
  }
  EXPECT_EQ(Answer(store().history(history_of("7"))).value().events, (Events{"a", "b"}));
}

// A workflow's turn is one thing: its history and what it sent are never apart.
// Rules: S20 S22
// Behaviours: atomicity_failure_rollback
TEST_P(StoreConformance, A_mismatch_fails_the_whole_turn) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  EXPECT_EQ(apply(together(append(lease, 1, 5, {"x"}), all_acked(lease),
                           send("activities", unkeyed, "charge"), write("state", "7", "v")))
                .error()
                .code,
            Errc::history_mismatch);
  EXPECT_EQ(stats("workflow").leased, 1U);
  EXPECT_EQ(Answer(store().stats("activities")).error().code, Errc::not_found);
  EXPECT_EQ(Answer(store().record("state", "7")).value(), std::nullopt);
}

// The reason for the rule: a stalled worker wakes up after its instance has moved on.
// Rules: S20 S5
// Behaviours: lock_expiration_during_ack, ack_only_affects_locked_messages
TEST_P(StoreConformance, Two_holders_cannot_fork_a_history) {
  enqueue("workflow", key("7"), "start");
  const Lease stalled = lease_one("workflow", 10s);
  clock().advance(10s);
  const Lease current = lease_one("workflow", 10s);

  EXPECT_EQ(apply(together(append(stalled, 1, 0, {"fork"}))).error().code, Errc::lease_lost);
  EXPECT_TRUE(apply(together(append(current, 1, 0, {"real"}))));
  EXPECT_EQ(apply(together(append(stalled, 1, 1, {"fork"}))).error().code, Errc::lease_lost);
  EXPECT_EQ(Answer(store().history(history_of("7"))).value().events, Events{"real"});
}

// The last turn writes its events and gives the lane back in one transaction.
// Rules: S20 S22
// Behaviours: multi_operation_atomic_ack, lock_released_only_on_successful_ack
TEST_P(StoreConformance, A_token_may_append_and_be_settled_in_one_transaction) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  EXPECT_TRUE(apply(together(append(lease, 1, 0, {"a"}, "completed"), all_acked(lease))));
  EXPECT_EQ(stats("workflow").acked, 1U);
  EXPECT_EQ(Answer(store().history(history_of("7"))).value().execution.outcome, "completed");
  EXPECT_EQ(apply(together(append(lease, 2, 0, {"b"}))).error().code, Errc::lease_lost);
}

// Each is checked against what the one before it left.
// Rules: S20
TEST_P(StoreConformance, Appends_of_one_transaction_see_each_other) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  EXPECT_TRUE(apply(together(append(lease, 1, 0, {"a"}), append(lease, 1, 1, {"b"}))));
  EXPECT_EQ(apply(together(append(lease, 1, 2, {"c"}), append(lease, 1, 2, {"d"}))).error().code,
            Errc::history_mismatch);
  EXPECT_EQ(Answer(store().history(history_of("7"))).value().events, (Events{"a", "b"}));
}

// An outcome was reported to others: nothing may happen afterwards.
// Rules: S20
TEST_P(StoreConformance, A_closed_execution_takes_no_more_events) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a"}, "failed"))));
  EXPECT_EQ(apply(together(append(lease, 1, 1, {"b"}))).error().code, Errc::history_mismatch);
  EXPECT_EQ(apply(together(append(lease, 1, 1, {}, "completed"))).error().code,
            Errc::history_mismatch);
  EXPECT_EQ(Answer(store().history(history_of("7"))).value().execution.outcome, "failed");
}

// Executions follow each other without gaps and without overlap.
// Rules: S20
// Behaviours: execution_id_sequencing, latest_execution_detection
TEST_P(StoreConformance, Only_the_next_execution_can_be_opened_and_only_after_the_last_was_closed) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  EXPECT_EQ(apply(together(append(lease, 2, 0, {"x"}))).error().code, Errc::history_mismatch);
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a"}))));
  EXPECT_EQ(apply(together(append(lease, 2, 0, {"x"}))).error().code, Errc::history_mismatch);
  ASSERT_TRUE(apply(together(append(lease, 1, 1, {}, "completed"))));
  EXPECT_EQ(apply(together(append(lease, 3, 0, {"x"}))).error().code, Errc::history_mismatch);
  EXPECT_EQ(apply(together(append(lease, 2, 1, {"x"}))).error().code, Errc::history_mismatch);
  EXPECT_TRUE(apply(together(append(lease, 2, 0, {"b"}))));
  EXPECT_EQ(apply(together(append(lease, 1, 1, {"x"}))).error().code, Errc::history_mismatch);
}

// A workflow that runs for years keeps its history short, and loses nothing in between.
// Rules: S20
// Behaviours: continue_as_new_creates_new_execution, execution_isolation
TEST_P(StoreConformance, Continue_as_new_closes_one_execution_and_opens_the_next_at_once) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a"}))));
  EXPECT_TRUE(apply(together(append(lease, 1, 1, {"b"}, "continued"), append(lease, 2, 0, {"c"}))));

  const History last = Answer(store().history(history_of("7"))).value();
  EXPECT_EQ(last.execution.number, 2U);
  EXPECT_EQ(last.execution.outcome, std::nullopt);
  EXPECT_EQ(last.events, Events{"c"});
  const History first = Answer(store().history(history_of("7", 1))).value();
  EXPECT_EQ(first.events, (Events{"a", "b"}));
  EXPECT_EQ(first.execution.outcome, "continued");
}

// Half of a continue-as-new would be an instance without a future, or with two.
// Rules: S20
TEST_P(StoreConformance, A_continue_as_new_that_fails_in_its_second_half_leaves_the_first_open) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a"}))));
  EXPECT_EQ(apply(together(append(lease, 1, 1, {"b"}, "continued"), append(lease, 2, 1, {"c"})))
                .error()
                .code,
            Errc::history_mismatch);

  const History history = Answer(store().history(history_of("7"))).value();
  EXPECT_EQ(history.execution.number, 1U);
  EXPECT_EQ(history.execution.outcome, std::nullopt);
  EXPECT_EQ(history.events, Events{"a"});
}

// An unkeyed message has no lane, so there is no instance that it could write.
// Rules: S20
TEST_P(StoreConformance, The_token_of_an_unkeyed_message_writes_no_history) {
  enqueue("workflow", unkeyed, "a");
  const Lease lease = lease_one("workflow");
  EXPECT_EQ(apply(together(append(lease, 1, 0, {"x"}))).error().code, Errc::invalid_argument);
  EXPECT_EQ(apply(together(removal(lease, 0))).error().code, Errc::invalid_argument);
}

// Two queues may hold the same key: two instances.
// Rules: S20
// Behaviours: cross_instance_lock_isolation
TEST_P(StoreConformance, An_instance_is_a_key_in_its_queue) {
  enqueue("workflow", key("7"), "start");
  enqueue("other", key("7"), "start");
  ASSERT_TRUE(apply(together(append(lease_one("workflow"), 1, 0, {"here"}))));
  ASSERT_TRUE(apply(together(append(lease_one("other"), 1, 0, {"there"}))));
  EXPECT_EQ(Answer(store().history(history_of("7"))).value().events, Events{"here"});
}

// --- With the lease ---

// A worker with a cached instance asks for the new events only.
// Rules: S20
// Behaviours: fetch_returns_running_state_for_active_orchestration
TEST_P(StoreConformance, A_lease_brings_the_open_execution_from_the_event_asked_for) {
  enqueue("workflow", key("7"), "start");
  const Lease first = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(first, 1, 0, {"a", "b", "c"}), all_acked(first))));
  enqueue("workflow", key("7"), "event");

  const std::vector<Lease> leases = lease({.queue = "workflow", .history_from = 1});
  ASSERT_THAT(leases, SizeIs(1));
  ASSERT_TRUE(leases[0].history.has_value());
  EXPECT_EQ(leases[0].history->execution.number, 1U);
  EXPECT_EQ(leases[0].history->execution.length, 3U);
  EXPECT_EQ(leases[0].history->first, 1U);
  EXPECT_EQ(leases[0].history->events, (Events{"b", "c"}));
}

// A queue's consumer has no use for it, and it may be large.
// Rules: S20
TEST_P(StoreConformance, A_lease_brings_no_history_unless_it_is_asked_for) {
  enqueue("workflow", key("7"), "start");
  const Lease first = lease_one("workflow");
  EXPECT_FALSE(first.history.has_value());
  ASSERT_TRUE(apply(together(append(first, 1, 0, {"a"}), settlement(first, {}))));
  EXPECT_FALSE(lease_one("workflow").history.has_value());
}

// A cache that is ahead of the store is wrong, and can see that by the length.
// Rules: S20
TEST_P(StoreConformance, A_lease_that_asks_beyond_the_history_still_learns_its_length) {
  enqueue("workflow", key("7"), "start");
  const Lease first = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(first, 1, 0, {"a"}), settlement(first, {}))));

  const std::vector<Lease> leases = lease({.queue = "workflow", .history_from = 5});
  ASSERT_THAT(leases, SizeIs(1));
  ASSERT_TRUE(leases[0].history.has_value());
  EXPECT_EQ(leases[0].history->execution.length, 1U);
  EXPECT_THAT(leases[0].history->events, IsEmpty());
}

// After continue-as-new a worker must replay the new execution, not the old one.
// Rules: S20
// Behaviours: fetch_returns_terminal_state_when_orchestration_continued_as_new
TEST_P(StoreConformance, A_lease_brings_the_last_execution) {
  enqueue("workflow", key("7"), "start");
  const Lease first = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(first, 1, 0, {"old"}, "continued"),
                             append(first, 2, 0, {"new"}), settlement(first, {}))));

  const std::vector<Lease> leases = lease({.queue = "workflow", .history_from = 0});
  ASSERT_THAT(leases, SizeIs(1));
  ASSERT_TRUE(leases[0].history.has_value());
  EXPECT_EQ(leases[0].history->execution.number, 2U);
  EXPECT_EQ(leases[0].history->events, Events{"new"});
}

// --- Labels ---

// The pin is for the run: the next run may be of a newer version.
// Rules: S20
// Behaviours: continue_as_new_execution_gets_own_pinned_version
TEST_P(StoreConformance, A_lane_forgets_its_label_when_its_execution_is_closed_and_it_is_empty) {
  enqueue("workflow", key("7"), "start", {.label = "checkout@1"});
  const Lease first = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(first, 1, 0, {"a"}, "completed"), all_acked(first))));

  enqueue("workflow", key("7"), "again", {.label = "checkout@2"});
  EXPECT_EQ(lease_one("workflow").label, "checkout@2");
}

// What the open execution kept for the lane must not be lost when the execution closes first.
// Rules: S20 S22 Labels
TEST_P(StoreConformance, A_held_lane_keeps_the_label_of_an_execution_that_closes_over_a_reopen) {
  enqueue("workflow", key("7"), "start", {.label = "checkout@1"});
  const Lease start = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(start, 1, 0, {"started"}), all_acked(start))));
  enqueue("workflow", key("7"), "go on");
  const Lease last = lease_one("workflow", 1h);
  ASSERT_TRUE(
      apply(together(append(last, 1, 1, {"done"}, "completed"), settlement(last, {}, Then::keep))));
  reopen();
  const auto peeked = Answer(store().peek({.queue = "workflow"})).value();
  EXPECT_EQ(peeked.items.at(0).label, "checkout@1");
}

// Migrating a running instance is its worker's decision, with the turn that makes it.
// Rules: S20
// Behaviours: provider_updates_pinned_version_when_told
TEST_P(StoreConformance, The_holder_changes_the_label_of_a_running_instance) {
  enqueue("workflow", key("7"), "start", {.label = "checkout@1"});
  const Lease first = lease_one("workflow");
  Settle upgrade = all_acked(first);
  upgrade.label = "checkout@2";
  ASSERT_TRUE(apply(together(append(first, 1, 0, {"a"}), upgrade)));
  EXPECT_EQ(Answer(store().history(history_of("7"))).value().execution.label, "checkout@2");

  enqueue("workflow", key("7"), "event");
  EXPECT_EQ(lease_one("workflow").label, "checkout@2");
}

// --- Removal and termination ---

// A workflow that continues as new for ever must be prunable while it runs.
// Rules: S20
// Behaviours: prune_options_combinations, prune_safety
TEST_P(StoreConformance, Old_executions_can_be_removed_and_the_last_stays) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"1"}, "continued"),
                             append(lease, 2, 0, {"2"}, "continued"), append(lease, 3, 0, {"3"}))));

  EXPECT_TRUE(apply(together(removal(lease, 1))));
  EXPECT_EQ(Answer(store().history(history_of("7", 1))).error().code, Errc::not_found);
  EXPECT_EQ(Answer(store().history(history_of("7", 2))).value().events, Events{"2"});
  EXPECT_EQ(Answer(store().history(history_of("7"))).value().events, Events{"3"});
  EXPECT_TRUE(apply(together(append(lease, 3, 1, {"more"})))) << "numbers go on as before";
}

// Pruning must not cut off the execution that runs.
// Rules: S20
// Behaviours: kv_prune_current_execution_protected, prune_bulk_includes_running_instances
TEST_P(StoreConformance, A_removal_through_the_last_execution_is_refused) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"1"}, "continued"), append(lease, 2, 0, {"2"}))));
  EXPECT_EQ(apply(together(removal(lease, 2))).error().code, Errc::history_mismatch);
  EXPECT_EQ(apply(together(removal(lease, 3))).error().code, Errc::history_mismatch);
  EXPECT_EQ(Answer(store().history(history_of("7", 1))).value().events, Events{"1"});
}

// Deleted means deleted: nothing of it may turn up in a new one of the same id.
// Rules: S20
// Behaviours: delete_terminal_instances, fetch_returns_missing_state_when_instance_deleted
TEST_P(StoreConformance, A_removed_instance_does_not_exist_and_can_be_made_anew) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"1"}, "continued"), append(lease, 2, 0, {"2"}))));
  ASSERT_TRUE(apply(together(removal(lease, 0))));
  EXPECT_EQ(Answer(store().history(history_of("7"))).error().code, Errc::not_found);
  EXPECT_EQ(Answer(store().history(history_of("7", 1))).error().code, Errc::not_found);

  EXPECT_TRUE(apply(together(append(lease, 1, 0, {"new"}))));
  EXPECT_EQ(Answer(store().history(history_of("7"))).value().events, Events{"new"});
}

// Replacing an instance is one transaction: removals come before appends.
// Rules: S20
TEST_P(StoreConformance, An_instance_is_replaced_in_one_transaction) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"old", "older"}))));
  EXPECT_TRUE(apply(together(append(lease, 1, 0, {"new"}), removal(lease, 0))));
  EXPECT_EQ(Answer(store().history(history_of("7"))).value().events, Events{"new"});
}

// Terminate: an operator takes the lane from its worker, closes the execution, drops its messages.
// Rules: S20 S5
// Behaviours: force_delete_prevents_ack_recreation, delete_cleans_queues_and_locks
TEST_P(StoreConformance, A_seized_instance_can_be_terminated_and_its_worker_cannot_revive_it) {
  enqueue("workflow", key("7"), "start");
  const Lease worker = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(worker, 1, 0, {"a"}))));

  const Lease operators = seize("workflow", "7");
  EXPECT_TRUE(apply(together(append(operators, 1, 1, {}, "terminated"), all_acked(operators))));

  EXPECT_EQ(apply(together(append(worker, 1, 1, {"b"}))).error().code, Errc::lease_lost);
  const History history = Answer(store().history(history_of("7"))).value();
  EXPECT_EQ(history.execution.outcome, "terminated");
  EXPECT_EQ(history.events, Events{"a"});
}

// An idle instance has no message in its lane; it can be seized all the same.
// Rules: S20
TEST_P(StoreConformance, An_instance_without_messages_can_be_seized_and_closed) {
  enqueue("workflow", key("7"), "start");
  const Lease worker = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(worker, 1, 0, {"a"}), all_acked(worker))));

  const Lease operators = seize("workflow", "7");
  EXPECT_THAT(operators.messages, IsEmpty());
  EXPECT_TRUE(
      apply(together(append(operators, 1, 1, {}, "terminated"), settlement(operators, {}))));
  EXPECT_EQ(Answer(store().history(history_of("7"))).value().execution.outcome, "terminated");
}

}  // namespace
}  // namespace strand::conformance
