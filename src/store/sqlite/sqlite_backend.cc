#include "store/sqlite/sqlite_backend.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/planted.h"
#include "base/text.h"
#include "store/disk/owner_lock.h"
#include "store/disk/place.h"
#include "store/disk/room.h"
#include "store/disk/synced_note.h"
#include "store/engine/records.h"
#include "store/sqlite/log_rescue.h"
#include "store/sqlite/page_checksums.h"
#include "store/sqlite/read_pool.h"
#include "store/sqlite/schema.h"
#include "store/sqlite/tables.h"

namespace strand::sqlite {

namespace {

namespace fs = std::filesystem;

using engine::Family;
using engine::Mutation;

constexpr int page_bytes = 4096;
// When the log is copied into the database, in pages. A longer log is copied less often, and pages
// that changed again meanwhile only once; but whoever writes waits for the copying.
constexpr int log_pages_max = 4096;

class SqliteBackend final : public engine::Backend {
 public:
  SqliteBackend(const Place& place, disk::OwnerLock owner, std::size_t cache_bytes)
      : checksums_(place.vfs),
        place_{.path = place.path, .vfs = checksums_.name()},
        synced_(place.beside("-synced")),
        owner_(std::move(owner)),
        cache_bytes_(cache_bytes),
        // What a reader has cached is void with the next commit, so that it needs little.
        readers_(place_, cache_bytes / 16) {}
  ~SqliteBackend() override { close(); }

  // Opens the file. An empty or missing one becomes a store if `create`.
  Result<void> open(bool create);

  Result<std::optional<std::string>> get(Family family, std::string_view key) const override;
  Result<void> scan(Family family, std::string_view first, std::string_view last,
                    const Visit& visit) const override;
  Result<void> write(const engine::MutationBatch& batch, Durability durability) override;
  [[nodiscard]] std::optional<std::uint64_t> free_bytes() const override {
    return disk::free_bytes(place_.path.parent_path());
  }
  Result<void> reopen() override;

 private:
  Result<void> connect(bool create);
  // What to do first about a log that was left behind.
  Result<void> rescue();
  Result<void> configure();
  Result<void> make_store();
  void close();
  // Whether all is there that was synced. What is missing was damaged, or somebody put back an
  // older file.
  Result<void> check_synced(Contents contents);
  // What was committed so far is durable.
  void note_synced() {
    noted_.number = std::max(noted_.number, commit_);
    synced_.write(noted_);
  }
  // The log was copied: the file will never be shorter than now.
  void note_size();

  // The batch, in the transaction that was begun.
  Result<void> commit(const engine::MutationBatch& batch);
  Result<void> set_durability(Durability durability);
  Result<void> apply(const Mutation& mutation);
  Result<void> put(Family family, std::string_view key, std::string_view value);
  Result<void> erase(Family family, std::string_view key);
  Result<void> erase_prefix(Family family, std::string_view prefix);
  Result<void> erase_range(Family family, std::string_view first, std::string_view last);
  Result<void> bury(const Mutation& mutation);
  Result<void> step(Binder& out);
  // Makes the log durable, and copies of it into the database what readers allow. `unavailable`:
  // another program is at it.
  Result<void> copy_log();
  Result<void> shorten_log();
  [[nodiscard]] std::unexpected<Error> closed() const;

