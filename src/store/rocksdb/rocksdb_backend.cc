#include "store/rocksdb/rocksdb_backend.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <rocksdb/iterator.h>
#include <rocksdb/write_batch.h>

#include "base/assert.h"
#include "base/planted.h"
#include "base/text.h"
#include "store/disk/owner_lock.h"
#include "store/disk/place.h"
#include "store/disk/room.h"
#include "store/rocksdb/database.h"
#include "store/rocksdb/layout.h"
#include "store/rocksdb/marker.h"
#include "store/rocksdb/seal.h"

namespace strand::rocks {

namespace {

namespace fs = std::filesystem;
using engine::Family;
using engine::Mutation;
using engine::MutationBatch;

::rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
std::string_view view(const ::rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

// Adding to a batch in memory fails only for a batch with limits, and this one has none.
void must(const ::rocksdb::Status& added) {
  STRAND_ASSERT(added.ok(), "a batch takes every change");
}

class RocksdbBackend final : public engine::Backend {
 public:
  RocksdbBackend(fs::path path, const Options& options, disk::OwnerLock lock,
                 std::shared_ptr<Seal> seal, std::unique_ptr<Database> database)
      : path_(std::move(path)),
        options_(options),
        lock_(std::move(lock)),
        seal_(std::move(seal)),
        database_(std::move(database)),
        batch_(database_->last_batch()) {}
  // What is closed is durable, as far as that can be had.
  ~RocksdbBackend() override {
    if (database_ && !failed_ && database_->db().SyncWAL().ok()) {
      seal_->synced(batch_);
    }
  }

  Result<std::optional<std::string>> get(Family family, std::string_view key) const override;
  Result<void> scan(Family family, std::string_view first, std::string_view last,
                    const Visit& visit) const override;
  Result<void> write(const MutationBatch& batch, Durability durability) override;
  Result<void> reopen() override;
  [[nodiscard]] std::optional<std::uint64_t> free_bytes() const override {
    return disk::free_bytes(path_);
  }

 private:
  [[nodiscard]] ::rocksdb::ColumnFamilyHandle* column(Family family) const {
    return database_->column(placement(family).column);
  }
  [[nodiscard]] Error trouble(std::string_view doing, const ::rocksdb::Status& status) const {
    return describe(fmt::format("{} {}", doing, base::printable(path_.native())), status);
  }
  Result<void> translate(const MutationBatch& batch);
  void erase_messages();
  void put(Family family, std::string_view key, std::string_view value);
  void erase(Family family, std::string_view key);
  void erase_prefix(Family family, std::string_view prefix);
  Result<void> bury(const MutationBatch& batch, std::size_t index);

  const fs::path path_;
  const Options options_;
  const disk::OwnerLock lock_;
  const std::shared_ptr<Seal> seal_;
  bool failed_ = false;                 // a write has failed, and reopen() has not succeeded since
  std::unique_ptr<Database> database_;  // none after a reopen that failed
  std::uint64_t batch_;                 // the number of the last one
  // Kept from write to write, for their memory.
  ::rocksdb::WriteBatch changes_;
  std::vector<std::string_view> erased_messages_;
};

Result<std::optional<std::string>> RocksdbBackend::get(Family family, std::string_view key) const {
  STRAND_ASSERT(database_, "a store that cannot be read is not read");
  std::optional<std::string> value(std::in_place);
  const auto status =
      database_->db().Get({}, column(family), slice(ColumnKey(family, key).bytes()), &*value);
  if (status.IsNotFound()) return std::nullopt;
  if (!status.ok()) return std::unexpected(trouble("read from", status));
  return value;
}

Result<void> RocksdbBackend::scan(Family family, std::string_view first, std::string_view last,
                                  const Visit& visit) const {
  STRAND_ASSERT(database_, "a store that cannot be read is not read");
  const ColumnKey begin(family, first);
  // Without an upper end, a family that shares its column ends where the next one begins.
  const std::string end = last.empty()
                              ? engine::behind_prefix(begin.bytes().substr(0, prefix_bytes(family)))
                              : std::string(ColumnKey(family, last).bytes());
  const ::rocksdb::Slice upper = slice(end);
  ::rocksdb::ReadOptions options;
  if (!end.empty()) options.iterate_upper_bound = &upper;
  const std::unique_ptr<::rocksdb::Iterator> found(
      database_->db().NewIterator(options, column(family)));
  for (found->Seek(slice(begin.bytes())); found->Valid(); found->Next()) {
    if (!visit(view(found->key()).substr(prefix_bytes(family)), view(found->value()))) break;
  }
  if (!found->status().ok()) return std::unexpected(trouble("read from", found->status()));
  return {};
}

Result<void> RocksdbBackend::write(const MutationBatch& batch, Durability durability) {
  STRAND_ASSERT(database_, "a store that cannot be read is not written");
  changes_.Clear();
  if (auto translated = translate(batch); !translated) return translated;
  ::rocksdb::WriteOptions options;
  options.sync = durability == Durability::sync && !STRAND_PLANTED("rocksdb-not-synced");
  must(changes_.Put(database_->column(Column::small), slice(batch_key),
                    slice(fmt::format_int(batch_ + 1).str())));
  const auto status = database_->db().Write(options, &changes_);
  if (!status.ok()) {
    failed_ = true;
    return std::unexpected(trouble("write to", status));
  }
  ++batch_;
  if (options.sync) seal_->synced(batch_);
  return {};
}

// Messages are removed in the order of their ids rather than of their lanes, because the memtable
// finds the next place from the one before. Only changes of other entries are overtaken.
Result<void> RocksdbBackend::translate(const MutationBatch& batch) {
  erased_messages_.clear();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Mutation mutation = batch[i];
    if (mutation.family == Family::message) {
      if (mutation.kind == Mutation::Kind::erase) {
        erased_messages_.push_back(mutation.key);
        continue;
      }
      erase_messages();
    }
    switch (mutation.kind) {
      case Mutation::Kind::put:
        put(mutation.family, mutation.key, mutation.value);
        break;
      case Mutation::Kind::erase:
        erase(mutation.family, mutation.key);
        break;
      case Mutation::Kind::erase_prefix:
        erase_prefix(mutation.family, mutation.key);
        break;
      case Mutation::Kind::bury:
        if (auto buried = bury(batch, i); !buried) return buried;
        break;
    }
  }
  erase_messages();
  return {};
}

void RocksdbBackend::erase_messages() {
  std::ranges::sort(erased_messages_);
  for (const std::string_view key : erased_messages_)
    erase(Family::message, key);
  erased_messages_.clear();
}

void RocksdbBackend::put(Family family, std::string_view key, std::string_view value) {
  must(changes_.Put(column(family), slice(ColumnKey(family, key).bytes()), slice(value)));
}

void RocksdbBackend::erase(Family family, std::string_view key) {
  const ColumnKey name(family, key);
  const bool wrong = STRAND_PLANTED("rocksdb-single-delete-rewritten") && family == Family::state;
  const bool once = placement(family).written_once || wrong;
  must(once ? changes_.SingleDelete(column(family), slice(name.bytes()))
            : changes_.Delete(column(family), slice(name.bytes())));
}

void RocksdbBackend::erase_prefix(Family family, std::string_view prefix) {
  STRAND_ASSERT(!hinted(placement(family).column), "range deletes and hints do not go together");
  const ColumnKey begin(family, prefix);
  std::string end = engine::behind_prefix(begin.bytes());
  if (STRAND_PLANTED("rocksdb-prefix-too-wide")) end = engine::behind_prefix(end);
  // A prefix of nothing but 0xff has no end; no key of ours is so long.
  if (end.empty()) end.assign(std::size_t{64} << 10U, '\xff');
  must(changes_.DeleteRange(column(family), slice(begin.bytes()), slice(end)));
}

// Few messages die, so looking for one costs a read of the database, and of the batch up to here if
// it is there that it was put.
Result<void> RocksdbBackend::bury(const MutationBatch& batch, std::size_t index) {
  const Mutation mutation = batch[index];
  auto message = get(Family::message, mutation.key);
  if (!message) return std::unexpected(message.error());
  for (std::size_t i = index; i > 0 && !*message; --i) {
    const Mutation before = batch[i - 1];
    const bool is_it = before.kind == Mutation::Kind::put && before.family == Family::message &&
                       before.key == mutation.key;
    if (is_it) *message = std::string(before.value);
  }
  if (!*message) {
    return failure(Errc::corrupt,
                   fmt::format("a message that died has no entry in {}; run `strand check` on it",
                               base::printable(path_.native())));
  }
  std::string value(mutation.dead_value());
  value.append(**message);
  erase(Family::message, mutation.key);
  put(Family::dead, mutation.dead_key(), value);
  return {};
}

Result<void> RocksdbBackend::reopen() {
  database_.reset();
  auto opened = Database::open(path_ / "data", options_, seal_);
  if (!opened) return std::unexpected(std::move(opened).error());
  database_ = std::move(*opened);
  batch_ = database_->last_batch();
  failed_ = false;
  return {};
}

}  // namespace

Result<std::unique_ptr<engine::Backend>> open_rocksdb(const fs::path& path,
                                                      const Options& options) {
  if (auto usable = disk::prepare_folder(path, options.create); !usable) {
    return std::unexpected(std::move(usable).error());
  }
  // Looked at before anything is made in it, so that a folder of something else stays as it is.
  if (auto ours = check_folder(path, options.create); !ours) {
    return std::unexpected(std::move(ours).error());
  }
  auto lock = disk::OwnerLock::take(path / "owner", "rocksdb:" + base::printable(path.native()));
  if (!lock) return std::unexpected(std::move(lock).error());
  if (auto begun = begin_creation(path); !begun) return std::unexpected(std::move(begun).error());
  auto seal = std::make_shared<Seal>(path / "data", path / "synced");
  auto database = Database::open(path / "data", options, seal);
  if (!database) return std::unexpected(std::move(database).error());
  if (auto ended = end_creation(path); !ended) return std::unexpected(std::move(ended).error());
  return std::make_unique<RocksdbBackend>(path, options, std::move(*lock), std::move(seal),
                                          std::move(*database));
}

}  // namespace strand::rocks
