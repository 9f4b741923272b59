#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include <strand/error.h>

#include "store/engine/backend.h"

namespace strand::sqlite {

// Opens the store in the SQLite database at `path`, which is made if needed and `create`.
//
// Threads:    as Backend says; up to four reads run beside each other, more wait for their turn.
// Durability: the database has a write-ahead log. write(sync) syncs the log; write(async) leaves
//             that to the next sync or checkpoint.
// Failure:    see README.md on failed syncs and on logs that were left behind.
// Limits:     of memory, about `cache_bytes`. The file does not shrink.
//
// `vfs` names the VFS that reaches all files, as given to sqlite3_vfs_register; empty for SQLite's
// own.
Result<std::unique_ptr<engine::Backend>> open_sqlite(const std::filesystem::path& path,
                                                     std::size_t cache_bytes, bool create,
                                                     const std::string& vfs = {});

}  // namespace strand::sqlite
