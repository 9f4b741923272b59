// S20: the beginning of a history can be forgotten while its execution runs, and a lease brings no
// more of it than it is asked for.

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/parts.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

using Events = std::vector<Bytes>;

HistoryQuery from_event(std::uint64_t from, std::size_t limit = 1000) {
  return {.queue = "workflow", .key = "7", .execution = 0, .from = from, .limit = limit};
}

HistoryQuery of_execution(std::uint64_t execution) {
  return {.queue = "workflow", .key = "7", .execution = execution, .from = 0, .limit = 1000};
}

// Events that can be told apart.
Events numbered(std::uint64_t count) {
  Events events;
  for (std::uint64_t i = 0; i < count; ++i)
    events.push_back("event " + std::to_string(i));
  return events;
}

// What a workflow has in a snapshot need not be replayed. Positions of the rest stay good.
// Rules: S20
TEST_P(StoreConformance, A_trimmed_history_begins_later_and_is_as_long_as_before) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a", "b", "c", "d"}))));
  Execution expected = Answer(store().history(from_event(0))).value().execution;
  expected.first = 2;
  clock().advance(1s);
  ASSERT_TRUE(apply(together(trim(lease, 1, 2))));

  const History history = Answer(store().history(from_event(0))).value();
  EXPECT_EQ(history.execution, expected) << "a trim is no append: `updated_at` stays";
  EXPECT_EQ(history.first, 2U);
  EXPECT_EQ(history.events, (Events{"c", "d"}));
  const auto instances = Answer(store().instances({.queue = "workflow"})).value();
  ASSERT_THAT(instances.items, SizeIs(1));
  EXPECT_EQ(instances.items[0], expected);
}

// Whoever reads page by page asks from 0, and must not take the first page for an empty history.
// Rules: S20
TEST_P(StoreConformance, A_read_from_before_a_trim_begins_with_the_first_event_that_is_left) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, numbered(6)), trim(lease, 1, 3))));

  const History page = Answer(store().history(from_event(1, 2))).value();
  EXPECT_EQ(page.first, 3U);
  EXPECT_EQ(page.events, (Events{"event 3", "event 4"}));
  const History next = Answer(store().history(from_event(5, 2))).value();
  EXPECT_EQ(next.first, 5U);
  EXPECT_EQ(next.events, Events{"event 5"});
  EXPECT_THAT(Answer(store().history(from_event(6))).value().events, IsEmpty());
}

// A worker that has nothing cached gets what there is.
// Rules: S20
TEST_P(StoreConformance, A_lease_from_before_a_trim_brings_what_is_left) {
  enqueue("workflow", key("7"), "start");
  const Lease first = lease_one("workflow");
  ASSERT_TRUE(
      apply(together(append(first, 1, 0, numbered(5)), trim(first, 1, 3), settlement(first, {}))));

  const std::vector<Lease> leases = lease({.queue = "workflow", .history_from = 0});
  ASSERT_THAT(leases, SizeIs(1));
  ASSERT_TRUE(leases[0].history.has_value());
  EXPECT_EQ(leases[0].history->execution.first, 3U);
  EXPECT_EQ(leases[0].history->execution.length, 5U);
  EXPECT_EQ(leases[0].history->first, 3U);
  EXPECT_EQ(leases[0].history->events, (Events{"event 3", "event 4"}));
}

// The length that an append expects counts what was trimmed.
// Rules: S20
TEST_P(StoreConformance, Appends_go_on_after_a_trim_as_if_nothing_was_forgotten) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a", "b"}))));
  ASSERT_TRUE(apply(together(trim(lease, 1, 1))));

  EXPECT_EQ(apply(together(append(lease, 1, 1, {"x"}))).error().code, Errc::history_mismatch);
  EXPECT_TRUE(apply(together(append(lease, 1, 2, {"c"}))));
  const History history = Answer(store().history(from_event(0))).value();
  EXPECT_EQ(history.first, 1U);
  EXPECT_EQ(history.events, (Events{"b", "c"}));
}

