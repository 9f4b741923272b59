#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

namespace strand::memory {

// Values by a 64-bit id, in order of ids. Made for ids that are handed out in ascending order and
// end in any order, as those of messages do: a few million of them cost their values, a pointer
// each, and little else.
//
// An entry is found in three steps: a tree of chunks (4096 ids), the segments of a chunk (64 ids),
// the slots of a segment. Segments and chunks are freed with their last entry, so that one
// long-lived message keeps some hundred bytes of its dead neighbours' place, not more.
//
// Threads: none; see MemoryBackend.
class IdTable {
 public:
  void put(std::uint64_t id, std::string_view value);
  // The value is valid until the entry is changed.
  [[nodiscard]] std::optional<std::string_view> find(std::uint64_t id) const;
  // No such entry: nothing happens.
  void erase(std::uint64_t id);
  // Erases first <= id <= last.
  void erase_range(std::uint64_t first, std::uint64_t last);

  // Calls visit(id, value) for each entry with first <= id <= last, in order, until it returns
  // false.
  template <class Visit>
  void scan(std::uint64_t first, std::uint64_t last, Visit visit) const;

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  // Bytes in a block of exactly their size: the length, then the bytes.
  class Value {
   public:
    [[nodiscard]] explicit operator bool() const { return block_ != nullptr; }
    [[nodiscard]] std::string_view view() const;
    void assign(std::string_view bytes);
    void reset() { block_.reset(); }

   private:
    std::unique_ptr<char[]> block_;
  };

  static constexpr unsigned segment_bits = 6;
  static constexpr unsigned chunk_bits = 12;
  static constexpr std::size_t fan_out = 64;

  struct Segment {
    std::array<Value, fan_out> values;
    std::size_t used = 0;
  };
  struct Chunk {
    std::array<std::unique_ptr<Segment>, fan_out> segments;
    std::size_t used = 0;
  };
  using Chunks = std::map<std::uint64_t, Chunk>;

  static std::size_t segment_of(std::uint64_t id) { return (id >> segment_bits) % fan_out; }
  static std::size_t slot_of(std::uint64_t id) { return id % fan_out; }
  // Erases an entry that is there, but leaves what it makes empty.
  void erase_slot(Segment& segment, std::size_t slot);

  Chunks chunks_;
  std::size_t size_ = 0;
};

template <class Visit>
void IdTable::scan(std::uint64_t first, std::uint64_t last, Visit visit) const {
  const std::uint64_t last_chunk = last >> chunk_bits;
  for (auto chunk = chunks_.lower_bound(first >> chunk_bits);
       chunk != chunks_.end() && chunk->first <= last_chunk; ++chunk) {
    const std::uint64_t chunk_id = chunk->first << chunk_bits;
    for (std::size_t s = 0; s < fan_out; ++s) {
      const Segment* segment = chunk->second.segments[s].get();
      const std::uint64_t segment_id = chunk_id + (std::uint64_t{s} << segment_bits);
      if (segment == nullptr || segment_id + (fan_out - 1) < first) continue;
      if (segment_id > last) return;
      for (std::size_t i = 0; i < fan_out; ++i) {
        const std::uint64_t id = segment_id + i;
        if (!segment->values[i] || id < first) continue;
        if (id > last || !visit(id, segment->values[i].view())) return;
      }
    }
  }
}

}  // namespace strand::memory
