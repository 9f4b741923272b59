#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "store/engine/mutations.h"

namespace strand::rocks {

// The column families of the database. Numbers index the table of handles and are not stored; names
// are part of the format.
//
// Entries that live alike live together: message entries are written once and removed once, soon;
// bodies are large; leases come and go with their messages; dead letters, events and records stay.
// All the small entries that are rewritten share one column family, because each has a memtable to
// flush and a log to hold back.
enum class Column : std::uint8_t { small, message, body, lease, dead, event, record };
inline constexpr std::array<const char*, 7> column_names = {"default", "message", "body",  "lease",
                                                            "dead",    "event",   "record"};
inline constexpr std::size_t column_count = column_names.size();

// Whether keys only grow, so that the memtable is told to look beside the last one. Never where
// there are range deletes: they have a table of their own, and RocksDB 7.8 uses the hints of one
// for the other.
constexpr bool hinted(Column column) {
  return column == Column::message || column == Column::body || column == Column::lease;
}

// Where each batch leaves its number, in the column `small`, behind all families.
inline constexpr std::string_view batch_key = "\xff";

// In front of the number of a batch: where it lists the messages that it has erased, in the column
// `small`, behind all families and before `batch_key`.
inline constexpr char erased_prefix = '\xfe';

// Where the entries of a family are, and how one is removed.
struct Placement {
  Column column = Column::small;
  // A key is put once before it is removed, so that a single delete meets its put and both vanish,
  // rather than a tombstone that stays until it has sunk to the last level.
  bool written_once = false;
};

constexpr Placement placement(engine::Family family) {
  switch (family) {
    case engine::Family::message:
      return {.column = Column::message, .written_once = true};
    case engine::Family::body:
      return {.column = Column::body, .written_once = true};
    case engine::Family::lease:
      return {.column = Column::lease};
    case engine::Family::dead:
      return {.column = Column::dead};
    case engine::Family::event:
      return {.column = Column::event};
    case engine::Family::record:
      return {.column = Column::record};
    default:
      return {};
  }
}

// The key of an entry in its column: families that share one are told apart by their first byte.
class ColumnKey {
 public:
  ColumnKey(engine::Family family, std::string_view key) {
    if (placement(family).column != Column::small) {
      bytes_ = key;
      return;
    }
    joined_.reserve(1 + key.size());
    joined_.push_back(static_cast<char>(family));
    joined_.append(key);
    bytes_ = joined_;
  }
  ColumnKey(const ColumnKey&) = delete;
  ColumnKey& operator=(const ColumnKey&) = delete;

  // Valid as long as this, and the key that it was made of.
  [[nodiscard]] std::string_view bytes() const { return bytes_; }

 private:
  std::string joined_;
  std::string_view bytes_;
};

// What a key in a column has in front of the engine's key.
constexpr std::size_t prefix_bytes(engine::Family family) {
  return placement(family).column == Column::small ? 1 : 0;
}

}  // namespace strand::rocks
