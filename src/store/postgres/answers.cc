#include "store/postgres/answers.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace strand::postgres {

namespace {

std::uint64_t number(std::int64_t value) { return static_cast<std::uint64_t>(value); }

// The codes with which the functions of the schema refuse.
constexpr std::array<std::pair<std::string_view, Errc>, 19> refusals = {{
    {"STARG", Errc::invalid_argument},
    {"STLIM", Errc::limit_exceeded},
    {"STBIG", Errc::transaction_too_large},
    {"STTOK", Errc::invalid_token},
    {"STNFD", Errc::not_found},
    {"STEXI", Errc::already_exists},
    {"STUSE", Errc::in_use},
    {"STNAM", Errc::name_taken},
    {"STLOS", Errc::lease_lost},
    {"STMNL", Errc::message_not_leased},
    {"STCUR", Errc::invalid_cursor},
    {"STVER", Errc::version_mismatch},
    {"STHIS", Errc::history_mismatch},
    {"STCON", Errc::transaction_conflict},
    {"STEXP", Errc::transaction_expired},
    {"STQFU", Errc::queue_full},
    {"STSFU", Errc::store_full},
    {"53100", Errc::store_full},  // disk full
    {"23505", Errc::name_taken},  // two sends of one name at the same time
}};

std::optional<Time> maybe_time(const Rows& rows, std::size_t row, std::size_t column) {
  const auto value = rows.maybe_int8(row, column);
  return value ? std::optional(time_at(*value)) : std::nullopt;
}

// Columns `first` and on: id, body, headers, priority, deliveries, attempts, enqueued_at, due,
// expires_at, name, topic.
template <class Kind>
Kind read_message(const Rows& rows, std::size_t row, std::size_t first) {
  Kind message;
  message.id = MessageId{number(rows.int8(row, first))};
  message.body = std::string(rows.bytes(row, first + 1));
  if (!rows.is_null(row, first + 2)) message.headers = decode_headers(rows.bytes(row, first + 2));
  message.priority = static_cast<Priority>(rows.int4(row, first + 3));
  message.deliveries = static_cast<std::uint32_t>(rows.int4(row, first + 4));
  message.attempts = static_cast<std::uint32_t>(rows.int4(row, first + 5));
  message.enqueued_at = time_at(rows.int8(row, first + 6));
  message.due = time_at(rows.int8(row, first + 7));
  message.expires_at = maybe_time(rows, row, first + 8);
  message.name = rows.maybe_bytes(row, first + 9);
  message.topic = rows.maybe_bytes(row, first + 10);
  return message;
}

// The columns of the type `granted` in lease.sql.
enum Column : std::size_t {
  n,
  epoch,
  place,
  key,
  label,
  lease_until,
  cursor,
  isolated,
  more,
  turn,
  lane_priority,
  message,
  low = message + 11,
  high
};

void sort_by_place(std::vector<Message>& messages) {
  std::ranges::sort(messages, [](const Message& a, const Message& b) {
    return std::pair(a.due, a.id) < std::pair(b.due, b.id);
  });
}

}  // namespace

Error error_of(const Failure& failure, std::string_view what) {
  switch (failure.kind) {
    case Failure::Kind::unknown_outcome:
      return {Errc::unknown_outcome,
              fmt::format("the connection to PostgreSQL broke while {} was committed, so it may "
                          "have been applied: repeat it with the same id ({})",
                          what, failure.message)};
    case Failure::Kind::not_sent:
      return {Errc::unavailable,
              fmt::format("PostgreSQL cannot be reached, and {} was not done: {}", what,
                          failure.message)};
    case Failure::Kind::refused:
      break;
  }
  for (const auto& [code, errc] : refusals) {
    if (failure.sqlstate == code) return {errc, failure.message};
  }
  // Classes: connection trouble, no resources, an operator stepped in.
  const std::string_view kind = std::string_view(failure.sqlstate).substr(0, 2);
  const bool later = kind == "08" || kind == "53" || kind == "57" || kind == "40" || kind == "55";
  return {later ? Errc::unavailable : Errc::io_error,
          fmt::format("PostgreSQL refused {}: {} (SQLSTATE {})", what, failure.message,
                      failure.sqlstate)};
}

