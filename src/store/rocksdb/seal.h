#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <strand/error.h>

#include "store/disk/synced_note.h"

namespace strand::rocks {

// Knows how far a database was synced, and so whether it has lost anything since.
//
// RocksDB checks each block and each record, but not that the last ones are there: its log, and its
// list of files (MANIFEST), end for it where they cannot be read any more. The note beside the
// database has the number of the last batch that was synced, and size and hash of the MANIFEST as
// it was after the last flush or compaction.
//
// Threads: every method may be called concurrently.
class Seal final : public ::rocksdb::EventListener {
 public:
  // `folder` is that of the database, `note` a file beside it.
  Seal(std::filesystem::path folder, std::filesystem::path note);

  // Before the database is opened: whether its MANIFEST is as it was (`corrupt`).
  [[nodiscard]] Result<void> check_manifest() const;
  // Whether a database that ends with this batch has all that was synced (`corrupt`).
  [[nodiscard]] Result<void> check_end(std::uint64_t last_batch) const;

  // All up to this batch is durable.
  void synced(std::uint64_t batch);
  // It was opened: all that can be read is in files that are synced.
  void opened(::rocksdb::DB& db, std::uint64_t last_batch);

  void OnFlushCompleted(::rocksdb::DB* db, const ::rocksdb::FlushJobInfo&) override {
    files_changed(*db);
  }
  void OnCompactionCompleted(::rocksdb::DB* db, const ::rocksdb::CompactionJobInfo&) override {
    files_changed(*db);
  }

 private:
  void files_changed(::rocksdb::DB& db);

  const std::filesystem::path folder_;
  mutable std::mutex mutex_;
  disk::SyncedNote note_;
  disk::SyncedNote::Content content_;
};

}  // namespace strand::rocks
