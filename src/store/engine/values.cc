#include "base/bytes.h"
#include "store/engine/records.h"

namespace strand::engine {

using base::ByteReader;
using base::ByteWriter;

namespace {

constexpr std::uint64_t has_key = 1;
constexpr std::uint64_t has_expiry = 2;
constexpr std::uint64_t has_name = 4;
constexpr std::uint64_t has_label = 8;
constexpr std::uint64_t has_max_attempts = 16;
constexpr std::uint64_t has_notice = 32;
constexpr std::uint64_t has_topic = 64;
constexpr std::uint64_t has_body_at = 128;
constexpr std::uint64_t is_notice = 256;
constexpr std::uint64_t all_message_flags = 511;

void write_headers(ByteWriter& out, const Headers& headers) {
  out.varint(headers.size());
  for (const Header& header : headers) {
    out.text(header.name);
    out.text(header.value);
  }
}

Headers read_headers(ByteReader& in) {
  Headers headers;
  const std::uint64_t count = in.count(2);
  headers.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string name = in.string();
    headers.push_back({.name = std::move(name), .value = in.string()});
  }
  return headers;
}

void write_failures(ByteWriter& out, const std::vector<Failure>& failures) {
  out.varint(failures.size());
  for (const Failure& failure : failures) {
    out.time(failure.at);
    out.text(failure.reason);
  }
}

std::vector<Failure> read_failures(ByteReader& in) {
  std::vector<Failure> failures;
  const std::uint64_t count = in.count(2);
  failures.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Time at = in.time();
    failures.push_back({.at = at, .reason = in.string()});
  }
  return failures;
}

void write_address(ByteWriter& out, const Address& address) {
  out.text(address.queue);
  out.optional_text(address.key);
}

Address read_address(ByteReader& in) {
  Address address{.queue = in.string(), .key = std::nullopt};
  address.key = in.optional_text();
  return address;
}

void write_optional_time(ByteWriter& out, const std::optional<Time>& time) {
  out.flag(time.has_value());
  if (time) out.time(*time);
}

std::optional<Time> read_optional_time(ByteReader& in) {
  if (!in.flag()) return std::nullopt;
  return in.time();
}

void write_request(ByteWriter& out, const std::optional<RequestId>& request) {
  out.flag(request.has_value());
  if (!request) return;
  out.fixed64(request->client);
  out.fixed64(request->number);
}

std::optional<RequestId> read_request(ByteReader& in) {
  if (!in.flag()) return std::nullopt;
  const std::uint64_t client = in.fixed64();
  return RequestId{.client = client, .number = in.fixed64()};
}

// An enumerator that was written as its number; `last` is the highest one.
template <class Enum>
Enum read_enum(ByteReader& in, Enum last) {
  const std::uint8_t value = in.u8();
  return value <= static_cast<std::uint8_t>(last) ? static_cast<Enum>(value)
                                                  : static_cast<Enum>(in.fail());
}

DeadRecord read_dead(ByteReader& in) {
  DeadRecord record;
  record.attempts = in.varint32();
  record.deliveries = in.varint32();
  record.dead_at = in.time();
  record.reason = in.string();
  record.failures = read_failures(in);
  return record;
}

std::uint64_t flags_of(const MessageRecord& record) {
  return (record.key ? has_key : 0) | (record.expires_at ? has_expiry : 0) |
         (record.name ? has_name : 0) | (record.label.empty() ? 0 : has_label) |
         (record.max_attempts ? has_max_attempts : 0) | (record.dead_notice_to ? has_notice : 0) |
         (record.topic ? has_topic : 0) | (record.body_at ? has_body_at : 0) |
         (record.notice ? is_notice : 0);
}