bool was_applied(const Failure& failure) {
  return failure.kind == Failure::Kind::refused && failure.sqlstate == "STRCP";
}

Receipt read_receipt(const TransactionPlan& plan, std::span<const Rows> rows) {
  Receipt receipt;
  receipt.time = time_at(rows[plan.time].int8(0, 0));
  if (plan.cancels) {
    for (const std::int64_t there : rows[*plan.cancels].int8s(0, 0))
      receipt.cancelled.push_back(there != 0);
  }
  if (plan.sends) {
    const auto ids = rows[*plan.sends].int8s(0, 0);
    const auto duplicates = rows[*plan.sends].int8s(0, 1);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      receipt.sent.push_back({.id = MessageId{number(ids[i])}, .duplicate = duplicates[i] != 0});
    }
  }
  if (plan.publishes) {
    const auto ids = rows[*plan.publishes].int8s(0, 0);
    const auto duplicates = rows[*plan.publishes].int8s(0, 1);
    const auto matched = rows[*plan.publishes].int8s(0, 2);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      receipt.published.push_back({.id = MessageId{number(ids[i])},
                                   .duplicate = duplicates[i] != 0,
                                   .matched = static_cast<std::uint32_t>(matched[i])});
    }
  }
  if (plan.records) {
    for (const std::int64_t version : rows[*plan.records].int8s(0, 0))
      receipt.versions.push_back(Version{number(version)});
  }
  if (plan.admin) receipt.affected = number(rows[*plan.admin].int8(0, 0));
  return receipt;
}

std::optional<Receipt> read_stored_receipt(const Rows& rows) {
  if (rows.empty()) return std::nullopt;
  Receipt receipt;
  receipt.time = time_at(rows.int8(0, 0));
  const auto sent = rows.int8s(0, 1);
  const auto duplicate = rows.int8s(0, 2);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    receipt.sent.push_back({.id = MessageId{number(sent[i])}, .duplicate = duplicate[i] != 0});
  }
  const auto published = rows.int8s(0, 3);
  const auto republished = rows.int8s(0, 4);
  const auto matched = rows.int8s(0, 5);
  for (std::size_t i = 0; i < published.size(); ++i) {
    receipt.published.push_back({.id = MessageId{number(published[i])},
                                 .duplicate = republished[i] != 0,
                                 .matched = static_cast<std::uint32_t>(matched[i])});
  }
  for (const std::int64_t there : rows.int8s(0, 6))
    receipt.cancelled.push_back(there != 0);
  for (const std::int64_t version : rows.int8s(0, 7))
    receipt.versions.push_back(Version{number(version)});
  receipt.affected = number(rows.int8(0, 8));
  return receipt;
}

Granted read_granted(const Rows& rows, std::string_view queue, const Identity& identity) {
  Granted granted;
  granted.fresh = true;
  // Rows of one lease are not always together, nor leases in order.
  std::vector<std::size_t> order(rows.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t row) { return std::pair(rows.int4(row, n), row); });
  std::int32_t last = 0;
  for (const std::size_t row : order) {
    if (const std::int32_t lease = rows.int4(row, n); lease != last) {
      last = lease;
      granted.leases.push_back(
          {.token = seal(identity, rows.int8(row, epoch), rows.int8(row, place)),
           .queue = std::string(queue),
           .key = rows.maybe_bytes(row, key),
           .label = std::string(rows.bytes(row, label)),
           .messages = {},
           .expires_at = time_at(rows.int8(row, lease_until)),
           .cursor = Cursor{number(rows.int8(row, cursor))},
           .isolated = rows.boolean(row, isolated),
           .more = rows.boolean(row, more),
           .history = std::nullopt});
      if (rows.is_null(row, turn)) {
        granted.fresh = false;
      } else {
        const Turn served{.priority = rows.int4(row, lane_priority),
                          .number = rows.int8(row, turn)};
        if (!granted.first) granted.first = served;
        granted.low = rows.int8(row, low);
        granted.high = rows.int8(row, high);
      }
    }
    if (!rows.is_null(row, message)) {
      granted.leases.back().messages.push_back(read_message<Message>(rows, row, message));
    }
  }
  for (Lease& lease : granted.leases)
    sort_by_place(lease.messages);
  return granted;
}

