// Watches: who is called, when not, and what a callback may do.

#include "store/contract/watches.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "unit/signals.h"

namespace strand::store {
namespace {

WatchTarget queue(std::string name) { return WatchQueue{std::move(name)}; }
WatchTarget lane(std::uint64_t epoch) { return WatchLane{Token{Epoch{epoch}, 0, 0}}; }
WatchTarget record(std::string space, std::string key) {
  return WatchRecord{std::move(space), std::move(key)};
}

Wakes queues(std::vector<std::string> names) {
  return {.queues = std::move(names), .lanes = {}, .records = {}};
}

auto raising(Signal& signal) {
  return [&signal] { signal.raise(); };
}

// Calls are made in the order in which they were asked for: once this one has come, so have all
// that were asked for before.
void let_all_calls_come(Watches& watches) {
  Signal called;
  const Watch last = watches.add(queue("let_all_calls_come"), raising(called));
  watches.wake(queues({"let_all_calls_come"}));
  ASSERT_TRUE(called.reaches(1));
}

TEST(Watches, Whoever_watches_what_changed_is_called_and_nobody_else) {
  Watches watches;
  Signal orders;
  Signal orders_too;
  Signal others;
  Signal seven;
  Signal settings;
  const Watch watching[] = {
      watches.add(queue("orders"), raising(orders)),
      watches.add(queue("orders"), raising(orders_too)),
      watches.add(queue("other"), raising(others)),
      watches.add(lane(8), raising(others)),
      watches.add(record("settings", "colour"), raising(others)),
      watches.add(record("settin", "gssize"), raising(others)),
      watches.add(lane(7), raising(seven)),
      watches.add(record("settings", "size"), raising(settings)),
  };
  watches.wake({.queues = {"orders", "unknown"},
                .lanes = {Epoch{7}, Epoch{100}},
                .records = {{"settings", "size"}, {"unknown", "size"}}});
  EXPECT_TRUE(orders.reaches(1));
  EXPECT_TRUE(orders_too.reaches(1));
  EXPECT_TRUE(seven.reaches(1));
  EXPECT_TRUE(settings.reaches(1));
  let_all_calls_come(watches);
  EXPECT_EQ(others.count(), 0U);
}

TEST(Watches, Waking_all_calls_everyone) {
  Watches watches;
  Signal called;
  const Watch watching[] = {watches.add(queue("orders"), raising(called)),
                            watches.add(lane(1), raising(called)),
                            watches.add(record("space", "key"), raising(called))};
  watches.wake_all();
  EXPECT_TRUE(called.reaches(3));
}

TEST(Watches, One_lane_can_be_woken_alone) {
  Watches watches;
  Signal called;
  Signal other;
  const Watch watching[] = {watches.add(lane(1), raising(called)),
                            watches.add(lane(2), raising(other))};
  watches.wake_lane(Epoch{1});
  EXPECT_TRUE(called.reaches(1));
  let_all_calls_come(watches);
  EXPECT_EQ(other.count(), 0U);
}

// "Lost calls are not allowed": what changes while the callback looks must make it look again.
TEST(Watches, A_wake_during_a_call_brings_another_call_that_does_not_overlap) {
  Watches watches;
  Signal started;
  Signal go_on;
  std::atomic<int> inside = 0;
  std::atomic<bool> overlapped = false;
  const Watch watch = watches.add(queue("orders"), [&] {
    if (++inside > 1) overlapped = true;
    started.raise();
    static_cast<void>(go_on.reaches(1));
    --inside;
  });
  watches.wake(queues({"orders"}));
  ASSERT_TRUE(started.reaches(1));
  watches.wake(queues({"orders"}));
  watches.wake(queues({"orders"}));
  go_on.raise();
  EXPECT_TRUE(started.reaches(2));
  let_all_calls_come(watches);
  EXPECT_EQ(started.count(), 2U) << "two wakes before one call are one call";
  EXPECT_FALSE(overlapped);
}

TEST(Watches, No_call_comes_after_the_watch_is_gone) {
  Watches watches;
  Signal busy;
  Signal go_on;
  Signal called;
  const Watch blocking = watches.add(queue("busy"), [&] {
    busy.raise();
    static_cast<void>(go_on.reaches(1));
  });
  Watch watch = watches.add(queue("orders"), raising(called));
  watches.wake(queues({"busy"}));
  ASSERT_TRUE(busy.reaches(1));
  watches.wake(queues({"orders"}));  // its call is waiting behind the busy one

  watch.reset();
  go_on.raise();
  let_all_calls_come(watches);
  EXPECT_EQ(called.count(), 0U);
}

TEST(Watches, Destroying_a_watch_waits_for_its_call_that_is_running) {
  Watches watches;
  Signal started;
  Signal go_on;
  std::atomic<bool> ended = false;
  Watch watch = watches.add(queue("orders"), [&] {
    started.raise();
    static_cast<void>(go_on.reaches(1));
    ended = true;
  });
  watches.wake(queues({"orders"}));
  ASSERT_TRUE(started.reaches(1));
  std::jthread releasing([&] { go_on.raise(); });
  watch.reset();
  EXPECT_TRUE(ended);
}

TEST(Watches, A_watch_may_be_destroyed_inside_its_own_callback) {
  Watches watches;
  std::optional<Watch> watch;
  Signal called;
  watch = watches.add(queue("orders"), [&] {
    watch.reset();
    called.raise();  // what the callback holds must still be there
  });
  watches.wake(queues({"orders"}));
  ASSERT_TRUE(called.reaches(1));
  watches.wake(queues({"orders"}));
  let_all_calls_come(watches);
  EXPECT_EQ(called.count(), 1U);
}

TEST(Watches, A_callback_may_destroy_other_watches_and_make_new_ones) {
  Watches watches;
  Signal called;
  Signal other_called;
  Watch other = watches.add(queue("other"), raising(other_called));
  Watch made;
  const Watch watch = watches.add(queue("orders"), [&] {
    other.reset();
    made = watches.add(queue("made"), raising(called));
    watches.wake(queues({"made"}));
  });
  watches.wake(queues({"orders", "other"}));
  EXPECT_TRUE(called.reaches(1));
  EXPECT_EQ(other_called.count(), 0U);
}

// A callback often owns what it works on; that must not live as long as the store.
TEST(Watches, What_a_callback_holds_is_let_go_with_its_watch) {
  Watches watches;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = held;
  Watch watch = watches.add(queue("orders"), [held] { static_cast<void>(*held); });
  held.reset();
  EXPECT_FALSE(seen.expired());
  watch.reset();
  EXPECT_TRUE(seen.expired());
}

// The callback is let go by the dispatcher then, and must not be under its lock: it may own
// watches.
TEST(Watches, A_callback_that_owns_watches_may_destroy_its_own) {
  Watches watches;
  struct Owner {
    Watch own;
    Watch other;
  };
  auto owner = std::make_shared<Owner>();
  Signal called;
  owner->other = watches.add(queue("other"), [] {});
  owner->own = watches.add(queue("orders"), [owner, &called] {
    owner->own.reset();
    called.raise();
  });
  owner.reset();
  watches.wake(queues({"orders"}));
  ASSERT_TRUE(called.reaches(1));
  let_all_calls_come(watches);
}

TEST(Watches, Many_watches_of_one_target_come_and_go_in_any_order) {
  Watches watches;
  constexpr std::size_t count = 100;
  std::vector<Signal> called(count);
  std::vector<Watch> watching;
  for (Signal& signal : called)
    watching.push_back(watches.add(queue("orders"), raising(signal)));
  for (std::size_t i = 0; i < count; i += 3)
    watching[i].reset();
  for (std::size_t i = count; i-- > 0;) {
    if (i % 3 == 1) watching[i].reset();
  }
  watches.wake(queues({"orders"}));
  let_all_calls_come(watches);
  for (std::size_t i = 0; i < count; ++i)
    EXPECT_EQ(called[i].count(), i % 3 == 2 ? 1U : 0U) << i;
}

TEST(Watches, Threads_may_watch_and_wake_at_once) {
  Watches watches;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        Signal called;
        const Watch watch = watches.add(queue("orders"), raising(called));
        watches.wake(queues({"orders"}));
        ASSERT_TRUE(called.reaches(1));
      }
    });
  }
}

}  // namespace
}  // namespace strand::store