MessageRecord read_message(ByteReader& in) {
  MessageRecord record;
  const std::uint64_t flags = in.varint();
  if (flags > all_message_flags) in.fail();
  record.queue = QueueId{in.varint32()};
  record.priority = read_enum(in, Priority::low);
  record.enqueued_at = in.time();
  const Duration delay = in.duration();
  // A sum that is none was not written by encode.
  if (delay > Duration::zero() && record.enqueued_at > Time::max() - delay) in.fail();
  if (delay < Duration::zero() && record.enqueued_at < Time::min() - delay) in.fail();
  if (in.ok()) record.due = record.enqueued_at + delay;
  if ((flags & has_key) != 0) record.key = in.string();
  if ((flags & has_expiry) != 0) record.expires_at = in.time();
  if ((flags & has_name) != 0) record.name = in.string();
  if ((flags & has_label) != 0) record.label = in.string();
  if ((flags & has_max_attempts) != 0) record.max_attempts = in.varint32();
  if ((flags & has_notice) != 0) record.dead_notice_to = read_address(in);
  record.notice = (flags & is_notice) != 0;
  if ((flags & has_topic) != 0) record.topic = in.string();
  record.headers = read_headers(in);
  if ((flags & has_body_at) != 0) {
    record.body_at = MessageId{in.fixed64()};
    record.body_bytes = in.varint32();
  } else {
    record.body = std::string(in.rest());
    record.body_bytes = static_cast<std::uint32_t>(record.body.size());
  }
  return record;
}

}  // namespace

void encode(const MetaRecord& record, std::string& out) {
  ByteWriter w(out);
  w.fixed32(record.format);
  w.fixed64(record.identity.store);
  w.fixed64(record.identity.secret[0]);
  w.fixed64(record.identity.secret[1]);
  w.fixed64(record.commit);
  w.time(record.time);
  w.fixed64(record.numbers_reserved);
  w.fixed32(record.next_queue);
  w.fixed64(record.lowest_message);
}

template <>
std::optional<MetaRecord> decode(std::string_view bytes) {
  ByteReader in(bytes);
  MetaRecord record;
  record.format = in.fixed32();
  record.identity.store = in.fixed64();
  record.identity.secret[0] = in.fixed64();
  record.identity.secret[1] = in.fixed64();
  record.commit = in.fixed64();
  record.time = in.time();
  record.numbers_reserved = in.fixed64();
  record.next_queue = in.fixed32();
  record.lowest_message = in.fixed64();
  if (!in.done()) return std::nullopt;
  return record;
}

void encode(const QueueRecord& record, std::string& out) {
  ByteWriter w(out);
  w.text(record.name);
  w.flag(record.paused);
  const QueueSettings& settings = record.settings;
  w.varint(settings.max_attempts);
  w.varint(settings.backoff.size());
  for (const Duration step : settings.backoff)
    w.duration(step);
  w.u8(static_cast<std::uint8_t>(settings.retry_policy));
  w.u8(static_cast<std::uint8_t>(settings.on_exhausted));
  w.flag(settings.ttl.has_value());
  if (settings.ttl) w.duration(*settings.ttl);
  w.u8(static_cast<std::uint8_t>(settings.on_expired));
  w.duration(settings.dedup_window);
  w.duration(settings.lease);
  w.duration(settings.starvation_after);
  w.varint(settings.max_length);
  // Settings that came later: not there in older stores, nor where they are not used.
  if (settings.backoff_jitter_percent == 0 && !settings.dead_notice_to) return;
  w.varint(settings.backoff_jitter_percent);
  w.flag(settings.dead_notice_to.has_value());
  if (settings.dead_notice_to) write_address(w, *settings.dead_notice_to);
}

