#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include <strand/error.h>

#include "store/disk/place.h"

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

 private:
  explicit OwnerLock(File file) : file_(std::move(file)) {}
  File file_;  // the lock lasts as long as it is open
};

}  // namespace strand::disk