Pulled read_pulled(const Rows& rows) {
  Pulled pulled;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    pulled.cursor = Cursor{number(rows.int8(row, cursor))};
    pulled.more = rows.boolean(row, more);
    if (!rows.is_null(row, message)) {
      pulled.messages.push_back(read_message<Message>(rows, row, message));
    }
  }
  sort_by_place(pulled.messages);
  return pulled;
}

// Columns: message (11), key, label, state, retry_at, last_reason, park_reason.
std::vector<PeekedMessage> read_peeked(const Rows& rows) {
  std::vector<PeekedMessage> messages;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    auto peeked = read_message<PeekedMessage>(rows, row, 0);
    peeked.key = rows.maybe_bytes(row, 11);
    peeked.label = std::string(rows.bytes(row, 12));
    peeked.state = static_cast<MessageState>(rows.int4(row, 13));
    peeked.retry_at = maybe_time(rows, row, 14);
    peeked.last_reason = rows.maybe_bytes(row, 15);
    peeked.park_reason = rows.maybe_bytes(row, 16);
    messages.push_back(std::move(peeked));
  }
  return messages;
}

// Columns: message (11), key, label, dead_at, reason, failure times, failure reasons.
std::vector<DeadLetter> read_dead_letters(const Rows& rows, const std::string& queue) {
  std::vector<DeadLetter> letters;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    auto letter = read_message<DeadLetter>(rows, row, 0);
    letter.queue = queue;
    letter.key = rows.maybe_bytes(row, 11);
    letter.label = std::string(rows.bytes(row, 12));
    letter.dead_at = time_at(rows.int8(row, 13));
    letter.reason = std::string(rows.bytes(row, 14));
    const auto times = rows.int8s(row, 15);
    auto reasons = rows.bytes_array(row, 16);
    for (std::size_t i = 0; i < times.size(); ++i) {
      letter.failures.push_back({.at = time_at(times[i]), .reason = std::move(reasons[i])});
    }
    letters.push_back(std::move(letter));
  }
  return letters;
}

QueueStats read_stats(const Rows& rows) {
  QueueStats stats;
  std::size_t column = 0;
  for (std::uint64_t* counter :
       {&stats.accepted, &stats.acked, &stats.expired, &stats.dropped, &stats.moved, &stats.purged,
        &stats.dead, &stats.ready, &stats.delayed, &stats.waiting, &stats.leased, &stats.parked,
        &stats.backoff, &stats.lanes_ready, &stats.leases}) {
    *counter = number(rows.int8(0, column++));
  }
  stats.oldest_ready = maybe_time(rows, 0, column);
  return stats;
}

// Columns: name, paused, max_attempts, backoff, jitter, skip, park, ttl, dead, dedup_window, lease,
// starvation_after, max_length, notice_queue, notice_key.
std::vector<QueueInfo> read_queues(const Rows& rows) {
  std::vector<QueueInfo> queues;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    QueueInfo info;
    info.name = std::string(rows.bytes(row, 0));
    info.paused = rows.boolean(row, 1);
    QueueSettings& s = info.settings;
    s.max_attempts = static_cast<std::uint32_t>(rows.int8(row, 2));
    s.backoff.clear();
    for (const std::int64_t step : rows.int8s(row, 3))
      s.backoff.emplace_back(step);
    s.backoff_jitter_percent = static_cast<std::uint32_t>(rows.int4(row, 4));
    s.retry_policy = rows.boolean(row, 5) ? RetryPolicy::skip : RetryPolicy::block;
    s.on_exhausted = rows.boolean(row, 6) ? OnExhausted::park : OnExhausted::dead;
    if (const auto ttl = rows.maybe_int8(row, 7)) s.ttl = Duration{*ttl};
    s.on_expired = rows.boolean(row, 8) ? OnExpired::dead : OnExpired::drop;
    s.dedup_window = Duration{rows.int8(row, 9)};
    s.lease = Duration{rows.int8(row, 10)};
    s.starvation_after = Duration{rows.int8(row, 11)};
    s.max_length = number(rows.int8(row, 12));
    if (auto queue = rows.maybe_bytes(row, 13)) {
      s.dead_notice_to = Address{.queue = std::move(*queue), .key = rows.maybe_bytes(row, 14)};
    }
    queues.push_back(std::move(info));
  }
  return queues;
}

}  // namespace strand::postgres
