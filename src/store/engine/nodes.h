#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <boost/intrusive/set.hpp>
#include <boost/unordered/unordered_flat_map.hpp>

#include <strand/store.h>

#include "store/engine/records.h"

// The state of a store in memory, as the engine links it together.
//
//   Queue ── lanes by key ── Lane ── visible messages (by priority, each by place)
//     │                        │      waiting messages (delayed or in backoff, by wake time)
//     │                        └──── LeaseNode ── carried messages
//     ├── unkeyed messages: in the ready order themselves, or waiting, or leased
//     └── ready order: lanes and unkeyed messages by label, priority, turn
//
// Messages and lanes are linked by hooks inside them, so that moving one allocates nothing.

namespace strand::engine {

namespace intrusive = boost::intrusive;

struct Lane;
struct LeaseNode;
struct MessageNode;
struct Queue;
class ReadyGroup;

constexpr std::size_t priority_count = 4;

// The place of a message in its lane. It never changes.
struct Place {
  Time due{};
  MessageId id{};
  friend auto operator<=>(const Place&, const Place&) = default;
};

// A turn in the ready order: milliseconds of store time above a counter, so that one number
// gives both the order and the time since when an entry is ready.
using Turn = std::uint64_t;
constexpr unsigned turn_counter_bits = 16;
inline Turn first_turn_at(Time time) {
  return static_cast<Turn>(time.time_since_epoch().count()) << turn_counter_bits;
}
inline Time time_of(Turn turn) {
  return Time{Duration{static_cast<std::int64_t>(turn >> turn_counter_bits)}};
}

struct OrderTag;
struct ByIdTag;
using OrderHook =
    intrusive::set_base_hook<intrusive::tag<OrderTag>, intrusive::optimize_size<true>>;
using ByIdHook = intrusive::set_base_hook<intrusive::tag<ByIdTag>, intrusive::optimize_size<true>>;

// What can be leased next: a lane, or an unkeyed message. The hook links it into the ready order;
// for a message of a lane, the same hook links it into its lane.
struct ReadyEntry : OrderHook {
  Turn turn = 0;                // valid while listed
  ReadyGroup* group = nullptr;  // where it is listed
  std::uint8_t priority = static_cast<std::uint8_t>(Priority::normal);
  bool is_lane = false;

  [[nodiscard]] bool listed() const { return group != nullptr; }
};

// What few messages have.
struct MessageExtras {
  std::optional<Time> expires_at;
  std::optional<Time> not_before;          // in backoff until then
  bool blocks = false;                     // and holds its lane back
  std::optional<std::string> park_reason;  // unkeyed and parked
  std::vector<Failure> failures;
  std::optional<std::string> name;
  std::string label;  // of an unkeyed message
  std::optional<std::uint32_t> max_attempts;
  std::optional<Address> dead_notice_to;
  Headers headers;                   // kept for the notice that the message itself asks for
  std::optional<MessageId> body_at;  // shared with other messages of a publication
};

// Where a message is linked.
enum class Where : std::uint8_t {
  nowhere,  // being moved
  visible,  // keyed: in its lane; unkeyed: in the ready order, or parked
  waiting,  // by wake time, in its lane or its queue
  leased,
};

// There are millions: the small members stand first, where they fill what ReadyEntry leaves.
struct MessageNode : ByIdHook, ReadyEntry {
  Where where = Where::nowhere;
  bool has_state = false;  // a state entry is persisted
  bool own_body = false;   // a body entry of its own is persisted
  bool settling = false;   // named by the transaction that is being checked
  bool notice = false;     // tells of the end of another message
  MessageId id{};
  Time due{};
  Queue* queue = nullptr;
  Lane* lane = nullptr;  // none: unkeyed
  LeaseNode* lease = nullptr;
  std::unique_ptr<MessageExtras> extras;
  std::uint32_t lease_index = 0;  // in lease->messages
  std::uint32_t bytes = 0;        // of body and headers
  std::uint32_t deliveries = 0;
  std::uint32_t attempts = 0;