// The id of a queue is its key.
template <>
std::optional<QueueRecord> decode(std::string_view bytes) {
  ByteReader in(bytes);
  QueueRecord record;
  record.name = in.string();
  record.paused = in.flag();
  QueueSettings& settings = record.settings;
  settings.max_attempts = in.varint32();
  settings.backoff.clear();
  const std::uint64_t steps = in.count(1);
  for (std::uint64_t i = 0; i < steps; ++i)
    settings.backoff.push_back(in.duration());
  settings.retry_policy = read_enum(in, RetryPolicy::skip);
  settings.on_exhausted = read_enum(in, OnExhausted::park);
  if (in.flag()) settings.ttl = in.duration();
  settings.on_expired = read_enum(in, OnExpired::dead);
  settings.dedup_window = in.duration();
  settings.lease = in.duration();
  settings.starvation_after = in.duration();
  settings.max_length = in.varint();
  if (in.done()) return record;
  settings.backoff_jitter_percent = in.varint32();
  if (in.flag()) settings.dead_notice_to = read_address(in);
  if (settings.backoff_jitter_percent == 0 && !settings.dead_notice_to) return std::nullopt;
  if (!in.done()) return std::nullopt;
  return record;
}

void encode(const CountersRecord& record, std::string& out) {
  ByteWriter w(out);
  for (const std::uint64_t count : {record.accepted, record.acked, record.expired, record.dropped,
                                    record.moved, record.purged, record.dead}) {
    w.varint(count);
  }
}

template <>
std::optional<CountersRecord> decode(std::string_view bytes) {
  ByteReader in(bytes);
  CountersRecord record;
  for (std::uint64_t* count : {&record.accepted, &record.acked, &record.expired, &record.dropped,
                               &record.moved, &record.purged, &record.dead}) {
    *count = in.varint();
  }
  if (!in.done()) return std::nullopt;
  return record;
}

void encode(const MessageRecord& record, std::string& out) { encode(record, record.body, out); }

void encode(const MessageRecord& record, std::string_view body, std::string& out) {
  ByteWriter w(out);
  w.varint(flags_of(record));
  w.varint(static_cast<std::uint32_t>(record.queue));
  w.u8(static_cast<std::uint8_t>(record.priority));
  w.time(record.enqueued_at);
  w.duration(record.due - record.enqueued_at);
  if (record.key) w.text(*record.key);
  if (record.expires_at) w.time(*record.expires_at);
  if (record.name) w.text(*record.name);
  if (!record.label.empty()) w.text(record.label);
  if (record.max_attempts) w.varint(*record.max_attempts);
  if (record.dead_notice_to) write_address(w, *record.dead_notice_to);
  if (record.topic) w.text(*record.topic);
  write_headers(w, record.headers);
  if (record.body_at) {
    w.fixed64(static_cast<std::uint64_t>(*record.body_at));
    w.varint(record.body_bytes);
  } else {
    w.raw(body);
  }
}

template <>
std::optional<MessageRecord> decode(std::string_view bytes) {
  ByteReader in(bytes);
  MessageRecord record = read_message(in);
  if (!in.done()) return std::nullopt;
  return record;
}

void encode(const StateRecord& record, std::string& out) {
  ByteWriter w(out);
  w.varint(record.attempts);
  w.varint(record.deliveries);
  write_optional_time(w, record.not_before);
  w.flag(record.blocks);
  w.optional_text(record.park_reason);
  write_failures(w, record.failures);
}

template <>
std::optional<StateRecord> decode(std::string_view bytes) {
  ByteReader in(bytes);
  StateRecord record;
  record.attempts = in.varint32();
  record.deliveries = in.varint32();
  record.not_before = read_optional_time(in);
  record.blocks = in.flag();
  record.park_reason = in.optional_text();
  record.failures = read_failures(in);
  if (!in.done()) return std::nullopt;
  return record;
}

void encode(const LaneRecord& record, std::string& out) {
  ByteWriter w(out);
  w.text(record.label);
  w.optional_text(record.park_reason);
  w.flag(record.isolate_next);
  w.flag(record.hint.has_value());
  if (!record.hint) return;
  w.text(record.hint->owner);
  w.time(record.hint->until);
  w.duration(record.hint->grace);
}

