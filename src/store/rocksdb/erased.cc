#include "store/rocksdb/erased.h"

#include <algorithm>
#include <mutex>

#include "base/bytes.h"

namespace strand::rocks {

std::string encode_ids(std::span<const std::uint64_t> ascending) {
  std::string bytes;
  bytes.reserve(8 + 2 * ascending.size());
  base::ByteWriter out(bytes);
  std::uint64_t before = 0;
  for (const std::uint64_t id : ascending) {
    out.varint(id - before);
    before = id;
  }
  return bytes;
}

std::optional<std::vector<std::uint64_t>> decode_ids(std::string_view bytes) {
  base::ByteReader in(bytes);
  std::vector<std::uint64_t> ids;
  std::uint64_t before = 0;
  do {
    const std::uint64_t difference = in.varint();
    const bool same = difference == 0 && !ids.empty();
    if (!in.ok() || same || difference > UINT64_MAX - before) return std::nullopt;
    before += difference;
    ids.push_back(before);
  } while (!in.done());
  return ids;
}

std::optional<std::uint64_t> ErasedMessages::erased_in(std::uint64_t id) const {
  if (!any_) return std::nullopt;
  const std::shared_lock lock(mutex_);
  if (std::ranges::binary_search(draining_, id)) return 0;
  const auto found = gathering_.find(id);
  if (found == gathering_.end()) return std::nullopt;
  return found->second;
}

Result<std::vector<std::uint64_t>> ErasedMessages::hidden(
    const std::function<Result<std::uint64_t>()>& look) const {
  const std::shared_lock lock(mutex_);
  const auto last_batch = look();
  if (!last_batch) return std::unexpected(last_batch.error());
  std::vector<std::uint64_t> ids = draining_;
  for (const auto& [id, batch] : gathering_) {
    if (batch <= *last_batch) ids.push_back(id);
  }
  std::ranges::sort(ids);
  return ids;
}

ErasedMessages::Removals ErasedMessages::next(std::size_t erased) {
  // A generation starts again when the store is opened; a process that ends again and again before
  // it is through would never get rid of it.
  if (gathering_.size() >= 2 * generation_ids) return all();
  if (draining_.empty() && gathering_.size() >= generation_ids) begin_generation();
  return take(removals_per_erased * erased);
}

ErasedMessages::Removals ErasedMessages::all() {
  if (gathering_.empty() && removed_ == draining_.size()) return {};
  begin_generation();
  return take(draining_.size());
}

ErasedMessages::Removals ErasedMessages::take(std::size_t count) {
  if (removed_ == draining_.size()) return {};
  const auto messages = std::span(draining_).subspan(removed_);
  if (count < messages.size()) {
    removed_ += count;
    return {.messages = messages.first(count), .lists = {}};
  }
  removed_ = draining_.size();
  return {.messages = messages, .lists = draining_lists_};
}

// All that has gathered is in the database by now. If some are draining still, it joins them; those
// that earlier batches have removed need not be hidden any more.
void ErasedMessages::begin_generation() {
  const std::unique_lock lock(mutex_);
  draining_.erase(draining_.begin(), draining_.begin() + static_cast<std::ptrdiff_t>(removed_));
  removed_ = 0;
  for (const auto& [id, batch] : gathering_)
    draining_.push_back(id);
  std::ranges::sort(draining_);
  gathering_.clear();
  draining_lists_.insert(draining_lists_.end(), gathering_lists_.begin(), gathering_lists_.end());
  gathering_lists_.clear();
}

bool ErasedMessages::known(std::uint64_t id) const {
  return gathering_.contains(id) || std::ranges::binary_search(draining_, id);
}

void ErasedMessages::add(std::uint64_t batch, std::span<const std::uint64_t> ids) {
  const std::unique_lock lock(mutex_);
  for (const std::uint64_t id : ids)
    gathering_.emplace(id, batch);
  if (!ids.empty()) highest_ = std::max(highest_, ids.back());
  gathering_lists_.push_back(batch);
  any_ = true;
}

void ErasedMessages::written() {
  if (draining_.empty() || removed_ < draining_.size()) return;
  const std::unique_lock lock(mutex_);
  draining_.clear();
  draining_lists_.clear();
  removed_ = 0;
  any_ = !gathering_.empty();
  if (!any_) highest_ = 0;
}

void ErasedMessages::clear() {
  const std::unique_lock lock(mutex_);
  gathering_.clear();
  draining_.clear();
  gathering_lists_.clear();
  draining_lists_.clear();
  removed_ = 0;
  highest_ = 0;
  any_ = false;
}

}  // namespace strand::rocks
