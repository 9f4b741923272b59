#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include <rocksdb/db.h>

#include <strand/error.h>

#include "store/rocksdb/layout.h"
#include "store/rocksdb/rocksdb_backend.h"

namespace strand::rocks {

// An open RocksDB database with our column families. Closed when destroyed.
class Database {
 public:
  static Result<std::unique_ptr<Database>> open(const std::filesystem::path& folder,
                                                const Options& options);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database();

  [[nodiscard]] ::rocksdb::DB& db() const { return *db_; }
  [[nodiscard]] ::rocksdb::ColumnFamilyHandle* column(Column column) const {
    return columns_[static_cast<std::size_t>(column)];
  }

 private:
  Database() = default;
  std::unique_ptr<::rocksdb::DB> db_;
  std::vector<::rocksdb::ColumnFamilyHandle*> columns_;
};

// What RocksDB says, in our words. `doing` fits "cannot <doing>", and names the store.
Error describe(std::string_view doing, const ::rocksdb::Status& status);

}  // namespace strand::rocks
