#include "cli/values.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "base/text.h"

namespace strand::cli {

Result<MessageId> parse_id(std::string_view text) {
  const auto id = parse_number<std::uint64_t>(text, 0);
  if (!id) {
    return failure(Errc::invalid_argument,
                   fmt::format("'{}' is not the id of a message", base::printable(text)));
  }
  return MessageId{*id};
}

Result<Moment> parse_moment(std::string_view text) {
  if (text == "beginning") return Moment{.at = Time{}};
  if (const auto ago = parse_duration(text)) return Moment{.ago = *ago};
  const auto at = parse_time(text);
  if (!at) {
    return failure(
        Errc::invalid_argument,
        fmt::format("'{}' is neither a time such as 2026-11-15T06:30:00Z, nor a duration "
                    "such as 1h (that long ago), nor beginning",
                    base::printable(text)));
  }
  return Moment{.at = *at};
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

}  // namespace strand::cli
