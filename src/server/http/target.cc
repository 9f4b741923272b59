#include "server/http/target.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/nearest.h"
#include "base/number.h"
#include "base/text.h"

namespace strand::server::http {

namespace {

constexpr std::size_t items_max = 1'000;
constexpr std::size_t items_usual = 100;

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::unexpected<Error> wrong(std::string_view name, const Error& error) {
  return failure(Errc::invalid_argument, fmt::format("{}: {}", name, error.message));
}

Result<std::string> decoded_value(std::string_view text) {
  std::string blanks(text);
  for (char& c : blanks) {
    if (c == '+') c = ' ';
  }
  return percent_decoded(blanks);
}

}  // namespace

Result<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const auto high = i + 1 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
    const auto low = i + 2 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
    if (!high || !low) {
      return failure(Errc::invalid_argument,
                     fmt::format("'{}' is not an escape; write two hexadecimal digits behind a %, "
                                 "and %25 for a % itself",
                                 base::printable(text.substr(i, 3))));
    }
    decoded += static_cast<char>(*high << 4U | *low);
    i += 2;
  }
  return decoded;
}

Result<std::vector<std::string>> path_segments(std::string_view path) {
  std::vector<std::string> segments;
  while (!path.empty()) {
    path.remove_prefix(1);  // the '/'
    const std::size_t end = std::min(path.find('/'), path.size());
    auto segment = percent_decoded(path.substr(0, end));
    if (!segment) return std::unexpected(std::move(segment.error()));
    segments.push_back(*std::move(segment));
    path.remove_prefix(end);
  }
  return segments;
}

Result<MessageId> parse_id(std::string_view text) {
  const auto id = base::parse_number<std::uint64_t>(text, 0);
  if (!id) {
    return failure(Errc::invalid_argument,
                   fmt::format("'{}' is not the id of a message", base::printable(text)));
  }
  return MessageId{*id};
}

Result<Query> Query::parse(std::string_view text) {
  Query query;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (part.empty()) continue;
    const std::size_t equals = std::min(part.find('='), part.size());
    auto name = decoded_value(part.substr(0, equals));
    if (!name) return std::unexpected(std::move(name.error()));
    auto value = decoded_value(part.substr(std::min(equals + 1, part.size())));
    if (!value) return std::unexpected(std::move(value.error()));
    const auto [place, added] = query.values_.emplace(*std::move(name), *std::move(value));
    if (!added) {
      return failure(Errc::invalid_argument,
                     fmt::format("'{}' occurs twice in the query", base::printable(place->first)));
    }
  }
  return query;
}

Result<void> Query::check_names(std::span<const std::string> known) const {
  for (const auto& [name, value] : values_) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return failure(Errc::invalid_argument,
                   fmt::format("there is no parameter '{}' here{}", base::printable(name),
                               base::suggestion(name, known)));
  }
  return {};
}

std::optional<std::string> Query::text(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

Result<std::uint64_t> Query::number(const std::string& name, std::uint64_t otherwise,
                                    std::uint64_t min, std::uint64_t max) const {
  const auto given = text(name);
  if (!given) return otherwise;
  auto value = base::parse_number<std::uint64_t>(*given, min, max);
  if (!value) return wrong(name, value.error());
  return *value;
}

Result<std::optional<bool>> Query::flag(const std::string& name) const {
  const auto given = text(name);
  if (!given) return std::nullopt;
  if (*given == "true") return true;
  if (*given == "false") return false;
  return failure(Errc::invalid_argument,
                 fmt::format("{}: '{}' is neither true nor false", name, base::printable(*given)));
}

Result<std::optional<Time>> Query::time(const std::string& name) const {
  const auto given = text(name);
  if (!given) return std::nullopt;
  auto value = parse_time(*given);
  if (!value) return wrong(name, value.error());
  return *value;
}

Result<std::optional<MessageId>> Query::id(const std::string& name) const {
  const auto given = text(name);
  if (!given) return std::nullopt;
  auto value = base::parse_number<std::uint64_t>(*given, 0);
  if (!value) return wrong(name, value.error());
  return MessageId{*value};
}

Result<std::size_t> Query::limit() const {
  auto value = number("limit", items_usual, 1, items_max);
  if (!value) return std::unexpected(std::move(value.error()));
  return *value;
}

}  // namespace strand::server::http
