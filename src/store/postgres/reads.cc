#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "store/contract/check.h"
#include "store/postgres/postgres_store.h"

// Reads, and the histories that leases bring along.

namespace strand::postgres {

namespace {

// A page asks for one more than it shows: so it knows whether there is more.
std::int32_t one_more(std::size_t limit) { return static_cast<std::int32_t>(limit + 1); }

template <class T>
Page<T> page_of(std::vector<T> items, std::size_t limit) {
  Page<T> page{.items = std::move(items), .more = false};
  page.more = page.items.size() > limit;
  if (page.more) page.items.resize(limit);
  return page;
}

std::optional<std::int64_t> number(const std::optional<MessageId>& id) {
  if (!id) return std::nullopt;
  return static_cast<std::int64_t>(*id);
}

// Limits and numbers may be the largest that there is.
std::int64_t capped(std::uint64_t value) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(value, INT64_MAX));
}

// Columns `first` and on: execution, length, first_event, label, outcome, opened_at, updated_at.
Execution read_execution(const Rows& rows, std::size_t row, std::size_t first) {
  Execution execution;
  execution.number = static_cast<std::uint64_t>(rows.int8(row, first));
  execution.length = static_cast<std::uint64_t>(rows.int8(row, first + 1));
  execution.first = static_cast<std::uint64_t>(rows.int8(row, first + 2));
  execution.label = std::string(rows.bytes(row, first + 3));
  execution.outcome = rows.maybe_bytes(row, first + 4);
  execution.opened_at = time_at(rows.int8(row, first + 5));
  execution.updated_at = time_at(rows.int8(row, first + 6));
  return execution;
}

// The first key behind all that begin with the prefix; nothing if there is none.
std::optional<std::string> behind_prefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff')
    prefix.pop_back();
  if (prefix.empty()) return std::nullopt;
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

}  // namespace

Result<History> PostgresStore::read_history(const HistoryQuery& query) {
  Statement statement{.sql =
                          "select execution, length, first_event, label, outcome, opened_at, "
                          "updated_at, event from read_history($1, $2, $3, $4, $5)"};
  statement.params.text(query.queue)
      .bytea(query.key)
      .int8(capped(query.execution))
      .int8(capped(query.from))
      .int8(capped(query.limit));
  const auto rows = ask(std::move(statement), "reading a history");
  if (!rows) return std::unexpected(rows.error());
  History history{.execution = {}, .first = query.from, .events = {}};
  if (!rows->empty()) history.execution = read_execution(*rows, 0, 0);
  history.execution.queue = query.queue;
  history.execution.key = query.key;
  history.first = std::max(query.from, history.execution.first);
  constexpr std::size_t event = 7;
  for (std::size_t row = 0; row < rows->size() && !rows->is_null(row, event); ++row)
    history.events.emplace_back(rows->bytes(row, event));
  return history;
}

Result<void> PostgresStore::add_histories(std::vector<Lease>& leases, const LeaseRequest& request) {
  for (Lease& lease : leases) {
    if (!lease.key) continue;
    auto history = read_history({.queue = lease.queue,
                                 .key = *lease.key,
                                 .execution = 0,
                                 .from = *request.history_from,
                                 .limit = request.history_limit});
    if (!history) return std::unexpected(history.error());
    lease.history = std::move(*history);
  }
  return {};
}

Result<History> PostgresStore::history(const HistoryQuery& query) {
  if (auto checked = check_page(query.limit, limits_); !checked) {
    return std::unexpected(checked.error());
  }
  auto history = read_history(query);
  if (!history || history->execution.number != 0) return history;
  return failure(
      Errc::not_found,
      fmt::format("queue '{}' has no history of instance '{}'{}", base::printable(query.queue),
                  base::printable(query.key),
                  query.execution == 0 ? "" : fmt::format(", execution {}", query.execution)));
}

Result<Page<Execution>> PostgresStore::instances(const InstancesQuery& query) {
  if (auto checked = check_page(query.limit, limits_); !checked) {
    return std::unexpected(checked.error());
  }
  Statement statement{.sql =
                          "select key, execution, length, first_event, label, outcome, opened_at, "
                          "updated_at from list_instances($1, $2, $3, $4)"};
  statement.params.text(query.queue)
      .boolean(query.open)
      .bytea(query.after)
      .int4(one_more(query.limit));
  const auto rows = ask(std::move(statement), "listing instances");
  if (!rows) return std::unexpected(rows.error());
  std::vector<Execution> items;
  for (std::size_t row = 0; row < rows->size(); ++row) {
    Execution execution = read_execution(*rows, row, 1);
    execution.queue = query.queue;
    execution.key = std::string(rows->bytes(row, 0));
    items.push_back(std::move(execution));
  }
  return page_of(std::move(items), query.limit);
}