template <>
std::optional<LaneRecord> decode(std::string_view bytes) {
  ByteReader in(bytes);
  LaneRecord record;
  record.label = in.string();
  record.park_reason = in.optional_text();
  record.isolate_next = in.flag();
  if (in.flag()) {
    HintRecord hint{.owner = in.string(), .until = {}, .grace = {}};
    hint.until = in.time();
    hint.grace = in.duration();
    record.hint = std::move(hint);
  }
  if (!in.done()) return std::nullopt;
  return record;
}

void encode(const LeaseRecord& record, std::string& out) {
  ByteWriter w(out);
  w.varint(static_cast<std::uint32_t>(record.queue));
  w.optional_text(record.key);
  w.time(record.expires_at);
  w.varint(record.cursor);
  w.flag(record.isolated);
  w.flag(record.graced);
  write_request(w, record.request);
  w.varint(record.messages.size());
  for (const LeaseRecord::Carried& carried : record.messages) {
    w.varint(static_cast<std::uint64_t>(carried.id));
    w.varint(carried.pull);
  }
}

template <>
std::optional<LeaseRecord> decode(std::string_view bytes) {
  ByteReader in(bytes);
  LeaseRecord record;
  record.queue = QueueId{in.varint32()};
  record.key = in.optional_text();
  record.expires_at = in.time();
  record.cursor = in.varint();
  record.isolated = in.flag();
  record.graced = in.flag();
  record.request = read_request(in);
  const std::uint64_t count = in.count(2);
  record.messages.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const MessageId id{in.varint()};
    record.messages.push_back({.id = id, .pull = in.varint()});
  }
  if (!in.done()) return std::nullopt;
  return record;
}

void encode(const DedupRecord& record, std::string& out) {
  ByteWriter w(out);
  w.fixed64(static_cast<std::uint64_t>(record.first));
  w.time(record.ends_at);
}

template <>
std::optional<DedupRecord> decode(std::string_view bytes) {
  ByteReader in(bytes);
  DedupRecord record;
  record.first = MessageId{in.fixed64()};
  record.ends_at = in.time();
  if (!in.done()) return std::nullopt;
  return record;
}

void encode(const ClientRecord& record, std::string& out) {
  ByteWriter w(out);
  w.varint(record.lowest_unanswered);
  w.time(record.forget_at);
}

template <>
std::optional<ClientRecord> decode(std::string_view bytes) {
  ByteReader in(bytes);
  ClientRecord record;
  record.lowest_unanswered = in.varint();
  record.forget_at = in.time();
  if (!in.done()) return std::nullopt;
  return record;
}

void encode(const ReceiptRecord& record, std::string& out) {
  ByteWriter w(out);
  w.fixed64(record.fingerprint.low);
  w.fixed64(record.fingerprint.high);
  w.time(record.forget_at);
  const Receipt& receipt = record.receipt;
  w.time(receipt.time);
  w.varint(receipt.sent.size());
  for (const Sent& sent : receipt.sent) {
    w.varint(static_cast<std::uint64_t>(sent.id));
    w.flag(sent.duplicate);
  }
  w.varint(receipt.published.size());
  for (const Published& published : receipt.published) {
    w.varint(static_cast<std::uint64_t>(published.id));
    w.flag(published.duplicate);
    w.varint(published.matched);
  }
  w.varint(receipt.cancelled.size());
  for (const bool cancelled : receipt.cancelled)
    w.flag(cancelled);
  w.varint(receipt.versions.size());
  for (const Version version : receipt.versions)
    w.varint(static_cast<std::uint64_t>(version));
  w.varint(receipt.affected);
}

