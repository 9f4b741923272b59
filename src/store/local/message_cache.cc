#include "store/local/message_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/planted.h"

namespace strand::local {

using engine::Family;
using engine::Mutation;

namespace {

constexpr std::size_t segment_bytes = std::size_t{256} << 10U;
// Larger ones are dearer to copy than their reading would be.
constexpr std::size_t entry_bytes_max = segment_bytes / 8;
// So many budgets pass by before the oldest have to go.
constexpr std::size_t patience = 4;

std::uint64_t id_of(std::string_view key) {
  STRAND_ASSERT(key.size() == sizeof(std::uint64_t), "messages and bodies are named by an id");
  std::uint64_t id = 0;
  for (const char byte : key)
    id = id << 8U | static_cast<unsigned char>(byte);
  return id;
}

}  // namespace

MessageCache::MessageCache(std::unique_ptr<engine::Backend> disk, std::size_t budget_bytes)
    : ForwardingBackend(std::move(disk)),
      segments_max_(std::max<std::size_t>(budget_bytes / segment_bytes, 1)) {}

bool MessageCache::keeps(Family family) {
  return family == Family::message || family == Family::body;
}

Result<std::optional<std::string>> MessageCache::get(Family family, std::string_view key) const {
  if (keeps(family)) {
    const std::lock_guard lock(mutex_);
    const Places& places = family == Family::body ? bodies_ : messages_;
    if (const auto found = places.find(id_of(key)); found != places.end()) {
      const Place& place = found->second;
      const Segment& segment = segments_[place.segment - first_segment_];
      ++hits_;
      return std::string(segment.bytes.get() + place.offset, place.bytes);
    }
  }
  return behind().get(family, key);
}

Result<void> MessageCache::write(const engine::MutationBatch& batch, Durability durability) {
  if (auto written = behind().write(batch, durability); !written) return written;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < batch.size(); ++i)
    note(batch[i]);
  return {};
}

Result<void> MessageCache::reopen() {
  {
    const std::lock_guard lock(mutex_);
    messages_.clear();
    bodies_.clear();
    first_segment_ += segments_.size();
    segments_.clear();
    held_ = 0;
  }
  return behind().reopen();
}

void MessageCache::note(const Mutation& mutation) {
  if (!keeps(mutation.family)) return;
  if (STRAND_PLANTED("cache-keeps-erased") && mutation.kind == Mutation::Kind::erase) return;
  switch (mutation.kind) {
    case Mutation::Kind::put:
      put(mutation.family, mutation.key, mutation.value);
      break;
    case Mutation::Kind::erase:
    case Mutation::Kind::bury:
      erase(mutation.family, mutation.key);
      break;
    case Mutation::Kind::erase_prefix:
    case Mutation::Kind::erase_range:
      STRAND_ASSERT(false, "messages and bodies are removed one by one");
  }
}

void MessageCache::put(Family family, std::string_view key, std::string_view value) {
  erase(family, key);
  Segment* segment = value.size() > entry_bytes_max ? nullptr : segment_for(value.size());
  if (segment == nullptr) return;
  std::memcpy(segment->bytes.get() + segment->used, value.data(), value.size());
  places(family).emplace(id_of(key), Place{.segment = first_segment_ + segments_.size() - 1,
                                           .offset = static_cast<std::uint32_t>(segment->used),
                                           .bytes = static_cast<std::uint32_t>(value.size())});
  segment->used += value.size();
  ++segment->live;
  segment->ids.push_back(id_of(key));
}

void MessageCache::erase(Family family, std::string_view key) {
  Places& all = places(family);
  const auto found = all.find(id_of(key));
  if (found == all.end()) return;
  const std::uint64_t segment = found->second.segment;
  all.erase(found);
  leave(segment);
}

// One entry less in a segment; frees what is empty.
void MessageCache::leave(std::uint64_t segment) {
  Segment& left = segments_[segment - first_segment_];
  if (--left.live > 0) return;
  if (&left == &segments_.back()) {
    left.used = 0;
    left.ids.clear();
    return;
  }
  left = {};
  --held_;
  pop_freed();
}

void MessageCache::pop_freed() {
  while (!segments_.empty() && !segments_.front().bytes) {
    segments_.pop_front();
    ++first_segment_;
  }
}

// The last segment if it has room, or a new one if there may be one; none otherwise.
MessageCache::Segment* MessageCache::segment_for(std::size_t bytes) {
  if (!segments_.empty() && segments_.back().used + bytes <= segment_bytes) {
    return &segments_.back();
  }
  // One message that stays for ever must not hold on to the numbers of all segments behind it.
  while (segments_.size() >= patience * segments_max_)
    drop_oldest();
  if (held_ >= segments_max_) {
    refused_bytes_ += bytes;
    if (refused_bytes_ < patience * segments_max_ * segment_bytes) return nullptr;
    drop_oldest();
  }
  ++held_;
  return &segments_.emplace_back(
      Segment{.bytes = std::make_unique_for_overwrite<char[]>(segment_bytes),
              .used = 0,
              .live = 0,
              .ids = {}});
}

void MessageCache::drop_oldest() {
  refused_bytes_ = 0;
  const std::uint64_t oldest = first_segment_;
  for (const std::uint64_t id : std::exchange(segments_.front().ids, {})) {
    for (Places* all : {&messages_, &bodies_}) {
      const auto found = all->find(id);
      if (found != all->end() && found->second.segment == oldest) all->erase(found);
    }
  }
  segments_.front() = {};
  --held_;
  pop_freed();
}

std::size_t MessageCache::entries() const {
  const std::lock_guard lock(mutex_);
  return messages_.size() + bodies_.size();
}

std::uint64_t MessageCache::hits() const {
  const std::lock_guard lock(mutex_);
  return hits_;
}

}  // namespace strand::local
