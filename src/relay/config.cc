#include "relay/config.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "toml_file/section.h"

namespace strand::relay {
namespace {

using toml_file::plain_text;
using toml_file::Section;

const std::vector<std::pair<std::string, Strategy>> strategies = {
    {"advisory", Strategy::advisory},
    {"skip_locked", Strategy::skip_locked},
    {"shards", Strategy::shards}};
const std::vector<std::pair<std::string, Style>> styles = {
    {"mark", Style::mark}, {"delete", Style::remove}, {"status", Style::status}};

template <class Choice>
std::string_view name_of(const std::vector<std::pair<std::string, Choice>>& choices, Choice value) {
  return std::ranges::find(choices, value, &std::pair<std::string, Choice>::second)->first;
}

std::unexpected<Error> wrong(std::string message) {
  return failure(Errc::invalid_argument, std::move(message));
}

// "${NAME}" is the environment's.
Result<std::string> with_environment(std::string_view text, const std::string& where) {
  std::string result;
  while (true) {
    const std::size_t begin = text.find("${");
    if (begin == std::string_view::npos) return result.append(text);
    const std::size_t end = text.find('}', begin);
    if (end == std::string_view::npos) return wrong(where + ": a ${ has no } behind it");
    result.append(text.substr(0, begin));
    const std::string name(text.substr(begin + 2, end - begin - 2));
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
    if (value == nullptr) {
      return wrong(fmt::format("{}: the environment has no variable {}; set it", where, name));
    }
    result.append(value);
    text.remove_prefix(end + 1);
  }
}

Result<void> read_database(const toml::table& table, const std::string& file, Config& config) {
  Section section(table, file + ": [database]");
  section.text("url", config.conninfo);
  section.text("schema", config.own_schema);
  if (auto done = section.finish(); !done) return done;
  if (config.conninfo.empty()) {
    return wrong(file + ": [database] url: name the database, such as \"postgres://host/name\"");
  }
  auto expanded = with_environment(config.conninfo, file + ": [database] url");
  if (!expanded) return std::unexpected(expanded.error());
  config.conninfo = *expanded;
  return {};
}

// `a.b = 1` without quotes is a table in a table; both are the setting "a.b".
Result<void> read_kafka(const toml::table& table, const std::string& prefix,
                        const std::string& file, Config& config) {
  for (const auto& [key, value] : table) {
    const std::string name = prefix + key;
    if (value.is_table()) {
      if (auto done = read_kafka(value.as_table(), name + ".", file, config); !done) return done;
      continue;
    }
    const auto text = plain_text(value);
    const std::string where = fmt::format("{}: [kafka] {}", file, name);
    if (!text) return wrong(where + ": write a text, a number, or true or false");
    auto expanded = with_environment(*text, where);
    if (!expanded) return std::unexpected(expanded.error());
    config.kafka[name] = *expanded;
  }
  static const std::set<std::string> ours = {"enable.idempotence",    "acks",
                                             "request.required.acks", "enable.gapless.guarantee",
                                             "message.timeout.ms",    "delivery.timeout.ms",
                                             "transactional.id"};
  for (const auto& [name, value] : config.kafka) {
    if (ours.contains(name)) {
      return wrong(
          fmt::format("{}: [kafka] {}: the relay sets it, because order and safety depend "
                      "on it; remove it (see delivery_timeout and transactional)",
                      file, name));
    }
  }
  return {};
}

// What may stand in [relay], for all tables, and in each of them.
void read_common(Section& section, TableSettings& table) {
  section.choice("strategy", table.strategy, strategies);
  section.number("workers", table.workers, 1);
  section.duration("lease", table.lease);
  section.duration("delivery_timeout", table.delivery_timeout);
  section.number("candidates", table.candidates, 1);
  section.number("entities", table.entities, 1);
  section.number("rows", table.rows, 1);
  section.duration("poll", table.poll);
  section.boolean("notify", table.notify);
  section.choice<CommitOrder>("commit_order", table.commit_order,
                              {{"lock", CommitOrder::lock},
                               {"watermark", CommitOrder::watermark},
                               {"none", CommitOrder::none}});
  section.choice<OnPoison>("on_poison", table.on_poison,
                           {{"park", OnPoison::park},
                            {"block", OnPoison::block},
                            {"dead_letter", OnPoison::dead_letter}});
  section.durations("poison_backoff", table.poison_backoff);
  section.text("dead_letter_topic", table.dead_letter_topic);
  section.number("shards", table.shards, 1);
  section.choice<ShardBy>("shard_by", table.shard_by,
                          {{"key", ShardBy::key}, {"partition", ShardBy::partition}});
  section.boolean("transactional", table.transactional);
  section.text("transactional_id", table.transactional_id);
  section.duration("retention", table.retention);
  std::vector<std::string> shards;
  section.texts("only_shards", shards);
  for (const std::string& word : shards) {
    const auto parsed = parse_shards(word, table.shards);
    if (!parsed) {
      section.complain("only_shards", parsed.error().message);
      return;
    }
    table.only_shards.insert(table.only_shards.end(), parsed->begin(), parsed->end());
  }
}

Result<void> read_columns(const toml::table& table, const std::string& where, Columns& columns) {
  Section section(table, where);
  section.text("id", columns.id);
  section.text("order", columns.order);
  section.text("key", columns.key);
  section.text("payload", columns.payload);
  section.text("aggregatetype", columns.aggregatetype);
  section.text("type", columns.type);
  section.text("headers", columns.headers);
  section.text("topic", columns.topic);
  section.text("partition", columns.partition);
  section.text("timestamp", columns.timestamp);
  section.text("traceparent", columns.traceparent);
  section.text("created_at", columns.created_at);
  section.text("status", columns.status);
  section.text("sent_at", columns.sent_at);
  section.text("xid", columns.xid);
  if (auto done = section.finish(); !done) return done;
  for (const auto& [name, value] :
       {std::pair{"id", &columns.id}, {"key", &columns.key}, {"payload", &columns.payload}}) {
    if (value->empty()) return wrong(fmt::format("{} {}: name the column", where, name));
  }
  return {};
}

Result<TableSettings> read_table(const std::string& name, const toml::table& table,
                                 const std::string& file, const TableSettings& defaults) {
  const std::string where = fmt::format("{}: [tables.{}]", file, name);
  TableSettings settings = defaults;
  settings.name = name;
  settings.table = name;
  settings.channel = "strand_relay_" + name;
  Section section(table, where);
  if (table.contains("lease") && !table.contains("delivery_timeout")) {
    settings.delivery_timeout = Duration{0};
  }
  read_common(section, settings);
  section.text("table", settings.table);
  section.choice("style", settings.style, styles);
  section.text("topic", settings.topic);
  section.choice<PayloadFormat>("format", settings.format,
                                {{"json", PayloadFormat::json}, {"bytes", PayloadFormat::bytes}});
  section.map("header_columns", settings.header_columns);
  section.map("headers", settings.headers);
  section.text("status_new", settings.status_new);
  section.text("status_processing", settings.status_processing);
  section.text("status_sent", settings.status_sent);
  section.text("channel", settings.channel);
  const toml::table* columns = section.inner("columns");
  if (auto done = section.finish(); !done) return std::unexpected(done.error());
  if (columns != nullptr) {
    auto done = read_columns(*columns, where + " columns", settings.columns);
    if (!done) return std::unexpected(done.error());
  }
  if (const auto dot = settings.table.find('.'); dot != std::string::npos) {
    settings.schema = settings.table.substr(0, dot);
    settings.table = settings.table.substr(dot + 1);
  }
  if (settings.delivery_timeout == Duration{0}) settings.delivery_timeout = settings.lease / 2;
  if (auto fits = check_settings(settings); !fits) {
    return wrong(fmt::format("{} {}", where, fits.error().message));
  }
  return settings;
}

Result<Config> read(const toml::table& root, const std::string& file) {
  Config config;
  Section section(root, file + ":");
  const toml::table* database = section.inner("database");
  const toml::table* relay = section.inner("relay");
  const toml::table* kafka = section.inner("kafka");
  const toml::table* tables = section.inner("tables");
  if (auto done = section.finish(); !done) return std::unexpected(done.error());
  static const toml::table nothing;
  auto done = read_database(database == nullptr ? nothing : *database, file, config);
  if (done && kafka != nullptr) done = read_kafka(*kafka, "", file, config);
  if (!done) return std::unexpected(done.error());
  TableSettings defaults;
  defaults.delivery_timeout = Duration{0};  // half of the lease
  if (relay != nullptr) {
    Section common(*relay, file + ": [relay]");
    read_common(common, defaults);
    if (auto read = common.finish(); !read) return std::unexpected(read.error());
  }
  if (tables == nullptr || tables->empty()) {
    return wrong(file + ": there is no table to relay; begin one with [tables.outbox]");
  }
  std::set<std::string> seen;
  for (const auto& [name, value] : *tables) {
    if (!value.is_table()) return wrong(fmt::format("{}: tables.{} is no table", file, name));
    auto settings = read_table(name, value.as_table(), file, defaults);
    if (!settings) return std::unexpected(settings.error());
    if (!seen.insert(settings->full_name()).second) {
      return wrong(fmt::format("{}: [tables.{}]: the table {} is there twice; each is relayed once",
                               file, name, settings->full_name()));
    }
    config.tables.push_back(std::move(*settings));
  }
  std::ranges::sort(config.tables, {}, &TableSettings::name);
  return config;
}

}  // namespace

std::string_view to_string(Strategy strategy) { return name_of(strategies, strategy); }
std::string_view to_string(Style style) { return name_of(styles, style); }

Result<Strategy> parse_strategy(std::string_view text) {
  for (const auto& [name, strategy] : strategies)
    if (name == text) return strategy;
  return wrong(fmt::format("there is no strategy '{}': there are advisory, skip_locked and shards",
                           base::printable(text)));
}

std::string TableSettings::sent_at_column() const {
  if (columns.sent_at) return *columns.sent_at;
  return style == Style::mark ? "sent_at" : "";
}

Result<Config> parse_config(std::string_view text, const std::string& name) {
  const auto root = toml_file::parse(text, name);
  if (!root) return std::unexpected(root.error());
  return read(root->as_table(), name);
}

Result<Config> read_config(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!(file && text << file.rdbuf())) {
    return failure(
        Errc::not_found,
        fmt::format("cannot read {}: name the relay's configuration with --config", path));
  }
  return parse_config(text.str(), path);
}

