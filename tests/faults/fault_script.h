#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "faults/disk_script.h"

namespace strand::faults {

// A disk that fails once, or from some operation on until it is healed. Nothing is lost: what was
// written is there.
class FaultScript final : public DiskScript {
 public:
  enum class Fault : std::uint8_t {
    any,          // EIO, whatever is asked for
    full,         // ENOSPC for what needs room
    short_write,  // half of a write, then EIO
    sync,         // EIO for a sync
  };
  static constexpr std::uint64_t fault_count = 4;
  struct Plan {
    std::uint64_t at = 0;  // the first operation of its kind from this one on
    Fault fault = Fault::any;
    bool stays = false;
  };
  explicit FaultScript(const Plan& plan) : plan_(plan) {}

  int before(const DiskOperation& operation) override {
    const std::lock_guard lock(mutex_);
    if (count_++ < plan_.at || healed_ || !concerns(operation)) return 0;
    if (!plan_.stays) healed_ = true;
    failed_ = true;
    return plan_.fault == Fault::full ? ENOSPC : EIO;
  }
  std::size_t written_of(const DiskOperation& operation) override {
    return plan_.fault == Fault::short_write ? operation.data.size() / 2 : 0;
  }
  void after(const DiskOperation&) override {}

  void fail_now() {
    const std::lock_guard lock(mutex_);
    plan_.at = 0;
  }
  void heal() {
    const std::lock_guard lock(mutex_);
    healed_ = true;
  }
  [[nodiscard]] bool failed() const {
    const std::lock_guard lock(mutex_);
    return failed_;
  }

 private:
  [[nodiscard]] bool concerns(const DiskOperation& operation) const {
    using Kind = DiskOperation::Kind;
    switch (plan_.fault) {
      case Fault::any:
        return true;
      case Fault::full:
        return operation.kind == Kind::write || operation.kind == Kind::create;
      case Fault::short_write:
        return operation.kind == Kind::write;
      case Fault::sync:
        return operation.kind == Kind::sync || operation.kind == Kind::sync_folder;
    }
    return false;
  }

  mutable std::mutex mutex_;
  Plan plan_;
  std::uint64_t count_ = 0;
  bool healed_ = false;
  bool failed_ = false;
};

}  // namespace strand::faults
