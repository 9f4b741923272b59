#pragma once

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>

#include "faults/disk_script.h"
#include "faults/lossy_disk.h"

namespace strand::faults {

// Cuts the power at the Nth operation: from then on nothing is made any more. Before that, one sync
// may fail.
class PowerScript final : public DiskScript {
 public:
  struct Plan {
    std::uint64_t cut_at = 0;                     // counted from 0
    std::optional<std::uint64_t> fail_sync = {};  // the first sync from this operation on
    std::uint64_t seed = 0;
    bool lies = false;  // it says that it has synced, and has not
  };
  PowerScript(LossyDisk& disk, const Plan& plan) : disk_(disk), plan_(plan), random_(plan.seed) {}

  int before(const DiskOperation& operation) override {
    const std::lock_guard lock(mutex_);
    const std::uint64_t number = count_++;
    if (number >= plan_.cut_at) {
      // The one that is under way may be made, though nobody hears of it.
      if (number == plan_.cut_at && random_() % 2 == 0) disk_.made(operation);
      return EIO;
    }
    if (operation.kind == DiskOperation::Kind::sync && plan_.fail_sync &&
        number >= *plan_.fail_sync) {
      plan_.fail_sync.reset();
      disk_.sync_failed(operation.file, random_);
      return EIO;
    }
    return 0;
  }
  void after(const DiskOperation& operation) override {
    if (plan_.lies && operation.kind == DiskOperation::Kind::sync) return;
    disk_.made(operation);
  }

  [[nodiscard]] bool cut() const {
    const std::lock_guard lock(mutex_);
    return count_ > plan_.cut_at;
  }
  [[nodiscard]] std::uint64_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  LossyDisk& disk_;
  mutable std::mutex mutex_;
  Plan plan_;
  std::mt19937_64 random_;
  std::uint64_t count_ = 0;
};

}  // namespace strand::faults
