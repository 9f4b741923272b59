// Callbacks of a manual clock in the cases that stores depend on: closing while time passes.
// (time_test.cc has the rest.)

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include <strand/time.h>

namespace strand {
namespace {

using namespace std::chrono_literals;

// A store drops its handle and then itself: a call that is still running would use what is gone.
TEST(Clock, Dropping_a_handle_waits_for_a_call_that_is_running) {
  ManualClock clock;
  std::promise<void> running;
  std::promise<void> go_on;
  std::atomic<bool> ended = false;
  std::shared_ptr<void> handle = clock.on_advance([&] {
    running.set_value();
    go_on.get_future().wait();
    ended = true;
  });
  std::jthread advancing([&] { clock.advance(1s); });
  running.get_future().wait();
  std::jthread releasing([&] { go_on.set_value(); });

  handle.reset();
  EXPECT_TRUE(ended);
}

TEST(Clock, A_callback_may_drop_its_own_handle) {
  ManualClock clock;
  int calls = 0;
  std::shared_ptr<void> handle;
  handle = clock.on_advance([&] {
    ++calls;
    handle.reset();
  });
  clock.advance(1s);
  clock.advance(1s);
  EXPECT_EQ(calls, 1);
}

TEST(Clock, A_callback_may_advance_the_clock_further) {
  ManualClock clock;
  const Duration start = clock.monotonic();
  int calls = 0;
  const std::shared_ptr<void> handle = clock.on_advance([&] {
    if (++calls < 3) clock.advance(1s);
  });
  clock.advance(1s);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(clock.monotonic(), start + 3s);
}

TEST(Clock, No_time_at_all_is_a_step_too) {
  ManualClock clock;
  int calls = 0;
  const std::shared_ptr<void> handle = clock.on_advance([&] { ++calls; });
  clock.advance(0s);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace strand
