#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/check/check.h"
#include "store/check/repairs.h"
#include "store/engine/records.h"

namespace strand::check {

// --- What is kept in memory of the entries that were read ---

// Sorted by id, as the archive is. Small, because there may be millions.
struct MessageSeen {
  std::uint64_t id = 0;
  std::uint64_t lane = 0;  // a hash of queue and key; 0: unkeyed
  std::uint32_t queue = 0;
  bool leased = false;
};

struct DeadSeen {
  std::uint64_t id = 0;
  std::uint64_t body = 0;  // 0: in the entry itself
  std::uint32_t queue = 0;
  std::uint32_t body_bytes = 0;
};

// Someone who needs a body entry.
struct BodyUse {
  enum class By : std::uint8_t { message, dead_letter, publication };
  std::uint64_t body = 0;
  std::uint64_t user = 0;
  std::uint32_t bytes = 0;
  By by = By::message;

  // The engine erases an own body with its message, and counts the users of a shared one.
  [[nodiscard]] bool own() const { return by != By::publication && user == body; }
};

struct NameSeen {
  std::uint64_t hash = 0;  // of queue and name
  std::uint64_t id = 0;
};

struct QueueSeen {
  enum class Entry : std::uint8_t { absent, unreadable, present };
  Entry entry = Entry::absent;
  bool wanted = false;  // something that must not be lost belongs to it
  bool has_counters = false;
  bool subscribed = false;
  bool remade = false;  // by repair, maybe under another name
  std::string name;
  std::optional<engine::CountersRecord> counters;
  std::uint64_t live = 0;
  std::uint64_t dead = 0;

  [[nodiscard]] bool exists() const { return entry != Entry::absent || wanted; }
};

struct LaneSeen {
  engine::LaneRecord record;
  bool has_messages = false;
  bool leased = false;
  std::optional<std::string> execution_label = {};  // of its open execution
};

struct TopicSeen {
  bool present = false;
  bool readable = false;
  bool retains = false;  // has publications
};

struct InstanceSeen {
  std::string key;  // queue id and key
  std::uint64_t number = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t first_event = 0;  // of the last execution: those before were trimmed
  std::uint64_t length = 0;       // … and where its events end
  bool open = false;
  bool has_open = false;
  bool bad = false;  // what it says of its executions cannot be
};

// The length of an execution whose entry cannot be read.
inline constexpr std::uint64_t unknown_length = UINT64_MAX;

struct ExecutionSeen {
  std::uint64_t instance = 0;
  std::uint64_t number = 0;
  std::uint64_t first = 0;  // events before this one were trimmed
  std::uint64_t length = 0;
  std::uint64_t seen = 0;  // events so far
  friend auto operator<=>(const ExecutionSeen&, const ExecutionSeen&) = default;
};

struct ClientSeen {
  bool present = false;
  std::uint64_t lowest_unanswered = 0;
  Time forget_at{};
  Time receipts_until{};
};

// Reads an archive family by family, judges each entry, and says how to repair what can be.
//
// An entry that repair would drop counts as dropped at once, so that one repair is enough. What
// cannot be read may refer to anything: while there is any of it, nothing that it might need is
// called repairable.
class Inspector {
 public:
  Inspector(const engine::Archive& archive, const Progress& progress, Repairs& repairs,
            const engine::Identity& fresh)
      : archive_(archive), progress_(progress), repairs_(repairs), fresh_(fresh) {}

  Result<void> run();
  Report take_report() { return std::move(report_); }

 private:
  // inspector.cc
  using Read = std::function<void(std::string_view key, std::string_view value)>;
  Result<void> each(engine::Family family, const Read& read);
  void found(Kind kind, bool repairable, std::string what);
  void unreadable(engine::Family family, std::string_view key, bool repairable,
                  std::string_view then);
  // Reports a number that the store has not reserved.
  void check_number(std::uint64_t number, std::string_view what);
  // Each reports at most one thing, and returns whether there was nothing to report.
  bool check_past(Time time, std::string_view what);
  bool check_time(Time time, std::string_view what, bool repairable = false);
  Result<void> read_meta();
  Result<void> judge_meta();

  // queues.cc
  Result<void> read_queues();
  Result<void> read_queue_names();
  Result<void> read_counters();
  Result<void> read_subscriptions();
  Result<void> judge_queues();
  void drop_of_missing_queue(std::uint32_t id, QueueSeen& queue);
  Result<void> judge_queue(std::uint32_t id, QueueSeen& queue);
  Result<void> rename_queue(std::uint32_t id, QueueSeen& queue);
  void rebuild_queue(std::uint32_t id, QueueSeen& queue);
  void judge_names();
  void judge_counters(std::uint32_t id, const QueueSeen& queue);
  [[nodiscard]] std::string free_queue_name(std::uint32_t id) const;
  [[nodiscard]] bool queue_exists(engine::QueueId queue) const;
  [[nodiscard]] std::string queue_text(std::uint32_t id) const;
  QueueSeen& want_queue(engine::QueueId queue);

