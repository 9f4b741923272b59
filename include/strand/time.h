#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <strand/error.h>

namespace strand {

// Store time has a resolution of one millisecond.
using Duration = std::chrono::milliseconds;
using Time = std::chrono::sys_time<Duration>;

// Reads "250ms", "5s", "1m", "2h", "7d", or several of them, largest first ("1h30m").
// A number without a unit, a negative, fractional or huge one is refused.
Result<Duration> parse_duration(std::string_view text);

// Writes a duration so that parse_duration reads it back: "1h30m", "250ms", "0s".
std::string format_duration(Duration duration);

// Converts a number of seconds; NaN, infinite, negative and huge values are refused.
Result<Duration> duration_from_seconds(double seconds);

// RFC 3339 in UTC with milliseconds: "2026-11-15T06:30:00.000Z".
std::string format_time(Time time);

// Reads RFC 3339 with a 'Z' or an offset: "2026-11-15T06:30:00Z", with or without fractions of a
// second; what is finer than a millisecond is cut.
Result<Time> parse_time(std::string_view text);

// Where a store takes its time from.
//
// A store reads wall() once, when it opens (store time is the later of what is stored and the
// wall), and from then on follows monotonic(), so that a wall clock set back or forth harms
// nothing.
//
// Threads: every method may be called concurrently.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  [[nodiscard]] virtual Time wall() const = 0;
  // Time since some fixed instant; never goes back.
  [[nodiscard]] virtual Duration monotonic() const = 0;

  // True if time passes only by hand. Who waits for such a clock is woken by on_advance alone.
  [[nodiscard]] virtual bool manual() const { return false; }
  // Calls `advanced` after each step of a manual clock, until the returned handle is destroyed.
  // The callback must not block. A real clock never calls it.
  [[nodiscard]] virtual std::shared_ptr<void> on_advance(std::function<void()> advanced) {
    static_cast<void>(advanced);
    return nullptr;
  }
};

// The clock of the operating system.
std::shared_ptr<Clock> system_clock();

// A clock that moves only when told, for tests: days pass at once, nothing sleeps.
//
// Threads: every method may be called concurrently.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Time start = Time{std::chrono::hours{24 * 365 * 56}});
  ~ManualClock() override;

  [[nodiscard]] Time wall() const override;
  [[nodiscard]] Duration monotonic() const override;
  [[nodiscard]] bool manual() const override { return true; }
  [[nodiscard]] std::shared_ptr<void> on_advance(std::function<void()> advanced) override;

  // Lets `step` (not negative) pass on both the wall and the monotonic clock.
  void advance(Duration step);
  // Sets the wall clock alone, in either direction, as an administrator or NTP would.
  void set_wall(Time wall);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strand
