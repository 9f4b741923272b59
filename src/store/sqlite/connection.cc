#include "store/sqlite/connection.h"

#include <cerrno>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/assert.h"
#include "base/text.h"
#include "store/disk/place.h"
#include "store/sqlite/tables.h"

namespace strand::sqlite {

namespace {

// How long to wait for a program that has locked the database, such as a shell in a transaction.
constexpr int busy_ms = 2000;

std::string names(std::span<const KeyColumn> key) {
  std::string text;
  for (const KeyColumn& column : key)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", column.name);
  return text;
}

std::string questions(std::size_t count) {
  std::string text = "?";
  for (std::size_t i = 1; i < count; ++i)
    text += ", ?";
  return text;
}

std::string sql_for(const Table& table, Connection::Use use) {
  const std::string key = names(table.key);
  const std::string values = questions(table.key.size());
  switch (use) {
    case Connection::Use::put:
      return fmt::format("INSERT OR REPLACE INTO {} VALUES ({})", table.name,
                         questions(static_cast<std::size_t>(table.columns)));
    case Connection::Use::get:
      return fmt::format("SELECT * FROM {} WHERE ({}) = ({})", table.name, key, values);
    case Connection::Use::erase:
      return fmt::format("DELETE FROM {} WHERE ({}) = ({})", table.name, key, values);
    case Connection::Use::scan:
      return fmt::format("SELECT * FROM {} WHERE ({}) >= ({}) ORDER BY {}", table.name, key, values,
                         key);
    case Connection::Use::erase_from:
      return fmt::format("DELETE FROM {} WHERE ({}) >= ({})", table.name, key, values);
    case Connection::Use::erase_range:
      return fmt::format("DELETE FROM {0} WHERE ({1}) >= ({2}) AND ({1}) < ({2})", table.name, key,
                         values);
  }
  STRAND_ASSERT(false, "every use has its statement");
}

std::string_view sql_for(Connection::Step step) {
  switch (step) {
    case Connection::Step::begin_read:
      return "BEGIN";
    case Connection::Step::begin_write:
      return "BEGIN IMMEDIATE";
    case Connection::Step::commit:
      return "COMMIT";
    case Connection::Step::bury:
      return bury_sql;
  }
  STRAND_ASSERT(false, "every step has its statement");
}

}  // namespace

Error sqlite_error(const std::filesystem::path& path, int code, int error_number,
                   std::string_view detail) {
  const std::string file = base::printable(path.native());
  if (code == SQLITE_IOERR_DATA) {
    return {Errc::corrupt,
            fmt::format("a page of {} is not as the store wrote it: it is damaged, or another "
                        "program has changed it; restore a backup of the store",
                        file)};
  }
  switch (code & 0xff) {
    case SQLITE_FULL:
      return {Errc::store_full,
              fmt::format("there is no room left for {}: make room on its disk", file)};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {Errc::corrupt,
              fmt::format("{} is damaged, or is not an SQLite database ({}): restore a backup of "
                          "the store, or run `strand check --repair` on a copy",
                          file, detail)};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {Errc::unavailable,
              fmt::format("another program keeps {} locked: end its transaction (`COMMIT` in the "
                          "sqlite3 shell), or close it",
                          file)};
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return disk::cannot("open", path, error_number != 0 ? error_number : EIO);
    case SQLITE_READONLY:
      return disk::cannot("write to", path, error_number != 0 ? error_number : EACCES);
    default:
      return {Errc::io_error,
              fmt::format("SQLite cannot use {}: {} ({}{}{}); look at the disk, then open the "
                          "store again",
                          file, detail, sqlite3_errstr(code), error_number != 0 ? ", " : "",
                          error_number != 0 ? std::generic_category().message(error_number) : "")};
  }
}

Result<Connection> Connection::open(const Place& place, Access access, bool create) {
  const int mode = access == Access::read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  sqlite3* database = nullptr;
  const int code = sqlite3_open_v2(
      place.path.c_str(), &database,
      mode | (create ? SQLITE_OPEN_CREATE : 0) | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      place.vfs.empty() ? nullptr : place.vfs.c_str());
  // Even a failed open leaves something to close, which has the error.
  Connection connection(place.path, database);
  if (code != SQLITE_OK) return std::unexpected(connection.error(code));
  sqlite3_busy_timeout(database, busy_ms);
  return connection;
}

Error Connection::error(int code) const {
  if (database_ == nullptr) return sqlite_error(path_, code, 0, sqlite3_errstr(code));
  return sqlite_error(path_, code, sqlite3_system_errno(database_.get()),
                      sqlite3_errmsg(database_.get()));
}

Result<void> Connection::run(const std::string& sql) {
  const int code = sqlite3_exec(handle(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return std::unexpected(error(code));
  return {};
}

Result<void> Connection::query(const std::string& sql, const std::function<void(Row&)>& visit) {
  Statement statement;
  auto prepared = prepare(statement, sql);
  if (!prepared) return std::unexpected(std::move(prepared).error());
  int code = sqlite3_step(*prepared);
  for (; code == SQLITE_ROW; code = sqlite3_step(*prepared)) {
    Row row(*prepared);
    visit(row);
  }
  if (code != SQLITE_DONE) return std::unexpected(error(code));
  return {};
}

Result<sqlite3_stmt*> Connection::prepare(Statement& slot, std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(handle(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return std::unexpected(error(code));
  slot.reset(statement);
  return statement;
}

Result<sqlite3_stmt*> Connection::statement(engine::Family family, Use use) {
  Statement& slot = statements_[static_cast<std::size_t>(family)][static_cast<std::size_t>(use)];
  if (slot) return slot.get();
  return prepare(slot, sql_for(table_of(family), use));
}

Result<sqlite3_stmt*> Connection::statement(Step step) {
  Statement& slot = steps_[static_cast<std::size_t>(step)];
  if (slot) return slot.get();
  return prepare(slot, sql_for(step));
}

Result<void> Connection::run(Step step) {
  auto prepared = statement(step);
  if (!prepared) return std::unexpected(std::move(prepared).error());
  const int code = Binder(*prepared).step();
  if (code != SQLITE_OK) return std::unexpected(error(code));
  return {};
}

void Connection::roll_back() { sqlite3_exec(handle(), "ROLLBACK", nullptr, nullptr, nullptr); }

Result<bool> Connection::checkpoint(bool truncate) {
  int in_log = 0;
  int copied = 0;
  const int mode = truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
  const int code = sqlite3_wal_checkpoint_v2(handle(), nullptr, mode, &in_log, &copied);
  // Somebody reads an old state: the rest of the log is left for the next time.
  const bool in_the_way = (code & 0xff) == SQLITE_BUSY && in_log >= 0;
  if (code != SQLITE_OK && !in_the_way) return std::unexpected(error(code));
  return copied == in_log;
}

void Connection::keep_log_at_close() {
  sqlite3_db_config(handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

}  // namespace strand::sqlite
