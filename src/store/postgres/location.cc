#include "store/postgres/location.h"

#include <charconv>

#include <fmt/format.h>

#include "base/text.h"

namespace strand::postgres {

namespace {

constexpr std::size_t identifier_bytes_max = 63;
constexpr std::size_t connections_limit = 1000;

std::unexpected<Error> wrong(std::string_view option, std::string_view value,
                             std::string_view allowed) {
  return failure(Errc::invalid_argument, fmt::format("the store's URL has {}={}: it can be {}",
                                                     option, base::printable(value), allowed));
}

// Takes an option that is ours; false if it is libpq's.
Result<bool> take(Location& location, std::string_view option, std::string_view value) {
  if (option == "schema") {
    const bool plain = value.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyz"
                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string_view::npos;
    if (value.empty() || value.size() > identifier_bytes_max || !plain ||
        value.starts_with("pg_")) {
      return wrong(option, value,
                   "a name of 1 to 63 letters, digits and underscores, not beginning with pg_");
    }
    location.schema = std::string(value);
    return true;
  }
  if (option == "migrate") {
    if (value != "on" && value != "off") return wrong(option, value, "on or off");
    location.migrate = value == "on";
    return true;
  }
  if (option == "connections") {
    const auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), location.connections_max);
    if (error != std::errc{} || end != value.data() + value.size() ||
        location.connections_max == 0 || location.connections_max > connections_limit) {
      return wrong(option, value, "a number from 1 to 1000");
    }
    return true;
  }
  return false;
}

}  // namespace

Result<Location> parse_location(std::string_view text) {
  Location location;
  const std::size_t colon = text.find(':');
  const bool is_uri = text.substr(colon + 1).starts_with("//");
  if (text.find('\0') != std::string_view::npos) {
    return failure(Errc::invalid_argument, "the URL of the store has a zero byte in it");
  }
  const std::size_t options = is_uri ? text.find('?') : colon;
  location.conninfo = std::string(is_uri ? text.substr(0, options) : std::string_view{});
  if (options == std::string_view::npos) return location;
  const char separator = is_uri ? '&' : ' ';
  std::string_view rest = text.substr(options + 1);
  bool first = true;
  while (!rest.empty()) {
    const std::size_t end = rest.find(separator);
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    const std::size_t equals = pair.find('=');
    if (equals != std::string_view::npos) {
      const auto taken = take(location, pair.substr(0, equals), pair.substr(equals + 1));
      if (!taken) return std::unexpected(taken.error());
      if (*taken) continue;
    }
    if (is_uri) {
      location.conninfo += first ? "?" : "&";
    } else if (!first) {
      location.conninfo += " ";
    }
    location.conninfo += pair;
    first = false;
  }
  return location;
}

}  // namespace strand::postgres
