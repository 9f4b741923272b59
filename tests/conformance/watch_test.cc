// Watches: who waits is called, by commits and by the store's own timer.
//
// A watch is made after what it must not see, because only commits after watch() returned count:
// then any call is the one that the test waits for, or a spurious one, and none is a lost one.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "conformance/parts.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

// Waiting without polling rests on this.
// Rules: S17 Watch
// Behaviours: worker_item_immediate_visibility
TEST_P(StoreConformance, A_watch_of_a_queue_is_called_when_a_message_arrives) {
  configure("orders", {});
  Calls calls;
  const Watch watch = store().watch(WatchQueue{"orders"}, calls.callback());
  enqueue("orders", key("7"), "a");
  EXPECT_TRUE(calls.more_than(0));
}

// A consumer that starts before its producer waits for a queue that is not there yet.
// Rules: S17 S22 Watch
TEST_P(StoreConformance, A_queue_that_does_not_exist_yet_can_be_watched) {
  Calls calls;
  const Watch watch = store().watch(WatchQueue{"orders"}, calls.callback());
  EXPECT_THAT(Answer(store().queues()).value(), IsEmpty()) << "watching creates nothing";
  enqueue("orders", key("7"), "a");
  EXPECT_TRUE(calls.more_than(0));
}

// Many workers wait for one queue.
// Rules: S17 Watch
TEST_P(StoreConformance, Every_watch_of_a_queue_is_called) {
  Calls first;
  Calls second;
  const Watch one = store().watch(WatchQueue{"orders"}, first.callback());
  const Watch two = store().watch(WatchQueue{"orders"}, second.callback());
  enqueue("orders", key("7"), "a");
  EXPECT_TRUE(first.more_than(0));
  EXPECT_TRUE(second.more_than(0));
}

// One call is not the end of it.
// Rules: S17 Watch
TEST_P(StoreConformance, A_watch_is_called_again_for_what_comes_later) {
  Calls calls;
  const Watch watch = store().watch(WatchQueue{"orders"}, calls.callback());
  std::uint64_t seen = 0;
  for (int i = 0; i < 5; ++i) {
    enqueue("orders", unkeyed, "a");
    ASSERT_TRUE(calls.more_than(seen)) << "message " << i;
    // The call may have been for this message or the one before: count from here.
    EXPECT_EQ(drain("orders"), Bodies{"a"});
    seen = calls.count();
  }
}

// --- By the store's own timer: nobody calls anything but the clock ---

// Nobody commits anything when a delay ends: only the store's own timer can tell.
// Rules: S17 S7 Watch
// Behaviours: timer_delayed_visibility
TEST_P(StoreConformance, A_delayed_message_calls_the_watch_when_it_is_due) {
  enqueue("orders", key("7"), "a", {.delay = 10s});
  Calls calls;
  const Watch watch = store().watch(WatchQueue{"orders"}, calls.callback());
  clock().advance(10s);
  EXPECT_TRUE(calls.more_than(0));
  EXPECT_EQ(drain("orders"), Bodies{"a"});
}

// A timer set for the far one must be reset for the near one.
// Rules: S17 Watch
TEST_P(StoreConformance, A_nearer_due_time_than_the_last_one_is_not_missed) {
  enqueue("orders", key("1"), "far", {.delay = 1h});
  enqueue("orders", key("2"), "near", {.delay = 1s});
  Calls calls;
  const Watch watch = store().watch(WatchQueue{"orders"}, calls.callback());
  clock().advance(1s);
  EXPECT_TRUE(calls.more_than(0));
  EXPECT_EQ(drain("orders"), Bodies{"near"});
}

// The worker died; another one waits. Nobody else would tell it.
// Rules: S17 S6 Watch
// Behaviours: lock_expires_after_timeout
TEST_P(StoreConformance, A_lease_that_runs_out_calls_the_watch) {
  enqueue("orders", key("7"), "a");
  ASSERT_EQ(bodies(lease_one("orders", 10s)), Bodies{"a"});
  Calls calls;
  const Watch watch = store().watch(WatchQueue{"orders"}, calls.callback());
  clock().advance(10s);
  EXPECT_TRUE(calls.more_than(0));
  EXPECT_EQ(drain("orders"), Bodies{"a"});
}

