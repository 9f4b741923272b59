#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <strand/error.h>

#include "relay/config.h"

namespace strand::relay {

// What goes to Kafka.
struct Message {
  std::string topic = {};
  std::optional<std::int32_t> partition = {};  // none: by the key
  std::string key = {};
  std::optional<std::string> value = {};  // none: a tombstone
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::optional<std::int64_t> timestamp_ms = {};
  std::string slot = {};  // what the claim was for: of a shard, its number
};

// A row as it was read.
struct Row {
  std::string id = {};
  std::string entity = {};
  std::optional<std::string> payload = {};
  std::optional<std::string> aggregatetype = {};
  std::optional<std::string> type = {};
  std::optional<std::string> headers = {};  // JSON
  std::optional<std::string> topic = {};
  std::optional<std::int32_t> partition = {};
  std::optional<std::int64_t> timestamp_ms = {};
  std::optional<std::string> traceparent = {};
  std::vector<std::optional<std::string>> header_columns = {};  // in the order of the settings
};

// The message of a row.
// Failure: invalid_argument says why there can be none, ever: the row is poison.
Result<Message> make_message(const TableSettings& settings, const Row& row);

// The same for the dead-letter topic. Possible even when there is no message: then without what
// could not be made.
Message make_dead_letter(const TableSettings& settings, const Row& row, std::string_view reason);

// Replaces each ${name}; a name without a value is an error.
Result<std::string> fill_template(
    std::string_view text,
    const std::vector<std::pair<std::string_view, std::optional<std::string>>>& values);

}  // namespace strand::relay
