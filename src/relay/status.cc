#include "relay/status.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "pq/connection.h"
#include "relay/outbox.h"

namespace strand::relay {
namespace {

using postgres::Connection;
using postgres::Group;
using postgres::Rows;
using postgres::Statement;

// As milliseconds, which is what our times count.
std::string ms(std::string_view expression) {
  return fmt::format("(extract(epoch FROM {}) * 1000)::int8", expression);
}

Time time_of(std::int64_t milliseconds) { return Time{Duration{milliseconds}}; }

std::optional<Time> maybe_time(const Rows& rows, std::size_t row, std::size_t column) {
  const auto value = rows.maybe_int8(row, column);
  return value ? std::optional(time_of(*value)) : std::nullopt;
}

Statement about(std::string sql, const TableSettings& settings) {
  Statement statement{.sql = std::move(sql)};
  statement.params.text(settings.full_name());
  return statement;
}

// One round trip; what happens between two of the questions may be seen by the second alone.
Group questions(const Outbox& outbox) {
  const TableSettings& settings = outbox.settings();
  const OwnTables& own = outbox.own();
  Group group;
  group.push_back(
      {.sql = fmt::format("SELECT count(*) FROM {} WHERE {}", outbox.table(), outbox.waiting())});
  group.push_back(
      {.sql = fmt::format("SELECT {}::text, {}::text, {} FROM {} WHERE {} ORDER BY {} LIMIT 1",
                          outbox.key(), outbox.id(),
                          outbox.created_at().empty()
                              ? "NULL::int8"
                              : ms("now() - " + identifier(outbox.created_at())),
                          outbox.table(), outbox.waiting(), outbox.order())});
  group.push_back(about(
      fmt::format("SELECT entity, state, row_id, reason, attempts, {}, {} FROM {} WHERE relay = $1 "
                  "ORDER BY since, entity",
                  ms("since"), ms("next_at"), own.trouble),
      settings));
  group.push_back(
      about(fmt::format(
                "SELECT owner, process, worker, host, pid, strategy, {}, until >= now(), rows FROM "
                "{} WHERE relay = $1 ORDER BY process, worker",
                ms("seen_at"), own.workers),
            settings));
  group.push_back(
      about(fmt::format("SELECT shard, owner, epoch, CASE WHEN isfinite(until) THEN {} END FROM {} "
                        "WHERE relay = $1 ORDER BY shard",
                        ms("until"), own.shards),
            settings));
  group.push_back(
      about(fmt::format("SELECT count(*) FROM {} WHERE relay = $1 AND until >= now()", own.claims),
            settings));
  return group;
}

TableStatus read(const TableSettings& settings, const std::vector<Rows>& answers) {
  TableStatus status{
      .table = settings.name, .strategy = settings.strategy, .style = settings.style};
  status.waiting_rows = answers[0].int8(0, 0);
  const Rows& oldest = answers[1];
  if (!oldest.empty()) {
    status.oldest = TableStatus::Oldest{.entity = std::string(oldest.bytes(0, 0)),
                                        .id = std::string(oldest.bytes(0, 1)),
                                        .waiting_ms = oldest.maybe_int8(0, 2)};
  }
  const Rows& trouble = answers[2];
  for (std::size_t i = 0; i < trouble.size(); ++i) {
    status.trouble.push_back({.entity = std::string(trouble.bytes(i, 0)),
                              .state = std::string(trouble.bytes(i, 1)),
                              .row = std::string(trouble.bytes(i, 2)),
                              .reason = std::string(trouble.bytes(i, 3)),
                              .attempts = trouble.int4(i, 4),
                              .since = time_of(trouble.int8(i, 5)),
                              .next_at = maybe_time(trouble, i, 6)});
  }
  const Rows& workers = answers[3];
  for (std::size_t i = 0; i < workers.size(); ++i) {
    status.workers.push_back({.owner = std::string(workers.bytes(i, 0)),
                              .process = std::string(workers.bytes(i, 1)),
                              .worker = workers.int4(i, 2),
                              .host = std::string(workers.bytes(i, 3)),
                              .pid = workers.int4(i, 4),
                              .strategy = std::string(workers.bytes(i, 5)),
                              .seen_at = time_of(workers.int8(i, 6)),
                              .live = workers.boolean(i, 7),
                              .rows = workers.int8(i, 8)});
  }
  const Rows& shards = answers[4];
  for (std::size_t i = 0; i < shards.size(); ++i) {
    status.shards.push_back({.shard = shards.int4(i, 0),
                             .owner = std::string(shards.bytes(i, 1)),
                             .epoch = shards.int8(i, 2),
                             .until = maybe_time(shards, i, 3)});
  }
  status.claims = answers[5].int8(0, 0);
  return status;
}

}  // namespace

Result<std::vector<TableStatus>> status(const Config& config) {
  const auto connection = Connection::open(config.conninfo);
  if (!connection) return std::unexpected(connection.error());
  const OwnTables own(config.own_schema);
  std::vector<TableStatus> result;
  for (const TableSettings& settings : config.tables) {
    const auto outbox = Outbox::describe(**connection, settings, own);
    if (!outbox) return std::unexpected(outbox.error());
    const auto answers = (*connection)->run(questions(*outbox));
    if (!answers) {
      return std::unexpected(error_of(answers.error(), "looking at " + settings.full_name()));
    }
    result.push_back(read(settings, *answers));
  }
  return result;
}

Result<std::size_t> resume(const Config& config, const TableSettings& table,
                           std::span<const std::string> entities) {
  const auto connection = Connection::open(config.conninfo);
  if (!connection) return std::unexpected(connection.error());
  const OwnTables own(config.own_schema);
  const std::vector<std::optional<std::string_view>> names(entities.begin(), entities.end());
  Statement statement{.sql = fmt::format("DELETE FROM {} WHERE relay = $1 AND (cardinality($2) = 0 "
                                         "OR entity = ANY($2))",
                                         own.trouble)};
  statement.params.text(table.full_name()).texts(names);
  Statement wake{.sql = "SELECT pg_notify($1, '')"};
  wake.params.text(table.channel);
  const auto answer = (*connection)->run(Group{std::move(statement), std::move(wake)});
  if (!answer) return std::unexpected(error_of(answer.error(), "resuming"));
  return answer->front().affected();
}

}  // namespace strand::relay
