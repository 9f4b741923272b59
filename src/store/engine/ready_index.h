#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "store/engine/nodes.h"

namespace strand::engine {

struct TransparentHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

class ReadyIndex;

// The ready entries of one label: by priority, each in order of turns.
class ReadyGroup {
 public:
  ReadyGroup(ReadyIndex& index, std::string label) : index_(index), label_(std::move(label)) {}

  [[nodiscard]] ReadyIndex& index() const { return index_; }
  [[nodiscard]] const std::string& label() const { return label_; }
  [[nodiscard]] bool empty() const;
  [[nodiscard]] ReadyEntry* best();
  [[nodiscard]] ReadyEntry* oldest();

 private:
  friend class ReadyIndex;
  ReadyIndex& index_;
  std::string label_;
  ReadySet by_priority_[priority_count];
  // As known to the index; see ReadyIndex::update.
  ReadyEntry* known_best_ = nullptr;
  std::pair<std::uint8_t, Turn> best_key_{};
  ReadyEntry* known_oldest_ = nullptr;
  Turn oldest_key_ = 0;
};

// Which lane (or unkeyed message) is served next, among those of some labels or of all: the most
// urgent, then the one whose turn came first. Every operation is O(log n), but for a request that
// names labels, which costs by their number.
class ReadyIndex {
 public:
  ReadyIndex() = default;
  ReadyIndex(const ReadyIndex&) = delete;
  ReadyIndex& operator=(const ReadyIndex&) = delete;
  ~ReadyIndex();

  // `entry` keeps its turn and priority while it is listed.
  void insert(ReadyEntry& entry, std::string_view label);
  static void remove(ReadyEntry& entry);
  // Changes the priority of a listed entry; its turn stays.
  static void change_priority(ReadyEntry& entry, std::uint8_t priority);

  // Nothing if there is no entry with one of the labels (empty: any).
  [[nodiscard]] ReadyEntry* best(std::span<const std::string> labels);
  [[nodiscard]] ReadyEntry* oldest(std::span<const std::string> labels);
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

 private:
  void update(ReadyGroup& group);
  void drop_if_empty(ReadyGroup& group);

  std::unordered_map<std::string, std::unique_ptr<ReadyGroup>, TransparentHash, std::equal_to<>>
      groups_;
  // Groups by their best and their oldest entry. Turns are unique, so these keys are too.
  std::map<std::pair<std::uint8_t, Turn>, ReadyGroup*> by_best_;
  std::map<Turn, ReadyGroup*> by_oldest_;
  std::size_t size_ = 0;
};

// The more urgent of the two, or the one whose turn came first; either may be missing.
ReadyEntry* better(ReadyEntry* a, ReadyEntry* b);
ReadyEntry* older(ReadyEntry* a, ReadyEntry* b);

}  // namespace strand::engine
