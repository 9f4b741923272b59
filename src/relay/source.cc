#include "relay/source.h"

#include <utility>

#include <fmt/format.h>

#include "base/planted.h"

namespace strand::relay {
namespace {

using postgres::Group;
using postgres::Rows;
using postgres::Statement;

std::string text_or_null(const Outbox& outbox, const std::string& column) {
  return column.empty() || !outbox.has(column) ? "NULL::text" : identifier(column) + "::text";
}

std::string payload_of(const Outbox& outbox) {
  const std::string& column = outbox.settings().columns.payload;
  return outbox.type_of(column) == "bytea" ? identifier(column) : identifier(column) + "::text";
}

// All columns that a message is made of, in the order in which row_of() takes them.
std::string selected(const Outbox& outbox) {
  const Columns& columns = outbox.settings().columns;
  std::string list = fmt::format(
      "{}::text AS c0, {}::text AS c1, {} AS c2, {} AS c3, {} AS c4, {} AS c5, {} AS c6, {} AS c7, "
      "{} AS c8, {} AS c9",
      outbox.id(), outbox.key(), payload_of(outbox), text_or_null(outbox, columns.aggregatetype),
      text_or_null(outbox, columns.type), text_or_null(outbox, columns.headers),
      text_or_null(outbox, columns.topic),
      columns.partition.empty() ? "NULL::int4" : identifier(columns.partition) + "::int4",
      columns.timestamp.empty()
          ? "NULL::int8"
          : fmt::format("(extract(epoch FROM {}) * 1000)::int8", identifier(columns.timestamp)),
      text_or_null(outbox, columns.traceparent));
  int number = 10;
  for (const auto& [header, column] : outbox.settings().header_columns)
    list += fmt::format(", {}::text AS c{}", identifier(column), number++);
  return list;
}

bool reads_by_slot(const TableSettings& settings) {
  return settings.strategy == Strategy::shards && settings.shard_by == ShardBy::partition;
}

// With a watermark, an entity is read up to its first row whose transaction is not older than all
// that are open: a row with a lower number could still become visible.
std::string make_read_sql(const Outbox& outbox) {
  const TableSettings& settings = outbox.settings();
  std::string where = fmt::format("{} AND {}", outbox.waiting(), outbox.key_in(1));
  // By partition, the rows of an entity can be in several shards: a claim is for one of them.
  if (reads_by_slot(settings)) {
    where += fmt::format(
        " AND EXISTS (SELECT FROM unnest($1::text[], $3::text[]) AS c(e, s) WHERE c.e = {}::text "
        "AND c.s = {}::text)",
        outbox.key(), shard_expression(settings));
  }
  if (settings.commit_order != CommitOrder::watermark ||
      STRAND_PLANTED("relay-ignores-open-transactions")) {
    return fmt::format("SELECT {} FROM {} WHERE {} ORDER BY {} LIMIT $2", selected(outbox),
                       outbox.table(), where, outbox.order());
  }
  std::string columns = "c0";
  for (std::size_t i = 1; i < 10 + settings.header_columns.size(); ++i)
    columns += fmt::format(", c{}", i);
  return fmt::format(
      "SELECT {0} FROM (SELECT {1}, {2} AS place, bool_and({3} < "
      "pg_snapshot_xmin(pg_current_snapshot())) OVER (PARTITION BY {4} ORDER BY {2}) AS safe "
      "FROM {5} WHERE {6}) seen WHERE safe ORDER BY place LIMIT $2",
      columns, selected(outbox), outbox.order(), identifier(settings.columns.xid), outbox.key(),
      outbox.table(), where);
}

// Only while the row still waits: who was overtaken does not stop what has gone on.
std::string make_trouble_sql(const Outbox& outbox) {
  return fmt::format(
      "INSERT INTO {0} AS x (relay, entity, state, row_id, reason, next_at) "
      "SELECT $1, $2, $3, $4, $5, now() + ($6::int8[])[1] * interval '1 millisecond' "
      "WHERE EXISTS (SELECT FROM {1} WHERE {2}::text = $4 AND {3} = $2::text::{4} AND {5}) "
      "ON CONFLICT (relay, entity) DO UPDATE SET state = EXCLUDED.state, row_id = EXCLUDED.row_id, "
      "reason = EXCLUDED.reason, attempts = x.attempts + 1, "
      "next_at = now() + ($6::int8[])[least(x.attempts + 1, cardinality($6::int8[]))] * "
      "interval '1 millisecond'",
      outbox.own().trouble, outbox.table(), outbox.id(), outbox.key(),
      outbox.type_of(outbox.settings().columns.key), outbox.waiting());
}

Row row_of(const Rows& rows, std::size_t i, std::size_t header_columns) {
  Row row;
  row.id = rows.bytes(i, 0);
  row.entity = rows.bytes(i, 1);
  row.payload = rows.maybe_bytes(i, 2);
  row.aggregatetype = rows.maybe_bytes(i, 3);
  row.type = rows.maybe_bytes(i, 4);
  row.headers = rows.maybe_bytes(i, 5);
  row.topic = rows.maybe_bytes(i, 6);
  if (!rows.is_null(i, 7)) row.partition = rows.int4(i, 7);
  row.timestamp_ms = rows.maybe_int8(i, 8);
  row.traceparent = rows.maybe_bytes(i, 9);
  for (std::size_t h = 0; h < header_columns; ++h)
    row.header_columns.push_back(rows.maybe_bytes(i, 10 + h));
  return row;
}

Statement trouble_statement(const std::string& sql, const TableSettings& settings,
                            const Trouble& trouble) {
  std::vector<std::int64_t> delays;
  const bool blocked = settings.on_poison == OnPoison::block;
  if (blocked) {
    for (const Duration delay : settings.poison_backoff)
      delays.push_back(delay.count());
  }
  Statement statement{.sql = sql};
  statement.params.text(settings.full_name())
      .text(trouble.entity)
      .text(blocked ? "blocked" : "parked")
      .text(trouble.row)
      .text(trouble.reason)
      .int8s(std::span<const std::int64_t>(delays));
  return statement;
}

}  // namespace

std::string not_stopped(const Outbox& outbox, std::string_view entity, int parameter) {
  return fmt::format(
      "NOT EXISTS (SELECT FROM {} x WHERE x.relay = ${} AND x.entity = {} AND (x.next_at IS NULL "
      "OR x.next_at > now()))",
      outbox.own().trouble, parameter, entity);
}

Source::Source(const Outbox& outbox, postgres::Connection& connection)
    : outbox_(outbox),
      connection_(connection),
      read_sql_(make_read_sql(outbox)),
      trouble_sql_(make_trouble_sql(outbox)) {}

Result<std::vector<Row>> Source::read(std::span<const Claim> claims) {
  std::vector<std::optional<std::string_view>> entities;
  std::vector<std::optional<std::string_view>> slots;
  for (const Claim& claim : claims) {
    entities.emplace_back(claim.entity);
    slots.emplace_back(claim.slot);
  }
  Statement statement{.sql = read_sql_};
  statement.params.texts(entities).int8(outbox_.settings().rows);
  if (reads_by_slot(outbox_.settings())) statement.params.texts(slots);
  return rows_of(connection_.run(Group{std::move(statement)}));
}

Result<std::vector<Row>> Source::rows_of(const postgres::GroupResult& answer) const {
  if (!answer) return std::unexpected(error_of(answer.error(), "reading rows"));
  std::vector<Row> rows;
  for (std::size_t i = 0; i < answer->front().size(); ++i)
    rows.push_back(row_of(answer->front(), i, outbox_.settings().header_columns.size()));
  return rows;
}

Result<std::vector<Row>> Source::peek() {
  const TableSettings& settings = outbox_.settings();
  Statement statement{.sql = fmt::format("SELECT {} FROM {} WHERE {} AND {} ORDER BY {} LIMIT $2",
                                         selected(outbox_), outbox_.table(), outbox_.waiting(),
                                         not_stopped(outbox_, outbox_.key() + "::text", 1),
                                         outbox_.order())};
  statement.params.text(settings.full_name()).int8(settings.rows);
  return rows_of(connection_.run(Group{std::move(statement)}));
}

// One statement: the claims are locked, and looked at again if somebody has changed them
// meanwhile, before a row of theirs is touched.
std::string Source::mark_sql(const Fence& fence) const {
  const TableSettings& settings = outbox_.settings();
  const std::string match = fmt::format("t.{} = r.id::{} AND r.slot IN (SELECT slot FROM held)",
                                        outbox_.id(), outbox_.type_of(settings.columns.id));
  std::string change;
  if (settings.style == Style::remove) {
    change = fmt::format("DELETE FROM {} t USING r WHERE {}", outbox_.table(), match);
  } else {
    std::string set;
    if (settings.style == Style::status) {
      set = fmt::format("{} = {}", identifier(settings.columns.status),
                        literal(settings.status_sent));
    }
    if (const std::string sent_at = settings.sent_at_column(); !sent_at.empty()) {
      set += fmt::format("{}{} = now()", set.empty() ? "" : ", ", identifier(sent_at));
    }
    change = fmt::format("UPDATE {} t SET {} FROM r WHERE {}", outbox_.table(), set, match);
  }
  return fmt::format(
      "WITH r AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS r(id, "
      "slot, entity)), held AS MATERIALIZED ({}), done AS ({} RETURNING r.id), healed AS (DELETE "
      "FROM {} x WHERE x.relay = {} AND x.entity IN (SELECT r.entity FROM r JOIN held USING "
      "(slot)) AND x.state = 'blocked'){} SELECT id FROM done",
      fence.held, change, outbox_.own().trouble, literal(settings.full_name()),
      fence.release.empty() ? "" : fmt::format(", freed AS ({})", fence.release));
}

Result<std::vector<std::string>> Source::mark(const Outcome& outcome, const Fence& fence) {
  std::vector<std::optional<std::string_view>> ids;
  std::vector<std::optional<std::string_view>> slots;
  std::vector<std::optional<std::string_view>> entities;
  for (const Outcome::Sent& sent : outcome.sent) {
    ids.emplace_back(sent.id);
    slots.emplace_back(sent.slot);
    entities.emplace_back(sent.entity);
  }
  Statement statement{.sql = mark_sql(fence)};
  statement.params.texts(ids).texts(slots).texts(entities);
  fence.add_params(statement.params);
  std::vector<Group> groups(1);
  groups.front().push_back(std::move(statement));
  for (const Trouble& trouble : outcome.trouble)
    groups.front().push_back(trouble_statement(trouble_sql_, outbox_.settings(), trouble));
  if (!fence.afterwards.empty()) groups.push_back(Group{Statement{.sql = fence.afterwards}});
  const auto answers = connection_.run(groups);
  for (const auto& answer : answers)
    if (!answer) return std::unexpected(error_of(answer.error(), "marking rows"));
  const Rows& rows = answers.front()->front();
  std::vector<std::string> marked;
  for (std::size_t i = 0; i < rows.size(); ++i)
    marked.emplace_back(rows.bytes(i, 0));
  return marked;
}

Result<std::size_t> Source::forget_sent(std::size_t rows_max) {
  const TableSettings& settings = outbox_.settings();
  if (!settings.retention) return 0;
  const std::string sent_at = identifier(settings.sent_at_column());
  Statement statement{
      .sql =
          fmt::format("WITH old AS MATERIALIZED (SELECT {0} AS id FROM {1} WHERE {2} IS NOT NULL "
                      "AND {2} < now() - $1 * interval '1 millisecond' AND NOT ({3}) "
                      "ORDER BY {2} LIMIT $2 FOR UPDATE SKIP LOCKED) "
                      "DELETE FROM {1} t USING old WHERE t.{0} = old.id",
                      outbox_.id(), outbox_.table(), sent_at, outbox_.waiting())};
  statement.params.int8(settings.retention->count()).int8(static_cast<std::int64_t>(rows_max));
  const auto answer = connection_.run(Group{std::move(statement)});
  if (!answer) return std::unexpected(error_of(answer.error(), "deleting old rows"));
  return answer->front().affected();
}

}  // namespace strand::relay
