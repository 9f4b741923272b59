#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <strand/error.h>
#include <strand/time.h>

// What the configuration file says: docs/guide/relay.md has every key.

namespace strand::relay {

enum class Strategy : std::uint8_t { advisory, skip_locked, shards };
enum class Style : std::uint8_t { mark, remove, status };
enum class CommitOrder : std::uint8_t { lock, watermark, none };
enum class OnPoison : std::uint8_t { park, block, dead_letter };
enum class ShardBy : std::uint8_t { key, partition };
enum class PayloadFormat : std::uint8_t { json, bytes };

std::string_view to_string(Strategy strategy);
std::string_view to_string(Style style);
Result<Strategy> parse_strategy(std::string_view text);

// Names of columns in the user's table. Empty: there is no such column.
struct Columns {
  std::string id = "id";
  std::string order = {};  // empty: id
  std::string key = "aggregateid";
  std::string payload = "payload";
  std::string aggregatetype = "aggregatetype";
  std::string type = "type";
  std::string headers = {};
  std::string topic = {};
  std::string partition = {};
  std::string timestamp = {};
  std::string traceparent = {};
  std::optional<std::string> created_at = {};  // not said: "created_at", if there is one
  std::string status = "status";
  std::optional<std::string> sent_at = {};  // not said: as the style wants it
  std::string xid = "xid";
};

// One outbox table, and how it is relayed.
struct TableSettings {
  std::string name = {};  // in the configuration
  std::string schema = "public";
  std::string table = {};
  Style style = Style::mark;
  Columns columns = {};
  std::string topic = "outbox.event.${aggregatetype}";
  PayloadFormat format = PayloadFormat::json;
  std::map<std::string, std::string> header_columns = {};  // name of the header -> column
  std::map<std::string, std::string> headers = {};
  std::string status_new = "NEW";
  std::string status_processing = "PROCESSING";
  std::string status_sent = "SENT";
  std::string channel = {};

  Strategy strategy = Strategy::advisory;
  std::uint32_t workers = 4;
  Duration lease = std::chrono::seconds{30};
  Duration delivery_timeout = std::chrono::seconds{15};
  std::uint32_t candidates = 200;
  std::uint32_t entities = 50;
  std::uint32_t rows = 1000;
  Duration poll = Duration{250};
  bool notify = true;
  CommitOrder commit_order = CommitOrder::lock;
  OnPoison on_poison = OnPoison::park;
  std::vector<Duration> poison_backoff = {std::chrono::seconds{1}, std::chrono::seconds{10},
                                          std::chrono::minutes{1}};
  std::string dead_letter_topic = "${topic}.dead";
  std::uint32_t shards = 16;
  std::vector<std::int32_t> only_shards = {};
  ShardBy shard_by = ShardBy::key;
  bool transactional = false;
  std::string transactional_id = "strand-relay-${relay}-${shard}";
  std::optional<Duration> retention = {};

  // "public.outbox": how this table is known in the relay's own tables, whatever its name in the
  // configuration, so that two configurations never relay one table side by side.
  [[nodiscard]] std::string full_name() const { return schema + "." + table; }
  [[nodiscard]] const std::string& order_column() const {
    return columns.order.empty() ? columns.id : columns.order;
  }
  [[nodiscard]] std::string sent_at_column() const;
};

struct Config {
  std::string conninfo = {};
  std::string own_schema = "public";
  std::map<std::string, std::string> kafka = {};
  std::vector<TableSettings> tables = {};  // at least one
};

// Reads a file. Every error names the file, the key, and what to write instead.
Result<Config> read_config(const std::string& path);
// The same for text that is at hand; `name` stands for the file in errors.
Result<Config> parse_config(std::string_view text, const std::string& name);

// Reads "0-3,7" into shards; each is below `count`.
Result<std::vector<std::int32_t>> parse_shards(std::string_view text, std::uint32_t count);

// Whether the settings of a table go together; called by parse_config, and to be called again
// after a change.
Result<void> check_settings(const TableSettings& table);

}  // namespace strand::relay
