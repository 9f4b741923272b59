// Labels of lanes, and consumers that ask for some of them.
#include "conformance/suite.h"

namespace strand::conformance {

// Work for machines with a GPU goes to machines with a GPU.
// Rules: Labels
// Behaviours: tags_fetches_only_matching, fetch_with_compatible_filter_returns_item,
//             fetch_with_incompatible_filter_skips_item, multi_runtime_tag_isolation
TEST_P(StoreConformance, A_request_gets_lanes_with_the_labels_it_asks_for) {
  enqueue("work", key("a"), "gpu work", {.label = "gpu"});
  enqueue("work", key("b"), "cpu work", {.label = "cpu"});

  EXPECT_THAT(lease({.queue = "work", .labels = {"fpga"}, .lanes = 10}), IsEmpty());
  EXPECT_EQ(bodies(lease({.queue = "work", .labels = {"cpu"}, .lanes = 10})), Bodies{"cpu work"});
  EXPECT_EQ(bodies(lease({.queue = "work", .labels = {"gpu"}, .lanes = 10})), Bodies{"gpu work"});
}

// A lane that does not match must be as if it were not there: not leased, not charged, not in line.
// Rules: Labels
// Behaviours: fetch_filter_does_not_lock_skipped_instances,
//             fetch_filter_skips_incompatible_selects_compatible,
//             concurrent_filtered_fetch_no_double_lock
TEST_P(StoreConformance, A_lane_passed_over_for_its_label_is_left_untouched) {
  enqueue("work", key("a"), "a", {.label = "gpu"});
  enqueue("work", key("b"), "b", {.label = "cpu"});

  EXPECT_EQ(bodies(lease({.queue = "work", .labels = {"cpu"}})), Bodies{"b"})
      << "one lane was asked for, and the first in line does not match";

  const Lease a = lease_one("work");
  EXPECT_EQ(bodies(a), Bodies{"a"});
  EXPECT_EQ(a.messages[0].deliveries, 1U);
}

// Whoever does not care gets everything.
// Rules: Labels
// Behaviours: any_filter_fetches_everything, fetch_with_filter_none_returns_any_item
TEST_P(StoreConformance, Without_labels_a_request_gets_any_lane) {
  enqueue("work", key("a"), "a", {.label = "gpu"});
  enqueue("work", key("b"), "b");
  enqueue("work", unkeyed, "c", {.label = "cpu"});

  EXPECT_EQ(bodies(lease_all("work")), (Bodies{"a", "b", "c"}));
}

// "Without a label" is something one can ask for.
// Rules: Labels
// Behaviours: default_only_fetches_untagged
TEST_P(StoreConformance, The_empty_label_stands_for_unlabelled_lanes_only) {
  enqueue("work", key("a"), "a", {.label = "gpu"});
  enqueue("work", key("b"), "b");

  EXPECT_EQ(bodies(lease({.queue = "work", .labels = {""}, .lanes = 10})), Bodies{"b"});
}

// Several labels are an "or"; the order of service goes over all of them.
// Rules: Labels S12
// Behaviours: default_and_fetches_untagged_and_matching, multi_tag_filter
TEST_P(StoreConformance, A_request_may_ask_for_several_labels) {
  enqueue("work", key("a"), "a", {.label = "gpu"});
  enqueue("work", key("b"), "b");
  enqueue("work", key("c"), "c", {.label = "cpu"});
  enqueue("work", key("d"), "d", {.label = "gpu"});

  EXPECT_EQ(bodies(lease({.queue = "work", .labels = {"gpu", ""}, .lanes = 10})),
            (Bodies{"a", "b", "d"}));
}

// A version is pinned by the first message: a later one cannot move a running instance.
// Rules: Labels
// Behaviours: pinned_version_immutable_across_ack_cycles, pinned_version_stored_via_ack_metadata
TEST_P(StoreConformance, A_lane_adopts_the_first_label_and_keeps_it) {
  enqueue("work", key("a"), "first", {.label = "checkout@1"});
  enqueue("work", key("a"), "second", {.label = "checkout@2"});

  EXPECT_THAT(lease({.queue = "work", .labels = {"checkout@2"}}), IsEmpty());
  const Lease lease = StoreConformance::lease({.queue = "work", .labels = {"checkout@1"}}).at(0);
  EXPECT_EQ(lease.label, "checkout@1");
  EXPECT_EQ(bodies(lease), (Bodies{"first", "second"}));
}

// A label may come later; then it is the whole lane's.
// Rules: Labels
TEST_P(StoreConformance, An_unlabelled_lane_adopts_a_label_from_a_later_message) {
  enqueue("work", key("a"), "first");
  enqueue("work", key("a"), "second", {.label = "gpu"});

  EXPECT_THAT(lease({.queue = "work", .labels = {""}}), IsEmpty());
  EXPECT_EQ(peek_one("work", "first").label, "gpu");
  EXPECT_EQ(bodies(lease({.queue = "work", .labels = {"gpu"}})), (Bodies{"first", "second"}));
}

// Only the holder knows when an instance may move to the next version.
// Rules: Labels
// Behaviours: provider_updates_pinned_version_when_told,
// ack_stores_pinned_version_via_metadata_update
TEST_P(StoreConformance, The_holder_may_change_the_label_of_its_lane) {
  enqueue_all("work", key("a"), {"a", "b"}, {.label = "checkout@1"});
  const Lease lease = lease_one("work");
  Settle change = settlement(lease, {acked(id_of(lease, "a"))});
  change.label = "checkout@2";
  ASSERT_TRUE(settle(change));

  EXPECT_THAT(StoreConformance::lease({.queue = "work", .labels = {"checkout@1"}}), IsEmpty());
  const Lease next = StoreConformance::lease({.queue = "work", .labels = {"checkout@2"}}).at(0);
  EXPECT_EQ(bodies(next), Bodies{"b"});
  EXPECT_EQ(next.label, "checkout@2");
}

// A label that can be set can be taken away; the lane is open to the next one then.
// Rules: Labels
TEST_P(StoreConformance, The_holder_may_remove_the_label_of_its_lane) {
  enqueue_all("work", key("a"), {"a", "b"}, {.label = "gpu"});
  const Lease lease = lease_one("work");
  Settle change = settlement(lease, {acked(id_of(lease, "a"))}, Then::keep);
  change.label = "";
  ASSERT_TRUE(settle(change));
  ASSERT_TRUE(release(lease));

  EXPECT_EQ(peek_one("work", "b").label, "");
  EXPECT_EQ(bodies(StoreConformance::lease({.queue = "work", .labels = {""}})), Bodies{"b"});
}

// A settle that says nothing about the label leaves it as it is.
// Rules: Labels
// Behaviours: tag_preserved_through_ack_orchestration_item, tag_survives_abandon_and_refetch,
//             tag_round_trip_preservation
TEST_P(StoreConformance, A_label_survives_retry_release_and_expiry) {
  enqueue("work", key("a"), "a", {.label = "gpu"});
  const auto lease_gpu = [this] {
    const Lease lease =
        StoreConformance::lease({.queue = "work", .labels = {"gpu"}, .lease = 30s}).at(0);
    EXPECT_EQ(lease.label, "gpu");
    return lease;
  };

  ASSERT_TRUE(retry(lease_gpu(), 0s));
  ASSERT_TRUE(release(lease_gpu()));
  std::ignore = lease_gpu();
  clock().advance(30s);
  std::ignore = lease_gpu();
}

// A label is for the work there is; an empty lane has no past.
// Rules: Labels
TEST_P(StoreConformance, A_label_is_forgotten_when_nothing_is_left_of_the_lane) {
  enqueue("work", key("a"), "a", {.label = "gpu"});
  ASSERT_TRUE(ack(lease_one("work")));

  enqueue("work", key("a"), "b");
  EXPECT_EQ(peek_one("work", "b").label, "");
  enqueue("work", key("a"), "c", {.label = "cpu"});
  EXPECT_EQ(peek_one("work", "c").label, "cpu");
}

// A holder that waits for more work still holds the lane, and its label with it.
// Rules: Labels
TEST_P(StoreConformance, A_label_is_kept_while_the_empty_lane_is_leased) {
  enqueue("work", key("a"), "a", {.label = "gpu"});
  const Lease lease = lease_one("work");
  ASSERT_TRUE(ack(lease, Then::keep));

  enqueue("work", key("a"), "b", {.label = "cpu"});

  EXPECT_EQ(peek_one("work", "b").label, "gpu");
}

// Parked is not gone.
// Rules: Labels S9
TEST_P(StoreConformance, A_label_is_kept_while_the_empty_lane_is_parked) {
  enqueue("work", key("a"), "a", {.label = "gpu", .name = "a"});
  ASSERT_TRUE(park(lease_one("work")));
  ASSERT_TRUE(cancel("work", "a"));

  enqueue("work", key("a"), "b", {.label = "cpu"});

  EXPECT_EQ(peek_one("work", "b").label, "gpu");
}

// A hint promises the lane to someone who asks by label.
// Rules: Labels Owner-hints
TEST_P(StoreConformance, A_label_is_kept_while_the_empty_lane_has_an_owner_hint) {
  enqueue("work", key("a"), "a", {.label = "gpu"});
  const Lease lease = lease_one("work");
  Settle hinting = settlement(lease, {acked(id_of(lease, "a"))});
  hinting.owner_hint = OwnerHint{.owner = "me", .valid_for = 10s, .grace = 1s};
  ASSERT_TRUE(settle(hinting));

  clock().advance(9s);
  enqueue("work", key("a"), "b", {.label = "cpu"});
  EXPECT_EQ(peek_one("work", "b").label, "gpu");
  ASSERT_TRUE(ack(StoreConformance::lease({.queue = "work", .owner = "me"}).at(0)));

  clock().advance(1s);
  enqueue("work", key("a"), "c", {.label = "cpu"});
  EXPECT_EQ(peek_one("work", "c").label, "cpu") << "the hint is over, and nothing else was left";
}

// A running workflow stays with the code version that it began with, even between its messages.
// Rules: Labels S20
// Behaviours: continue_as_new_execution_gets_own_pinned_version
TEST_P(StoreConformance, An_open_execution_keeps_the_label_of_its_lane) {
  enqueue("workflow", key("order-1"), "start", {.label = "checkout@1"});
  const Lease lease = lease_one("workflow");
  Transaction turn;
  turn.appends.push_back({.token = lease.token,
                          .execution = 1,
                          .expected_length = 0,
                          .events = {"started"},
                          .close = {}});
  turn.settles.push_back(settlement(lease, {acked(id_of(lease, "start"))}));
  ASSERT_TRUE(apply(turn));
  reopen();

  enqueue("workflow", key("order-1"), "event", {.label = "checkout@2"});

  EXPECT_THAT(StoreConformance::lease({.queue = "workflow", .labels = {"checkout@2"}}), IsEmpty());
  const Lease next = StoreConformance::lease({.queue = "workflow", .labels = {"checkout@1"}}).at(0);
  EXPECT_EQ(next.label, "checkout@1");

  // Closed, it pins nothing: the next execution may have a version of its own.
  Transaction last;
  last.appends.push_back({.token = next.token,
                          .execution = 1,
                          .expected_length = 1,
                          .events = {},
                          .close = "completed"});
  last.settles.push_back(settlement(next, {acked(id_of(next, "event"))}));
  ASSERT_TRUE(apply(last));
  enqueue("workflow", key("order-1"), "again", {.label = "checkout@3"});
  EXPECT_EQ(peek_one("workflow", "again").label, "checkout@3");
}

// Unkeyed messages are served by label as well: most activities are unkeyed.
// Rules: Labels Unkeyed
TEST_P(StoreConformance, An_unkeyed_message_has_the_label_it_brought) {
  enqueue("work", unkeyed, "gpu work", {.label = "gpu"});
  enqueue("work", unkeyed, "any work");
  enqueue("work", unkeyed, "more gpu work", {.label = "gpu"});

  EXPECT_EQ(bodies(lease({.queue = "work", .labels = {"gpu"}, .lanes = 10})),
            (Bodies{"gpu work", "more gpu work"}));
  const Lease rest = lease_one("work");
  EXPECT_EQ(bodies(rest), Bodies{"any work"});
  EXPECT_EQ(rest.label, "");
}

// A restart must not open a lane to workers that cannot do its work.
// Rules: Labels S1
TEST_P(StoreConformance, Labels_survive_a_reopen) {
  enqueue("work", key("a"), "a", {.label = "gpu"});
  enqueue("work", key("b"), "b", {.label = "gpu"});
  enqueue("work", unkeyed, "c", {.label = "gpu"});
  Settle change = settlement(lease_key("work", "b"), {});
  change.label = "cpu";
  ASSERT_TRUE(settle(change));

  reopen();

  EXPECT_EQ(bodies(lease({.queue = "work", .labels = {"cpu"}, .lanes = 10})), Bodies{"b"});
  EXPECT_EQ(bodies(lease({.queue = "work", .labels = {"gpu"}, .lanes = 10})), (Bodies{"a", "c"}));
}

// A request for one lane is still a request with labels.
// Rules: Labels One-lane
TEST_P(StoreConformance, A_request_for_a_key_obeys_its_labels) {
  enqueue("work", key("a"), "a", {.label = "gpu"});

  EXPECT_THAT(lease({.queue = "work", .labels = {"cpu"}, .key = "a"}), IsEmpty());
  EXPECT_EQ(bodies(lease({.queue = "work", .labels = {"gpu"}, .key = "a"})), Bodies{"a"});
}

}  // namespace strand::conformance
