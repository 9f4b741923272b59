// Durations as people write them ("1h30m") and as programs compute them (a double of seconds).

#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <strand/error.h>
#include <strand/time.h>

namespace strand {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

void expect_parsed(std::string_view text, Duration expected) {
  const Result<Duration> parsed = parse_duration(text);
  ASSERT_TRUE(parsed) << '"' << text << "\": " << parsed.error().message;
  EXPECT_EQ(*parsed, expected) << '"' << text << '"';
}

void expect_refused(std::string_view text) {
  const Result<Duration> parsed = parse_duration(text);
  ASSERT_FALSE(parsed) << '"' << text << "\" was read as " << parsed->count() << " ms";
  EXPECT_EQ(parsed.error().code, Errc::invalid_argument) << '"' << text << '"';
  EXPECT_FALSE(parsed.error().message.empty()) << '"' << text << '"';
}

TEST(Duration, Each_unit_is_read) {
  expect_parsed("250ms", milliseconds{250});
  expect_parsed("5s", seconds{5});
  expect_parsed("1m", minutes{1});
  expect_parsed("2h", hours{2});
  expect_parsed("7d", days{7});
}

// "m" is a prefix of "ms": a reader that takes the first unit that fits gets one of them wrong.
TEST(Duration, Minutes_and_milliseconds_are_told_apart) {
  expect_parsed("1m1ms", minutes{1} + milliseconds{1});
  expect_parsed("3ms", milliseconds{3});
  expect_parsed("3m", minutes{3});
}

TEST(Duration, Several_units_add_up_when_the_largest_comes_first) {
  expect_parsed("1h30m", minutes{90});
  expect_parsed("1d2h3m4s5ms", days{1} + hours{2} + minutes{3} + seconds{4} + milliseconds{5});
}

TEST(Duration, Nothing_is_a_duration_too) {
  expect_parsed("0s", Duration{0});
  expect_parsed("0ms", Duration{0});
}

// Larger than the next unit is no reason to refuse: people write "90s" and "36h".
TEST(Duration, A_number_may_be_larger_than_the_next_unit) {
  expect_parsed("90s", seconds{90});
  expect_parsed("36h", hours{36});
  expect_parsed("100000ms", seconds{100});
}

// A bare "5" is read as seconds by some tools and milliseconds by others: the user has to say.
TEST(Duration, A_number_without_a_unit_is_refused) {
  expect_refused("5");
  expect_refused("0");
  expect_refused("1h30");
}

TEST(Duration, A_unit_without_a_number_is_refused) {
  expect_refused("s");
  expect_refused("ms");
  expect_refused("1hm");
}

TEST(Duration, Units_out_of_order_or_repeated_are_refused) {
  expect_refused("30m1h");
  expect_refused("1s1m");
  expect_refused("1ms1s");
  expect_refused("1s2s");
  expect_refused("1h1h");
}

TEST(Duration, Negative_fractional_and_signed_numbers_are_refused) {
  expect_refused("-1s");
  expect_refused("+1s");
  expect_refused("1h-30m");
  expect_refused("1.5h");
  expect_refused("1,5h");
  expect_refused("1e3s");
  expect_refused("0x10s");
}

TEST(Duration, Empty_text_foreign_units_and_blanks_are_refused) {
  expect_refused("");
  expect_refused(" ");
  expect_refused(" 5s");
  expect_refused("5s ");
  expect_refused("5 s");
  expect_refused("5sec");
  expect_refused("5S");
  expect_refused("2w");
  expect_refused("1y");
  expect_refused("5\xc2\xb5s");
  expect_refused("nan");
  expect_refused("inf");
  expect_refused(std::string_view("5s\0", 3));
}

// Overflow must be an error, never a small or negative duration.
TEST(Duration, A_huge_number_is_refused) {
  expect_refused("99999999999999999999999ms");
  expect_refused("9223372036854775808ms");
  expect_refused("9223372036854775807s");
  expect_refused("9223372036854775807d");
  expect_refused("106751991167d106751991167h");
  expect_refused(std::string(5'000, '9') + "s");
}

// The text is what a user sees in `queue show` and pastes back into `queue set`.
TEST(Duration, What_is_written_is_read_back) {
  for (const Duration duration :
       {Duration{0}, Duration{1}, Duration{250}, Duration{999}, Duration{1'000}, Duration{1'001},
        Duration{59'999}, Duration{60'000}, Duration{5'400'000}, Duration{86'399'999},
        Duration{86'400'000}, Duration{90'061'001}, Duration{hours{24 * 3650}}}) {
    const std::string text = format_duration(duration);
    const Result<Duration> parsed = parse_duration(text);
    ASSERT_TRUE(parsed) << duration.count() << " ms was written as \"" << text << '"';
    EXPECT_EQ(*parsed, duration) << '"' << text << '"';
  }
}

TEST(Duration, It_is_written_in_the_shortest_usual_form) {
  EXPECT_EQ(format_duration(minutes{90}), "1h30m");
  EXPECT_EQ(format_duration(milliseconds{250}), "250ms");
  EXPECT_EQ(format_duration(Duration{0}), "0s");
  EXPECT_EQ(format_duration(seconds{5}), "5s");
}

TEST(Duration, A_double_of_seconds_is_converted) {
  EXPECT_EQ(duration_from_seconds(0).value(), Duration{0});
  EXPECT_EQ(duration_from_seconds(0.25).value(), milliseconds{250});
  EXPECT_EQ(duration_from_seconds(1.5).value(), milliseconds{1'500});
  EXPECT_EQ(duration_from_seconds(86'400).value(), days{1});
}

// 0.29 * 1000 is 289.99…: cutting instead of rounding turns 290 ms into 289 ms.
TEST(Duration, A_double_is_rounded_to_the_nearest_millisecond) {
  EXPECT_EQ(duration_from_seconds(0.29).value(), milliseconds{290});
  EXPECT_EQ(duration_from_seconds(1.001).value(), milliseconds{1'001});
}

// A conversion of NaN or of 1e300 to an integer is undefined behaviour: refused before that.
TEST(Duration, NaN_infinite_negative_and_huge_doubles_are_refused) {
  const double refused[] = {std::nan(""),
                            -std::nan(""),
                            std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity(),
                            -1.0,
                            -0.001,
                            1e300,
                            std::numeric_limits<double>::max(),
                            9.3e18,
                            1e17};
  for (const double value : refused) {
    const Result<Duration> converted = duration_from_seconds(value);
    ASSERT_FALSE(converted) << value << " became " << converted->count() << " ms";
    EXPECT_EQ(converted.error().code, Errc::invalid_argument) << value;
  }
}

}  // namespace
}  // namespace strand
