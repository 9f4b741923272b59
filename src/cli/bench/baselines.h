#pragma once

#include <filesystem>
#include <string>

#include "cli/bench/measure.h"

namespace strand::cli {

// What the disk can do: threads that append a batch to one file and sync it.
Result<Counted> baseline_file(const std::filesystem::path& folder, const QueueBenchOptions& options,
                              Duration duration);

// What RocksDB can do: threads that each write a batch of one put a message, with 8-byte sequential
// keys, a memtable of 128 MB and no compression.
Result<Counted> baseline_rocksdb(const std::filesystem::path& folder,
                                 const QueueBenchOptions& options, Duration duration);

// The kind of file system, such as "ext4".
std::string filesystem_of(const std::filesystem::path& path);
bool is_memory(std::string_view filesystem);

}  // namespace strand::cli