// Something became ready because something else ended.
// Rules: S17 S8 S11 Watch
TEST_P(StoreConformance, The_TTL_of_a_blocking_message_calls_the_watch) {
  enqueue("orders", key("7"), "blocking", {.ttl = 10s});
  enqueue("orders", key("7"), "behind");
  ASSERT_TRUE(retry(lease_one("orders"), 1h));
  Calls calls;
  const Watch watch = store().watch(WatchQueue{"orders"}, calls.callback());
  clock().advance(10s);
  EXPECT_TRUE(calls.more_than(0));
  EXPECT_EQ(drain("orders"), Bodies{"behind"});
}

// --- By commits that make a lane ready without sending to it ---

// It was ready for nobody else until now.
// Rules: S17 Watch
// Behaviours: abandon_releases_lock_immediately
TEST_P(StoreConformance, A_lease_given_back_calls_the_watch) {
  enqueue("orders", key("7"), "a");
  const Lease lease = lease_one("orders");
  Calls calls;
  const Watch watch = store().watch(WatchQueue{"orders"}, calls.callback());
  ASSERT_TRUE(release(lease));
  EXPECT_TRUE(calls.more_than(0));
}

// The message arrived while the lane was held: its wake-up is due when the holder lets go.
// Rules: S17 S2 Watch
// Behaviours: completions_arriving_during_lock_blocked
TEST_P(StoreConformance, An_ack_calls_the_watch_when_messages_wait_behind_it) {
  enqueue("orders", key("7"), "a");
  const Lease lease = lease_one("orders");
  enqueue("orders", key("7"), "b");
  Calls calls;
  const Watch watch = store().watch(WatchQueue{"orders"}, calls.callback());
  ASSERT_TRUE(ack(lease));
  EXPECT_TRUE(calls.more_than(0));
}

// Each of these is a person's action after which workers should wake up at once.
// Rules: S17 S22 S10 Watch
TEST_P(StoreConformance, Administration_that_makes_lanes_ready_calls_the_watch) {
  enqueue("paused", key("7"), "a");
  pause("paused");
  enqueue("parked", key("7"), "a");
  ASSERT_TRUE(park(lease_one("parked")));
  const MessageId died = enqueue("died", key("7"), "a");
  ASSERT_TRUE(dead(lease_one("died")));
  enqueue("blocked", key("7"), "blocking", {.name = "n"});
  enqueue("blocked", key("7"), "behind");
  ASSERT_TRUE(retry(lease_one("blocked"), 1h));

  Calls paused;
  Calls parked;
  Calls redriven;
  Calls unblocked;
  const Watch one = store().watch(WatchQueue{"paused"}, paused.callback());
  const Watch two = store().watch(WatchQueue{"parked"}, parked.callback());
  const Watch three = store().watch(WatchQueue{"died"}, redriven.callback());
  const Watch four = store().watch(WatchQueue{"blocked"}, unblocked.callback());
  resume("paused");
  resume_lane("parked", "7");
  redrive("died", {died});
  ASSERT_TRUE(cancel("blocked", "n"));
  EXPECT_TRUE(paused.more_than(0));
  EXPECT_TRUE(parked.more_than(0));
  EXPECT_TRUE(redriven.more_than(0));
  EXPECT_TRUE(unblocked.more_than(0));
}

// The publisher names no queue; the watchers wait for theirs.
// Rules: S17 S15 Watch
TEST_P(StoreConformance, A_publication_calls_the_watches_of_all_its_queues) {
  ASSERT_TRUE(admin(Subscribe{"one", "#", {}}));
  ASSERT_TRUE(admin(Subscribe{"two", "t", {}}));
  Calls first;
  Calls second;
  const Watch one = store().watch(WatchQueue{"one"}, first.callback());
  const Watch two = store().watch(WatchQueue{"two"}, second.callback());
  ASSERT_TRUE(apply(together(publication("t", unkeyed, "a"))));
  EXPECT_TRUE(first.more_than(0));
  EXPECT_TRUE(second.more_than(0));
}

