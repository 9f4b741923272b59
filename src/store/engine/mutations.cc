#include "store/engine/mutations.h"

#include <limits>

#include "base/assert.h"

namespace strand::engine {

std::string behind_prefix(std::string_view prefix) {
  std::string key(prefix);
  while (!key.empty() && key.back() == '\xff')
    key.pop_back();
  if (!key.empty()) key.back() = static_cast<char>(static_cast<unsigned char>(key.back()) + 1U);
  return key;
}

void MutationBatch::add(Family family, Mutation::Kind kind, std::string_view key,
                        std::string_view value) {
  STRAND_ASSERT(value.size() <= std::numeric_limits<std::uint32_t>::max(),
                "limits keep every value far below 4 GiB");
  entries_.push_back({.begin = bytes_.size(),
                      .key_bytes = static_cast<std::uint32_t>(key.size()),
                      .value_bytes = static_cast<std::uint32_t>(value.size()),
                      .family = family,
                      .kind = kind});
  bytes_.append(key);
  bytes_.append(value);
}

void MutationBatch::bury(std::string_view message_key, std::string_view dead_key,
                         std::string_view dead_value) {
  std::string value;
  value.reserve(dead_key.size() + dead_value.size());
  value.append(dead_key);
  value.append(dead_value);
  add(Family::message, Mutation::Kind::bury, message_key, value);
}

Mutation MutationBatch::operator[](std::size_t index) const {
  const Entry& entry = entries_[index];
  const std::string_view bytes = bytes_;
  return {.family = entry.family,
          .kind = entry.kind,
          .key = bytes.substr(entry.begin, entry.key_bytes),
          .value = bytes.substr(entry.begin + entry.key_bytes, entry.value_bytes)};
}

void MutationBatch::clear() {
  bytes_.clear();
  entries_.clear();
}

}  // namespace strand::engine
