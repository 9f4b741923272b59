#pragma once

#include <charconv>
#include <concepts>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <strand/error.h>
#include <strand/ids.h>
#include <strand/message.h>
#include <strand/time.h>

#include "base/text.h"

namespace strand::cli {

// Reads a whole number; takes neither sign nor blank.
template <std::unsigned_integral T>
Result<T> parse_number(std::string_view text, T min, T max = std::numeric_limits<T>::max()) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < min || value > max) {
    return failure(Errc::invalid_argument, fmt::format("'{}' is not a whole number from {} to {}",
                                                       base::printable(text), min, max));
  }
  return value;
}

Result<MessageId> parse_id(std::string_view text);

// A time, or so long before now.
struct Moment {
  std::optional<Time> at = {};
  std::optional<Duration> ago = {};

  // None if none was given.
  [[nodiscard]] std::optional<Time> before(Time now) const { return ago ? now - *ago : at; }
};
// "2026-11-15T06:30:00Z", "1h" for that long ago, or "beginning".
Result<Moment> parse_moment(std::string_view text);

// "NAME=VALUE"; the first '=' separates them.
Result<Header> parse_header(std::string_view text);

}  // namespace strand::cli