template <>
std::optional<ReceiptRecord> decode(std::string_view bytes) {
  ByteReader in(bytes);
  ReceiptRecord record;
  record.fingerprint.low = in.fixed64();
  record.fingerprint.high = in.fixed64();
  record.forget_at = in.time();
  Receipt& receipt = record.receipt;
  receipt.time = in.time();
  for (std::uint64_t left = in.count(2); left > 0; --left) {
    const MessageId id{in.varint()};
    receipt.sent.push_back({.id = id, .duplicate = in.flag()});
  }
  for (std::uint64_t left = in.count(3); left > 0; --left) {
    Published published{.id = MessageId{in.varint()}, .duplicate = in.flag(), .matched = 0};
    published.matched = in.varint32();
    receipt.published.push_back(published);
  }
  for (std::uint64_t left = in.count(1); left > 0; --left)
    receipt.cancelled.push_back(in.flag());
  for (std::uint64_t left = in.count(1); left > 0; --left) {
    receipt.versions.push_back(Version{in.varint()});
  }
  receipt.affected = in.varint();
  if (!in.done()) return std::nullopt;
  return record;
}

void encode(const DeadRecord& record, std::string& out) {
  ByteWriter w(out);
  w.varint(record.attempts);
  w.varint(record.deliveries);
  w.time(record.dead_at);
  w.text(record.reason);
  write_failures(w, record.failures);
}

template <>
std::optional<DeadEntry> decode(std::string_view bytes) {
  ByteReader in(bytes);
  DeadEntry entry{.dead = read_dead(in), .message = {}};
  entry.message = read_message(in);
  if (!in.done()) return std::nullopt;
  return entry;
}

void encode(const TopicSettings& settings, std::string& out) {
  ByteWriter(out).duration(settings.retain);
}

template <>
std::optional<TopicSettings> decode(std::string_view bytes) {
  ByteReader in(bytes);
  const TopicSettings settings{.retain = in.duration()};
  if (!in.done()) return std::nullopt;
  return settings;
}

void encode(const PublicationRecord& record, std::string& out) {
  ByteWriter w(out);
  w.time(record.at);
  w.optional_text(record.content.key);
  w.u8(static_cast<std::uint8_t>(record.content.priority));
  w.flag(record.content.ttl.has_value());
  if (record.content.ttl) w.duration(*record.content.ttl);
  write_headers(w, record.content.headers);
  w.varint(record.body_bytes);
}

template <>
std::optional<PublicationRecord> decode(std::string_view bytes) {
  ByteReader in(bytes);
  PublicationRecord record;
  record.at = in.time();
  record.content.key = in.optional_text();
  record.content.priority = read_enum(in, Priority::low);
  if (in.flag()) record.content.ttl = in.duration();
  record.content.headers = read_headers(in);
  record.body_bytes = in.varint32();
  if (!in.done()) return std::nullopt;
  return record;
}

void encode(const InstanceRecord& record, std::string& out) {
  ByteWriter w(out);
  w.fixed64(record.number);
  w.varint(record.first_execution);
  const Execution& last = record.last;
  w.varint(last.number);
  w.varint(last.length);
  w.varint(last.first);
  w.text(last.label);
  w.optional_text(last.outcome);
  w.time(last.opened_at);
  w.time(last.updated_at);
}

template <>
std::optional<InstanceRecord> decode(std::string_view bytes) {
  ByteReader in(bytes);
  InstanceRecord record;
  record.number = in.fixed64();
  record.first_execution = in.varint();
  Execution& last = record.last;
  last.number = in.varint();
  last.length = in.varint();
  last.first = in.varint();
  last.label = in.string();
  last.outcome = in.optional_text();
  last.opened_at = in.time();
  last.updated_at = in.time();
  if (!in.done()) return std::nullopt;
  return record;
}

void encode(const RecordRecord& record, std::string& out) {
  ByteWriter w(out);
  w.fixed64(static_cast<std::uint64_t>(record.version));
  w.raw(record.value);
}

template <>
std::optional<RecordRecord> decode(std::string_view bytes) {
  ByteReader in(bytes);
  RecordRecord record;
  record.version = Version{in.fixed64()};
  if (!in.ok()) return std::nullopt;
  record.value = in.rest();
  return record;
}

}  // namespace strand::engine
