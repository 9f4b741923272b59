#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

namespace strand::disk {

// Remembers, beside a store, up to which number its changes were synced, so that an opening can
// tell a log whose end was never durable from one that has lost what was.
//
// A log ends at the first record that is not intact: that is how a write cut off by power loss
// looks, and also how one looks that was damaged years later, with all behind it. The note is
// written after the sync that it tells of, and is not synced itself: what it says is always true,
// and at worst it is old. It is mapped into memory, because a system call for each sync would be
// felt.
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

  struct Content {
    std::uint64_t number = 0;  // 0: nothing is known
    std::string files = {};    // what a backend has to say of its files; see `files_bytes_max`

    friend bool operator==(const Content&, const Content&) = default;
  };
  static constexpr std::size_t files_bytes_max = 160;

  // All changes up to `number` are durable, and so is what is said of the files. Numbers only grow.
  void write(const Content& content);
  [[nodiscard]] Content read() const;
  // For a store that starts anew.
  void remove();

  [[nodiscard]] const std::filesystem::path& file() const { return file_; }

 private:
  void map();
  void unmap();

  const std::filesystem::path file_;
  char* mapped_ = nullptr;  // none before the first number, or if it could not be had
  std::size_t line_ = 0;    // the one that was written last
  Content written_;
};

}  // namespace strand::disk
