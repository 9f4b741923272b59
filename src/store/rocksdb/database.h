#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/wal_filter.h>

#include <strand/error.h>

#include "store/rocksdb/layout.h"
#include "store/rocksdb/rocksdb_backend.h"
#include "store/rocksdb/seal.h"

namespace strand::rocks {

// An open RocksDB database with our column families. Closed when destroyed.
class Database {
 public:
  // A database that has lost something which the seal knows of is `corrupt`.
  static Result<std::unique_ptr<Database>> open(const std::filesystem::path& folder,
                                                const Options& options,
                                                const std::shared_ptr<Seal>& seal);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database();

  // The number of the last batch; each one puts its own under `batch_key`. (RocksDB's sequence
  // numbers would not do: a flush forgets those of entries that were put and removed again.)
  [[nodiscard]] std::uint64_t last_batch() const { return last_batch_; }
  // The same as a read sees it, now or at its snapshot.
  ::rocksdb::Status read_last_batch(const ::rocksdb::ReadOptions& options,
                                    std::uint64_t& batch) const;
  [[nodiscard]] ::rocksdb::DB& db() const { return *db_; }
  [[nodiscard]] ::rocksdb::ColumnFamilyHandle* column(Column column) const {
    return columns_[static_cast<std::size_t>(column)];
  }

 private:
  enum class Way : std::uint8_t { strict, forgiving, read_only };
  Database() = default;
  ::rocksdb::Status open(const std::filesystem::path& folder, const Options& options,
                         const std::shared_ptr<Seal>& seal, Way way);
  std::unique_ptr<::rocksdb::WalFilter> filter_;  // of the logs that are replayed
  std::unique_ptr<::rocksdb::DB> db_;
  std::vector<::rocksdb::ColumnFamilyHandle*> columns_;
  std::uint64_t last_batch_ = 0;  // when it was opened
};

// What RocksDB says, in our words. `doing` fits "cannot <doing>", and names the store.
Error describe(std::string_view doing, const ::rocksdb::Status& status);

}  // namespace strand::rocks
