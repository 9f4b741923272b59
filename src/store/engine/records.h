#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <strand/store.h>

#include "store/contract/fingerprint.h"
#include "store/engine/engine.h"

// What is persisted, by family (see mutations.h), and its encoding. A decode that finds anything
// but what encode wrote returns nothing.

namespace strand::engine {

enum class QueueId : std::uint32_t {};

struct MetaRecord {
  std::uint32_t format = 1;
  Identity identity;
  CommitNumber commit = 0;
  Time time{};
  // All numbers (message ids, epochs, versions, instances) below this may have been given out. It
  // is raised in synced steps, so that a power loss never makes a number come twice.
  std::uint64_t numbers_reserved = 1;
  std::uint32_t next_queue = 1;
  // No live message has a lower id, so that reading a store does not walk what is gone.
  std::uint64_t lowest_message = 1;
};

struct QueueRecord {
  QueueId id{};
  std::string name;
  QueueSettings settings;
  bool paused = false;
};

// Of the messages that have left, and those that came. What is live is counted, not stored.
struct CountersRecord {
  std::uint64_t accepted = 0;
  std::uint64_t acked = 0;
  std::uint64_t expired = 0;
  std::uint64_t dropped = 0;
  std::uint64_t moved = 0;
  std::uint64_t purged = 0;
  std::uint64_t dead = 0;
};

// All that never changes about a message. Bodies of more than `inline_body_bytes`, and those that
// several messages share, are entries of their own.
inline constexpr std::size_t inline_body_bytes = 512;

struct MessageRecord {
  QueueId queue{};
  std::optional<std::string> key;
  Priority priority = Priority::normal;
  Time enqueued_at{};
  Time due{};
  std::optional<Time> expires_at;
  std::optional<std::string> name;
  std::string label;
  std::optional<std::uint32_t> max_attempts;
  std::optional<Address> dead_notice_to;
  bool notice = false;  // tells of the end of another message
  std::optional<std::string> topic;
  Headers headers;
  // Where the body is: here, or in the entry `body_at`, which others may share.
  Bytes body;
  std::uint32_t body_bytes = 0;
  std::optional<MessageId> body_at;
};

// What changes about a message while it lives. Absent for one that was never given back.
struct StateRecord {
  std::uint32_t attempts = 0;
  std::uint32_t deliveries = 0;  // those of leases that have ended
  std::optional<Time> not_before;
  bool blocks = false;
  std::optional<std::string> park_reason;  // unkeyed and parked
  std::vector<Failure> failures;
};

struct HintRecord {
  std::string owner;
  Time until{};
  Duration grace{0};
};

struct LaneRecord {
  std::string label;
  std::optional<std::string> park_reason;
  bool isolate_next = false;
  std::optional<HintRecord> hint;
};

struct LeaseRecord {
  struct Carried {
    MessageId id{};
    std::uint64_t pull = 0;  // the cursor of the pull that brought it; 0: the lease itself
  };
  QueueId queue{};
  std::optional<std::string> key;
  Time expires_at{};
  std::uint64_t cursor = 1;
  bool isolated = false;
  bool graced = false;  // has had its 10 s after a reopen
  std::optional<RequestId> request;
  std::vector<Carried> messages;
};

struct DedupRecord {
  MessageId first{};
  Time ends_at{};
};

struct ClientRecord {
  std::uint64_t lowest_unanswered = 0;
  Time forget_at{};
};

struct ReceiptRecord {
  store::Fingerprint fingerprint;
  Time forget_at{};
  Receipt receipt;
};

// A dead letter: this, followed by the message entry as it was (see Mutation::Kind::bury).
struct DeadRecord {
  std::uint32_t attempts = 0;
  std::uint32_t deliveries = 0;
  Time dead_at{};
  std::string reason;
  std::vector<Failure> failures;
};

struct PublicationRecord {
  Time at{};
  Content content;  // without body, delay and dedup id
  std::uint32_t body_bytes = 0;
};

struct InstanceRecord {
  std::uint64_t number = 0;           // part of the keys of its events
  std::uint64_t first_execution = 1;  // those before were removed
  Execution last;                     // queue and key are not stored
};

struct RecordRecord {
  Version version{};
  std::string_view value;
};

// --- Keys ---

std::string meta_key();
std::string queue_key(QueueId queue);
std::string number_key(std::uint64_t number);
inline std::string message_key(MessageId id) { return number_key(static_cast<std::uint64_t>(id)); }
std::string lane_key(QueueId queue, std::string_view key);
std::string dead_key(QueueId queue, MessageId id);
std::string request_key(const RequestId& request);
std::string receipt_key(std::uint64_t client, std::uint64_t number);
std::string queue_dedup_key(QueueId queue, std::string_view dedup_id);
std::string topic_dedup_key(std::string_view topic, std::string_view dedup_id);
std::string retained_prefix(std::string_view topic);
std::string retained_key(std::string_view topic, MessageId publication);
std::string execution_key(std::uint64_t instance, std::uint64_t execution);
std::string event_key(std::uint64_t instance, std::uint64_t execution, std::uint64_t index);
std::string record_prefix(std::string_view space);
std::string record_key(std::string_view space, std::string_view key);
std::string pin_key(MessageId body, MessageId message);

std::optional<std::uint64_t> decode_number_key(std::string_view bytes);
struct QueueAndKey {
  QueueId queue{};
  std::string_view key;
};
std::optional<QueueAndKey> decode_lane_key(std::string_view bytes);
std::optional<std::pair<QueueId, MessageId>> decode_dead_key(std::string_view bytes);
std::optional<RequestId> decode_request_key(std::string_view bytes);
std::optional<std::pair<std::uint64_t, std::uint64_t>> decode_pair_key(std::string_view bytes);
std::optional<std::pair<std::string, MessageId>> decode_retained_key(std::string_view bytes);
std::optional<std::pair<std::string, std::string>> decode_record_key(std::string_view bytes);

// --- Values ---

void encode(const MetaRecord& record, std::string& out);
void encode(const QueueRecord& record, std::string& out);
void encode(const CountersRecord& record, std::string& out);
void encode(const MessageRecord& record, std::string& out);
// The same with the body from elsewhere, which saves copying it; `record.body` is empty.
void encode(const MessageRecord& record, std::string_view body, std::string& out);
void encode(const StateRecord& record, std::string& out);
void encode(const LaneRecord& record, std::string& out);
void encode(const LeaseRecord& record, std::string& out);
void encode(const DedupRecord& record, std::string& out);
void encode(const ClientRecord& record, std::string& out);
void encode(const ReceiptRecord& record, std::string& out);
void encode(const DeadRecord& record, std::string& out);
void encode(const TopicSettings& settings, std::string& out);
void encode(const PublicationRecord& record, std::string& out);
void encode(const InstanceRecord& record, std::string& out);
void encode(const RecordRecord& record, std::string& out);

template <class T>
std::optional<T> decode(std::string_view bytes);
template <>
std::optional<MetaRecord> decode(std::string_view bytes);
template <>
std::optional<QueueRecord> decode(std::string_view bytes);
template <>
std::optional<CountersRecord> decode(std::string_view bytes);
template <>
std::optional<MessageRecord> decode(std::string_view bytes);
template <>
std::optional<StateRecord> decode(std::string_view bytes);
template <>
std::optional<LaneRecord> decode(std::string_view bytes);
template <>
std::optional<LeaseRecord> decode(std::string_view bytes);
template <>
std::optional<DedupRecord> decode(std::string_view bytes);
template <>
std::optional<ClientRecord> decode(std::string_view bytes);
template <>
std::optional<ReceiptRecord> decode(std::string_view bytes);
template <>
std::optional<TopicSettings> decode(std::string_view bytes);
template <>
std::optional<PublicationRecord> decode(std::string_view bytes);
template <>
std::optional<InstanceRecord> decode(std::string_view bytes);
template <>
std::optional<RecordRecord> decode(std::string_view bytes);

// A dead letter's entry holds two records: its own, and that of the message.
struct DeadEntry {
  DeadRecord dead;
  MessageRecord message;
};
template <>
std::optional<DeadEntry> decode(std::string_view bytes);

// The name of a family as it appears in errors, such as "message".
std::string_view family_name(Family family);
// The error for an entry that decode refused.
Error damaged(Family family, std::string_view key);

}  // namespace strand::engine