  // messages.cc
  Result<void> read_messages();
  void read_message(std::uint64_t id, const engine::MessageRecord& record);
  Result<void> judge_message_names();
  Result<void> judge_same_hash(std::size_t begin, std::size_t end);
  Result<void> read_states();
  void judge_state(const MessageSeen& message, engine::StateRecord record);
  Result<void> read_dead();
  void judge_dead(std::string_view key, std::uint32_t queue, std::uint64_t id,
                  const engine::DeadEntry& entry);
  Result<void> judge_misplaced_dead();
  void keep_dead(const DeadSeen& dead);
  [[nodiscard]] MessageSeen* find_message(std::uint64_t id);
  [[nodiscard]] bool is_dead(std::uint64_t id) const;

  // bodies.cc
  Result<void> read_bodies();
  void judge_body(std::uint64_t id, std::size_t bytes, std::size_t& next_use);
  void missing_body(const BodyUse& use);
  void judge_unused_bodies();
  Result<void> read_pins();

  // topics.cc
  Result<void> read_topics();
  Result<void> read_retained();
  void judge_topics();

  // lanes.cc
  Result<void> read_lanes();
  Result<void> judge_lanes();
  void judge_lane(const std::string& key, const LaneSeen& lane);
  Result<void> read_requests();
  Result<void> read_leases();
  // Why the lease has to go, if it has to.
  std::optional<std::pair<Kind, std::string>> judge_lease(const engine::LeaseRecord& lease);
  std::optional<std::pair<Kind, std::string>> judge_carried(const engine::LeaseRecord& lease);
  void keep_lease(std::uint64_t epoch, const engine::LeaseRecord& lease);

  // ids.cc
  Result<void> read_dedup();
  Result<void> read_clients();
  Result<void> read_receipts();
  void judge_receipt(std::string_view key, const engine::ReceiptRecord& record);
  void judge_client(std::uint64_t number, const ClientSeen& client);
  Result<void> read_records();

  // histories.cc
  Result<void> read_instances();
  void read_instance(std::string_view key, const engine::InstanceRecord& record);
  Result<void> read_open();
  Result<void> read_executions();
  void judge_execution(std::string_view key, std::uint64_t instance, std::uint64_t execution,
                       std::string_view value);
  void judge_chains();
  Result<void> read_events();
  void judge_event(std::string_view key, ExecutionSeen*& current);
  void judge_strays();
  [[nodiscard]] InstanceSeen* find_instance(std::string_view key);
  [[nodiscard]] const InstanceSeen* find_instance(std::uint64_t number) const;
  void orphan_of_history(engine::Family family, std::string_view key, bool sure);
  [[nodiscard]] std::string instance_text(const InstanceSeen& instance) const;

  const engine::Archive& archive_;
  const Progress& progress_;
  Repairs& repairs_;
  const engine::Identity& fresh_;
  Report report_;
  std::uint64_t entries_read_ = 0;

  std::optional<engine::MetaRecord> meta_;
  std::uint64_t lowest_message_ = UINT64_MAX;
  std::uint64_t highest_number_ = 0;
  bool numbers_low_ = false;
  bool queue_ids_low_ = false;
  bool time_lost_ = false;
  Time latest_{};  // of everything past

  std::map<std::uint32_t, QueueSeen> queues_;
  std::map<std::string, std::uint32_t, std::less<>> queue_names_;
  std::map<std::string, std::uint32_t, std::less<>> final_names_;  // as they should be
  std::map<std::string, LaneSeen, std::less<>> lanes_;             // those that have entries
  std::map<std::string, TopicSeen, std::less<>> topics_;

  std::vector<MessageSeen> messages_;
  std::vector<NameSeen> names_;
  std::vector<std::uint64_t> unreadable_messages_;                     // sorted
  std::vector<DeadSeen> dead_;                                         // sorted by id, once read
  std::vector<std::pair<std::string, std::uint64_t>> misplaced_dead_;  // key, id
  std::set<std::uint64_t> unreadable_dead_;
  bool unreadable_publications_ = false;
  std::vector<BodyUse> uses_;
  std::vector<std::uint64_t> unused_bodies_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pins_;  // as they should be

  std::map<std::string, std::uint64_t, std::less<>> leased_lanes_;
  std::set<RequestId> requests_;
  std::map<std::uint64_t, ClientSeen> clients_;

  std::vector<InstanceSeen> instances_;  // sorted by key
  std::vector<std::pair<std::uint64_t, std::size_t>> instances_by_number_;
  std::set<std::string, std::less<>> unreadable_instances_;
  std::vector<ExecutionSeen> executions_;  // sorted
  // Executions and events of instances that nobody knows.
  std::vector<std::pair<engine::Family, std::string>> strays_;
};

// The record, if its encoding is the very bytes that were read.
template <class Record>
std::optional<Record> decode_exactly(std::string_view bytes) {
  auto record = engine::decode<Record>(bytes);
  if (!record) return std::nullopt;
  std::string again;
  again.reserve(bytes.size());
  if constexpr (requires {
                  record->message;
                  record->dead;
                }) {
    engine::encode(record->dead, again);
    engine::encode(record->message, again);
  } else {
    engine::encode(*record, again);
  }
  if (again != bytes) return std::nullopt;
  return record;
}

// Limits that no store goes beyond, whatever limits it was opened with.
const Limits& widest_limits();
bool is_absurd(Time time);
// Never 0. Of queue and key, or queue and name, as lane_key() joins them.
std::uint64_t hash_of(std::string_view lane_key);

}  // namespace strand::check
