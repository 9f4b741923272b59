#include "store/engine/ready_index.h"

#include "base/assert.h"
#include "base/planted.h"

namespace strand::engine {

bool ReadyGroup::empty() const {
  for (const ReadySet& set : by_priority_) {
    if (!set.empty()) return false;
  }
  return true;
}

ReadyEntry* ReadyGroup::best() {
  for (ReadySet& set : by_priority_) {
    if (!set.empty()) return &*set.begin();
  }
  return nullptr;
}

ReadyEntry* ReadyGroup::oldest() {
  if (STRAND_PLANTED("oldest-is-the-most-urgent")) return best();
  ReadyEntry* result = nullptr;
  for (ReadySet& set : by_priority_) {
    if (!set.empty()) result = older(result, &*set.begin());
  }
  return result;
}

ReadyEntry* better(ReadyEntry* a, ReadyEntry* b) {
  if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
  return std::pair{a->priority, a->turn} < std::pair{b->priority, b->turn} ? a : b;
}

ReadyEntry* older(ReadyEntry* a, ReadyEntry* b) {
  if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
  return a->turn < b->turn ? a : b;
}

ReadyIndex::~ReadyIndex() {
  for (auto& [label, group] : groups_) {
    for (ReadySet& set : group->by_priority_) {
      set.clear_and_dispose([](ReadyEntry* entry) { entry->group = nullptr; });
    }
  }
}

void ReadyIndex::insert(ReadyEntry& entry, std::string_view label) {
  STRAND_ASSERT(!entry.listed(), "an entry is listed once");
  auto found = groups_.find(label);
  if (found == groups_.end()) {
    auto group = std::make_unique<ReadyGroup>(*this, std::string(label));
    found = groups_.emplace(std::string(label), std::move(group)).first;
  }
  ReadyGroup& group = *found->second;
  ReadySet& set = group.by_priority_[entry.priority];
  set.insert(set.end(), entry);  // mostly the latest turn: constant time at the end
  entry.group = &group;
  ++size_;
  group.index_.update(group);
}

void ReadyIndex::remove(ReadyEntry& entry) {
  STRAND_ASSERT(entry.listed(), "only what is listed can be taken off");
  ReadyGroup& group = *entry.group;
  ReadySet& set = group.by_priority_[entry.priority];
  set.erase(set.iterator_to(entry));
  entry.group = nullptr;
  ReadyIndex& index = group.index_;
  --index.size_;
  index.update(group);
  index.drop_if_empty(group);
}

void ReadyIndex::change_priority(ReadyEntry& entry, std::uint8_t priority) {
  ReadyGroup& group = *entry.group;
  ReadySet& old_set = group.by_priority_[entry.priority];
  old_set.erase(old_set.iterator_to(entry));
  entry.priority = priority;
  group.by_priority_[priority].insert(entry);
  group.index_.update(group);
}

// Moves the group in the orders of groups if its best or oldest entry is another one than before.
void ReadyIndex::update(ReadyGroup& group) {
  ReadyEntry* best = group.best();
  const auto best_key =
      best == nullptr ? std::pair<std::uint8_t, Turn>{} : std::pair{best->priority, best->turn};
  if (best != group.known_best_ || best_key != group.best_key_) {
    if (group.known_best_ != nullptr) by_best_.erase(group.best_key_);
    if (best != nullptr) by_best_.emplace(best_key, &group);
    group.known_best_ = best;
    group.best_key_ = best_key;
  }
  ReadyEntry* oldest = group.oldest();
  const Turn oldest_key = oldest == nullptr ? 0 : oldest->turn;
  if (oldest != group.known_oldest_ || oldest_key != group.oldest_key_) {
    if (group.known_oldest_ != nullptr) by_oldest_.erase(group.oldest_key_);
    if (oldest != nullptr) by_oldest_.emplace(oldest_key, &group);
    group.known_oldest_ = oldest;
    group.oldest_key_ = oldest_key;
  }
}

void ReadyIndex::drop_if_empty(ReadyGroup& group) {
  // The unlabelled group is nearly always needed again.
  if (!group.label_.empty() && group.empty()) groups_.erase(std::string(group.label_));
}

ReadyEntry* ReadyIndex::best(std::span<const std::string> labels) {
  if (labels.empty()) return by_best_.empty() ? nullptr : by_best_.begin()->second->best();
  ReadyEntry* result = nullptr;
  for (const std::string& label : labels) {
    const auto found = groups_.find(label);
    if (found != groups_.end()) result = better(result, found->second->best());
  }
  return result;
}

ReadyEntry* ReadyIndex::oldest(std::span<const std::string> labels) {
  if (labels.empty()) return by_oldest_.empty() ? nullptr : by_oldest_.begin()->second->oldest();
  ReadyEntry* result = nullptr;
  for (const std::string& label : labels) {
    const auto found = groups_.find(label);
    if (found != groups_.end()) result = older(result, found->second->oldest());
  }
  return result;
}

}  // namespace strand::engine
