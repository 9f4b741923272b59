// The clocks and the text form of times.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include <strand/time.h>

namespace strand {
namespace {

using namespace std::chrono_literals;

Time at(std::chrono::year_month_day day, Duration of_day) {
  return Time{std::chrono::sys_days{day}} + of_day;
}

TEST(Time, It_is_written_as_RFC_3339_in_UTC_with_milliseconds) {
  using std::chrono::November;
  EXPECT_EQ(format_time(at(2026y / November / 15, 6h + 30min)), "2026-11-15T06:30:00.000Z");
  EXPECT_EQ(format_time(Time{}), "1970-01-01T00:00:00.000Z");
}

// Padding to three digits, the last millisecond of a year, and 29 February.
TEST(Time, Milliseconds_and_calendar_edges_are_written_exactly) {
  using std::chrono::December;
  using std::chrono::February;
  EXPECT_EQ(format_time(Time{7ms}), "1970-01-01T00:00:00.007Z");
  EXPECT_EQ(format_time(Time{70ms}), "1970-01-01T00:00:00.070Z");
  EXPECT_EQ(format_time(at(2027y / December / 31, 24h - 1ms)), "2027-12-31T23:59:59.999Z");
  EXPECT_EQ(format_time(at(2028y / February / 29, 12h)), "2028-02-29T12:00:00.000Z");
}

// Truncation toward zero would print the wrong second for every time before 1970.
TEST(Time, Times_before_1970_are_written_exactly) {
  EXPECT_EQ(format_time(Time{-1ms}), "1969-12-31T23:59:59.999Z");
}

TEST(Clock, A_manual_clock_stands_still_until_it_is_told) {
  const Time start{std::chrono::hours{1}};
  ManualClock clock(start);
  EXPECT_TRUE(clock.manual());
  const Duration before = clock.monotonic();
  EXPECT_EQ(clock.wall(), start);
  EXPECT_EQ(clock.monotonic(), before);

  clock.advance(90s);
  EXPECT_EQ(clock.wall(), start + 90s);
  EXPECT_EQ(clock.monotonic(), before + 90s);
}

// An administrator who corrects the clock must not move anything that is measured.
TEST(Clock, Setting_the_wall_of_a_manual_clock_leaves_the_monotonic_one) {
  ManualClock clock;
  const Duration before = clock.monotonic();
  const Time earlier = clock.wall() - 48h;
  clock.set_wall(earlier);
  EXPECT_EQ(clock.wall(), earlier);
  EXPECT_EQ(clock.monotonic(), before);
  clock.advance(1s);
  EXPECT_EQ(clock.wall(), earlier + 1s);
  EXPECT_EQ(clock.monotonic(), before + 1s);
}

// Stores wake by this alone: a call before the time has passed would find nothing due.
TEST(Clock, Each_step_of_a_manual_clock_calls_whoever_asked_after_time_has_passed) {
  ManualClock clock;
  const Duration before = clock.monotonic();
  int calls = 0;
  Duration seen{};
  const std::shared_ptr<void> handle = clock.on_advance([&] {
    ++calls;
    seen = clock.monotonic();
  });
  clock.advance(5s);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(seen, before + 5s);
  clock.advance(5s);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(seen, before + 10s);
}

TEST(Clock, No_call_comes_after_the_handle_is_gone) {
  ManualClock clock;
  int kept = 0;
  int gone = 0;
  const std::shared_ptr<void> handle = clock.on_advance([&] { ++kept; });
  std::shared_ptr<void> other = clock.on_advance([&] { ++gone; });
  clock.advance(1s);
  other.reset();
  clock.advance(1s);
  EXPECT_EQ(kept, 2);
  EXPECT_EQ(gone, 1);
}

// A store may outlive the test's clock variable, or the other way round.
TEST(Clock, A_handle_may_outlive_its_clock) {
  auto clock = std::make_unique<ManualClock>();
  std::shared_ptr<void> handle = clock->on_advance([] {});
  clock.reset();
  handle.reset();
  SUCCEED();
}

TEST(Clock, Steps_from_several_threads_all_count) {
  ManualClock clock;
  const Duration before = clock.monotonic();
  std::atomic<int> calls = 0;
  const std::shared_ptr<void> handle = clock.on_advance([&] { ++calls; });
  {
    std::jthread one([&] {
      for (int i = 0; i < 500; ++i)
        clock.advance(1ms);
    });
    std::jthread two([&] {
      for (int i = 0; i < 500; ++i)
        clock.advance(1ms);
    });
  }
  EXPECT_EQ(clock.monotonic(), before + 1s);
  EXPECT_EQ(calls, 1'000);
}

TEST(Clock, The_system_clock_is_not_manual_and_never_goes_back) {
  const std::shared_ptr<Clock> clock = system_clock();
  ASSERT_NE(clock, nullptr);
  EXPECT_FALSE(clock->manual());
  Duration last = clock->monotonic();
  for (int i = 0; i < 1'000; ++i) {
    const Duration next = clock->monotonic();
    EXPECT_GE(next, last);
    last = next;
  }
  const auto wall = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  EXPECT_LT(std::chrono::abs(clock->wall() - wall), 10s);
}

}  // namespace
}  // namespace strand
