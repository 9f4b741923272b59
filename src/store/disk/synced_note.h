#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace strand::disk {

// Remembers, beside a store, up to which number its changes were synced, so that an opening can
// tell a log whose end was never durable from one that has lost what was.
//
// A log ends at the first record that is not intact: that is how a write cut off by power loss
// looks, and also how one looks that was damaged years later, with all behind it. The note is
// written after the sync that it tells of, and is not synced itself: what it says is always true,
// and at worst it is old.
//
// Threads: one at a time.
// Failure: a note that cannot be written stays as it was; one that cannot be read says nothing.
class SyncedNote {
 public:
  // Nothing is made before the first number is written.
  explicit SyncedNote(std::filesystem::path file) : file_(std::move(file)) {}
  SyncedNote(const SyncedNote&) = delete;
  SyncedNote& operator=(const SyncedNote&) = delete;
  ~SyncedNote();

  // All changes up to `number` are durable. Numbers only grow.
  void write(std::uint64_t number);
  // 0: nothing is known.
  [[nodiscard]] std::uint64_t read() const;
  // For a store that starts anew.
  void remove();

  [[nodiscard]] const std::filesystem::path& file() const { return file_; }

 private:
  const std::filesystem::path file_;
  int fd_ = -1;
  std::uint64_t written_ = 0;
};

}  // namespace strand::disk