  const PageChecksums checksums_;
  const Place place_;
  disk::SyncedNote synced_;
  disk::SyncedNote::Content noted_;
  std::uint64_t commit_ = 0;  // the number of the last commit, as the engine counts
  disk::OwnerLock owner_;
  const std::size_t cache_bytes_;
  mutable ReadPool readers_;
  std::optional<Connection> writer_;  // none after a reopen() that failed
  bool failed_ = false;               // a write has failed, and reopen() has not been called
  bool in_doubt_ = false;             // … and it may have touched the files
  std::optional<Durability> set_;     // what `synchronous` stands at
  int log_pages_ = 0;
  int log_pages_next_ = log_pages_max;
};

// --- Opening and closing ---

Result<void> SqliteBackend::open(bool create) {
  auto connected = connect(create);
  if (!connected) {
    failed_ = in_doubt_ = true;  // what is there stays as it is
    close();
  }
  return connected;
}

Result<void> SqliteBackend::connect(bool create) {
  const bool left_behind = has_log(place_);
  if (left_behind) {
    if (auto rescued = rescue(); !rescued) return rescued;
  }
  auto connection = Connection::open(place_, Connection::Access::write, create);
  if (!connection) return std::unexpected(std::move(connection).error());
  writer_ = *std::move(connection);
  // Until all is well.
  writer_->keep_log_at_close();
  auto contents = look_inside(*writer_);
  if (!contents) return std::unexpected(std::move(contents).error());
  if (auto whole = check_synced(*contents); !whole) return whole;
  if (*contents == Contents::nothing) {
    if (!create) {
      return failure(Errc::not_found, fmt::format("there is no store at {}, only an empty file",
                                                  base::printable(place_.path.native())));
    }
    if (auto made = make_store(); !made) return made;
  }
  if (auto set = configure(); !set) return set;
  if (left_behind) {
    auto copied = writer_->checkpoint(true);
    if (!copied) return std::unexpected(std::move(copied).error());
    if (!*copied) return std::unexpected(writer_->error(SQLITE_BUSY));
  }
  sqlite3_db_config(writer_->handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  failed_ = in_doubt_ = false;
  note_size();
  return {};
}

Result<void> SqliteBackend::check_synced(Contents contents) {
  commit_ = 0;
  if (contents == Contents::store) {
    auto read =
        writer_->query("SELECT commit_number FROM meta", [&](Row& row) { commit_ = row.number(); });
    if (!read) return read;
  }
  noted_ = synced_.read();
  const std::uint64_t synced = noted_.number;
  // Of a page that is missing at the end of the file, SQLite makes one of zeros.
  std::uint64_t size = 0;
  std::from_chars(noted_.files.data(), noted_.files.data() + noted_.files.size(), size);
  std::error_code error;
  if (const std::uint64_t has = fs::file_size(place_.path, error); !error && has < size) {
    return failure(Errc::corrupt,
                   fmt::format("{} has {} bytes, and had {}: its end is missing; restore a backup "
                               "of the store",
                               base::printable(place_.path.native()), has, size));
  }
  if (commit_ >= synced) return {};
  return failure(
      Errc::corrupt,
      fmt::format("{} ends with commit {}, and commit {} was confirmed: its file or its log is "
                  "damaged, or older than {}; restore a backup of the store, or remove {} to go on "
                  "without what is lost",
                  base::printable(place_.path.native()), commit_, synced,
                  base::printable(synced_.file().filename().native()),
                  base::printable(synced_.file().native())));
}

void SqliteBackend::note_size() {
  std::error_code error;
  const std::uint64_t size = fs::file_size(place_.path, error);
  if (!error) noted_.files = std::to_string(size);
  note_synced();
}

Result<void> SqliteBackend::rescue() {
  {
    // The log of another program's database is none of our business.
    auto connection = Connection::open(place_, Connection::Access::read);
    if (!connection) return std::unexpected(std::move(connection).error());
    connection->keep_log_at_close();
    auto contents = look_inside(*connection);
    if (!contents) return std::unexpected(std::move(contents).error());
  }
  return rescue_log(place_);
}

Result<void> SqliteBackend::make_store() {
  // Without a log, so that the header of the file says whose it is from its first instant on.
  auto set =
      writer_->run(fmt::format("PRAGMA page_size={}; PRAGMA auto_vacuum=NONE; "
                               "PRAGMA journal_mode=DELETE; PRAGMA synchronous=EXTRA",
                               page_bytes));
  if (!set) return set;
  int reserved = PageChecksums::reserved_bytes;
  const int code =
      sqlite3_file_control(writer_->handle(), nullptr, SQLITE_FCNTL_RESERVE_BYTES, &reserved);
  if (code != SQLITE_OK) return std::unexpected(writer_->error(code));
  if (auto made = create_schema(*writer_); !made) return made;
  return disk::sync_folder(place_.path.parent_path());
}

Result<void> SqliteBackend::configure() {
  std::string journal;
  auto set = writer_->query("PRAGMA journal_mode=WAL", [&](Row& row) { journal = row.text(); });
  if (!set) return set;
  if (journal != "wal") {
    return failure(
        Errc::unsupported,
        fmt::format("SQLite cannot keep a write-ahead log for {}: its file system has "
                    "no shared memory (a network drive?); move the store to a local disk",
                    base::printable(place_.path.native())));
  }
  // No mmap: a page that the disk cannot read would be a signal instead of an error.
  // Debian's SQLite overwrites what it deletes with zeros, unless told otherwise.
  set = writer_->run(
      fmt::format("PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-{}; PRAGMA mmap_size=0; "
                  "PRAGMA secure_delete=OFF; PRAGMA journal_size_limit={}",
                  cache_bytes_ / 4 * 3 / 1024, std::int64_t{2} * log_pages_max * page_bytes));
  if (!set) return set;
  set_.reset();
  log_pages_ = 0;
  log_pages_next_ = log_pages_max;
  const auto count_pages = [](void* backend, sqlite3*, const char*, int pages) {
    static_cast<SqliteBackend*>(backend)->log_pages_ = pages;
    return SQLITE_OK;
  };
  sqlite3_wal_hook(writer_->handle(), count_pages, this);
  return set_durability(Durability::sync);
}

void SqliteBackend::close() {
  readers_.clear();
  if (!writer_) return;
  if (in_doubt_) {
    writer_->keep_log_at_close();
  } else {
    // Leaves an empty log even if another program has the database open. If it fails, the log stays
    // and is rescued at the next open. Whoever reads an old state right now is not waited for.
    sqlite3_busy_timeout(writer_->handle(), 0);
    const bool synced = set_durability(Durability::sync).has_value();
    const auto copied = synced ? writer_->checkpoint(true) : false;
    if (!synced || !copied) {
      writer_->keep_log_at_close();
    } else if (*copied) {
      note_size();
    }
  }
  writer_.reset();
}

Result<void> SqliteBackend::reopen() {
  if (writer_ && failed_ && !in_doubt_) {
    // Nothing was written, so that only what was written before has to be made durable.
    auto synced = set_durability(Durability::sync);
    if (synced) synced = copy_log();
    if (synced) failed_ = false;
    if (!in_doubt_) return synced;
  }
  in_doubt_ = true;  // so that nothing but rescue_log touches the log
  close();
  return open(false);
}

std::unexpected<Error> SqliteBackend::closed() const {
  return failure(Errc::unavailable, fmt::format("{} has been closed after a failure",
                                                base::printable(place_.path.native())));
}

// --- Reading ---

Result<std::optional<std::string>> SqliteBackend::get(Family family, std::string_view key) const {
  if (!writer_) return closed();
  const Table& table = table_of(family);
  const KeyFields fields = key_fields(table.key, key);
  if (!fields.exact) return std::nullopt;
  auto reading = readers_.read();
  if (!reading) return std::unexpected(std::move(reading).error());
  auto statement = (*reading)->statement(family, Connection::Use::get);
  if (!statement) return std::unexpected(std::move(statement).error());
  Binder binder(*statement);
  bind_key(table.key, fields, binder);
  const int code = binder.code() == SQLITE_OK ? sqlite3_step(*statement) : binder.code();
  std::optional<std::string> value;
  bool intact = true;
  if (code == SQLITE_ROW) {
    Row row(*statement, table.key.size());
    intact = table.get(row, key, value.emplace());
  }
  Result<std::optional<std::string>> result = std::move(value);
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    result = std::unexpected((*reading)->error(code));
  } else if (!intact) {
    result = std::unexpected(engine::damaged(family, key));
  }
  sqlite3_reset(*statement);
  if (!result) reading->discard();
  return result;
}

Result<void> SqliteBackend::scan(Family family, std::string_view first, std::string_view last,
                                 const Visit& visit) const {
  if (!writer_) return closed();
  const Table& table = table_of(family);
  const KeyFields from = key_fields(table.key, first);
  auto reading = readers_.read();
  if (!reading) return std::unexpected(std::move(reading).error());
  auto statement = (*reading)->statement(family, Connection::Use::scan);
  if (!statement) return std::unexpected(std::move(statement).error());
  Binder binder(*statement);
  bind_key(table.key, from, binder);
  int code = binder.code();
  if (code == SQLITE_OK) code = sqlite3_step(*statement);
  Result<void> result;
  std::string key;
  std::string value;
  for (; code == SQLITE_ROW; code = sqlite3_step(*statement)) {
    Row row(*statement);
    read_key(table.key, row, key);
    if (row.ok() && key < first) continue;
    if (row.ok() && !last.empty() && key >= last) break;
    value.clear();
    if (!row.ok() || !table.get(row, key, value)) {
      result = std::unexpected(engine::damaged(family, key));
      break;
    }
    if (!visit(key, value)) break;
  }
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    result = std::unexpected((*reading)->error(code));
  }
  sqlite3_reset(*statement);
  if (!result) reading->discard();
  return result;
}

// --- Writing ---

Result<void> SqliteBackend::write(const engine::MutationBatch& batch, Durability durability) {
  if (!writer_ || failed_) return closed();
  failed_ = true;  // until it is known to be otherwise
  if (auto set = set_durability(durability); !set) return set;
  const sqlite3_int64 changes = sqlite3_total_changes64(writer_->handle());
  if (auto begun = writer_->run(Connection::Step::begin_write); !begun) return begun;
  in_doubt_ = true;
  if (auto committed = commit(batch); !committed) {
    writer_->roll_back();
    // A log that finds no room to grow is as good as before, and there would be none to rewrite it.
    const bool undone = sqlite3_get_autocommit(writer_->handle()) != 0;
    if (undone && committed.error().code == Errc::store_full) in_doubt_ = false;
    return committed;
  }
  if (durability == Durability::sync && sqlite3_total_changes64(writer_->handle()) == changes) {
    // A transaction that changes nothing is not written, and so syncs nothing of those before it.
    if (auto synced = copy_log(); !synced) return synced;
  }
  if (durability == Durability::sync) note_synced();
  if (auto shortened = shorten_log(); !shortened) return shortened;
  failed_ = in_doubt_ = false;
  return {};
}

Result<void> SqliteBackend::commit(const engine::MutationBatch& batch) {
  std::optional<std::uint64_t> number;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Mutation mutation = batch[i];
    if (auto applied = apply(mutation); !applied) return applied;
    if (mutation.family != Family::meta || mutation.kind != Mutation::Kind::put) continue;
    if (const auto meta = engine::decode<engine::MetaRecord>(mutation.value)) number = meta->commit;
  }
  readers_.commit_begins();
  auto committed = writer_->run(Connection::Step::commit);
  readers_.commit_ends();
  if (committed && number) commit_ = *number;
  return committed;
}

