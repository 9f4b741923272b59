#pragma once

#include <optional>
#include <string_view>

#include <strand/error.h>
#include <strand/ids.h>
#include <strand/message.h>
#include <strand/time.h>

#include "base/number.h"

namespace strand::cli {

using base::parse_number;

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
