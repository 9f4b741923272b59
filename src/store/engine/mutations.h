#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strand::engine {

// The kinds of entry that a store keeps. Numbers are part of the format: never change one.
// Keys are binary and big-endian; codec.h has the layout of keys and values.
enum class Family : std::uint8_t {
  meta = 0,           // one entry: identity, commit number, time, reserved numbers
  queue = 1,          // queue id -> name, settings, paused
  counters = 2,       // queue id -> how many messages ended how
  message = 3,        // message id -> all that never changes; written once
  body = 4,           // body id -> bytes (larger bodies, and those of publications)
  state = 5,          // message id -> attempts, deliveries, backoff (only if not fresh)
  lane = 6,           // queue id, key -> label, park, hint, isolation (only if it has any)
  lease = 7,          // epoch -> the lease
  request = 8,        // request id -> until when it is remembered
  dedup = 9,          // scope, dedup id -> first message, end of its window
  client = 10,        // client -> lowest unanswered number
  receipt = 11,       // client, number -> fingerprint and receipt
  dead = 12,          // queue id, message id -> the dead letter
  topic = 13,         // topic -> settings
  subscription = 14,  // queue id -> pattern
  retained = 15,      // topic, publication id -> the publication
  instance = 16,      // queue id, key -> number of the instance, last execution
  open = 17,          // queue id, key -> nothing: the instance has an open execution
  execution = 18,     // instance number, execution -> an earlier execution
  event = 19,         // instance number, execution, index -> one event
  record = 20,        // space, key -> version and value
  pin = 21,           // body id, message id -> nothing: a dead letter shares that body
  queue_name = 22,    // name -> queue id
};
inline constexpr std::size_t family_count = 23;

// The first key behind all keys that start with `prefix`; empty if there is none.
std::string behind_prefix(std::string_view prefix);

// One change of an entry.
struct Mutation {
  enum class Kind : std::uint8_t {
    put,
    erase,
    // The message entry `key` (8 bytes of id) becomes a dead letter: it is removed, and the `dead`
    // entry named by the first 12 bytes of `value` (queue id, message id) is put, with the rest of
    // `value` followed by the value of the message entry.
    // The message may have been put earlier in the same batch.
    bury,
    // Removes every entry of the family whose key starts with `key`.
    erase_prefix,
    // Removes the entries of the family from `key` on and before `value`; both are whole keys.
    erase_range,
  };
  Family family = Family::meta;
  Kind kind = Kind::put;
  std::string_view key;
  std::string_view value;

  // Of a burial: the key of the dead letter, and what its value starts with.
  static constexpr std::size_t dead_key_bytes = 12;
  [[nodiscard]] std::string_view dead_key() const { return value.substr(0, dead_key_bytes); }
  [[nodiscard]] std::string_view dead_value() const { return value.substr(dead_key_bytes); }
};

// Changes that are applied together or not at all, in order. Owns its bytes in one block.
class MutationBatch {
 public:
  void put(Family family, std::string_view key, std::string_view value) {
    add(family, Mutation::Kind::put, key, value);
  }
  void erase(Family family, std::string_view key) { add(family, Mutation::Kind::erase, key, {}); }
  void erase_prefix(Family family, std::string_view prefix) {
    add(family, Mutation::Kind::erase_prefix, prefix, {});
  }
  void erase_range(Family family, std::string_view first, std::string_view last) {
    add(family, Mutation::Kind::erase_range, first, last);
  }
  void bury(std::string_view message_key, std::string_view dead_key, std::string_view dead_value);

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_.size(); }
  // Views are valid until the batch changes.
  [[nodiscard]] Mutation operator[](std::size_t index) const;
  void clear();

 private:
  struct Entry {
    std::size_t begin;
    std::uint32_t key_bytes;
    std::uint32_t value_bytes;
    Family family;
    Mutation::Kind kind;
  };
  void add(Family family, Mutation::Kind kind, std::string_view key, std::string_view value);

  std::string bytes_;
  std::vector<Entry> entries_;
};

}  // namespace strand::engine
