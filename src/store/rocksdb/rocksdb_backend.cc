#include "store/rocksdb/rocksdb_backend.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <rocksdb/iterator.h>
#include <rocksdb/snapshot.h>
#include <rocksdb/write_batch.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/planted.h"
#include "base/text.h"
#include "store/disk/owner_lock.h"
#include "store/disk/place.h"
#include "store/disk/room.h"
#include "store/rocksdb/database.h"
#include "store/rocksdb/erased.h"
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

// The id of a message from its key; nothing if somebody has damaged that.
std::optional<std::uint64_t> message_id(std::string_view key) {
  base::ByteReader in(key);
  const std::uint64_t id = in.fixed64();
  if (!in.done()) return std::nullopt;
  return id;
}

std::string message_key(std::uint64_t id) {
  std::string key;
  base::ByteWriter(key).fixed64(id);
  return key;
}

std::string list_key(std::uint64_t batch) {
  std::string key(1, erased_prefix);
  base::ByteWriter(key).fixed64(batch);
  return key;
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
  // Before anything else: which messages are erased though their entries are there.
  Result<void> read_erased();
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
  [[nodiscard]] Result<bool> is_erased(std::string_view key) const;
  Result<void> scan_from(const ::rocksdb::ReadOptions& options, Family family,
                         std::string_view begin, const Visit& visit) const;
  Result<void> scan_messages(::rocksdb::ReadOptions options, std::string_view begin,
                             const Visit& visit) const;
  Result<void> translate(const MutationBatch& batch);
  void erase_message(std::string_view key);
  void before_put_of_message(std::string_view key);
  void erase_messages();
  void list_or_erase_messages();
  void remove(const ErasedMessages::Removals& removals);
  void put(Family family, std::string_view key, std::string_view value);
  void erase(Family family, std::string_view key);
  void erase_prefix(Family family, std::string_view prefix);
  // Both are keys in the column.
  void erase_range(Family family, std::string_view begin, std::string_view end);
  Result<void> bury(const MutationBatch& batch, std::size_t index);

  const fs::path path_;
  const Options options_;
  const disk::OwnerLock lock_;
  const std::shared_ptr<Seal> seal_;
  bool failed_ = false;                 // a write has failed, and reopen() has not succeeded since
  std::unique_ptr<Database> database_;  // none after a reopen that failed
  std::uint64_t batch_;                 // the number of the last one
  ErasedMessages erased_;
  // Kept from write to write, for their memory.
  ::rocksdb::WriteBatch changes_;
  std::vector<std::uint64_t> erased_now_;  // by this batch, up to here
  std::uint64_t erased_now_highest_ = 0;
};

Result<std::optional<std::string>> RocksdbBackend::get(Family family, std::string_view key) const {
  STRAND_ASSERT(database_, "a store that cannot be read is not read");
  if (family == Family::message) {
    // Asked first: what is removed from the database in the meantime is not found there.
    const auto erased = is_erased(key);
    if (!erased) return std::unexpected(erased.error());
    if (*erased) return std::nullopt;
  }
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
  if (family == Family::message && erased_.any())
    return scan_messages(options, begin.bytes(), visit);
  return scan_from(options, family, begin.bytes(), visit);
}

Result<void> RocksdbBackend::scan_from(const ::rocksdb::ReadOptions& options, Family family,
                                       std::string_view begin, const Visit& visit) const {
  const std::unique_ptr<::rocksdb::Iterator> found(
      database_->db().NewIterator(options, column(family)));
  for (found->Seek(slice(begin)); found->Valid(); found->Next()) {
    if (!visit(view(found->key()).substr(prefix_bytes(family)), view(found->value()))) break;
  }
  if (!found->status().ok()) return std::unexpected(trouble("read from", found->status()));
  return {};
}

// The entries of a snapshot, but for those that the batches up to it have erased.
Result<void> RocksdbBackend::scan_messages(::rocksdb::ReadOptions options, std::string_view begin,
                                           const Visit& visit) const {
  std::optional<::rocksdb::ManagedSnapshot> snapshot;
  const auto hidden = erased_.hidden([&]() -> Result<std::uint64_t> {
    options.snapshot = snapshot.emplace(&database_->db()).snapshot();
    std::uint64_t batch = 0;
    const auto status = database_->read_last_batch(options, batch);
    if (!status.ok()) return std::unexpected(trouble("read from", status));
    return batch;
  });
  if (!hidden) return std::unexpected(hidden.error());
  auto next = hidden->begin();  // both are ascending
  return scan_from(options, Family::message, begin,
                   [&](std::string_view key, std::string_view value) {
                     const auto id = message_id(key);
                     while (id && next != hidden->end() && *next < *id)
                       ++next;
                     const bool erased = id && next != hidden->end() && *next == *id;
                     return erased || visit(key, value);
                   });
}

// A batch that is being written may or may not be in the database yet, which alone decides.
Result<bool> RocksdbBackend::is_erased(std::string_view key) const {
  const auto id = message_id(key);
  const auto batch = id ? erased_.erased_in(*id) : std::nullopt;
  if (!batch) return false;
  std::uint64_t last_batch = 0;
  const auto status = database_->read_last_batch({}, last_batch);
  if (!status.ok()) return std::unexpected(trouble("read from", status));
  return *batch <= last_batch;
}

