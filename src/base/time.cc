#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <strand/error.h>
#include <strand/time.h>

#include "base/text.h"

namespace strand {

namespace {

constexpr std::int64_t ms_max = std::numeric_limits<std::int64_t>::max();

struct Unit {
  std::string_view name;
  std::int64_t ms;
};

// Largest first: the order in which they may follow each other.
constexpr std::array<Unit, 5> units = {
    {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};

std::unexpected<Error> no_duration(std::string_view text, std::string_view why) {
  return failure(Errc::invalid_argument,
                 fmt::format("\"{}\" is not a duration: {}; write for example 250ms, 5s, 1h30m",
                             base::printable(text), why));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes the parts of a time off the front of a text. After a part that does not fit, `good` is
// false and stays so.
class TimeReader {
 public:
  explicit TimeReader(std::string_view text) : rest_(text) {}

  unsigned digits(std::size_t count, unsigned max) {
    unsigned value = 0;
    const std::string_view part = rest_.substr(0, count);
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    good_ = good_ && part.size() == count && error == std::errc{} && stop == part.data() + count &&
            value <= max;
    rest_.remove_prefix(part.size());
    return value;
  }
  // One of the characters; 0 if it is another one.
  char one_of(std::string_view characters) {
    const char found = !rest_.empty() && characters.find(rest_.front()) != std::string_view::npos
                           ? rest_.front()
                           : '\0';
    if (found != '\0') rest_.remove_prefix(1);
    return found;
  }
  void expect(std::string_view characters) { good_ = one_of(characters) != '\0' && good_; }
  // The digits behind the point; what is finer than a millisecond is cut.
  unsigned milliseconds() {
    const auto end = std::ranges::find_if_not(rest_, is_digit);
    std::string fraction(rest_.begin(), end);
    good_ = good_ && !fraction.empty();
    rest_.remove_prefix(fraction.size());
    fraction.resize(3, '0');
    return TimeReader(fraction).digits(3, 999);
  }
  [[nodiscard]] bool at_end() const { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

std::optional<Time> read_time(std::string_view text) {
  using namespace std::chrono;
  TimeReader in(text);
  const year year_read{static_cast<int>(in.digits(4, 9999))};
  in.expect("-");
  const month month_read{in.digits(2, 12)};
  in.expect("-");
  const year_month_day date = year_read / month_read / day{in.digits(2, 31)};
  in.expect("Tt ");
  Duration clock = hours{in.digits(2, 23)};
  in.expect(":");
  clock += minutes{in.digits(2, 59)};
  in.expect(":");
  clock += seconds{in.digits(2, 59)};
  if (in.one_of(".") != '\0') clock += Duration{in.milliseconds()};
  if (const char sign = in.one_of("+-"); sign != '\0') {
    Duration offset = hours{in.digits(2, 23)};
    in.expect(":");
    offset += minutes{in.digits(2, 59)};
    clock -= sign == '+' ? offset : -offset;
  } else {
    in.expect("Zz");
  }
  if (!in.at_end() || !date.ok()) return std::nullopt;
  return sys_days{date} + clock;
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  if (text.empty()) return no_duration(text, "it is empty");
  std::int64_t total_ms = 0;
  std::size_t next_unit = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto digits_end = std::ranges::find_if_not(rest, is_digit);
    const auto digits = static_cast<std::size_t>(digits_end - rest.begin());
    if (digits == 0) return no_duration(text, "a whole number is expected before each unit");
    std::int64_t number = 0;
    if (std::from_chars(rest.data(), rest.data() + digits, number).ec != std::errc{}) {
      return no_duration(text, "it is too long");
    }
    rest.remove_prefix(digits);

    const auto unit_end = std::ranges::find_if(rest, is_digit);
    const auto name = rest.substr(0, static_cast<std::size_t>(unit_end - rest.begin()));
    rest.remove_prefix(name.size());
    if (name.empty()) return no_duration(text, "a number has no unit (ms, s, m, h, d)");
    const auto* const unit = std::ranges::find(units, name, &Unit::name);
    if (unit == units.end()) return no_duration(text, "the units are ms, s, m, h, d");
    const auto index = static_cast<std::size_t>(unit - units.begin());
    if (index < next_unit) return no_duration(text, "larger units come first, each once");
    next_unit = index + 1;

    if (number > (ms_max - total_ms) / unit->ms) return no_duration(text, "it is too long");
    total_ms += number * unit->ms;
  }
  return Duration{total_ms};
}

std::string format_duration(Duration duration) {
  const std::int64_t ms = duration.count();
  if (ms == 0) return "0s";
  // Negative ones occur in messages about mistakes only; there is no way to read them back.
  std::uint64_t rest =
      ms < 0 ? ~static_cast<std::uint64_t>(ms) + 1 : static_cast<std::uint64_t>(ms);
  std::string text = ms < 0 ? "-" : "";
  for (const Unit& unit : units) {
    const auto unit_ms = static_cast<std::uint64_t>(unit.ms);
    if (rest >= unit_ms) text += fmt::format("{}{}", rest / unit_ms, unit.name);
    rest %= unit_ms;
  }
  return text;
}

Result<Duration> duration_from_seconds(double seconds) {
  const double ms = std::round(seconds * 1000.0);
  // 2^63 is exact as a double, ms_max is not. The comparison is false for NaN.
  constexpr double beyond = 9223372036854775808.0;
  if (!(seconds >= 0 && ms < beyond)) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} seconds are not a duration: it must be a number, not negative, "
                               "and not huge",
                               seconds));
  }
  return Duration{static_cast<std::int64_t>(ms)};
}

std::string format_time(Time time) {
  using namespace std::chrono;
  // RFC 3339 has years of four digits: what lies outside is shown as the nearest it can say.
  constexpr Time first = sys_days{year{0} / January / 1};
  constexpr Time last = sys_days{year{10'000} / January / 1} - Duration{1};
  const Time shown = std::clamp(time, first, last);
  const sys_days day = floor<days>(shown);
  const year_month_day date{day};
  const hh_mm_ss<Duration> clock{shown - day};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

Result<Time> parse_time(std::string_view text) {
  const auto time = read_time(text);
  if (time) return *time;
  return failure(Errc::invalid_argument,
                 fmt::format("'{}' is not a time; write for example 2026-11-15T06:30:00Z",
                             base::printable(text)));
}

}  // namespace strand
