#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <strand/ids.h>
#include <strand/time.h>

namespace strand {

// Any bytes, NUL included. A string only because every C++ programmer has one at hand.
using Bytes = std::string;

struct Header {
  std::string name = {};
  std::string value = {};

  friend bool operator==(const Header&, const Header&) = default;
};
// Kept in the order given; a name may occur more than once.
using Headers = std::vector<Header>;

// Decides which lane is served next; never reorders inside a lane.
enum class Priority : std::uint8_t { urgent = 0, high = 1, normal = 2, low = 3 };

// A place to which a message can be sent.
struct Address {
  std::string queue = {};
  std::optional<std::string> key = {};

  friend bool operator==(const Address&, const Address&) = default;
};

// What a message and a published message have in common.
struct Content {
  std::optional<std::string> key = {};  // none: the message stands alone; empty is refused
  Bytes body = {};
  Headers headers = {};
  Priority priority = Priority::normal;
  Duration delay{0};                 // due = acceptance time + delay
  std::optional<Duration> ttl = {};  // from acceptance; none: the queue's default
  // Seen before in the window of its scope (the queue; for publish, the topic): adds nothing.
  std::optional<std::string> dedup_id = {};
};

// A message for one queue. The queue is created if it does not exist.
struct Send : Content {
  std::string queue = {};
  std::string label = {};                          // "" brings none
  std::optional<std::string> name = {};            // unique among the queue's live messages
  std::optional<std::uint32_t> max_attempts = {};  // 0: unlimited; none: the queue's setting
  std::optional<Address> dead_notice_to = {};      // told when this message ends without an ack
};

// A message for the queue of every subscription whose pattern matches the topic.
struct Publish : Content {
  std::string topic = {};  // segments separated by dots, none empty
};

// A message as its holder sees it.
struct Message {
  MessageId id{};
  Bytes body = {};
  Headers headers = {};
  Priority priority = Priority::normal;
  std::uint32_t deliveries = 0;  // times leased, this time included
  std::uint32_t attempts = 0;    // failures so far
  Time enqueued_at{};
  Time due{};
  std::optional<Time> expires_at = {};
  std::optional<std::string> name = {};
  std::optional<std::string> topic = {};  // if it was published

  friend bool operator==(const Message&, const Message&) = default;
};

// Where a live message stands.
enum class MessageState : std::uint8_t {
  ready,    // would be leased if asked for
  delayed,  // not due yet
  backoff,  // failed, waits for its next try
  waiting,  // behind a lease or a blocked message of its lane
  leased,
  parked,  // its lane (or itself, if unkeyed) stopped until resumed
};
std::string_view to_string(MessageState state);

// One failure of a message.
struct Failure {
  Time at{};
  std::string reason = {};

  friend bool operator==(const Failure&, const Failure&) = default;
};

// A live message as an onlooker sees it.
struct PeekedMessage : Message {
  std::optional<std::string> key = {};
  std::string label = {};  // of its lane
  MessageState state = MessageState::ready;
  std::optional<Time> retry_at = {};            // in backoff
  std::optional<std::string> last_reason = {};  // of its last failure
  std::optional<std::string> park_reason = {};  // parked

  friend bool operator==(const PeekedMessage&, const PeekedMessage&) = default;
};

// A message that failed for good. `attempts` and `deliveries` are those of its life.
struct DeadLetter : Message {
  std::string queue = {};
  std::optional<std::string> key = {};
  std::string label = {};
  Time dead_at{};
  std::string reason = {};             // why it ended
  std::vector<Failure> failures = {};  // every attempt that failed, oldest first

  friend bool operator==(const DeadLetter&, const DeadLetter&) = default;
};

// The headers of a notice: it carries these and an empty body. One that the message itself asked
// for by `dead_notice_to` carries the ended message's own headers in front of them.
inline constexpr std::string_view notice_id_header = "strand-notice-id";
inline constexpr std::string_view notice_queue_header = "strand-notice-queue";
inline constexpr std::string_view notice_name_header = "strand-notice-name";
// How it ended: dead, expired, cancelled, purged.
inline constexpr std::string_view notice_end_header = "strand-notice-end";
inline constexpr std::string_view notice_reason_header = "strand-notice-reason";

}  // namespace strand