  [[nodiscard]] Place place() const { return {.due = due, .id = id}; }
  [[nodiscard]] std::optional<Time> expires_at() const {
    return extras ? extras->expires_at : std::nullopt;
  }
  [[nodiscard]] bool expired(Time now) const {
    return extras && extras->expires_at && *extras->expires_at <= now;
  }
  // When it can be visible.
  [[nodiscard]] Time wakes_at() const {
    return extras && extras->not_before && *extras->not_before > due ? *extras->not_before : due;
  }
  [[nodiscard]] bool in_backoff() const { return extras && extras->not_before.has_value(); }
  [[nodiscard]] bool blocks() const { return extras && extras->blocks; }
  [[nodiscard]] bool parked_alone() const { return extras && extras->park_reason.has_value(); }
  MessageExtras& more() {
    if (!extras) extras = std::make_unique<MessageExtras>();
    return *extras;
  }
};

static_assert(sizeof(MessageNode) <= 136, "malloc then takes 144 bytes for it, and not 160");

struct ByPlace {
  bool operator()(const MessageNode& a, const MessageNode& b) const {
    return a.place() < b.place();
  }
};
struct ByWake {
  bool operator()(const MessageNode& a, const MessageNode& b) const {
    const auto wake_a = a.wakes_at();
    const auto wake_b = b.wakes_at();
    return wake_a != wake_b ? wake_a < wake_b : a.id < b.id;
  }
};
struct MessageIdOf {
  using type = MessageId;
  MessageId operator()(const MessageNode& message) const { return message.id; }
};
struct ByTurn {
  bool operator()(const ReadyEntry& a, const ReadyEntry& b) const { return a.turn < b.turn; }
};

using VisibleSet =
    intrusive::set<MessageNode, intrusive::base_hook<OrderHook>, intrusive::compare<ByPlace>,
                   intrusive::constant_time_size<false>>;
using WaitingSet = intrusive::set<MessageNode, intrusive::base_hook<OrderHook>,
                                  intrusive::compare<ByWake>, intrusive::constant_time_size<false>>;
using MessagesById = intrusive::set<MessageNode, intrusive::base_hook<ByIdHook>,
                                    intrusive::key_of_value<MessageIdOf>>;
using ReadySet = intrusive::set<ReadyEntry, intrusive::base_hook<OrderHook>,
                                intrusive::compare<ByTurn>, intrusive::constant_time_size<true>>;

// All messages of one key in one queue, and who holds them.
struct Lane : ReadyEntry {
  Queue* queue = nullptr;
  std::string key;
  std::string label;
  VisibleSet visible[priority_count];
  WaitingSet waiting;
  std::uint64_t visible_count = 0;
  std::uint64_t waiting_count = 0;
  std::uint64_t backoff_count = 0;          // of the waiting ones
  std::unique_ptr<std::set<Place>> blocks;  // of messages in backoff that hold back the rest
  LeaseNode* lease = nullptr;
  std::unique_ptr<HintRecord> hint;
  std::unique_ptr<std::string> park_reason;  // parked
  std::optional<Time> wake_timer;            // as registered
  MessageId wake_id{};
  std::optional<Time> hint_timer;
  bool isolate_next = false;
  bool persisted = false;  // a lane entry is persisted
  bool changed = false;    // and it has to be written again
  std::uint8_t edits = 0;  // nested LaneEdits

  [[nodiscard]] bool parked() const { return park_reason != nullptr; }
  // Messages at or behind this place are held back.
  [[nodiscard]] std::optional<Place> barrier() const {
    if (!blocks || blocks->empty()) return std::nullopt;
    return *blocks->begin();
  }
  // The next message in order of place that is not held back.
  [[nodiscard]] MessageNode* first_visible();
  // The priority of the most urgent message that is not held back.
  [[nodiscard]] std::optional<std::uint8_t> best_priority() const;
  [[nodiscard]] bool empty() const { return visible_count == 0 && waiting_count == 0; }
  // All that no lease carries.
  [[nodiscard]] std::vector<MessageNode*> free_messages();
};

// A lease. Settled messages leave holes in `messages`, which are closed now and then.
struct LeaseNode {
  struct Carried {
    MessageNode* message = nullptr;
    std::uint64_t pull = 0;
  };
  Epoch epoch{};
  Queue* queue = nullptr;
  Lane* lane = nullptr;  // none: one unkeyed message
  Time expires_at{};
  std::uint64_t cursor = 1;
  std::optional<RequestId> request;
  std::vector<Carried> messages;
  std::size_t carried = 0;  // without the holes
  bool isolated = false;
  bool graced = false;
  bool woken = false;     // its holder is to be told with the decisions gathered now
  bool settling = false;  // named by the transaction that is being checked
  // Finds messages by id when they are not settled in order; made when first needed.
  std::unique_ptr<boost::unordered_flat_map<std::uint64_t, MessageNode*>> by_id;
  std::size_t next_guess = 0;

  MessageNode* find(MessageId id);
  void add(MessageNode& message, std::uint64_t pull);
  void remove(MessageNode& message);
};

}  // namespace strand::engine
