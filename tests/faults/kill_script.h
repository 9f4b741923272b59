#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>

#include <unistd.h>

#include "faults/disk_script.h"

namespace strand::faults {

// Kills this process when it comes to a point for the Nth time. Nothing is cleaned up, no buffer is
// written: what the operating system has is all that is left.
class KillScript final : public DiskScript {
 public:
  // Points: "log.append", "log.sync", "file.append" and "file.sync" (of any other file), "rename",
  // each with ".before" or ".after", and whatever is passed to at().
  KillScript(std::string point, std::uint64_t times) : point_(std::move(point)), left_(times) {}

  void at(std::string_view point) {
    if (point == point_ && left_.fetch_sub(1) == 1) ::kill(::getpid(), SIGKILL);
  }

  int before(const DiskOperation& operation) override {
    at(name_of(operation) + ".before");
    return 0;
  }
  void after(const DiskOperation& operation) override { at(name_of(operation) + ".after"); }

 private:
  static std::string name_of(const DiskOperation& operation) {
    const std::string where = operation.on_log() ? "log" : "file";
    switch (operation.kind) {
      case DiskOperation::Kind::write:
        return where + ".append";
      case DiskOperation::Kind::sync:
        return where + ".sync";
      case DiskOperation::Kind::rename:
        return "rename";
      case DiskOperation::Kind::create:
      case DiskOperation::Kind::truncate:
      case DiskOperation::Kind::remove:
      case DiskOperation::Kind::sync_folder:
        break;
    }
    return "other";
  }

  const std::string point_;
  std::atomic<std::uint64_t> left_;
};

}  // namespace strand::faults
