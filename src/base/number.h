#pragma once

#include <charconv>
#include <concepts>
#include <limits>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <strand/error.h>

#include "base/text.h"

namespace strand::base {

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

}  // namespace strand::base
