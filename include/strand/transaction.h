#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <strand/ids.h>
#include <strand/message.h>
#include <strand/settings.h>
#include <strand/time.h>

namespace strand {

enum class Durability : std::uint8_t {
  sync,   // success survives power loss
  async,  // success survives the process, not the power
};

// What becomes of one leased message.
struct Outcome {
  enum class Kind : std::uint8_t {
    ack,      // done; the message is gone
    retry,    // failed: charged one attempt, tried again later
    dead,     // failed for good: becomes a dead letter now
    release,  // given back, charged nothing
  };
  MessageId id{};
  Kind kind = Kind::ack;
  std::optional<Duration> delay = {};  // retry only: overrides the backoff
  std::string reason = {};             // retry and dead
};

// Asks that a lane be served by one owner for a while: until `valid_until`, others may lease it
// only after it has been ready for `grace`.
struct OwnerHint {
  std::string owner = {};
  Duration valid_for{0};
  Duration grace{0};  // at most Limits::owner_grace_max
};

// The outcome of some or all messages of one lease, and what becomes of the lease.
// A transaction may settle several leases, each once.
struct Settle {
  enum class Then : std::uint8_t {
    end,   // what is unsettled is released
    keep,  // the lease goes on with what is unsettled
    park,  // what is unsettled is released, and the lane stops until it is resumed
  };
  Token token = {};
  std::vector<Outcome> outcomes = {};
  Then then = Then::end;
  std::string park_reason = {};
  std::optional<std::string> label = {};  // the lane's label from now on ("" removes it)
  std::optional<OwnerHint> owner_hint = {};
};

// Drops the live message of that name, wherever it stands. If a lease carries it, the whole lease
// is revoked and charges nothing. No such message: nothing happens.
struct Cancel {
  std::string queue = {};
  std::string name = {};
  bool quiet = false;  // no notice is sent: who asked for it is who cancels
};

// Adds events to the history of the instance whose lane the token holds (so: keyed leases only).
//
// Executions are numbered from 1. An append to the execution after the last one, with
// expected_length 0, opens it; the one before must be closed. Continue-as-new is therefore two
// appends in one transaction: one that closes execution n, one that opens n + 1.
// An open execution pins the lane's label: whatever lane of that key appears has it.
struct Append {
  Token token = {};
  std::uint64_t execution = 1;
  std::uint64_t expected_length = 0;
  std::vector<Bytes> events = {};
  std::optional<std::string> close =
      {};  // closes the execution with this outcome, such as "completed"
};

// Removes the history of the instance whose lane the token holds, up to and including an execution
// (0: all of it, after which the instance does not exist). Applied before the appends.
struct RemoveHistory {
  Token token = {};
  std::uint64_t through_execution = 0;
};

// Forgets the events before the one numbered `before` of the open execution of the instance whose
// lane the token holds. The length, the numbers of the other events and what appends expect stay as
// they are. Applied after the appends: at most all events that there are then can go. Trimming to
// where the history already begins, or before that, changes nothing.
struct TrimHistory {
  Token token = {};
  std::uint64_t execution = 1;
  std::uint64_t before = 0;
};

// Writes or removes a record.
struct WriteRecord {
  std::string space = {};
  std::string key = {};
  std::optional<Bytes> value = {};       // none removes the record
  std::optional<Version> expected = {};  // Version{0}: must be absent; none: whatever there is
};

// --- Administration: at most one operation a transaction, and nothing else in it. ---

// Sets all settings of a queue, and creates it if it does not exist.
struct ConfigureQueue {
  std::string queue = {};
  QueueSettings settings = {};
};
// No lease and no pull until resumed; settle, renew and send go on.
struct PauseQueue {
  std::string queue = {};
};
struct ResumeQueue {
  std::string queue = {};
};
// Lets a parked lane, or a parked unkeyed message, go on; its attempts start again.
struct ResumeLane {
  std::string queue = {};
  std::optional<std::string> key = {};  // exactly one of the two
  std::optional<MessageId> id = {};
};
// Drops the live messages of a queue, or of one lane, except those that are leased.
struct PurgeQueue {
  std::string queue = {};
  std::optional<std::string> key = {};
};
// Removes a queue with all that is in it: messages, dead letters, histories, its subscription.
// Leases or open executions are in the way unless `force`.
struct RemoveQueue {
  std::string queue = {};
  bool force = false;
};
// Gives dead letters back to their lane, in their old place; attempts start again.
// To another queue: they are new messages there, and count as `moved` here.
struct Redrive {
  std::string queue = {};
  std::vector<MessageId> ids = {};
  std::optional<std::string> to = {};
};
struct DropDead {
  std::string queue = {};
  std::vector<MessageId> ids = {};
};
// Subscribes a queue (created if it does not exist) to all topics that match the pattern: `*` is
// exactly one segment, `#`, at the end only, zero or more. The same again changes nothing.
struct Subscribe {
  std::string queue = {};
  std::string pattern = {};
  std::optional<Time> from = {};  // also what topics retained since then
};
// The queue stays, with what it holds.
struct Unsubscribe {
  std::string queue = {};
};
struct ConfigureTopic {
  std::string topic = {};
  TopicSettings settings = {};
};

using Administration =
    std::variant<ConfigureQueue, PauseQueue, ResumeQueue, ResumeLane, PurgeQueue, RemoveQueue,
                 Redrive, DropDead, Subscribe, Unsubscribe, ConfigureTopic>;

// What a client wants to happen, all or nothing.
//
// The parts take effect in the order of the members: histories (removals, appends, trims), settles,
// cancels, sends, publishes, records. So a token may append, trim and be settled in one
// transaction, and a settled or cancelled message's name is free for a send.
struct Transaction {
  std::optional<TransactionId> id = {};
  Durability durability = Durability::sync;

  std::vector<RemoveHistory> remove_histories = {};
  std::vector<Append> appends = {};
  std::vector<TrimHistory> trim_histories = {};
  std::vector<Settle> settles = {};
  std::vector<Cancel> cancels = {};
  std::vector<Send> sends = {};
  std::vector<Publish> publishes = {};
  std::vector<WriteRecord> records = {};

  std::optional<Administration> admin = {};  // then nothing else but id and durability
};

struct Sent {
  MessageId id{};
  bool duplicate = false;  // then `id` is the first message's

  friend bool operator==(const Sent&, const Sent&) = default;
};

struct Published {
  MessageId id{};  // names the publication; the copies in the queues have ids of their own
  bool duplicate = false;
  std::uint32_t matched = 0;  // subscriptions that got it

  friend bool operator==(const Published&, const Published&) = default;
};

// What a transaction did: one entry for each part, in order.
struct Receipt {
  Time time{};                            // acceptance time
  std::vector<Sent> sent = {};            // one for each send
  std::vector<Published> published = {};  // one for each publish
  std::vector<bool> cancelled = {};       // one for each cancel: whether there was such a message
  std::vector<Version> versions = {};     // one for each record; 0 if removed
  std::uint64_t affected = 0;             // administration: messages (or lanes) it concerned

  friend bool operator==(const Receipt&, const Receipt&) = default;
};

}  // namespace strand
