#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strand::faults {

// One change that a backend asks of the disk.
struct DiskOperation {
  enum class Kind : std::uint8_t { create, write, sync, truncate, rename, remove, sync_folder };
  Kind kind = Kind::write;
  std::string file;            // its path; the new one of a rename; that of the folder
  std::string from = {};       // the old path of a rename
  std::uint64_t offset = 0;    // of a write; the new size of a truncation
  std::string_view data = {};  // of a write; valid during the call

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
  // How many bytes of a write that fails are written all the same: a short write.
  virtual std::size_t written_of(const DiskOperation& operation) {
    static_cast<void>(operation);
    return 0;
  }
  // It was made. A write may have been cut short.
  virtual void after(const DiskOperation& operation) = 0;
};

}  // namespace strand::faults
