#include "faults/journal.h"

#include <cstdint>

#include <fmt/format.h>

#include "base/text.h"

namespace strand::faults {

using engine::Family;
using engine::Mutation;
using engine::MutationBatch;

namespace {

void change(const Mutation& mutation, Entries& entries) {
  const std::string key(mutation.key);
  switch (mutation.kind) {
    case Mutation::Kind::put:
      entries.insert_or_assign({mutation.family, key}, std::string(mutation.value));
      return;
    case Mutation::Kind::erase:
      entries.erase({mutation.family, key});
      return;
    case Mutation::Kind::bury: {
      constexpr std::size_t dead_key_bytes = 12;
      const auto message = entries.find({Family::message, key});
      std::string dead(mutation.value.substr(dead_key_bytes));
      if (message != entries.end()) dead.append(message->second);
      entries.erase({Family::message, key});
      entries.insert_or_assign(
          {Family::dead, std::string(mutation.value.substr(0, dead_key_bytes))}, std::move(dead));
      return;
    }
    case Mutation::Kind::erase_prefix: {
      auto entry = entries.lower_bound({mutation.family, key});
      while (entry != entries.end() && entry->first.first == mutation.family &&
             entry->first.second.starts_with(key)) {
        entry = entries.erase(entry);
      }
      return;
    }
    case Mutation::Kind::erase_range:
      entries.erase(entries.lower_bound({mutation.family, key}),
                    entries.lower_bound({mutation.family, std::string(mutation.value)}));
      return;
  }
}

void change(const MutationBatch& batch, Entries& entries) {
  for (std::size_t i = 0; i < batch.size(); ++i)
    change(batch[i], entries);
}

std::string name_of(const Entries::key_type& key) {
  return fmt::format("entry {} of family {}", base::printable(key.second),
                     static_cast<int>(key.first));
}

}  // namespace

Result<Entries> read_all(const engine::Archive& archive) {
  Entries entries;
  for (std::size_t i = 0; i < engine::family_count; ++i) {
    const auto family = static_cast<Family>(i);
    auto read = archive.scan(family, "", "", [&](std::string_view key, std::string_view value) {
      entries.emplace(std::pair{family, std::string(key)}, value);
      return true;
    });
    if (!read) return std::unexpected(std::move(read).error());
  }
  return entries;
}

Result<void> Journal::begin(const engine::Archive& archive) {
  auto found = read_all(archive);
  if (!found) return std::unexpected(std::move(found).error());
  const std::lock_guard lock(mutex_);
  certain_ = *std::move(found);
  tail_.clear();
  return {};
}

void Journal::written(const MutationBatch& batch, Durability durability, bool success) {
  const std::lock_guard lock(mutex_);
  tail_.push_back(batch);
  doubtful_ = !success;
  if (!success || durability == Durability::async) return;
  for (const MutationBatch& each : tail_)
    change(each, certain_);
  tail_.clear();
}

std::string Journal::reopened(const engine::Archive& archive) {
  const auto found = read_all(archive);
  if (!found) return found.error().message;
  const std::lock_guard lock(mutex_);
  const std::size_t confirmed = tail_.size() - (doubtful_ ? 1 : 0);
  return adopt(*found, confirmed) ? "" : difference(*found);
}

std::string Journal::compare(const engine::Archive& archive) {
  const auto found = read_all(archive);
  if (!found) return found.error().message;
  const std::lock_guard lock(mutex_);
  return adopt(*found, 0) ? "" : difference(*found);
}

bool Journal::all_synced() const {
  const std::lock_guard lock(mutex_);
  return tail_.empty();
}

bool Journal::adopt(const Entries& found, std::size_t first) {
  Entries state = certain_;
  for (std::size_t i = 0; i <= tail_.size(); ++i) {
    if (i >= first && state == found) {
      certain_ = found;
      tail_.clear();
      doubtful_ = false;
      return true;
    }
    if (i < tail_.size()) change(tail_[i], state);
  }
  return false;
}

std::string Journal::difference(const Entries& found) const {
  std::string text = fmt::format(
      "it holds the state after none of the {} batches since the last sync; compared with that "
      "sync:",
      tail_.size());
  int lines = 0;
  constexpr int lines_max = 12;
  for (const auto& [key, value] : certain_) {
    if (lines >= lines_max) break;
    const auto entry = found.find(key);
    if (entry != found.end() && entry->second == value) continue;
    text += fmt::format("\n  {} {}", name_of(key), entry == found.end() ? "is gone" : "differs");
    ++lines;
  }
  for (const auto& [key, value] : found) {
    if (lines >= lines_max) break;
    if (certain_.contains(key)) continue;
    text += fmt::format("\n  {} is there", name_of(key));
    ++lines;
  }
  return text;
}

}  // namespace strand::faults