Result<void> SqliteBackend::set_durability(Durability durability) {
  if (set_ == durability) return {};
  set_.reset();
  const bool sync = durability == Durability::sync && !STRAND_PLANTED("sqlite-not-synced");
  auto done = writer_->run(sync ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
  if (done) set_ = durability;
  return done;
}

Result<void> SqliteBackend::copy_log() {
  auto copied = writer_->checkpoint(false);
  if (copied && *copied) note_size();
  // The log is synced before the first page of it is copied: it can wait until there is room.
  if (copied || copied.error().code == Errc::store_full) return {};
  // After any other failure no later sync can be trusted.
  if (copied.error().code != Errc::unavailable) in_doubt_ = true;
  return std::unexpected(std::move(copied).error());
}

// Copies the log when it has become long, so that it starts over. Not left to SQLite's own
// automatic: that ignores a failed sync, and the next one would not see it any more.
Result<void> SqliteBackend::shorten_log() {
  if (log_pages_ < log_pages_max) {
    log_pages_next_ = log_pages_max;
    return {};
  }
  if (log_pages_ < log_pages_next_) return {};
  readers_.forget_states();
  // If another program copies it right now, so much the better.
  if (auto copied = copy_log(); !copied && copied.error().code != Errc::unavailable) return copied;
  // It starts over with the next write, unless somebody still reads it.
  log_pages_next_ = log_pages_ + log_pages_max / 4;
  return {};
}

Result<void> SqliteBackend::apply(const Mutation& mutation) {
  switch (mutation.kind) {
    case Mutation::Kind::put:
      return put(mutation.family, mutation.key, mutation.value);
    case Mutation::Kind::erase:
      return erase(mutation.family, mutation.key);
    case Mutation::Kind::bury:
      return bury(mutation);
    case Mutation::Kind::erase_prefix:
      return erase_prefix(mutation.family, mutation.key);
    case Mutation::Kind::erase_range:
      return erase_range(mutation.family, mutation.key, mutation.value);
  }
  STRAND_ASSERT(false, "every kind of mutation is applied");
}

Result<void> SqliteBackend::put(Family family, std::string_view key, std::string_view value) {
  const Table& table = table_of(family);
  const KeyFields fields = key_fields(table.key, key);
  STRAND_ASSERT(fields.exact, "an entry is put under a whole key");
  auto statement = writer_->statement(family, Connection::Use::put);
  if (!statement) return std::unexpected(std::move(statement).error());
  Binder binder(*statement);
  bind_key(table.key, fields, binder);
  if (const int code = table.put(binder, key, value); code != SQLITE_OK) {
    return std::unexpected(writer_->error(code));
  }
  return {};
}

Result<void> SqliteBackend::erase(Family family, std::string_view key) {
  const Table& table = table_of(family);
  const KeyFields fields = key_fields(table.key, key);
  STRAND_ASSERT(fields.exact, "an entry is erased by a whole key");
  auto statement = writer_->statement(family, Connection::Use::erase);
  if (!statement) return std::unexpected(std::move(statement).error());
  Binder binder(*statement);
  bind_key(table.key, fields, binder);
  return step(binder);
}

Result<void> SqliteBackend::erase_prefix(Family family, std::string_view prefix) {
  const Table& table = table_of(family);
  KeyFields first = key_fields(table.key, prefix);
  if (STRAND_PLANTED("sqlite-prefix-leaves-first") && prefix.size() == 16)
    ++first.fields[2].integer;
  if (first.too_long) return {};
  const std::string behind = engine::behind_prefix(prefix);
  const auto use = behind.empty() ? Connection::Use::erase_from : Connection::Use::erase_range;
  auto statement = writer_->statement(family, use);
  if (!statement) return std::unexpected(std::move(statement).error());
  Binder binder(*statement);
  bind_key(table.key, first, binder);
  const KeyFields last = key_fields(table.key, behind);
  if (!behind.empty()) bind_key(table.key, last, binder);
  return step(binder);
}

Result<void> SqliteBackend::erase_range(Family family, std::string_view first,
                                        std::string_view last) {
  const Table& table = table_of(family);
  const KeyFields from = key_fields(table.key, first);
  const KeyFields to = key_fields(table.key, last);
  STRAND_ASSERT(from.exact && to.exact, "a range is erased between two whole keys");
  auto statement = writer_->statement(family, Connection::Use::erase_range);
  if (!statement) return std::unexpected(std::move(statement).error());
  Binder binder(*statement);
  bind_key(table.key, from, binder);
  bind_key(table.key, to, binder);
  return step(binder);
}

Result<void> SqliteBackend::bury(const Mutation& mutation) {
  auto statement = writer_->statement(Connection::Step::bury);
  if (!statement) return std::unexpected(std::move(statement).error());
  Binder binder(*statement);
  if (const int code = sqlite::bury(binder, mutation); code != SQLITE_OK) {
    return std::unexpected(writer_->error(code));
  }
  STRAND_ASSERT(sqlite3_changes64(writer_->handle()) == 1,
                "only a message that is there, in the queue that is named, can be buried");
  if (STRAND_PLANTED("sqlite-bury-keeps-message")) return {};
  return erase(Family::message, mutation.key);
}

Result<void> SqliteBackend::step(Binder& out) {
  if (const int code = out.step(); code != SQLITE_OK) return std::unexpected(writer_->error(code));
  return {};
}

// --- What is at the path ---

// Refuses what cannot become a store, in the words of the operating system. SQLite itself would
// say "unable to open database file" to most of it.
Result<void> check_file(const fs::path& path, bool create) {
  struct stat found = {};
  if (::stat(path.c_str(), &found) != 0) {
    if (errno != ENOENT) return std::unexpected(disk::cannot("look at", path, errno));
    if (!create) {
      return failure(Errc::not_found,
                     fmt::format("there is no store at {}", base::printable(path.native())));
    }
    const fs::path folder = path.parent_path();
    if (::access(folder.c_str(), W_OK | X_OK) != 0) {
      return std::unexpected(disk::cannot("make a file in", folder, errno));
    }
    return {};
  }
  if (!S_ISREG(found.st_mode)) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} is {}, and the store is a file; name another path",
                               base::printable(path.native()),
                               S_ISDIR(found.st_mode) ? "a folder" : "no ordinary file"));
  }
  if (::access(path.c_str(), R_OK | W_OK) != 0) {
    return std::unexpected(disk::cannot("write to", path, errno));
  }
  if (::access(path.parent_path().c_str(), W_OK | X_OK) != 0) {
    return std::unexpected(disk::cannot("write beside the store in", path.parent_path(), errno));
  }
  return {};
}

