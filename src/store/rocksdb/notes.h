#pragma once

#include <filesystem>
#include <memory>

#include <rocksdb/env.h>

namespace strand::rocks {

// Where RocksDB notes its warnings: a file that is begun anew when it has grown, and that may fail
// without harm. RocksDB's own logger does not survive a full disk: it asserts that nobody writes
// to a file after a failure, and is the one that does.
std::shared_ptr<::rocksdb::Logger> open_notes(const std::filesystem::path& file);

}  // namespace strand::rocks