// The turn that writes a snapshot forgets all that lies before it, its own events included.
// Rules: S20 S22
TEST_P(StoreConformance, A_trim_comes_after_the_appends_of_its_transaction) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a", "b"}))));
  EXPECT_TRUE(apply(together(trim(lease, 1, 4), append(lease, 1, 2, {"c"}),
                             append(lease, 1, 3, {"d", "snapshot"}), all_acked(lease))));

  const History history = Answer(store().history(from_event(0))).value();
  EXPECT_EQ(history.execution.length, 5U);
  EXPECT_EQ(history.first, 4U);
  EXPECT_EQ(history.events, Events{"snapshot"});
  EXPECT_EQ(stats("workflow").acked, 1U);
}

// All of it may go; there is still an instance, and it goes on.
// Rules: S20
TEST_P(StoreConformance, A_history_can_be_trimmed_to_its_end) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a", "b"}), trim(lease, 1, 2))));

  const History history = Answer(store().history(from_event(0))).value();
  EXPECT_EQ(history.execution.length, 2U);
  EXPECT_EQ(history.first, 2U);
  EXPECT_THAT(history.events, IsEmpty());
  EXPECT_TRUE(apply(together(append(lease, 1, 2, {"c"}))));
  EXPECT_EQ(Answer(store().history(from_event(0))).value().events, Events{"c"});
}

// What is forgotten stays so: a late trim to an earlier event is no error.
// Rules: S20
TEST_P(StoreConformance, A_trim_to_where_the_history_begins_or_before_changes_nothing) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a", "b", "c"}), trim(lease, 1, 2))));
  const History before = Answer(store().history(from_event(0))).value();

  EXPECT_TRUE(apply(together(trim(lease, 1, 2))));
  EXPECT_TRUE(apply(together(trim(lease, 1, 1), trim(lease, 1, 0))));
  EXPECT_EQ(Answer(store().history(from_event(0))).value(), before);
}

// Events that do not exist yet cannot be forgotten: who asks for it has another history in mind.
// Rules: S20
TEST_P(StoreConformance, A_trim_beyond_the_end_is_refused) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a", "b"}))));

  EXPECT_EQ(apply(together(trim(lease, 1, 3))).error().code, Errc::history_mismatch);
  EXPECT_EQ(
      apply(together(append(lease, 1, 2, {"c"}), trim(lease, 1, 4), all_acked(lease))).error().code,
      Errc::history_mismatch);
  EXPECT_EQ(Answer(store().history(from_event(0))).value().events, (Events{"a", "b"}));
  EXPECT_EQ(stats("workflow").leased, 1U) << "and with it the whole transaction";
}

// A closed history is a record of what was; only a running one is trimmed.
// Rules: S20
TEST_P(StoreConformance, Only_the_open_execution_can_be_trimmed) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  const auto refused = [&](const Transaction& transaction) {
    return apply(transaction).error().code == Errc::history_mismatch;
  };
  EXPECT_TRUE(refused(together(trim(lease, 1, 0)))) << "there is none";
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a"}, "continued"), append(lease, 2, 0, {"b"}))));
  EXPECT_TRUE(refused(together(trim(lease, 1, 1)))) << "an earlier one";
  EXPECT_TRUE(refused(together(trim(lease, 3, 0)))) << "a later one";
  EXPECT_TRUE(refused(together(append(lease, 2, 1, {"c"}, "completed"), trim(lease, 2, 1))))
      << "closed by the same transaction";
  ASSERT_TRUE(apply(together(append(lease, 2, 1, {"c"}, "completed"))));
  EXPECT_TRUE(refused(together(trim(lease, 2, 0)))) << "closed";
  EXPECT_EQ(Answer(store().history(of_execution(1))).value().events, Events{"a"});
  EXPECT_EQ(Answer(store().history(of_execution(2))).value().events, (Events{"b", "c"}));
}

// A stalled worker must not take events away from the one that replays them.
// Rules: S20 S5
TEST_P(StoreConformance, Only_the_holder_of_the_lane_trims) {
  enqueue("workflow", key("7"), "start");
  enqueue("workflow", unkeyed, "alone");
  const Lease stalled = lease_key("workflow", "7", 10s);
  ASSERT_TRUE(apply(together(append(stalled, 1, 0, {"a", "b"}))));
  clock().advance(10s);
  const Lease current = lease_key("workflow", "7");

  EXPECT_EQ(apply(together(trim(stalled, 1, 1))).error().code, Errc::lease_lost);
  EXPECT_EQ(Answer(store().history(from_event(0))).value().events, (Events{"a", "b"}));
  EXPECT_TRUE(apply(together(trim(current, 1, 1))));
  EXPECT_EQ(apply(together(trim(lease_one("workflow"), 1, 0))).error().code, Errc::invalid_argument)
      << "an unkeyed message has no history";
}

