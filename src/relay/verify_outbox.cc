#include "relay/verify_outbox.h"

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <unordered_set>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "relay/message.h"

namespace strand::relay {
namespace {

using postgres::Params;
using postgres::Rows;

constexpr std::int64_t rows_at_once = 50'000;
constexpr std::size_t ids_at_once = 10'000;

Result<Rows> ask(postgres::Connection& connection, std::string sql, Params params = {}) {
  auto answer =
      connection.run(postgres::Group{{.sql = std::move(sql), .params = std::move(params)}});
  if (!answer) return std::unexpected(error_of(answer.error(), "reading the outbox"));
  return std::move(answer->front());
}

std::string columns_of(const Outbox& outbox) {
  return fmt::format("{}::text, {}::text, {}::int8, NOT ({})", outbox.id(), outbox.key(),
                     outbox.order(), outbox.waiting());
}

ExpectedRow row_of(const Rows& rows, std::size_t i) {
  return {.id = std::string(rows.bytes(i, 0)),
          .entity = std::string(rows.bytes(i, 1)),
          .order = rows.int8(i, 2),
          .sent = rows.boolean(i, 3)};
}

// In parts, each with a snapshot of its own: a row that is not sent yet, and one that comes
// meanwhile, is not demanded.
Result<std::vector<ExpectedRow>> read_rows(postgres::Connection& connection, const Outbox& outbox) {
  const std::string sql =
      fmt::format("SELECT {} FROM {} t WHERE {} > $1 ORDER BY t.{} LIMIT $2", columns_of(outbox),
                  outbox.table(), outbox.order(), outbox.order());
  std::vector<ExpectedRow> found;
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  while (true) {
    const auto part = ask(connection, sql, Params().int8(last).int8(rows_at_once));
    if (!part) return std::unexpected(part.error());
    for (std::size_t i = 0; i < part->size(); ++i)
      found.push_back(row_of(*part, i));
    if (part->size() < static_cast<std::size_t>(rows_at_once)) return found;
    last = found.back().order;
  }
}

// The topics that the rows are for, whether they were sent or not.
Result<std::set<std::string>> topics_of(postgres::Connection& connection, const Outbox& outbox) {
  const TableSettings& settings = outbox.settings();
  const auto wanted = [&](const std::string& column, std::string_view name) {
    const bool used = name.empty() || settings.topic.find(name) != std::string::npos;
    return used && !column.empty() && outbox.has(column) ? identifier(column) + "::text"
                                                         : std::string("NULL::text");
  };
  const auto rows =
      ask(connection,
          fmt::format("SELECT DISTINCT {}, {}, {}, {} FROM {}", wanted(settings.columns.topic, ""),
                      wanted(settings.columns.aggregatetype, "${aggregatetype}"),
                      wanted(settings.columns.type, "${type}"),
                      wanted(settings.columns.key, "${key}"), outbox.table()));
  if (!rows) return std::unexpected(rows.error());
  std::set<std::string> topics;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    auto topic = rows->maybe_bytes(i, 0);
    if (!topic || topic->empty()) {
      auto filled = fill_template(settings.topic, {{"aggregatetype", rows->maybe_bytes(i, 1)},
                                                   {"type", rows->maybe_bytes(i, 2)},
                                                   {"key", rows->maybe_bytes(i, 3)}});
      // A row that can have none is not sent either.
      if (!filled) continue;
      topic = std::move(*filled);
    }
    topics.insert(*topic);
    if (settings.on_poison != OnPoison::dead_letter) continue;
    if (auto dead = fill_template(settings.dead_letter_topic, {{"topic", *topic}})) {
      topics.insert(std::move(*dead));
    }
  }
  return topics;
}

// Rows that came after the first look, and were delivered meanwhile: those with the ids of messages
// that are of no known row. They come after `after` others.
Result<void> add_late_rows(postgres::Connection& connection, const Outbox& outbox,
                           const std::vector<TopicMessage>& deliveries, std::int64_t after,
                           std::vector<ExpectedRow>& rows) {
  std::unordered_set<std::string_view> known;
  for (const ExpectedRow& row : rows)
    known.insert(row.id);
  std::set<std::string_view> strangers;
  for (const TopicMessage& delivery : deliveries)
    if (delivery.id && !known.contains(*delivery.id)) strangers.insert(*delivery.id);
  const std::string sql = fmt::format("SELECT {} FROM {} WHERE {}::text = ANY ($1::text[])",
                                      columns_of(outbox), outbox.table(), outbox.id());
  std::vector<std::optional<std::string_view>> ids(strangers.begin(), strangers.end());
  // `known` looks into `rows`, which must not move while it is in use.
  std::vector<ExpectedRow> late;
  for (std::size_t begin = 0; begin < ids.size(); begin += ids_at_once) {
    const std::span part = std::span(ids).subspan(begin, std::min(ids_at_once, ids.size() - begin));
    const auto found = ask(connection, sql, Params().texts(part));
    if (!found) return std::unexpected(found.error());
    for (std::size_t i = 0; i < found->size(); ++i) {
      late.push_back(row_of(*found, i));
      late.back().sent = false;
      late.back().order += after;
    }
  }
  rows.insert(rows.end(), std::make_move_iterator(late.begin()),
              std::make_move_iterator(late.end()));
  return {};
}

// What was expected and lies in the table of a style that deletes has not been sent; what lies
// there and was not expected comes after it.
void join_waiting(std::vector<ExpectedRow>& expected, const std::vector<ExpectedRow>& in_table,
                  bool waiting_only) {
  std::unordered_set<std::string_view> named;
  for (const ExpectedRow& row : expected)
    named.insert(row.id);
  std::unordered_set<std::string_view> waiting;
  std::vector<ExpectedRow> more;
  const auto after = static_cast<std::int64_t>(expected.size());
  for (const ExpectedRow& row : in_table) {
    if (waiting_only) waiting.insert(row.id);
    if (named.contains(row.id)) continue;
    more.push_back(row);
    more.back().order = after + std::max<std::int64_t>(row.order, 0);
    more.back().sent = false;
  }
  for (ExpectedRow& row : expected)
    if (waiting.contains(row.id)) row.sent = false;
  expected.insert(expected.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
}

}  // namespace

Result<OutboxVerified> verify_outbox(postgres::Connection& connection, const Outbox& outbox,
                                     const std::map<std::string, std::string>& kafka,
                                     const VerifyOutboxOptions& options) {
  const TableSettings& settings = outbox.settings();
  const bool deletes = settings.style == Style::remove;
  if (deletes && !options.expected) {
    return failure(Errc::unsupported,
                   fmt::format("{} does not keep rows that were sent, so there is nothing to hold "
                               "the topics against: name a file with the rows (--expected)",
                               settings.full_name()));
  }
  // The order of these steps matters: what is marked was confirmed before, so it lies before the
  // ends that are asked for afterwards.
  auto rows = read_rows(connection, outbox);
  if (!rows) return std::unexpected(rows.error());
  auto topics = topics_of(connection, outbox);
  if (!topics) return std::unexpected(topics.error());
  topics->insert(options.topics.begin(), options.topics.end());
  auto reader = TopicReader::open(kafka, options.timeout);
  if (!reader) return std::unexpected(reader.error());

  OutboxVerified verified{.topics = {topics->begin(), topics->end()}};
  auto ranges = (*reader)->ranges(verified.topics, &verified.absent);
  if (!ranges) return std::unexpected(ranges.error());
  verified.ranges = std::move(*ranges);
  const auto deliveries = (*reader)->read(verified.topics, verified.ranges);
  if (!deliveries) return std::unexpected(deliveries.error());

  if (options.expected) {
    std::vector<ExpectedRow> expected = *options.expected;
    join_waiting(expected, *rows, deletes);
    *rows = std::move(expected);
  }
  const auto after = static_cast<std::int64_t>(options.expected ? options.expected->size() : 0);
  if (auto added = add_late_rows(connection, outbox, *deliveries, after, *rows); !added) {
    return std::unexpected(added.error());
  }
  verified.report = verify(*rows, *deliveries, {.allow_unknown = options.allow_unknown});
  return verified;
}

Result<std::vector<ExpectedRow>> parse_expected(std::string_view text) {
  std::vector<ExpectedRow> rows;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    boost::system::error_code error;
    const boost::json::value value = boost::json::parse(line, error);
    const boost::json::object* object = error ? nullptr : value.if_object();
    const auto member = [&](std::string_view name) -> const boost::json::string* {
      const boost::json::value* found = object != nullptr ? object->if_contains(name) : nullptr;
      return found != nullptr ? found->if_string() : nullptr;
    };
    const boost::json::string* id = member("id");
    const boost::json::string* key = member("key");
    if (id == nullptr || key == nullptr) {
      return failure(
          Errc::invalid_argument,
          fmt::format("line {} is not like {{\"id\": \"4711\", \"key\": \"order-7\"}}: {}", number,
                      base::printable(line)));
    }
    rows.push_back({.id = std::string(*id), .entity = std::string(*key), .order = number});
  }
  return rows;
}

}  // namespace strand::relay
