#include "relay/outbox.h"

#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/nearest.h"

namespace strand::relay {
namespace {

std::string doubled(std::string_view text, char quote) {
  std::string result(1, quote);
  for (const char c : text) {
    if (c == quote) result += quote;
    result += c;
  }
  return result += quote;
}

}  // namespace

std::string identifier(std::string_view name) { return doubled(name, '"'); }
std::string literal(std::string_view text) { return doubled(text, '\''); }

Error error_of(const postgres::Failure& failure, std::string_view what) {
  using Kind = postgres::Failure::Kind;
  const bool later = failure.kind != Kind::refused || failure.repeatable();
  const std::string_view space = failure.detail.empty() ? "" : " ";
  return {later ? Errc::unavailable : Errc::invalid_argument,
          fmt::format("{}: {}{}{}{}", what, failure.message, space, failure.detail,
                      failure.sqlstate.empty() ? "" : fmt::format(" ({})", failure.sqlstate))};
}

OwnTables::OwnTables(std::string_view schema)
    : schema(schema),
      epochs(identifier(schema) + ".strand_relay_epochs"),
      workers(identifier(schema) + ".strand_relay_workers"),
      claims(identifier(schema) + ".strand_relay_claims"),
      shards(identifier(schema) + ".strand_relay_shards"),
      trouble(identifier(schema) + ".strand_relay_trouble") {}

std::string table_name(const TableSettings& settings) {
  return identifier(settings.schema) + "." + identifier(settings.table);
}

std::string waiting_condition(const TableSettings& settings) {
  switch (settings.style) {
    case Style::mark:
      return identifier(settings.sent_at_column()) + " IS NULL";
    case Style::status:
      if (settings.status_processing.empty()) {
        return fmt::format("{} = {}", identifier(settings.columns.status),
                           literal(settings.status_new));
      }
      return fmt::format("{} IN ({}, {})", identifier(settings.columns.status),
                         literal(settings.status_new), literal(settings.status_processing));
    case Style::remove:
      break;
  }
  return "true";
}

// No abs(): of the smallest integer there is none, and the statement would fail.
std::string shard_expression(const TableSettings& settings) {
  if (settings.shard_by == ShardBy::partition) {
    return fmt::format("((coalesce({}, 0)::bigint & 2147483647) % {})",
                       identifier(settings.columns.partition), settings.shards);
  }
  return fmt::format("((hashtext({}::text)::bigint & 2147483647) % {})",
                     identifier(settings.columns.key), settings.shards);
}

Outbox::Outbox(TableSettings settings, OwnTables own)
    : settings_(std::move(settings)),
      own_(std::move(own)),
      table_(table_name(settings_)),
      waiting_(waiting_condition(settings_)) {}

Result<Outbox> Outbox::describe(postgres::Connection& connection, const TableSettings& settings,
                                const OwnTables& own) {
  Outbox outbox(settings, own);
  postgres::Params params;
  params.text(outbox.table_);
  const auto answer = connection.run(postgres::Group{
      {.sql = "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a "
              "WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped",
       .params = std::move(params)}});
  if (!answer) return std::unexpected(error_of(answer.error(), "looking at " + outbox.table_));
  const postgres::Rows& rows = answer->front();
  if (rows.empty()) {
    return failure(
        Errc::not_found,
        fmt::format("there is no table {}: strand relay init writes one", settings.full_name()));
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    outbox.types_.emplace(rows.bytes(i, 0), rows.bytes(i, 1));
  outbox.created_at_ = settings.columns.created_at.value_or(
      outbox.types_.contains("created_at") ? "created_at" : "");
  if (auto fits = outbox.check_columns(); !fits) return std::unexpected(fits.error());
  return outbox;
}

Result<void> Outbox::check_columns() const {
  const Columns& columns = settings_.columns;
  std::vector<std::string> known;
  for (const auto& [name, type] : types_)
    known.push_back(name);
  std::vector<std::pair<std::string, std::string>> wanted = {
      {"id", columns.id},
      {"order", settings_.order_column()},
      {"key", columns.key},
      {"payload", columns.payload},
      {"type", columns.type},
      {"aggregatetype", columns.aggregatetype},
      {"headers", columns.headers},
      {"topic", columns.topic},
      {"partition", columns.partition},
      {"timestamp", columns.timestamp},
      {"traceparent", columns.traceparent},
      {"created_at", created_at_},
      {"sent_at", settings_.style == Style::remove ? "" : settings_.sent_at_column()}};
  // A template that does not ask for the aggregate's type does without it.
  if (!types_.contains(columns.aggregatetype) &&
      settings_.topic.find("${aggregatetype}") == std::string::npos) {
    std::erase_if(wanted, [](const auto& entry) { return entry.first == "aggregatetype"; });
  }
  if (settings_.style == Style::status) wanted.emplace_back("status", columns.status);
  if (settings_.commit_order == CommitOrder::watermark) wanted.emplace_back("xid", columns.xid);
  for (const auto& [header, column] : settings_.header_columns)
    wanted.emplace_back("header " + header, column);
  for (const auto& [role, column] : wanted) {
    if (column.empty() || types_.contains(column)) continue;
    return failure(
        Errc::not_found,
        fmt::format("{} has no column {} (for {}){}; name another one in columns, or \"\" for none",
                    settings_.full_name(), column, role, base::suggestion(column, known)));
  }
  static const std::set<std::string> integers = {"smallint", "integer", "bigint"};
  if (!integers.contains(type_of(settings_.order_column()))) {
    return failure(Errc::invalid_argument,
                   fmt::format("{}.{} is of type {}, which has no order of insertion: name an "
                               "integer column that grows as columns.order",
                               settings_.full_name(), settings_.order_column(),
                               type_of(settings_.order_column())));
  }
  if (settings_.format == PayloadFormat::json && type_of(columns.payload) == "bytea") {
    return failure(Errc::invalid_argument, fmt::format("{}.{} is bytea: write format = \"bytes\"",
                                                       settings_.full_name(), columns.payload));
  }
  if (settings_.commit_order == CommitOrder::watermark && type_of(columns.xid) != "xid8") {
    return failure(Errc::invalid_argument,
                   fmt::format("{}.{} is of type {}: a watermark needs xid8 NOT NULL DEFAULT "
                               "pg_current_xact_id()",
                               settings_.full_name(), columns.xid, type_of(columns.xid)));
  }
  return {};
}

std::string Outbox::type_of(const std::string& column) const {
  const auto found = types_.find(column);
  return found == types_.end() ? "" : found->second;
}

std::string Outbox::key_in(int parameter) const {
  return fmt::format("{} = ANY(${}::text[]::{}[])", key(), parameter,
                     type_of(settings_.columns.key));
}

}  // namespace strand::relay