// Each execution is trimmed by itself, and what was trimmed of the last one stays known of it.
// Rules: S20
TEST_P(StoreConformance, The_next_execution_begins_with_its_first_event) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a", "b", "c"}), trim(lease, 1, 2))));
  ASSERT_TRUE(apply(together(append(lease, 1, 3, {"d"}, "continued"),
                             append(lease, 2, 0, {"e", "f"}), trim(lease, 2, 1))));

  const History earlier = Answer(store().history(of_execution(1))).value();
  EXPECT_EQ(earlier.execution.first, 2U);
  EXPECT_EQ(earlier.execution.length, 4U);
  EXPECT_EQ(earlier.events, (Events{"c", "d"}));
  const History last = Answer(store().history(of_execution(2))).value();
  EXPECT_EQ(last.execution.first, 1U);
  EXPECT_EQ(last.events, Events{"f"});
  ASSERT_TRUE(apply(together(append(lease, 2, 2, {}, "continued"), append(lease, 3, 0, {"g"}))));
  EXPECT_EQ(Answer(store().history(of_execution(3))).value().execution.first, 0U);
}

// Nothing of a trimmed instance may turn up in a new one of the same id, nor be missing there.
// Rules: S20
TEST_P(StoreConformance, A_trimmed_instance_can_be_removed_and_made_anew) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a", "b"}), trim(lease, 1, 1))));
  ASSERT_TRUE(apply(together(append(lease, 1, 2, {}, "continued"), append(lease, 2, 0, {"c"}))));
  ASSERT_TRUE(apply(together(RemoveHistory{.token = lease.token, .through_execution = 1})));
  EXPECT_EQ(Answer(store().history(of_execution(1))).error().code, Errc::not_found);

  EXPECT_TRUE(apply(together(RemoveHistory{.token = lease.token, .through_execution = 0},
                             append(lease, 1, 0, {"x", "y"}))));
  const History anew = Answer(store().history(from_event(0))).value();
  EXPECT_EQ(anew.execution.first, 0U);
  EXPECT_EQ(anew.events, (Events{"x", "y"}));
}

// A first snapshot of an old instance forgets thousands of events, and none of its neighbours'.
// Rules: S20
TEST_P(StoreConformance, Many_events_are_trimmed_at_once_and_those_of_others_stay) {
  enqueue("workflow", key("6"), "start");
  enqueue("workflow", key("7"), "start");
  enqueue("workflow", key("8"), "start");
  ASSERT_TRUE(apply(together(append(lease_key("workflow", "6"), 1, 0, numbered(3)))));
  const Lease lease = lease_key("workflow", "7");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, numbered(3), "continued"))));
  ASSERT_TRUE(apply(together(append(lease, 2, 0, numbered(1000)))));
  ASSERT_TRUE(apply(together(append(lease_key("workflow", "8"), 1, 0, numbered(3)))));
  ASSERT_TRUE(apply(together(trim(lease, 2, 10))));
  ASSERT_TRUE(apply(together(trim(lease, 2, 998))));

  EXPECT_EQ(Answer(store().history(from_event(0))).value().events,
            (Events{"event 998", "event 999"}));
  EXPECT_EQ(Answer(store().history(of_execution(1))).value().events, numbered(3));
  for (const char* other : {"6", "8"}) {
    EXPECT_EQ(Answer(store().history({.queue = "workflow", .key = other})).value().events,
              numbered(3));
  }
}

// What was trimmed must not come back from the disk, and what is left must be found there.
// Rules: S20 S1
TEST_P(StoreConformance, A_trimmed_history_goes_on_after_a_reopen) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow", 1h);
  ASSERT_TRUE(apply(together(append(lease, 1, 0, numbered(500)), trim(lease, 1, 498))));
  reopen();
  EXPECT_EQ(Answer(store().history(from_event(0))).value().events,
            (Events{"event 498", "event 499"}));
  EXPECT_EQ(apply(together(trim(lease, 1, 501))).error().code, Errc::history_mismatch);
  EXPECT_TRUE(apply(together(append(lease, 1, 500, {"more"}), trim(lease, 1, 499))));
  reopen();

  const History history = Answer(store().history(from_event(0))).value();
  EXPECT_EQ(history.first, 499U);
  EXPECT_EQ(history.events, (Events{"event 499", "more"}));
}

