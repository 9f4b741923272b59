#include "store/rocksdb/database.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <rocksdb/wal_filter.h>
#include <rocksdb/write_batch.h>

#include "base/text.h"
#include "store/rocksdb/notes.h"

namespace strand::rocks {

namespace {

namespace fs = std::filesystem;

// Half for what was just written, which is also what is read next; the other half for what is
// older.
struct Budget {
  explicit Budget(std::size_t bytes)
      : buffers(std::max(bytes / 2, least)), blocks(std::max(bytes - buffers, least)) {}
  static constexpr std::size_t least = std::size_t{4} << 20U;
  std::size_t buffers;
  std::size_t blocks;
};

::rocksdb::DBOptions database_options(const Options& options, const Budget& budget) {
  ::rocksdb::DBOptions result;
  if (options.env != nullptr) result.env = options.env;
  result.create_if_missing = true;
  result.create_missing_column_families = true;
  result.db_write_buffer_size = budget.buffers;
  // A log is kept while any column family has something in it that is not flushed: bounded, so that
  // opening after a crash is quick whatever was written.
  result.max_total_wal_size = std::max<std::size_t>(budget.buffers, std::size_t{64} << 20U);
  result.max_background_jobs = 2;
  // Otherwise 16 threads are started for each column family, to open a handful of files.
  result.max_file_opening_threads = 1;
  // One thread writes: it need not share the memtable, and may use hints (see column_options).
  result.allow_concurrent_memtable_write = false;
  result.enable_write_thread_adaptive_yield = false;
  // What was replayed after an unclean end goes to new, synced files before anybody is served: the
  // pages of a log whose sync has failed may look well and not be on disk.
  result.avoid_flush_during_recovery = false;
  result.track_and_verify_wals_in_manifest = true;
  result.stats_dump_period_sec = 0;
  result.stats_persist_period_sec = 0;
  return result;
}

::rocksdb::ColumnFamilyOptions column_options(Column column, const Budget& budget,
                                              const std::shared_ptr<::rocksdb::Cache>& cache) {
  ::rocksdb::ColumnFamilyOptions result;
  // Small ones, because removals go to random places in them, and a large one is in no cache of the
  // processor; several merged by one flush, so that what was put and removed meanwhile is dropped.
  result.write_buffer_size = budget.buffers / 12;
  result.max_write_buffer_number = 12;
  result.min_write_buffer_number_to_merge = 4;
  // Small entries are dearer to compress than to write; those that stay are worth it.
  const bool stays = column == Column::dead || column == Column::event || column == Column::record;
  result.compression = stays ? ::rocksdb::kLZ4Compression : ::rocksdb::kNoCompression;
  // Ids only grow, and so do the epochs of leases: each goes beside the one before, which is where
  // a hint lets the memtable begin to look.
  if (hinted(column)) {
    result.memtable_insert_with_hint_prefix_extractor.reset(::rocksdb::NewFixedPrefixTransform(4));
  }
  ::rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.format_version = 5;
  // Many a read of these is for something that is not there: new instances, records, requests.
  if (column == Column::small || column == Column::record) {
    constexpr double bits_per_key = 10;
    table.filter_policy.reset(::rocksdb::NewBloomFilterPolicy(bits_per_key));
  }
  result.table_factory.reset(::rocksdb::NewBlockBasedTableFactory(table));
  return result;
}

std::vector<::rocksdb::ColumnFamilyDescriptor> all_columns(const Budget& budget) {
  const auto cache = ::rocksdb::NewLRUCache(budget.blocks);
  std::vector<::rocksdb::ColumnFamilyDescriptor> result;
  for (std::size_t i = 0; i < column_count; ++i) {
    result.emplace_back(column_names[i], column_options(static_cast<Column>(i), budget, cache));
  }
  return result;
}

// Ends the replay of logs where a batch is missing. A log is closed before it is synced, and the
// next one is written to meanwhile: after power loss the old one may have lost its end, at the
// border of a record, and the new one not. What lies behind such a gap must go too, or the store
// would hold batches without those that they were built upon. (Sequence numbers leave no gap by
// themselves.)
class GapFilter final : public ::rocksdb::WalFilter {
 public:
  WalProcessingOption LogRecordFound(unsigned long long /*log_number*/,
                                     const std::string& /*log_file_name*/,
                                     const ::rocksdb::WriteBatch& batch,
                                     ::rocksdb::WriteBatch* /*new_batch*/,
                                     bool* /*batch_changed*/) override {
    // The head of a batch: its sequence number, and how many it takes.
    const std::string& data = batch.Data();
    std::uint64_t first = 0;
    std::uint32_t count = 0;
    if (data.size() < sizeof first + sizeof count) return WalProcessingOption::kCorruptedRecord;
    std::memcpy(&first, data.data(), sizeof first);
    std::memcpy(&count, data.data() + sizeof first, sizeof count);
    if (next_ != 0 && first > next_) return WalProcessingOption::kStopReplay;
    next_ = first + count;
    return WalProcessingOption::kContinueProcessing;
  }
  [[nodiscard]] const char* Name() const override { return "strand gap filter"; }

