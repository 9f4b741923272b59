#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/engine/backend.h"

namespace strand::faults {

// All that a backend holds.
using Entries = std::map<std::pair<engine::Family, std::string>, std::string>;
Result<Entries> read_all(const engine::Archive& archive);

// What was written to a backend, and so what it may hold: byte for byte the state after some batch,
// none before the last one that was synced.
//
// Threads: every method may be called concurrently.
class Journal {
 public:
  // What lies there is certain.
  Result<void> begin(const engine::Archive& archive);
  void written(const engine::MutationBatch& batch, Durability durability, bool success);

  // After a failure without power loss: all that was confirmed is there, and the batch that failed,
  // as a whole or not at all; and all of it is durable. What is wrong; empty if nothing is.
  std::string reopened(const engine::Archive& archive);
  // After power loss: some state from the last sync on, and no other. Takes it over.
  std::string compare(const engine::Archive& archive);

  // Whether power loss could take nothing of what was written.
  [[nodiscard]] bool all_synced() const;

 private:
  // Whether `found` is the state after one of the batches from `first` on; it is taken over then.
  bool adopt(const Entries& found, std::size_t first);
  [[nodiscard]] std::string difference(const Entries& found) const;

  mutable std::mutex mutex_;
  Entries certain_;
  std::vector<engine::MutationBatch> tail_;  // written since, not synced
  bool doubtful_ = false;                    // the last of them failed
};

// Tells a journal what is written to the backend behind it.
//
// `trouble` collects what was wrong after a reopen.
class JournalledBackend final : public engine::ForwardingBackend {
 public:
  JournalledBackend(std::unique_ptr<engine::Backend> inner, Journal& journal,
                    std::vector<std::string>& trouble)
      : ForwardingBackend(std::move(inner)), journal_(journal), trouble_(trouble) {}

  Result<void> write(const engine::MutationBatch& batch, Durability durability) override {
    auto written = behind().write(batch, durability);
    journal_.written(batch, durability, written.has_value());
    return written;
  }
  Result<void> reopen() override {
    auto reopened = behind().reopen();
    if (!reopened) return reopened;
    if (auto wrong = journal_.reopened(behind()); !wrong.empty()) {
      trouble_.push_back("after a reopen: " + wrong);
    }
    return reopened;
  }

 private:
  Journal& journal_;
  std::vector<std::string>& trouble_;
};

}  // namespace strand::faults