Result<void> RocksdbBackend::write(const MutationBatch& batch, Durability durability) {
  STRAND_ASSERT(database_, "a store that cannot be read is not written");
  changes_.Clear();
  if (auto translated = translate(batch); !translated) return translated;
  ::rocksdb::WriteOptions options;
  options.sync = durability == Durability::sync && !STRAND_PLANTED("rocksdb-not-synced");
  list_or_erase_messages();
  must(changes_.Put(database_->column(Column::small), slice(batch_key),
                    slice(fmt::format_int(batch_ + 1).str())));
  const auto status = database_->db().Write(options, &changes_);
  if (!status.ok()) {
    failed_ = true;
    return std::unexpected(trouble("write to", status));
  }
  ++batch_;
  erased_.written();
  if (options.sync) seal_->synced(batch_);
  return {};
}

// What erases messages is gathered, and done at the end of the batch: only changes of other entries
// overtake it.
Result<void> RocksdbBackend::translate(const MutationBatch& batch) {
  erased_now_.clear();
  erased_now_highest_ = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Mutation mutation = batch[i];
    switch (mutation.kind) {
      case Mutation::Kind::put:
        if (mutation.family == Family::message) before_put_of_message(mutation.key);
        put(mutation.family, mutation.key, mutation.value);
        break;
      case Mutation::Kind::erase:
        if (mutation.family == Family::message) {
          erase_message(mutation.key);
        } else {
          erase(mutation.family, mutation.key);
        }
        break;
      case Mutation::Kind::erase_prefix:
        erase_prefix(mutation.family, mutation.key);
        break;
      case Mutation::Kind::erase_range:
        erase_range(mutation.family, ColumnKey(mutation.family, mutation.key).bytes(),
                    ColumnKey(mutation.family, mutation.value).bytes());
        break;
      case Mutation::Kind::bury:
        if (auto buried = bury(batch, i); !buried) return buried;
        break;
    }
  }
  return {};
}

void RocksdbBackend::erase_message(std::string_view key) {
  const auto id = message_id(key);
  if (!id) return erase(Family::message, key);
  erased_now_.push_back(*id);
  erased_now_highest_ = std::max(erased_now_highest_, *id);
}

// A message that is put again, as a repair does, must not fall to a removal that came before. New
// ones have higher ids than all that are erased, so that this costs nothing.
void RocksdbBackend::before_put_of_message(std::string_view key) {
  const auto id = message_id(key);
  if (!id) return;
  if (*id <= erased_now_highest_) erase_messages();
  if (erased_.contains(*id)) remove(erased_.all());
}

// In the order of their ids rather than of their lanes, because the memtable finds the next place
// from the one before.
void RocksdbBackend::erase_messages() {
  std::ranges::sort(erased_now_);
  for (const std::uint64_t id : erased_now_)
    erase(Family::message, message_key(id));
  erased_now_.clear();
  erased_now_highest_ = 0;
}

void RocksdbBackend::list_or_erase_messages() {
  remove(erased_.next(erased_now_.size()));
  if (!ErasedMessages::worth_listing(erased_now_.size())) return erase_messages();
  std::ranges::sort(erased_now_);
  erased_now_.erase(std::ranges::unique(erased_now_).begin(), erased_now_.end());
  must(changes_.Put(database_->column(Column::small), slice(list_key(batch_ + 1)),
                    slice(encode_ids(erased_now_))));
  erased_.add(batch_ + 1, erased_now_);
}

void RocksdbBackend::remove(const ErasedMessages::Removals& removals) {
  for (const std::uint64_t id : removals.messages)
    erase(Family::message, message_key(id));
  for (const std::uint64_t batch : removals.lists)
    must(changes_.SingleDelete(database_->column(Column::small), slice(list_key(batch))));
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
  const ColumnKey begin(family, prefix);
  std::string end = engine::behind_prefix(begin.bytes());
  if (STRAND_PLANTED("rocksdb-prefix-too-wide")) end = engine::behind_prefix(end);
  // A prefix of nothing but 0xff has no end; no key of ours is so long.
  if (end.empty()) end.assign(std::size_t{64} << 10U, '\xff');
  erase_range(family, begin.bytes(), end);
}

void RocksdbBackend::erase_range(Family family, std::string_view begin, std::string_view end) {
  STRAND_ASSERT(!hinted(placement(family).column), "range deletes and hints do not go together");
  must(changes_.DeleteRange(column(family), slice(begin), slice(end)));
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
  if (auto read = read_erased(); !read) {
    database_.reset();
    return read;
  }
  failed_ = false;
  return {};
}

Result<void> RocksdbBackend::read_erased() {
  erased_.clear();
  if (STRAND_PLANTED("rocksdb-erased-list-forgotten")) return {};
  const std::string begin(1, erased_prefix);
  const ::rocksdb::Slice upper = slice(batch_key);
  ::rocksdb::ReadOptions options;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<::rocksdb::Iterator> found(
      database_->db().NewIterator(options, database_->column(Column::small)));
  for (found->Seek(slice(begin)); found->Valid(); found->Next()) {
    const auto batch = message_id(view(found->key()).substr(1));
    const auto ids = decode_ids(view(found->value()));
    if (!batch || !ids || *batch > batch_) {
      return failure(Errc::corrupt,
                     fmt::format("a list of erased messages in {} is damaged; keep a copy of the "
                                 "folder, and go back to a backup",
                                 base::printable(path_.native())));
    }
    erased_.add(*batch, *ids);
  }
  if (!found->status().ok()) return std::unexpected(trouble("read from", found->status()));
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
  auto backend = std::make_unique<RocksdbBackend>(path, options, std::move(*lock), std::move(seal),
                                                  std::move(*database));
  if (auto read = backend->read_erased(); !read) return std::unexpected(std::move(read).error());
  return backend;
}

}  // namespace strand::rocks
