#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <strand/error.h>
#include <strand/ids.h>
#include <strand/time.h>

// The target of a request, taken apart: path and query.

namespace strand::server::http {

// With %XX replaced. Anything else behind a '%' is refused.
Result<std::string> percent_decoded(std::string_view text);

// The segments of a path that begins with '/', decoded one by one: an escaped '/' parts nothing.
Result<std::vector<std::string>> path_segments(std::string_view path);

// The id of a message.
Result<MessageId> parse_id(std::string_view text);

// What is behind the '?', decoded; '+' is a blank.
class Query {
 public:
  // A name that occurs twice is refused.
  static Result<Query> parse(std::string_view text);

  // A name that is not known is refused, with the nearest known one.
  [[nodiscard]] Result<void> check_names(std::span<const std::string> known) const;

  [[nodiscard]] std::optional<std::string> text(const std::string& name) const;
  [[nodiscard]] Result<std::uint64_t> number(const std::string& name, std::uint64_t otherwise,
                                             std::uint64_t min, std::uint64_t max) const;
  [[nodiscard]] Result<std::optional<bool>> flag(const std::string& name) const;
  [[nodiscard]] Result<std::optional<Time>> time(const std::string& name) const;
  [[nodiscard]] Result<std::optional<MessageId>> id(const std::string& name) const;
  // How many items an answer may have.
  [[nodiscard]] Result<std::size_t> limit() const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace strand::server::http