Result<std::vector<std::int32_t>> parse_shards(std::string_view text, std::uint32_t count) {
  std::vector<std::int32_t> shards;
  const auto number = [&](std::string_view word) -> std::optional<std::uint32_t> {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size() || value >= count) {
      return std::nullopt;
    }
    return value;
  };
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const auto dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (!first || !last || *first > *last) {
      return wrong(fmt::format("'{}' are no shards: write numbers below {}, such as 0-3,7",
                               base::printable(part), count));
    }
    for (std::uint32_t shard = *first; shard <= *last; ++shard)
      shards.push_back(static_cast<std::int32_t>(shard));
  }
  return shards;
}

Result<void> check_settings(const TableSettings& table) {
  if (table.table.empty() || table.schema.empty()) return wrong("table: name the table");
  if (table.lease < std::chrono::seconds{1}) return wrong("lease: at least 1s");
  if (table.delivery_timeout <= Duration{0} || table.delivery_timeout > table.lease * 3 / 4) {
    return wrong(fmt::format(
        "delivery_timeout: {} is not below three quarters of the lease ({}): what Kafka has not "
        "confirmed must be given up before somebody else takes over",
        format_duration(table.delivery_timeout), format_duration(table.lease)));
  }
  if (table.poll <= Duration{0} || table.poll > table.lease / 3) {
    return wrong(fmt::format("poll: more than 0 and at most a third of the lease ({})",
                             format_duration(table.lease)));
  }
  if (table.transactional && table.strategy != Strategy::shards) {
    return wrong("transactional: only with strategy = \"shards\": there is one id for each shard");
  }
  if (table.transactional && table.lease < std::chrono::seconds{5}) {
    return wrong(fmt::format(
        "transactional: needs a lease of at least 5s, not {}: a new owner initialises its "
        "transactional ids, which takes Kafka some of that time",
        format_duration(table.lease)));
  }
  if (table.shard_by == ShardBy::partition && table.columns.partition.empty()) {
    return wrong("shard_by: \"partition\" needs columns.partition");
  }
  if (table.candidates < table.entities) {
    return wrong("candidates: at least as many as entities");
  }
  if (table.style == Style::mark && table.sent_at_column().empty()) {
    return wrong("columns.sent_at: the style \"mark\" needs it");
  }
  if (table.style == Style::status && table.columns.status.empty()) {
    return wrong("columns.status: the style \"status\" needs it");
  }
  if (table.retention && (table.style == Style::remove || table.sent_at_column().empty())) {
    return wrong("retention: needs a column sent_at, and rows that are kept");
  }
  if (table.commit_order == CommitOrder::watermark && table.columns.xid.empty()) {
    return wrong("columns.xid: commit_order = \"watermark\" needs it");
  }
  return {};
}

}  // namespace strand::relay