// --- Held lanes ---

// A holder with a warm cache waits for the next message of its own lane.
// Rules: S17 S4 Watch
TEST_P(StoreConformance, A_watch_of_a_held_lane_is_called_when_a_message_arrives_for_it) {
  enqueue("orders", key("7"), "a");
  const Lease lease = lease_one("orders");
  ASSERT_TRUE(ack(lease, Then::keep));
  Calls calls;
  const Watch watch = store().watch(WatchLane{lease.token}, calls.callback());
  enqueue("orders", key("7"), "b");
  EXPECT_TRUE(calls.more_than(0));
  EXPECT_EQ(bodies(pull(lease).value()), Bodies{"b"});
}

// A workflow's timer is a delayed message in its own lane.
// Rules: S17 S7 Watch
TEST_P(StoreConformance, A_watch_of_a_held_lane_is_called_when_a_delayed_message_is_due) {
  enqueue("orders", key("7"), "a");
  enqueue("orders", key("7"), "timer", {.delay = 10s});
  const Lease lease = lease_one("orders", 1min);
  Calls calls;
  const Watch watch = store().watch(WatchLane{lease.token}, calls.callback());
  clock().advance(10s);
  EXPECT_TRUE(calls.more_than(0));
  EXPECT_EQ(bodies(pull(lease).value()), Bodies{"timer"});
}

// Nothing arrives when a block ends, and yet there is something to pull.
// Rules: S17 S8 S11 Watch
TEST_P(StoreConformance, A_watch_of_a_held_lane_is_called_when_a_block_ends_with_its_message) {
  enqueue("orders", key("7"), "fails", {.ttl = 10min});
  enqueue("orders", key("7"), "behind");
  const Lease lease = lease_one("orders", 1h);
  ASSERT_TRUE(apply(together(
      settlement(lease, {retried(lease.messages.at(0).id, 2h), released(lease.messages.at(1).id)},
                 Then::keep))));
  EXPECT_EQ(bodies(pull(lease).value()), Bodies{});
  Calls calls;
  const Watch watch = store().watch(WatchLane{lease.token}, calls.callback());
  clock().advance(10min);
  EXPECT_TRUE(calls.more_than(0));
  EXPECT_EQ(bodies(pull(lease).value()), Bodies{"behind"});
}

// A lease lives on over a reopen, and so does the right to be told of its end.
// Rules: S17 S22 Watch
TEST_P(StoreConformance, A_watch_of_a_lane_leased_before_a_reopen_is_called_when_the_lease_ends) {
  enqueue("orders", key("7"), "a");
  const Lease lease = lease_one("orders", 1min);
  enqueue("orders", key("7"), "b");
  reopen();
  Calls calls;
  const Watch watch = store().watch(WatchLane{lease.token}, calls.callback());
  clock().advance(1min);
  EXPECT_TRUE(calls.more_than(0));
}

// Who waits for a lane that it has lost waits for ever, unless it is told.
// Rules: S17 S6 Watch
TEST_P(StoreConformance, A_watch_of_a_held_lane_is_called_when_its_lease_ends) {
  enqueue("orders", key("1"), "a");
  enqueue("orders", key("2"), "b");
  enqueue("orders", key("3"), "c", {.name = "n"});
  const Lease expiring = lease_key("orders", "1", 10s);
  const Lease seized = lease_key("orders", "2", 1min);
  const Lease revoked = lease_key("orders", "3", 1min);
  Calls expired;
  Calls lost;
  Calls cancelled;
  const Watch one = store().watch(WatchLane{expiring.token}, expired.callback());
  const Watch two = store().watch(WatchLane{seized.token}, lost.callback());
  const Watch three = store().watch(WatchLane{revoked.token}, cancelled.callback());
  ASSERT_EQ(bodies(seize("orders", "2")), Bodies{"b"});
  ASSERT_TRUE(cancel("orders", "n"));
  clock().advance(10s);
  EXPECT_TRUE(lost.more_than(0));
  EXPECT_TRUE(cancelled.more_than(0));
  EXPECT_TRUE(expired.more_than(0));
}

