// Durations and times: what can be read is written so that it reads back as the same.

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include <strand/time.h>

#include "fuzz/target.h"

namespace strand::fuzz {

namespace {

bool reads_as(std::string_view text, Duration expected) {
  const auto duration = parse_duration(text);
  return duration && *duration == expected;
}

void read_duration(std::string_view text) {
  const auto duration = parse_duration(text);
  if (!duration) {
    FUZZ_REQUIRE(duration.error().code == Errc::invalid_argument, "bad text is a bad argument");
    return;
  }
  FUZZ_REQUIRE(*duration >= Duration::zero(), "no text stands for a negative duration");
  const std::string shortest = format_duration(*duration);
  FUZZ_REQUIRE(reads_as(shortest, *duration), "what is written reads back");
}

void read_time(std::string_view text) {
  const auto time = parse_time(text);
  if (!time) {
    FUZZ_REQUIRE(time.error().code == Errc::invalid_argument, "bad text is a bad argument");
    return;
  }
  const std::string shown = format_time(*time);
  // An offset may lead out of the years with four digits, which are all that can be shown.
  const auto year_of = [](std::string_view written) { return written.substr(0, 4); };
  const bool at_an_end = year_of(shown) == "0000" || year_of(shown) == "9999";
  const auto again = parse_time(shown);
  FUZZ_REQUIRE(again.has_value(), "what is written can be read");
  FUZZ_REQUIRE(at_an_end || *again == *time, "and it is the same time");
}

// Any number of milliseconds, as a damaged store may have it.
void write_number(std::int64_t number) {
  const std::string time = format_time(Time{Duration{number}});
  FUZZ_REQUIRE(time.size() == std::string_view("2026-11-15T06:30:00.000Z").size(),
               "every time is shown in the same form");
  const std::string duration = format_duration(Duration{number});
  if (number >= 0) {
    FUZZ_REQUIRE(reads_as(duration, Duration{number}), "every duration reads back");
  } else {
    FUZZ_REQUIRE(!parse_duration(duration), "a negative one does not");
  }
}

void convert_seconds(double seconds) {
  const auto duration = duration_from_seconds(seconds);
  FUZZ_REQUIRE(!duration || *duration >= Duration::zero(), "seconds become no negative duration");
  if (seconds >= 0 && seconds < 1e9) {
    FUZZ_REQUIRE(duration.has_value(), "an ordinary number of seconds is a duration");
    const double back = static_cast<double>(duration->count()) / 1000.0;
    FUZZ_REQUIRE(back - seconds <= 0.001 && seconds - back <= 0.001, "to the nearest millisecond");
  }
}

void run(std::string_view bytes) {
  read_duration(bytes);
  read_time(bytes);
  std::int64_t number = 0;
  if (bytes.size() < sizeof(number)) return;
  std::memcpy(&number, bytes.data(), sizeof(number));
  write_number(number);
  convert_seconds(std::bit_cast<double>(number));
}

const Target target("durations", run, 20'000);

}  // namespace

}  // namespace strand::fuzz
