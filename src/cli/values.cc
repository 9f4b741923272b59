#include "cli/values.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace strand::cli {

namespace {

// Takes the parts of a time off the front of a text. After a part that does not fit, `good` is
// false and stays so.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

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
    const auto end = std::ranges::find_if_not(rest_, [](char c) { return c >= '0' && c <= '9'; });
    std::string fraction(rest_.begin(), end);
    good_ = good_ && !fraction.empty();
    rest_.remove_prefix(fraction.size());
    fraction.resize(3, '0');
    return Reader(fraction).digits(3, 999);
  }
  [[nodiscard]] bool at_end() const { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

std::optional<Time> read_time(std::string_view text) {
  using namespace std::chrono;
  Reader in(text);
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

Result<MessageId> parse_id(std::string_view text) {
  const auto id = parse_number<std::uint64_t>(text, 0);
  if (!id) {
    return failure(Errc::invalid_argument,
                   fmt::format("'{}' is not the id of a message", base::printable(text)));
  }
  return MessageId{*id};
}

Result<Header> parse_header(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return failure(Errc::invalid_argument,
                   fmt::format("'{}' is not a header; write NAME=VALUE", base::printable(text)));
  }
  return Header{.name = std::string(text.substr(0, equals)),
                .value = std::string(text.substr(equals + 1))};
}

Result<Time> parse_time(std::string_view text) {
  const auto time = read_time(text);
  if (time) return *time;
  return failure(Errc::invalid_argument,
                 fmt::format("'{}' is not a time; write for example 2026-11-15T06:30:00Z",
                             base::printable(text)));
}

}  // namespace strand::cli
