#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace strand::faults {

// One change that a backend asks of the disk.
struct DiskOperation {
  enum class Kind : std::uint8_t { create, append, sync, truncate, rename, remove, sync_folder };
  Kind kind = Kind::append;
  std::string file;       // its path
  std::size_t bytes = 0;  // of an append

  // Whether it is about the log to which each commit is appended, and by whose sync it is durable.
  [[nodiscard]] bool on_log() const { return file.ends_with(".log") || file.ends_with("-wal"); }
};

// Sees every change before and after it is made.
//
// Threads: called from any, one at a time or several at once.
class DiskScript {
 public:
  DiskScript() = default;
  DiskScript(const DiskScript&) = delete;
  DiskScript& operator=(const DiskScript&) = delete;
  virtual ~DiskScript() = default;

  // Returns the number of the error with which the operation fails instead of being made; 0: it is
  // made.
  virtual int before(const DiskOperation& operation) = 0;
  virtual void after(const DiskOperation& operation) = 0;
};

}  // namespace strand::faults