// Whether a file that has anything in it is a database at all.
Result<void> check_header(const fs::path& path) {
  static constexpr std::string_view magic{"SQLite format 3\0", 16};
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT) return {};
    return std::unexpected(disk::cannot("open", path, errno));
  }
  std::array<char, magic.size()> header{};
  const ssize_t count = ::pread(fd, header.data(), header.size(), 0);
  const int error_number = errno;
  ::close(fd);
  if (count < 0) return std::unexpected(disk::cannot("read", path, error_number));
  if (count == 0 || std::string_view(header.data(), header.size()) == magic) return {};
  // Power lost in the middle of a write leaves any bytes. Then there is a log or a journal with the
  // page, from which SQLite, which comes next, brings it back.
  for (const char* suffix : {"-wal", "-journal"}) {
    std::error_code none;
    const auto bytes = fs::file_size(path.native() + suffix, none);
    if (!none && bytes > 0) return {};
  }
  return failure(Errc::corrupt,
                 fmt::format("{} is not an SQLite database; name another path, or restore a backup "
                             "if it was a store",
                             base::printable(path.native())));
}

}  // namespace

Result<std::unique_ptr<engine::Backend>> open_sqlite(const fs::path& path, std::size_t cache_bytes,
                                                     bool create, const std::string& vfs) {
  std::error_code error;
  // SQLite's other files lie beside the file itself, not beside a link to it. An absolute path is
  // also never taken for a URI or for ":memory:".
  const fs::path file = fs::weakly_canonical(fs::absolute(path), error);
  if (error) return std::unexpected(disk::cannot("find", path, error.value()));
  if (auto fit = check_file(file, create); !fit) return std::unexpected(std::move(fit).error());
  const Place place{.path = file, .vfs = vfs};
  const fs::path lock = place.beside("-owner");
  const bool known = fs::exists(lock, error);
  // First of all: whoever closes a file lets go of all locks that this process has on it, so that
  // nobody may look at the file of a store that is open.
  auto owner = disk::OwnerLock::take(lock, base::printable(file.native()));
  if (!owner) return std::unexpected(std::move(owner).error());
  // Whoever removed the file wants a new store.
  if (!fs::exists(file, error)) disk::SyncedNote(place.beside("-synced")).remove();
  auto backend = std::make_unique<SqliteBackend>(place, *std::move(owner), cache_bytes);
  auto opened = check_header(file);
  if (opened) opened = backend->open(create);
  if (!opened) {
    // Beside a file that is no store, nothing is left.
    if (!known) fs::remove(lock, error);
    return std::unexpected(std::move(opened).error());
  }
  return backend;
}

}  // namespace strand::sqlite
