#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include <strand/error.h>

namespace strand::disk {

// A descriptor of the operating system, closed at the end of its scope. Negative: none.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

// The error for something that the operating system refused: what, which path, why, and what to do
// where that is known. `verb` fits "cannot <verb> <path>".
Error cannot(std::string_view verb, const std::filesystem::path& path, int error_number);

// Makes sure that `path` is a folder that this process may write to. A missing one is made, with
// its parents, if `create`, and is `not_found` otherwise. A path that is a file or cannot be used
// is `invalid_argument`.
Result<void> prepare_folder(const std::filesystem::path& path, bool create);

// Writes a small file so that after power loss there is all of it or nothing.
Result<void> write_durably(const std::filesystem::path& file, std::string_view content);

// Makes the names in a folder durable.
Result<void> sync_folder(const std::filesystem::path& folder);

}  // namespace strand::disk