 private:
  static_assert(std::endian::native == std::endian::little, "RocksDB writes the head so");
  std::uint64_t next_ = 0;
};

}  // namespace

Error describe(std::string_view doing, const ::rocksdb::Status& status) {
  const std::string why = base::printable(status.ToString());
  if (status.IsCorruption()) {
    return {Errc::corrupt,
            fmt::format("cannot {}: the database is damaged ({}); keep a copy of the folder, run "
                        "`strand check` on it, or go back to a backup",
                        doing, why)};
  }
  if (status.IsNoSpace()) {
    return {Errc::store_full,
            fmt::format("cannot {}: the disk is full ({}); make room", doing, why)};
  }
  return {Errc::io_error, fmt::format("cannot {}: {}", doing, why)};
}

::rocksdb::Status Database::open(const fs::path& folder, const Options& options,
                                 const std::shared_ptr<Seal>& seal, Way way) {
  const Budget budget(options.cache_bytes);
  ::rocksdb::DBOptions database = database_options(options, budget);
  database.wal_recovery_mode = way == Way::strict
                                   ? ::rocksdb::WALRecoveryMode::kAbsoluteConsistency
                                   : ::rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  if (way != Way::read_only) database.listeners.push_back(seal);
  database.info_log = open_notes(folder.parent_path() / "notes");
  filter_ = std::make_unique<GapFilter>();
  database.wal_filter = filter_.get();
  ::rocksdb::DB* db = nullptr;
  auto status =
      way == Way::read_only
          ? ::rocksdb::DB::OpenForReadOnly(database, folder.native(), all_columns(budget),
                                           &columns_, &db)
          : ::rocksdb::DB::Open(database, folder.native(), all_columns(budget), &columns_, &db);
  db_.reset(db);
  if (!status.ok()) return status;
  return read_last_batch({}, last_batch_);
}

::rocksdb::Status Database::read_last_batch(const ::rocksdb::ReadOptions& options,
                                            std::uint64_t& batch) const {
  std::string number;
  auto found =
      db_->Get(options, column(Column::small), {batch_key.data(), batch_key.size()}, &number);
  if (found.IsNotFound()) {
    batch = 0;
    return ::rocksdb::Status::OK();
  }
  if (!found.ok()) return found;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), batch);
  if (error != std::errc{}) return ::rocksdb::Status::Corruption("the number of the last batch");
  return found;
}

// A log is read up to the first record that is not intact. Behind it there may be nothing of worth
// (a write was cut off by power loss) or all that was confirmed since (the disk has damaged an old
// record), and RocksDB cannot tell. So a log that is not intact to its end is first read without
// changing anything, to see how far it goes: opening drops what lies behind.
Result<std::unique_ptr<Database>> Database::open(const fs::path& folder, const Options& options,
                                                 const std::shared_ptr<Seal>& seal) {
  const auto refused = [&](const ::rocksdb::Status& status) {
    return std::unexpected(
        describe(fmt::format("open the store in {}", base::printable(folder.native())), status));
  };
  if (auto whole = seal->check_manifest(); !whole) return std::unexpected(whole.error());
  std::unique_ptr<Database> result(new Database);
  auto status = result->open(folder, options, seal, Way::strict);
  if (status.IsCorruption()) {
    Database look;
    if (const auto looked = look.open(folder, options, seal, Way::read_only); !looked.ok()) {
      return refused(looked);
    }
    if (auto whole = seal->check_end(look.last_batch()); !whole) {
      return std::unexpected(whole.error());
    }
    result.reset(new Database);
    status = result->open(folder, options, seal, Way::forgiving);
  }
  if (!status.ok()) return refused(status);
  if (auto whole = seal->check_end(result->last_batch()); !whole) {
    return std::unexpected(whole.error());
  }
  seal->opened(result->db(), result->last_batch());
  return result;
}

Database::~Database() {
  if (!db_) return;
  for (::rocksdb::ColumnFamilyHandle* column : columns_) {
    // It can only complain about a handle that is not its own.
    static_cast<void>(db_->DestroyColumnFamilyHandle(column).ok());
  }
  // Whatever it says: what was promised is in the log.
  static_cast<void>(db_->Close().ok());
}

}  // namespace strand::rocks
