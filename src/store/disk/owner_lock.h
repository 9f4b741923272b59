#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include <strand/error.h>

namespace strand::disk {

// Keeps a store to one owner: held from take() to destruction, or to the end of the process,
// however that ends.
//
// Threads: none; a lock belongs to whoever owns the backend.
class OwnerLock {
 public:
  // Locks `file`, which is made if needed and never removed, and writes into it who holds it.
  // `store` is how messages call the store. Held already, by this or another process: `in_use`,
  // with a message that names the holder.
  static Result<OwnerLock> take(const std::filesystem::path& file, std::string_view store);

  OwnerLock(OwnerLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnerLock& operator=(OwnerLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;
  ~OwnerLock();

 private:
  explicit OwnerLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace strand::disk
