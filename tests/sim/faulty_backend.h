#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/engine/backend.h"
#include "store/engine/engine.h"

namespace strand::sim {

// A disk in memory that fails when it is told to.
//
// It keeps two images: what the system shows (written, perhaps only in its cache), and what would
// survive the loss of power. A batch is in an image as a whole or not at all.
class FaultyBackend final : public engine::Backend {
 public:
  // How the next write goes; then the one after it is good again.
  enum class WriteFault : std::uint8_t {
    none,
    before,        // fails, nothing is written
    after,         // fails, everything is written and synced
    sync_kept,     // the sync fails; the system still shows the batch
    sync_dropped,  // the sync fails; the system shows it no more after a reopen
  };

  // --- What the engine uses ---

  Result<std::optional<std::string>> get(engine::Family family,
                                         std::string_view key) const override;
  Result<void> scan(engine::Family family, std::string_view first, std::string_view last,
                    const Visit& visit) const override;
  Result<void> write(const engine::MutationBatch& batch, Durability durability) override;
  Result<void> reopen() override;

  // --- What the simulator uses ---

  // Must be said before each write: its number, and how it goes.
  void prepare(engine::CommitNumber commit, WriteFault fault);
  void fail_reopens(std::uint64_t count) { reopens_to_fail_ = count; }
  void fail_reads(std::uint64_t count) { reads_to_fail_ = count; }

  // The process dies. Whatever the next one opens is flushed into new files first.
  void crash();
  // The power goes: the batches behind the last `survivors` unsynced ones are gone.
  void lose_power(std::uint64_t survivors);
  // The power goes, and the disk has lied: what it confirmed as synced since the last open is gone
  // too. No store can bear that; it shows that the simulator notices.
  void betray();
  [[nodiscard]] std::uint64_t unsynced() const { return unsynced_.size(); }

  // The last commit that the system shows, and the last that power loss cannot take.
  [[nodiscard]] engine::CommitNumber shown_commit() const;
  [[nodiscard]] engine::CommitNumber durable_commit() const { return durable_commit_; }

 private:
  using Image = std::array<std::map<std::string, std::string, std::less<>>, engine::family_count>;
  struct Batch {
    engine::CommitNumber commit = 0;
    engine::MutationBatch mutations;
  };

  static void apply(Image& image, const engine::MutationBatch& batch);
  void sync();
  void remember_open() {
    opened_ = durable_;
    opened_commit_ = durable_commit_;
  }
  [[nodiscard]] bool read_fails() const;

  Image shown_;
  Image durable_;
  Image opened_;                 // what durable_ was at the last open
  std::vector<Batch> unsynced_;  // in shown_, not in durable_
  engine::CommitNumber durable_commit_ = 0;
  engine::CommitNumber opened_commit_ = 0;
  engine::CommitNumber next_commit_ = 0;
  WriteFault next_fault_ = WriteFault::none;
  bool drop_last_ = false;     // at the next reopen
  bool needs_reopen_ = false;  // a write has failed
  std::uint64_t reopens_to_fail_ = 0;
  mutable std::uint64_t reads_to_fail_ = 0;
};

}  // namespace strand::sim