Result<std::optional<Record>> PostgresStore::record(std::string_view space, std::string_view key) {
  if (auto checked = check_key("record space", space, limits_); !checked) {
    return std::unexpected(checked.error());
  }
  if (auto checked = check_key("record key", key, limits_); !checked) {
    return std::unexpected(checked.error());
  }
  Statement statement{.sql = "select version, value from records where space = $1 and key = $2"};
  statement.params.bytea(space).bytea(key);
  const auto rows = ask(std::move(statement), "reading a record");
  if (!rows) return std::unexpected(rows.error());
  if (rows->empty()) return std::nullopt;
  return Record{.space = std::string(space),
                .key = std::string(key),
                .version = Version{static_cast<std::uint64_t>(rows->int8(0, 0))},
                .value = Bytes(rows->bytes(0, 1))};
}

Result<Page<Record>> PostgresStore::records(const RecordsQuery& query) {
  if (auto checked = check_page(query.limit, limits_); !checked) {
    return std::unexpected(checked.error());
  }
  if (auto checked = check_key("record space", query.space, limits_); !checked) {
    return std::unexpected(checked.error());
  }
  const auto end = behind_prefix(query.prefix);
  Statement statement{.sql = "select key, version, value from list_records($1, $2, $3, $4, $5)"};
  statement.params.bytea(query.space)
      .bytea(query.prefix)
      .bytea(query.after)
      .bytea(end ? std::optional<std::string_view>(*end) : std::nullopt)
      .int4(one_more(query.limit));
  const auto rows = ask(std::move(statement), "listing records");
  if (!rows) return std::unexpected(rows.error());
  std::vector<Record> items;
  for (std::size_t row = 0; row < rows->size(); ++row) {
    items.push_back({.space = query.space,
                     .key = std::string(rows->bytes(row, 0)),
                     .version = Version{static_cast<std::uint64_t>(rows->int8(row, 1))},
                     .value = Bytes(rows->bytes(row, 2))});
  }
  return page_of(std::move(items), query.limit);
}

Result<Page<PeekedMessage>> PostgresStore::peek(const PeekQuery& query) {
  if (auto checked = check_page(query.limit, limits_); !checked) {
    return std::unexpected(checked.error());
  }
  Statement statement{
      .sql =
          "select id, body, headers, priority, deliveries, attempts, enqueued_at, due, "
          "expires_at, name, topic, key, label, state, retry_at, last_reason, park_reason "
          "from peek($1, $2, $3, $4, $5)"};
  statement.params.text(query.queue)
      .bytea(query.key ? std::optional<std::string_view>(*query.key) : std::nullopt)
      .int4(query.state ? std::optional(static_cast<std::int32_t>(*query.state)) : std::nullopt)
      .int8(number(query.after))
      .int4(one_more(query.limit));
  const auto rows = ask(std::move(statement), "peeking");
  if (!rows) return std::unexpected(rows.error());
  return page_of(read_peeked(*rows), query.limit);
}

Result<Page<DeadLetter>> PostgresStore::dead_letters(const DeadLettersQuery& query) {
  if (auto checked = check_page(query.limit, limits_); !checked) {
    return std::unexpected(checked.error());
  }
  Statement statement{
      .sql =
          "select id, body, headers, priority, deliveries, attempts, enqueued_at, due, "
          "expires_at, name, topic, key, label, dead_at, reason, failure_times, "
          "failure_reasons from dead_letters($1, $2, $3)"};
  statement.params.text(query.queue).int8(number(query.after)).int4(one_more(query.limit));
  const auto rows = ask(std::move(statement), "listing dead letters");
  if (!rows) return std::unexpected(rows.error());
  return page_of(read_dead_letters(*rows, query.queue), query.limit);
}

Result<QueueStats> PostgresStore::stats(std::string_view queue) {
  Statement statement{.sql = "select * from stats($1)"};
  statement.params.text(queue);
  const auto rows = ask(std::move(statement), "counting");
  if (!rows) return std::unexpected(rows.error());
  return read_stats(*rows);
}

Result<std::vector<QueueInfo>> PostgresStore::queues() {
  const auto rows = ask(
      {.sql = "select name, paused, max_attempts, backoff, jitter_percent, retry_policy = 'skip', "
              "on_exhausted = 'park', ttl, on_expired = 'dead', dedup_window, lease, "
              "starvation_after, max_length, notice_queue, notice_key from queues order by name"},
      "listing queues");
  if (!rows) return std::unexpected(rows.error());
  return read_queues(*rows);
}

Result<std::vector<Subscription>> PostgresStore::subscriptions() {
  const auto rows =
      ask({.sql = "select name, pattern from queues where pattern is not null order by name"},
          "listing subscriptions");
  if (!rows) return std::unexpected(rows.error());
  std::vector<Subscription> subscriptions;
  for (std::size_t row = 0; row < rows->size(); ++row) {
    subscriptions.push_back(
        {.queue = std::string(rows->bytes(row, 0)), .pattern = std::string(rows->bytes(row, 1))});
  }
  return subscriptions;
}

Result<std::vector<Topic>> PostgresStore::topics() {
  const auto rows = ask({.sql = "select name, retain from topics order by name"}, "listing topics");
  if (!rows) return std::unexpected(rows.error());
  std::vector<Topic> topics;
  for (std::size_t row = 0; row < rows->size(); ++row) {
    topics.push_back({.name = std::string(rows->bytes(row, 0)),
                      .settings = {.retain = Duration{rows->int8(row, 1)}}});
  }
  return topics;
}

}  // namespace strand::postgres