// --- How much a lease brings ---

// A worker that holds many instances must not be given all of their past at once.
// Rules: S20
TEST_P(StoreConformance, A_lease_brings_no_more_events_than_it_is_asked_for) {
  enqueue("workflow", key("7"), "start");
  const Lease first = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(first, 1, 0, numbered(5)), settlement(first, {}))));

  const std::vector<Lease> leases =
      lease({.queue = "workflow", .history_from = 1, .history_limit = 2});
  ASSERT_THAT(leases, SizeIs(1));
  ASSERT_TRUE(leases[0].history.has_value());
  EXPECT_EQ(leases[0].history->execution.length, 5U);
  EXPECT_EQ(leases[0].history->first, 1U);
  EXPECT_EQ(leases[0].history->events, (Events{"event 1", "event 2"}));
  EXPECT_EQ(Answer(store().history(from_event(3))).value().events, (Events{"event 3", "event 4"}))
      << "the rest";
}

// The limit is of each lane: one long history takes nothing from the others.
// Rules: S20 S4
TEST_P(StoreConformance, The_limit_of_events_is_of_each_lane) {
  for (const char* instance : {"6", "7"}) {
    enqueue("workflow", key(instance), "start");
    const Lease lease = lease_key("workflow", instance);
    ASSERT_TRUE(apply(together(append(lease, 1, 0, numbered(3)), settlement(lease, {}))));
  }
  const std::vector<Lease> leases =
      lease({.queue = "workflow", .lanes = 2, .history_from = 0, .history_limit = 2});
  ASSERT_THAT(leases, SizeIs(2));
  for (const Lease& lease : leases) {
    ASSERT_TRUE(lease.history.has_value());
    EXPECT_EQ(lease.history->events, (Events{"event 0", "event 1"}));
  }
}

// Whoever only wants to know how long it is asks for no event.
// Rules: S20
TEST_P(StoreConformance, A_lease_with_a_limit_of_no_events_still_brings_the_execution) {
  enqueue("workflow", key("7"), "start");
  const Lease first = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(first, 1, 0, numbered(3)), settlement(first, {}))));

  std::vector<Lease> leases = lease({.queue = "workflow", .history_from = 0, .history_limit = 0});
  ASSERT_THAT(leases, SizeIs(1));
  ASSERT_TRUE(leases[0].history.has_value());
  EXPECT_EQ(leases[0].history->execution.length, 3U);
  EXPECT_THAT(leases[0].history->events, IsEmpty());
  ASSERT_TRUE(apply(together(settlement(leases[0], {}))));

  leases = lease({.queue = "workflow", .history_from = ~std::uint64_t{0}, .history_limit = 2});
  ASSERT_THAT(leases, SizeIs(1));
  ASSERT_TRUE(leases[0].history.has_value());
  EXPECT_EQ(leases[0].history->execution.length, 3U) << "also from beyond its end";
  EXPECT_THAT(leases[0].history->events, IsEmpty());
}

// Of a trimmed history, the limit counts what is left.
// Rules: S20
TEST_P(StoreConformance, A_limited_lease_from_before_a_trim_brings_the_first_events_that_are_left) {
  enqueue("workflow", key("7"), "start");
  const Lease first = lease_one("workflow");
  ASSERT_TRUE(
      apply(together(append(first, 1, 0, numbered(6)), trim(first, 1, 3), settlement(first, {}))));

  const std::vector<Lease> leases =
      lease({.queue = "workflow", .history_from = 0, .history_limit = 2});
  ASSERT_THAT(leases, SizeIs(1));
  ASSERT_TRUE(leases[0].history.has_value());
  EXPECT_EQ(leases[0].history->first, 3U);
  EXPECT_EQ(leases[0].history->events, (Events{"event 3", "event 4"}));
}

}  // namespace
}  // namespace strand::conformance
