#include "store/memory/id_table.h"

#include <cstring>
#include <limits>

#include "base/assert.h"

namespace strand::memory {

std::string_view IdTable::Value::view() const {
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, block_.get(), sizeof bytes);
  return {block_.get() + sizeof bytes, bytes};
}

void IdTable::Value::assign(std::string_view bytes) {
  STRAND_ASSERT(bytes.size() <= std::numeric_limits<std::uint32_t>::max(),
                "a value is bounded by the limits of a transaction");
  const auto length = static_cast<std::uint32_t>(bytes.size());
  // The old block is kept if it has the size: states of messages are rewritten, seldom resized.
  if (!block_ || view().size() != length) {
    block_ = std::make_unique_for_overwrite<char[]>(sizeof length + length);
    std::memcpy(block_.get(), &length, sizeof length);
  }
  std::copy_n(bytes.data(), length, block_.get() + sizeof length);
}

void IdTable::put(std::uint64_t id, std::string_view value) {
  Chunk& chunk = chunks_[id >> chunk_bits];
  std::unique_ptr<Segment>& segment = chunk.segments[segment_of(id)];
  if (!segment) {
    segment = std::make_unique<Segment>();
    ++chunk.used;
  }
  Value& slot = segment->values[slot_of(id)];
  if (!slot) {
    ++segment->used;
    ++size_;
  }
  slot.assign(value);
}

std::optional<std::string_view> IdTable::find(std::uint64_t id) const {
  const auto chunk = chunks_.find(id >> chunk_bits);
  if (chunk == chunks_.end()) return std::nullopt;
  const Segment* segment = chunk->second.segments[segment_of(id)].get();
  if (segment == nullptr || !segment->values[slot_of(id)]) return std::nullopt;
  return segment->values[slot_of(id)].view();
}

void IdTable::erase(std::uint64_t id) { erase_range(id, id); }

void IdTable::erase_range(std::uint64_t first, std::uint64_t last) {
  const std::uint64_t last_chunk = last >> chunk_bits;
  auto chunk = chunks_.lower_bound(first >> chunk_bits);
  while (chunk != chunks_.end() && chunk->first <= last_chunk) {
    // The part of the range that lies in this chunk, as ids within it.
    const std::uint64_t chunk_id = chunk->first << chunk_bits;
    const std::uint64_t chunk_end = chunk_id + ((std::uint64_t{1} << chunk_bits) - 1);
    const std::uint64_t from = std::max(first, chunk_id);
    const std::uint64_t to = std::min(last, chunk_end);
    for (std::size_t s = segment_of(from); s <= segment_of(to); ++s) {
      std::unique_ptr<Segment>& segment = chunk->second.segments[s];
      if (!segment) continue;
      const std::size_t begin = s == segment_of(from) ? slot_of(from) : 0;
      const std::size_t end = s == segment_of(to) ? slot_of(to) : fan_out - 1;
      for (std::size_t i = begin; i <= end; ++i) {
        if (segment->values[i]) erase_slot(*segment, i);
      }
      if (segment->used == 0) {
        segment.reset();
        --chunk->second.used;
      }
    }
    chunk = chunk->second.used == 0 ? chunks_.erase(chunk) : std::next(chunk);
  }
}

void IdTable::erase_slot(Segment& segment, std::size_t slot) {
  segment.values[slot].reset();
  --segment.used;
  --size_;
}

}  // namespace strand::memory
