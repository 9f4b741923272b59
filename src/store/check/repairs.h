#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "store/engine/backend.h"
#include "store/engine/records.h"

namespace strand::check {

// Gathers mutations in batches of a bounded size. One that is not collecting takes them and forgets
// them, so that an inspection need not ask.
class Repairs {
 public:
  explicit Repairs(bool collecting) : collecting_(collecting) {}

  void erase(engine::Family family, std::string_view key) {
    if (engine::MutationBatch* batch = open()) batch->erase(family, key);
  }
  void put(engine::Family family, std::string_view key, std::string_view value) {
    if (engine::MutationBatch* batch = open()) batch->put(family, key, value);
  }
  template <class Record>
  void put_record(engine::Family family, std::string_view key, const Record& record) {
    if (!collecting_) return;
    std::string value;
    engine::encode(record, value);
    put(family, key, value);
  }
  // Message entries are written once, and backends rely on it: so the old one goes first. Both are
  // in one batch.
  void replace_message(std::string_view key, const engine::MessageRecord& record) {
    if (engine::MutationBatch* batch = open()) {
      std::string value;
      engine::encode(record, value);
      batch->erase(engine::Family::message, key);
      batch->put(engine::Family::message, key, value);
    }
  }
  // An entry takes another key.
  void move(engine::Family family, std::string_view from, std::string_view to,
            std::string_view value) {
    if (engine::MutationBatch* batch = open()) {
      batch->erase(family, from);
      batch->put(family, to, value);
    }
  }

  std::vector<engine::MutationBatch> take() { return std::move(batches_); }

 private:
  static constexpr std::size_t batch_bytes = std::size_t{4} << 20U;
  static constexpr std::size_t batch_mutations = 50'000;

  engine::MutationBatch* open() {
    if (!collecting_) return nullptr;
    if (batches_.empty() || batches_.back().bytes() >= batch_bytes ||
        batches_.back().size() >= batch_mutations) {
      batches_.emplace_back();
    }
    return &batches_.back();
  }

  bool collecting_;
  std::vector<engine::MutationBatch> batches_;
};

}  // namespace strand::check
