#pragma once

#include <memory>

#include <rocksdb/env.h>

#include "faults/disk_script.h"

namespace strand::faults {

// The real file system, as RocksDB sees it, under a script. Both must outlive every database that
// is opened with it.
std::unique_ptr<::rocksdb::Env> scripted_env(DiskScript& script);

}  // namespace strand::faults
