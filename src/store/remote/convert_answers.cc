#include <array>
#include <utility>

#include "base/text.h"
#include "store/remote/convert.h"
#include "store/remote/convert_parts.h"

namespace strand::remote {

// --- Errors ---

void write(const Error& error, v1::Error& to) {
  to.set_code(std::string(to_string(error.code)));
  // Text on the wire is UTF-8, or the answer would be unreadable as a whole.
  to.set_message(base::is_utf8(error.message) ? error.message : base::escaped(error.message));
}

std::optional<Errc> errc_of(std::string_view name) {
  for (int code = 0; code <= static_cast<int>(Errc::corrupt); ++code) {
    if (to_string(static_cast<Errc>(code)) == name) return static_cast<Errc>(code);
  }
  return std::nullopt;
}

Error read_error(const v1::Error& from) {
  return {errc_of(from.code()).value_or(Errc::io_error), from.message()};
}

// --- Receipts ---

void write(Result<Receipt>&& result, v1::ApplyResult& to) {
  if (!result) {
    write(result.error(), *to.mutable_error());
    return;
  }
  v1::Receipt& receipt = *to.mutable_receipt();
  receipt.set_time_ms(ms(result->time));
  receipt.mutable_sent()->Reserve(static_cast<int>(result->sent.size()));
  for (const Sent& sent : result->sent) {
    v1::Sent& one = *receipt.add_sent();
    one.set_id(static_cast<std::uint64_t>(sent.id));
    one.set_duplicate(sent.duplicate);
  }
  for (const Published& published : result->published) {
    v1::Published& one = *receipt.add_published();
    one.set_id(static_cast<std::uint64_t>(published.id));
    one.set_duplicate(published.duplicate);
    one.set_matched(published.matched);
  }
  for (const bool cancelled : result->cancelled)
    receipt.add_cancelled(cancelled);
  for (const Version version : result->versions)
    receipt.add_versions(static_cast<std::uint64_t>(version));
  receipt.set_affected(result->affected);
}

Result<Receipt> read_result(const v1::ApplyResult& from) {
  if (from.has_error()) return std::unexpected(read_error(from.error()));
  if (!from.has_receipt()) {
    return failure(Errc::unknown_outcome,
                   "the server's answer has neither a receipt nor an error; repeat the transaction "
                   "with the same id");
  }
  const v1::Receipt& one = from.receipt();
  Receipt receipt{.time = time_of(one.time_ms()), .affected = one.affected()};
  receipt.sent.reserve(static_cast<std::size_t>(one.sent_size()));
  for (const v1::Sent& sent : one.sent())
    receipt.sent.push_back({.id = MessageId{sent.id()}, .duplicate = sent.duplicate()});
  for (const v1::Published& published : one.published()) {
    receipt.published.push_back({.id = MessageId{published.id()},
                                 .duplicate = published.duplicate(),
                                 .matched = published.matched()});
  }
  receipt.cancelled.assign(one.cancelled().begin(), one.cancelled().end());
  for (const std::uint64_t version : one.versions())
    receipt.versions.push_back(Version{version});
  return receipt;
}

// --- Messages ---

void write(Message&& message, v1::Message& to) {
  to.set_id(static_cast<std::uint64_t>(message.id));
  to.set_body(std::move(message.body));
  write(std::move(message.headers), *to.mutable_headers());
  to.set_priority(wire_priority(message.priority));
  to.set_deliveries(message.deliveries);
  to.set_attempts(message.attempts);
  to.set_enqueued_at_ms(ms(message.enqueued_at));
  to.set_due_ms(ms(message.due));
  if (message.expires_at) to.set_expires_at_ms(ms(*message.expires_at));
  if (message.name) to.set_name(*std::move(message.name));
  if (message.topic) to.set_topic(*std::move(message.topic));
}

Message read_message(v1::Message& from) {
  Message message{.id = MessageId{from.id()},
                  .body = std::move(*from.mutable_body()),
                  .headers = read_headers(*from.mutable_headers()),
                  .priority = read_priority(from.priority()).value_or(Priority::normal),
                  .deliveries = from.deliveries(),
                  .attempts = from.attempts(),
                  .enqueued_at = time_of(from.enqueued_at_ms()),
                  .due = time_of(from.due_ms()),
                  .expires_at = {},
                  .name = {},
                  .topic = {}};
  if (from.has_expires_at_ms()) message.expires_at = time_of(from.expires_at_ms());
  if (from.has_name()) message.name = std::move(*from.mutable_name());
  if (from.has_topic()) message.topic = std::move(*from.mutable_topic());
  return message;
}

void write(PeekedMessage&& message, v1::PeekedMessage& to) {
  write(static_cast<Message&&>(message), *to.mutable_message());
  if (message.key) to.set_key(*std::move(message.key));
  to.set_label(std::move(message.label));
  to.set_state(wire_state(message.state));
  if (message.retry_at) to.set_retry_at_ms(ms(*message.retry_at));
  if (message.last_reason) to.set_last_reason(*std::move(message.last_reason));
  if (message.park_reason) to.set_park_reason(*std::move(message.park_reason));
}

PeekedMessage read_peeked(v1::PeekedMessage& from) {
  PeekedMessage message;
  static_cast<Message&>(message) = read_message(*from.mutable_message());
  if (from.has_key()) message.key = std::move(*from.mutable_key());
  message.label = std::move(*from.mutable_label());
  message.state = read_state(from.state()).value_or(MessageState::ready);
  if (from.has_retry_at_ms()) message.retry_at = time_of(from.retry_at_ms());
  if (from.has_last_reason()) message.last_reason = std::move(*from.mutable_last_reason());
  if (from.has_park_reason()) message.park_reason = std::move(*from.mutable_park_reason());
  return message;
}

void write(DeadLetter&& letter, v1::DeadLetter& to) {
  write(static_cast<Message&&>(letter), *to.mutable_message());
  to.set_queue(std::move(letter.queue));
  if (letter.key) to.set_key(*std::move(letter.key));
  to.set_label(std::move(letter.label));
  to.set_dead_at_ms(ms(letter.dead_at));
  to.set_reason(std::move(letter.reason));
  for (Failure& failure : letter.failures) {
    v1::Failure& one = *to.add_failures();
    one.set_at_ms(ms(failure.at));
    one.set_reason(std::move(failure.reason));
  }
}

DeadLetter read_dead_letter(v1::DeadLetter& from) {
  DeadLetter letter;
  static_cast<Message&>(letter) = read_message(*from.mutable_message());
  letter.queue = std::move(*from.mutable_queue());
  if (from.has_key()) letter.key = std::move(*from.mutable_key());
  letter.label = std::move(*from.mutable_label());
  letter.dead_at = time_of(from.dead_at_ms());
  letter.reason = std::move(*from.mutable_reason());
  for (v1::Failure& one : *from.mutable_failures()) {
    letter.failures.push_back(
        {.at = time_of(one.at_ms()), .reason = std::move(*one.mutable_reason())});
  }
  return letter;
}

// --- Leases and histories ---

void write(const Execution& execution, v1::Execution& to) {
  to.set_queue(execution.queue);
  to.set_key(execution.key);
  to.set_number(execution.number);
  to.set_length(execution.length);
  to.set_first(execution.first);
  to.set_label(execution.label);
  if (execution.outcome) to.set_outcome(*execution.outcome);
  to.set_opened_at_ms(ms(execution.opened_at));
  to.set_updated_at_ms(ms(execution.updated_at));
}

Execution read_execution(const v1::Execution& from) {
  Execution execution{.queue = from.queue(),
                      .key = from.key(),
                      .number = from.number(),
                      .length = from.length(),
                      .first = from.first(),
                      .label = from.label(),
                      .outcome = {},
                      .opened_at = time_of(from.opened_at_ms()),
                      .updated_at = time_of(from.updated_at_ms())};
  if (from.has_outcome()) execution.outcome = from.outcome();
  return execution;
}

void write(History&& history, v1::History& to) {
  write(history.execution, *to.mutable_execution());
  to.set_first(history.first);
  to.mutable_events()->Reserve(static_cast<int>(history.events.size()));
  for (Bytes& event : history.events)
    to.add_events(std::move(event));
}

History read_history(v1::History& from) {
  History history{
      .execution = read_execution(from.execution()), .first = from.first(), .events = {}};
  history.events.reserve(static_cast<std::size_t>(from.events_size()));
  for (std::string& event : *from.mutable_events())
    history.events.push_back(std::move(event));
  return history;
}

void write(Lease&& lease, v1::Lease& to) {
  to.set_token(lease.token.to_string());
  to.set_queue(std::move(lease.queue));
  if (lease.key) to.set_key(*std::move(lease.key));
  to.set_label(std::move(lease.label));
  to.mutable_messages()->Reserve(static_cast<int>(lease.messages.size()));
  for (Message& message : lease.messages)
    write(std::move(message), *to.add_messages());
  to.set_expires_at_ms(ms(lease.expires_at));
  to.set_cursor(static_cast<std::uint64_t>(lease.cursor));
  to.set_isolated(lease.isolated);
  to.set_more(lease.more);
  if (lease.history) write(*std::move(lease.history), *to.mutable_history());
}

Result<Lease> read_lease(v1::Lease& from) {
  const auto token = Token::parse(from.token());
  if (!token) return std::unexpected(token.error());
  Lease lease{.token = *token,
              .queue = std::move(*from.mutable_queue()),
              .key = {},
              .label = std::move(*from.mutable_label()),
              .messages = {},
              .expires_at = time_of(from.expires_at_ms()),
              .cursor = Cursor{from.cursor()},
              .isolated = from.isolated(),
              .more = from.more(),
              .history = {}};
  if (from.has_key()) lease.key = std::move(*from.mutable_key());
  lease.messages.reserve(static_cast<std::size_t>(from.messages_size()));
  for (v1::Message& message : *from.mutable_messages())
    lease.messages.push_back(read_message(message));
  if (from.has_history()) lease.history = read_history(*from.mutable_history());
  return lease;
}

// --- Records ---

void write(Record&& record, v1::Record& to) {
  to.set_space(std::move(record.space));
  to.set_key(std::move(record.key));
  to.set_version(static_cast<std::uint64_t>(record.version));
  to.set_value(std::move(record.value));
}

Record read_record(v1::Record& from) {
  return {.space = std::move(*from.mutable_space()),
          .key = std::move(*from.mutable_key()),
          .version = Version{from.version()},
          .value = std::move(*from.mutable_value())};
}

// --- Queues ---

namespace {

// Field of the contract, and how it is read from and written to the wire.
struct StatsField {
  std::uint64_t QueueStats::* field;
  std::uint64_t (v1::QueueStats::*get)() const;
  void (v1::QueueStats::*set)(std::uint64_t);
};

using Wire = v1::QueueStats;
constexpr std::array<StatsField, 15> stats_fields = {{
    {&QueueStats::accepted, &Wire::accepted, &Wire::set_accepted},
    {&QueueStats::acked, &Wire::acked, &Wire::set_acked},
    {&QueueStats::expired, &Wire::expired, &Wire::set_expired},
    {&QueueStats::dropped, &Wire::dropped, &Wire::set_dropped},
    {&QueueStats::moved, &Wire::moved, &Wire::set_moved},
    {&QueueStats::purged, &Wire::purged, &Wire::set_purged},
    {&QueueStats::dead, &Wire::dead, &Wire::set_dead},
    {&QueueStats::ready, &Wire::ready, &Wire::set_ready},
    {&QueueStats::delayed, &Wire::delayed, &Wire::set_delayed},
    {&QueueStats::waiting, &Wire::waiting, &Wire::set_waiting},
    {&QueueStats::leased, &Wire::leased, &Wire::set_leased},
    {&QueueStats::parked, &Wire::parked, &Wire::set_parked},
    {&QueueStats::backoff, &Wire::backoff, &Wire::set_backoff},
    {&QueueStats::lanes_ready, &Wire::lanes_ready, &Wire::set_lanes_ready},
    {&QueueStats::leases, &Wire::leases, &Wire::set_leases},
}};

}  // namespace

void write(const QueueStats& stats, v1::QueueStats& to) {
  for (const StatsField& one : stats_fields)
    (to.*one.set)(stats.*one.field);
  if (stats.oldest_ready) to.set_oldest_ready_ms(ms(*stats.oldest_ready));
}

QueueStats read_stats(const v1::QueueStats& from) {
  QueueStats stats;
  for (const StatsField& one : stats_fields)
    stats.*one.field = (from.*one.get)();
  if (from.has_oldest_ready_ms()) stats.oldest_ready = time_of(from.oldest_ready_ms());
  return stats;
}

void write(const QueueInfo& info, v1::QueueInfo& to) {
  to.set_name(info.name);
  write(info.settings, *to.mutable_settings());
  to.set_paused(info.paused);
}

Result<QueueInfo> read_queue(const v1::QueueInfo& from) {
  auto settings = read_settings(from.settings());
  if (!settings) return std::unexpected(std::move(settings).error());
  return QueueInfo{.name = from.name(), .settings = *std::move(settings), .paused = from.paused()};
}

void write(const Topic& topic, v1::Topic& to) {
  to.set_name(topic.name);
  write(topic.settings, *to.mutable_settings());
}

Topic read_topic(const v1::Topic& from) {
  return {.name = from.name(), .settings = read_settings(from.settings())};
}

}  // namespace strand::remote
