#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

#include <strand/error.h>

#include "store/engine/backend.h"

namespace rocksdb {
class Env;
}

namespace strand::rocks {

struct Options {
  // For write buffers and the cache of blocks.
  std::size_t cache_bytes = std::size_t{256} << 20U;
  bool create = true;
  // The operating system, as RocksDB sees it; none: the real one. Must outlive the backend.
  ::rocksdb::Env* env = nullptr;
};

// Opens the store in the folder `path`: a RocksDB database in `data`, the file `format` that says
// what it is, and the lock `owner`.
//
// Threads:    as Backend says.
// Durability: as Backend says: a synced write is one fdatasync of the log.
// Failure:    `in_use` (and by whom), `not_found`, `invalid_argument` (a file, not writable,
// another
//             program's folder), `unsupported` (a newer format), `corrupt`, `io_error`.
Result<std::unique_ptr<engine::Backend>> open_rocksdb(const std::filesystem::path& path,
                                                      const Options& options);

}  // namespace strand::rocks
