#include "store/memory/memory_backend.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/assert.h"

namespace strand::memory {

using engine::Family;
using engine::Mutation;

namespace {

constexpr std::size_t id_bytes = 8;
constexpr std::uint64_t id_max = std::numeric_limits<std::uint64_t>::max();

std::uint64_t id_of(std::string_view key) {
  STRAND_ASSERT(key.size() == id_bytes, "entries of this family have keys of 8 bytes");
  std::uint64_t id = 0;
  for (const char byte : key)
    id = id << 8U | static_cast<std::uint8_t>(byte);
  return id;
}

std::array<char, id_bytes> key_of(std::uint64_t id) {
  std::array<char, id_bytes> key{};
  for (std::size_t i = 0; i < id_bytes; ++i) {
    key[i] = static_cast<char>(id >> (8 * (id_bytes - 1 - i)) & 0xffU);
  }
  return key;
}

// The key, cut or filled with `fill` to 8 bytes.
std::uint64_t padded_id(std::string_view key, char fill) {
  std::array<char, id_bytes> padded{};
  padded.fill(fill);
  std::ranges::copy(key.substr(0, id_bytes), padded.begin());
  return id_of({padded.data(), padded.size()});
}

struct IdRange {
  std::uint64_t first;
  std::uint64_t last;  // inclusive
};

// The ids whose keys lie in first <= key < last, where the bounds are of any length.
std::optional<IdRange> id_range(std::string_view first, std::string_view last) {
  IdRange range{padded_id(first, '\0'), id_max};
  if (first.size() > id_bytes) {
    // The id made of the first 8 bytes is a prefix of `first`, and so lies before it.
    if (range.first == id_max) return std::nullopt;
    ++range.first;
  }
  if (!last.empty()) {
    range.last = padded_id(last, '\0');
    if (last.size() <= id_bytes) {
      if (range.last == 0) return std::nullopt;
      --range.last;
    }
  }
  if (range.first > range.last) return std::nullopt;
  return range;
}

}  // namespace

std::optional<std::size_t> MemoryBackend::id_table_of(Family family) {
  switch (family) {
    case Family::message:
      return 0;
    case Family::body:
      return 1;
    case Family::state:
      return 2;
    case Family::lease:
      return 3;
    default:
      return std::nullopt;
  }
}

IdTable* MemoryBackend::id_table(Family family) {
  const auto index = id_table_of(family);
  return index ? &id_tables_[*index] : nullptr;
}

const IdTable* MemoryBackend::id_table(Family family) const {
  const auto index = id_table_of(family);
  return index ? &id_tables_[*index] : nullptr;
}

std::shared_lock<std::shared_mutex> MemoryBackend::read_lock() const {
  const std::lock_guard turn(turn_);
  return std::shared_lock(mutex_);
}

Result<std::optional<std::string>> MemoryBackend::get(Family family, std::string_view key) const {
  const auto lock = read_lock();
  if (const IdTable* ids = id_table(family)) {
    if (key.size() != id_bytes) return std::nullopt;
    const auto value = ids->find(id_of(key));
    if (!value) return std::nullopt;
    return std::string(*value);
  }
  const Table& entries = table(family);
  const auto found = entries.find(key);
  if (found == entries.end()) return std::nullopt;
  return found->second;
}

Result<void> MemoryBackend::scan(Family family, std::string_view first, std::string_view last,
                                 const Visit& visit) const {
  const auto lock = read_lock();
  if (const IdTable* ids = id_table(family)) {
    if (const auto range = id_range(first, last)) {
      ids->scan(range->first, range->last, [&](std::uint64_t id, std::string_view value) {
        const auto key = key_of(id);
        return visit({key.data(), key.size()}, value);
      });
    }
    return {};
  }
  const Table& entries = table(family);
  for (auto entry = entries.lower_bound(first); entry != entries.end(); ++entry) {
    if (!last.empty() && entry->first >= last) break;
    if (!visit(entry->first, entry->second)) break;
  }
  return {};
}

Result<void> MemoryBackend::write(const engine::MutationBatch& batch,
                                  [[maybe_unused]] Durability durability) {
  const std::lock_guard turn(turn_);
  const std::unique_lock lock(mutex_);
  for (std::size_t i = 0; i < batch.size(); ++i)
    apply(batch[i]);
  return {};
}

void MemoryBackend::apply(const Mutation& mutation) {
  switch (mutation.kind) {
    case Mutation::Kind::put:
      return put(mutation.family, mutation.key, mutation.value);
    case Mutation::Kind::erase:
      return erase(mutation.family, mutation.key);
    case Mutation::Kind::bury:
      return bury(mutation);
    case Mutation::Kind::erase_prefix:
      return erase_prefix(mutation.family, mutation.key);
    case Mutation::Kind::erase_range:
      return erase_range(mutation.family, mutation.key, mutation.value);
  }
  STRAND_ASSERT(false, "every kind of mutation is applied");
}

void MemoryBackend::put(Family family, std::string_view key, std::string_view value) {
  if (IdTable* ids = id_table(family)) return ids->put(id_of(key), value);
  Table& entries = table(family);
  // Found first, because insert_or_assign would build a key even for an entry that is there.
  const auto found = entries.lower_bound(key);
  if (found != entries.end() && found->first == key) {
    found->second.assign(value);
  } else {
    entries.emplace_hint(found, key, value);
  }
}

void MemoryBackend::erase(Family family, std::string_view key) {
  if (IdTable* ids = id_table(family)) return ids->erase(id_of(key));
  Table& entries = table(family);
  if (const auto found = entries.find(key); found != entries.end()) entries.erase(found);
}

void MemoryBackend::erase_prefix(Family family, std::string_view prefix) {
  if (IdTable* ids = id_table(family)) {
    STRAND_ASSERT(prefix.size() <= id_bytes, "a prefix is no longer than a key");
    return ids->erase_range(padded_id(prefix, '\0'), padded_id(prefix, '\xff'));
  }
  Table& entries = table(family);
  const auto first = entries.lower_bound(prefix);
  auto last = first;
  while (last != entries.end() && last->first.starts_with(prefix))
    ++last;
  entries.erase(first, last);
}

void MemoryBackend::erase_range(Family family, std::string_view first, std::string_view last) {
  if (first >= last) return;
  if (IdTable* ids = id_table(family)) {
    if (const auto range = id_range(first, last)) ids->erase_range(range->first, range->last);
    return;
  }
  Table& entries = table(family);
  entries.erase(entries.lower_bound(first), entries.lower_bound(last));
}

void MemoryBackend::bury(const Mutation& mutation) {
  STRAND_ASSERT(mutation.value.size() >= Mutation::dead_key_bytes,
                "a burial names its dead letter");
  IdTable& messages = *id_table(Family::message);
  const auto message = messages.find(id_of(mutation.key));
  STRAND_ASSERT(message, "only a message that is there can be buried");
  std::string letter(mutation.dead_value());
  letter += *message;
  put(Family::dead, mutation.dead_key(), letter);
  messages.erase(id_of(mutation.key));
}

}  // namespace strand::memory
