#include "store/sqlite/tables.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "store/engine/records.h"
#include "store/sqlite/lists.h"

namespace strand::sqlite {

namespace {

using base::ByteReader;
using base::ByteWriter;
using engine::Family;

template <class Record>
Record decoded(std::string_view value) {
  auto record = engine::decode<Record>(value);
  STRAND_ASSERT(record, "the engine writes only what it can read");
  return *std::move(record);
}

std::uint64_t number_at(std::string_view key, std::size_t offset) {
  const auto number = engine::decode_number_key(key.substr(offset, 8));
  STRAND_ASSERT(number, "a key has all of its numbers");
  return *number;
}

// --- Enumerators by name ---

template <class Enum>
std::string_view name_of(Enum value, std::string_view zero, std::string_view one) {
  return value == Enum{0} ? zero : one;
}

template <class Enum>
Enum read_name(Row& row, std::string_view zero, std::string_view one) {
  const std::string_view name = row.text();
  if (name != zero && name != one) row.fail();
  return static_cast<Enum>(name == one ? 1 : 0);
}

Priority read_priority(Row& row) {
  const std::uint32_t value = row.number32();
  if (value > static_cast<std::uint32_t>(Priority::low)) row.fail();
  return static_cast<Priority>(value);
}

// --- What a family's columns hold, in the order of schema.cc ---

void bind(const engine::MetaRecord& record, Binder& out) {
  std::string secret;
  ByteWriter bytes(secret);
  bytes.fixed64(record.identity.secret[0]);
  bytes.fixed64(record.identity.secret[1]);
  out.integer(record.format);
  out.number(record.identity.store);
  out.copied_blob(secret);
  out.number(record.commit);
  out.time(record.time);
  out.number(record.numbers_reserved);
  out.integer(record.next_queue);
  out.number(record.lowest_message);
}

void read(Row& row, engine::MetaRecord& record) {
  record.format = row.number32();
  record.identity.store = row.number();
  ByteReader secret(row.blob());
  record.identity.secret[0] = secret.fixed64();
  record.identity.secret[1] = secret.fixed64();
  if (!secret.done()) row.fail();
  record.commit = row.number();
  record.time = row.time();
  record.numbers_reserved = row.number();
  record.next_queue = row.number32();
  record.lowest_message = row.number();
}

void bind_address(const std::optional<Address>& address, Binder& out) {
  address ? out.text(address->queue) : out.null();
  address ? out.optional_blob(address->key) : out.null();
}

std::optional<Address> read_address(Row& row) {
  auto queue = row.optional_text();
  auto key = row.optional_blob();
  if (!queue) return std::nullopt;
  return Address{.queue = *std::move(queue), .key = std::move(key)};
}

void bind(const engine::QueueRecord& record, Binder& out) {
  const QueueSettings& settings = record.settings;
  out.text(record.name);
  out.flag(record.paused);
  out.integer(settings.max_attempts);
  bind_durations(settings.backoff, out);
  out.text(name_of(settings.retry_policy, "block", "skip"));
  out.text(name_of(settings.on_exhausted, "dead", "park"));
  settings.ttl ? out.duration(*settings.ttl) : out.null();
  out.text(name_of(settings.on_expired, "drop", "dead"));
  out.duration(settings.dedup_window);
  out.duration(settings.lease);
  out.duration(settings.starvation_after);
  out.number(settings.max_length);
  out.integer(settings.backoff_jitter_percent);
  bind_address(settings.dead_notice_to, out);
}

void read(Row& row, engine::QueueRecord& record) {
  QueueSettings& settings = record.settings;
  record.name = row.text();
  record.paused = row.flag();
  settings.max_attempts = row.number32();
  settings.backoff = read_durations(row);
  settings.retry_policy = read_name<RetryPolicy>(row, "block", "skip");
  settings.on_exhausted = read_name<OnExhausted>(row, "dead", "park");
  settings.ttl = row.skip_null() ? std::nullopt : std::optional{row.duration()};
  settings.on_expired = read_name<OnExpired>(row, "drop", "dead");
  settings.dedup_window = row.duration();
  settings.lease = row.duration();
  settings.starvation_after = row.duration();
  settings.max_length = row.number();
  settings.backoff_jitter_percent = row.number32();
  settings.dead_notice_to = read_address(row);
}

void bind(const engine::CountersRecord& record, Binder& out) {
  for (const std::uint64_t count : {record.accepted, record.acked, record.expired, record.dropped,
                                    record.moved, record.purged, record.dead}) {
    out.number(count);
  }
}

void read(Row& row, engine::CountersRecord& record) {
  for (std::uint64_t* count : {&record.accepted, &record.acked, &record.expired, &record.dropped,
                               &record.moved, &record.purged, &record.dead}) {
    *count = row.number();
  }
}

// The columns that a message and a dead letter share.
#define STRAND_MESSAGE_COLUMNS                                                             \
  "key, priority, enqueued_at, due, expires_at, name, label, max_attempts, notice_queue, " \
  "notice_key, is_notice, topic, headers, body, body_bytes, body_at"

void bind_message(const engine::MessageRecord& record, Binder& out) {
  out.optional_blob(record.key);
  out.integer(static_cast<std::int64_t>(record.priority));
  out.time(record.enqueued_at);
  out.time(record.due);
  out.optional_time(record.expires_at);
  out.optional_blob(record.name);
  out.text(record.label);
  record.max_attempts ? out.integer(*record.max_attempts) : out.null();
  bind_address(record.dead_notice_to, out);
  out.flag(record.notice);
  out.optional_text(record.topic);
  bind_headers(record.headers, out);
  record.body_at ? out.null() : out.blob(record.body);
  out.integer(record.body_bytes);
  record.body_at ? out.number(static_cast<std::uint64_t>(*record.body_at)) : out.null();
}

void read_message(Row& row, engine::MessageRecord& record) {
  record.key = row.optional_blob();
  record.priority = read_priority(row);
  record.enqueued_at = row.time();
  record.due = row.time();
  record.expires_at = row.optional_time();
  record.name = row.optional_blob();
  record.label = row.text();
  record.max_attempts = row.skip_null() ? std::nullopt : std::optional{row.number32()};
  record.dead_notice_to = read_address(row);
  record.notice = row.flag();
  record.topic = row.optional_text();
  record.headers = read_headers(row);
  const bool elsewhere = row.skip_null();
  if (!elsewhere) record.body = row.blob();
  record.body_bytes = row.number32();
  if (elsewhere != !row.skip_null()) row.fail();
  if (elsewhere) record.body_at = MessageId{row.number()};
}

void bind(const engine::MessageRecord& record, Binder& out) {
  out.integer(static_cast<std::uint32_t>(record.queue));
  bind_message(record, out);
}

void read(Row& row, engine::MessageRecord& record) {
  record.queue = engine::QueueId{row.number32()};
  read_message(row, record);
}

void bind(const engine::StateRecord& record, Binder& out) {
  out.integer(record.attempts);
  out.integer(record.deliveries);
  out.optional_time(record.not_before);
  out.flag(record.blocks);
  out.optional_blob(record.park_reason);
  bind_failures(record.failures, out);
}

void read(Row& row, engine::StateRecord& record) {
  record.attempts = row.number32();
  record.deliveries = row.number32();
  record.not_before = row.optional_time();
  record.blocks = row.flag();
  record.park_reason = row.optional_blob();
  record.failures = read_failures(row);
}

void bind(const engine::LaneRecord& record, Binder& out) {
  out.text(record.label);
  out.optional_blob(record.park_reason);
  out.flag(record.isolate_next);
  record.hint ? out.text(record.hint->owner) : out.null();
  record.hint ? out.time(record.hint->until) : out.null();
  record.hint ? out.duration(record.hint->grace) : out.null();
}

void read(Row& row, engine::LaneRecord& record) {
  record.label = row.text();
  record.park_reason = row.optional_blob();
  record.isolate_next = row.flag();
  auto owner = row.optional_text();
  if (!owner) return;
  record.hint = engine::HintRecord{.owner = *std::move(owner), .until = {}, .grace = {}};
  record.hint->until = row.time();
  record.hint->grace = row.duration();
}

constexpr std::array request_columns = {KeyColumn{"client", KeyPart::client},
                                        KeyColumn{"number", KeyPart::number}};

void bind(const engine::LeaseRecord& record, Binder& out) {
  out.integer(static_cast<std::uint32_t>(record.queue));
  out.optional_blob(record.key);
  out.time(record.expires_at);
  out.number(record.cursor);
  out.flag(record.isolated);
  out.flag(record.graced);
  if (record.request) {
    const KeyFields request = key_fields(request_columns, engine::request_key(*record.request));
    out.copied_text(request.fields[0].bytes);
    out.copied_text(request.fields[1].bytes);
  } else {
    out.null();
    out.null();
  }
  bind_carried(record.messages, out);
}

void read(Row& row, engine::LeaseRecord& record) {
  record.queue = engine::QueueId{row.number32()};
  record.key = row.optional_blob();
  record.expires_at = row.time();
  record.cursor = row.number();
  record.isolated = row.flag();
  record.graced = row.flag();
  if (row.skip_null()) {
    if (!row.skip_null()) row.fail();
  } else {
    std::string key;
    read_key(request_columns, row, key);
    record.request = engine::decode_request_key(key);
  }
  record.messages = read_carried(row);
}

void bind(const engine::DedupRecord& record, Binder& out) {
  out.number(static_cast<std::uint64_t>(record.first));
  out.time(record.ends_at);
}

void read(Row& row, engine::DedupRecord& record) {
  record.first = MessageId{row.number()};
  record.ends_at = row.time();
}

void bind(const engine::ClientRecord& record, Binder& out) {
  out.number(record.lowest_unanswered);
  out.time(record.forget_at);
}

void read(Row& row, engine::ClientRecord& record) {
  record.lowest_unanswered = row.number();
  record.forget_at = row.time();
}

void bind(const TopicSettings& settings, Binder& out) { out.duration(settings.retain); }

void read(Row& row, TopicSettings& settings) { settings.retain = row.duration(); }

void bind(const engine::PublicationRecord& record, Binder& out) {
  out.time(record.at);
  out.optional_blob(record.content.key);
  out.integer(static_cast<std::int64_t>(record.content.priority));
  record.content.ttl ? out.duration(*record.content.ttl) : out.null();
  bind_headers(record.content.headers, out);
  out.integer(record.body_bytes);
}

void read(Row& row, engine::PublicationRecord& record) {
  record.at = row.time();
  record.content.key = row.optional_blob();
  record.content.priority = read_priority(row);
  record.content.ttl = row.skip_null() ? std::nullopt : std::optional{row.duration()};
  record.content.headers = read_headers(row);
  record.body_bytes = row.number32();
}

void bind_execution(const Execution& execution, Binder& out) {
  out.number(execution.length);
  out.number(execution.first);
  out.text(execution.label);
  out.optional_text(execution.outcome);
  out.time(execution.opened_at);
  out.time(execution.updated_at);
}

void read_execution(Row& row, Execution& execution) {
  execution.length = row.number();
  execution.first = row.number();
  execution.label = row.text();
  execution.outcome = row.optional_text();
  execution.opened_at = row.time();
  execution.updated_at = row.time();
}

void bind(const engine::InstanceRecord& record, Binder& out) {
  out.number(record.number);
  out.number(record.first_execution);
  out.number(record.last.number);
  bind_execution(record.last, out);
}

void read(Row& row, engine::InstanceRecord& record) {
  record.number = row.number();
  record.first_execution = row.number();
  record.last.number = row.number();
  read_execution(row, record.last);
}

// --- Families whose value is one record ---

template <class Record>
int put_as(Binder& out, [[maybe_unused]] std::string_view key, std::string_view value) {
  const auto record = decoded<Record>(value);
  bind(record, out);
  return out.step();
}

template <class Record>
bool get_as(Row& row, [[maybe_unused]] std::string_view key, std::string& value) {
  Record record;
  read(row, record);
  if (row.ok()) engine::encode(record, value);
  return row.ok();
}

// --- The others ---

int put_record(Binder& out, [[maybe_unused]] std::string_view key, std::string_view value) {
  const auto record = decoded<engine::RecordRecord>(value);
  out.number(static_cast<std::uint64_t>(record.version));
  out.blob(record.value);
  return out.step();
}

bool get_record(Row& row, [[maybe_unused]] std::string_view key, std::string& value) {
  engine::RecordRecord record;
  record.version = Version{row.number()};
  record.value = row.blob();
  if (row.ok()) engine::encode(record, value);
  return row.ok();
}

int put_execution(Binder& out, std::string_view key, std::string_view value) {
  const auto record = decoded<engine::InstanceRecord>(value);
  STRAND_ASSERT(record.number == number_at(key, 0) && record.last.number == number_at(key, 8),
                "an earlier execution stands under its own number");
  out.number(record.first_execution);
  bind_execution(record.last, out);
  return out.step();
}

bool get_execution(Row& row, std::string_view key, std::string& value) {
  engine::InstanceRecord record;
  record.number = number_at(key, 0);
  record.first_execution = row.number();
  record.last.number = number_at(key, 8);
  read_execution(row, record.last);
  if (row.ok()) engine::encode(record, value);
  return row.ok();
}

constexpr std::size_t fingerprint_bytes = 16;

// A receipt is what its client gets again, and nothing that people search for: of its value only
// the first two parts have columns.
int put_receipt(Binder& out, [[maybe_unused]] std::string_view key, std::string_view value) {
  STRAND_ASSERT(engine::decode<engine::ReceiptRecord>(value), "a receipt can be read");
  ByteReader in(value.substr(fingerprint_bytes));
  out.blob(value.substr(0, fingerprint_bytes));
  out.time(in.time());
  out.blob(in.rest());
  return out.step();
}

bool get_receipt(Row& row, [[maybe_unused]] std::string_view key, std::string& value) {
  ByteWriter out(value);
  const std::string_view fingerprint = row.blob();
  if (fingerprint.size() != fingerprint_bytes) row.fail();
  out.raw(fingerprint);
  out.time(row.time());
  out.raw(row.blob());
  return row.ok();
}

void bind_dead(const engine::DeadRecord& record, Binder& out) {
  out.integer(record.attempts);
  out.integer(record.deliveries);
  out.time(record.dead_at);
  out.blob(record.reason);
  bind_failures(record.failures, out);
}

int put_dead(Binder& out, std::string_view key, std::string_view value) {
  const auto entry = decoded<engine::DeadEntry>(value);
  const auto name = engine::decode_dead_key(key);
  STRAND_ASSERT(name && name->first == entry.message.queue,
                "a dead letter stands under the queue of its message");
  bind_dead(entry.dead, out);
  bind_message(entry.message, out);
  return out.step();
}

bool get_dead(Row& row, std::string_view key, std::string& value) {
  engine::DeadRecord dead;
  dead.attempts = row.number32();
  dead.deliveries = row.number32();
  dead.dead_at = row.time();
  dead.reason = row.blob();
  dead.failures = read_failures(row);
  engine::MessageRecord message;
  const auto name = engine::decode_dead_key(key);
  if (!name) return false;
  message.queue = name->first;
  read_message(row, message);
  if (!row.ok()) return false;
  engine::encode(dead, value);
  engine::encode(message, value);
  return true;
}

int put_blob(Binder& out, [[maybe_unused]] std::string_view key, std::string_view value) {
  out.blob(value);
  return out.step();
}

bool get_blob(Row& row, [[maybe_unused]] std::string_view key, std::string& value) {
  value = row.blob();
  return row.ok();
}

int put_text(Binder& out, [[maybe_unused]] std::string_view key, std::string_view value) {
  out.text(value);
  return out.step();
}

bool get_text(Row& row, [[maybe_unused]] std::string_view key, std::string& value) {
  value = row.text();
  return row.ok();
}

int put_nothing(Binder& out, [[maybe_unused]] std::string_view key,
                [[maybe_unused]] std::string_view value) {
  STRAND_ASSERT(value.empty(), "these entries are only there or not");
  return out.step();
}

bool get_nothing(Row& row, [[maybe_unused]] std::string_view key,
                 [[maybe_unused]] std::string& value) {
  return row.ok();
}

int put_queue_number(Binder& out, [[maybe_unused]] std::string_view key, std::string_view value) {
  ByteReader in(value);
  out.integer(in.fixed32());
  STRAND_ASSERT(in.done(), "a name leads to the id of a queue");
  return out.step();
}

bool get_queue_number(Row& row, [[maybe_unused]] std::string_view key, std::string& value) {
  value = engine::queue_key(engine::QueueId{row.number32()});
  return row.ok();
}

// --- Keys ---

constexpr std::array meta_columns = {KeyColumn{"name", KeyPart::text}};
constexpr std::array id_column = {KeyColumn{"id", KeyPart::id}};
constexpr std::array epoch_column = {KeyColumn{"epoch", KeyPart::id}};
constexpr std::array queue_id_column = {KeyColumn{"id", KeyPart::queue}};
constexpr std::array queue_column = {KeyColumn{"queue", KeyPart::queue}};
constexpr std::array lane_columns = {KeyColumn{"queue", KeyPart::queue},
                                     KeyColumn{"key", KeyPart::blob}};
constexpr std::array dedup_columns = {KeyColumn{"queue", KeyPart::queue},
                                      KeyColumn{"id", KeyPart::blob}};
constexpr std::array client_column = {KeyColumn{"client", KeyPart::client}};
constexpr std::array dead_columns = {KeyColumn{"queue", KeyPart::queue},
                                     KeyColumn{"id", KeyPart::id}};
constexpr std::array topic_column = {KeyColumn{"topic", KeyPart::text}};
constexpr std::array retained_columns = {KeyColumn{"topic", KeyPart::ended_text},
                                         KeyColumn{"id", KeyPart::id}};
constexpr std::array execution_columns = {KeyColumn{"instance", KeyPart::id},
                                          KeyColumn{"number", KeyPart::id}};
constexpr std::array event_columns = {KeyColumn{"instance", KeyPart::id},
                                      KeyColumn{"execution", KeyPart::id},
                                      KeyColumn{"number", KeyPart::id}};
constexpr std::array record_columns = {KeyColumn{"space", KeyPart::ended_blob},
                                       KeyColumn{"key", KeyPart::blob}};
constexpr std::array pin_columns = {KeyColumn{"body", KeyPart::id},
                                    KeyColumn{"message", KeyPart::id}};
constexpr std::array name_column = {KeyColumn{"name", KeyPart::text}};

template <class Record>
constexpr Table table(std::string_view name, int columns, std::span<const KeyColumn> key) {
  return {name, columns, key, put_as<Record>, get_as<Record>};
}

// In the order of Family.
constexpr std::array<Table, engine::family_count> tables = {
    table<engine::MetaRecord>("meta", 9, meta_columns),
    table<engine::QueueRecord>("queue", 16, queue_id_column),
    table<engine::CountersRecord>("counters", 8, queue_column),
    table<engine::MessageRecord>("message", 18, id_column),
    Table{"body", 2, id_column, put_blob, get_blob},
    table<engine::StateRecord>("state", 7, id_column),
    table<engine::LaneRecord>("lane", 8, lane_columns),
    table<engine::LeaseRecord>("lease", 10, epoch_column),
    table<engine::DedupRecord>("request", 4, request_columns),
    table<engine::DedupRecord>("dedup", 4, dedup_columns),
    table<engine::ClientRecord>("client", 3, client_column),
    Table{"receipt", 5, request_columns, put_receipt, get_receipt},
    Table{"dead", 23, dead_columns, put_dead, get_dead},
    table<TopicSettings>("topic", 2, topic_column),
    Table{"subscription", 2, queue_column, put_text, get_text},
    table<engine::PublicationRecord>("retained", 8, retained_columns),
    table<engine::InstanceRecord>("instance", 11, lane_columns),
    Table{"open", 2, lane_columns, put_nothing, get_nothing},
    Table{"execution", 9, execution_columns, put_execution, get_execution},
    Table{"event", 4, event_columns, put_blob, get_blob},
    Table{"record", 4, record_columns, put_record, get_record},
    Table{"pin", 2, pin_columns, put_nothing, get_nothing},
    Table{"queue_name", 2, name_column, put_queue_number, get_queue_number},
};

}  // namespace

const Table& table_of(Family family) { return tables[static_cast<std::size_t>(family)]; }

const std::string_view bury_sql =
    "INSERT OR REPLACE INTO dead SELECT queue, id, ?, ?, ?, ?, ?, " STRAND_MESSAGE_COLUMNS
    " FROM message WHERE id = ? AND queue = ?";

int bury(Binder& out, const engine::Mutation& mutation) {
  const auto name = engine::decode_dead_key(mutation.dead_key());
  STRAND_ASSERT(name && engine::message_key(name->second) == mutation.key,
                "a dead letter has the id of its message");
  // The record decodes only with a message behind it: any will do.
  std::string entry(mutation.dead_value());
  engine::encode(engine::MessageRecord{}, entry);
  const auto letter = decoded<engine::DeadEntry>(entry);
  bind_dead(letter.dead, out);
  out.number(static_cast<std::uint64_t>(name->second));
  out.integer(static_cast<std::uint32_t>(name->first));
  return out.step();
}

}  // namespace strand::sqlite