// --- Records ---

// A query waits for its reply record.
// Rules: S17 Watch
// Behaviours: custom_status_polling_no_change
TEST_P(StoreConformance, A_watch_of_a_record_is_called_when_it_is_written_and_when_it_is_removed) {
  Calls calls;
  const Watch watch = store().watch(WatchRecord{"state", "reply"}, calls.callback());
  ASSERT_TRUE(apply(together(write("state", "reply", "42"))));
  ASSERT_TRUE(calls.more_than(0));

  Calls removed;
  const Watch other = store().watch(WatchRecord{"state", "reply"}, removed.callback());
  ASSERT_TRUE(apply(together(write("state", "reply", std::nullopt))));
  EXPECT_TRUE(removed.more_than(0));
}

// --- Lifetime and locks ---

// The natural way to wait once. The closure ends with the watch: it touches nothing afterwards.
// Rules: S17 Watch
TEST_P(StoreConformance, A_watch_may_be_destroyed_inside_its_callback) {
  Calls calls;
  std::mutex mutex;
  Watch watch;
  {
    const std::lock_guard lock(mutex);
    watch = store().watch(WatchQueue{"orders"}, [&, call = calls.callback()] {
      const std::lock_guard inner(mutex);
      call();
      Watch ended = std::move(watch);
    });
  }
  enqueue("orders", key("1"), "a");
  ASSERT_TRUE(calls.more_than(0));

  Calls others;
  const Watch other = store().watch(WatchQueue{"orders"}, others.callback());
  enqueue("orders", key("2"), "b");
  ASSERT_TRUE(others.more_than(0)) << "the store must go on";
  EXPECT_EQ(calls.count(), 1U);
}

// The callback usually refers to something on the caller's stack.
// Rules: S17 Watch
TEST_P(StoreConformance, No_call_comes_after_a_watch_was_destroyed) {
  Calls others;
  const Watch other = store().watch(WatchQueue{"orders"}, others.callback());
  for (int i = 0; i < 50; ++i) {
    auto alive = std::make_unique<std::atomic<bool>>(true);
    std::atomic<bool>& flag = *alive;
    Watch watch = store().watch(WatchQueue{"orders"}, [&flag] { EXPECT_TRUE(flag.load()); });
    enqueue("orders", unkeyed, "a");
    watch.reset();
    flag = false;
    alive.reset();  // a late call would read freed memory
  }
  EXPECT_TRUE(others.more_than(0));
}

// "Calls hold no lock": the callback may do what the caller would do next.
// Rules: S17 Watch
TEST_P(StoreConformance, A_callback_may_call_the_store) {
  Calls calls;
  std::mutex mutex;
  Bodies got;
  const Watch watch = store().watch(WatchQueue{"orders"}, [&, call = calls.callback()] {
    const Result<std::vector<Lease>> leases = store().lease({.queue = "orders"});
    if (!leases || leases->empty()) return;
    const std::lock_guard lock(mutex);
    got = bodies(*leases);
    std::ignore = store().apply(together(all_acked(leases->front())));
    call();
  });
  enqueue("orders", key("7"), "a");
  ASSERT_TRUE(calls.more_than(0));
  const std::lock_guard lock(mutex);
  EXPECT_EQ(got, Bodies{"a"});
}

// Watches made and ended inside a callback are what a waiting loop does.
// Rules: S17 Watch
TEST_P(StoreConformance, A_callback_may_make_another_watch) {
  Calls made;
  Calls calls;
  std::mutex mutex;
  std::optional<Watch> second;
  const Watch first = store().watch(WatchQueue{"orders"}, [&, done = made.callback()] {
    const std::lock_guard lock(mutex);
    if (!second) second = store().watch(WatchQueue{"orders"}, calls.callback());
    done();
  });
  enqueue("orders", unkeyed, "a");
  ASSERT_TRUE(made.more_than(0));
  enqueue("orders", unkeyed, "b");
  EXPECT_TRUE(calls.more_than(0));
}

}  // namespace
}  // namespace strand::conformance
