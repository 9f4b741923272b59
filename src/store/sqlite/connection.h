#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <sqlite3.h>

#include <strand/error.h>

#include "store/engine/mutations.h"
#include "store/sqlite/row.h"

namespace strand::sqlite {

// The file of a store, and the VFS that reaches it (SQLite's interface to the operating system;
// empty for its own).
struct Place {
  std::filesystem::path path;  // absolute, without symbolic links: SQLite's other files lie beside
  std::string vfs;

  [[nodiscard]] std::filesystem::path beside(std::string_view suffix) const {
    std::filesystem::path result = path;
    result += suffix;
    return result;
  }
  [[nodiscard]] std::filesystem::path log() const { return beside("-wal"); }
};

// The error for an SQLite result code: what it means for a store, and what to do.
Error sqlite_error(const std::filesystem::path& path, int code, int error_number,
                   std::string_view detail);

// One connection to a database, with the statements that it has needed so far.
//
// Threads: one at a time.
class Connection {
 public:
  enum class Access : std::uint8_t { read, write };
  // Does not make the file, unless `create`.
  static Result<Connection> open(const Place& place, Access access, bool create = false);

  // Runs statements that need no parameters and return nothing of interest.
  Result<void> run(const std::string& sql);
  // Calls `visit` for each row.
  Result<void> query(const std::string& sql, const std::function<void(Row&)>& visit);

  // What is done with entries of a family; the parameters are those of the key, then the value.
  enum class Use : std::uint8_t {
    put,
    get,
    erase,
    scan,         // from a key on
    erase_from,   // from a key on
    erase_range,  // from a key to before another one
  };
  static constexpr std::size_t use_count = 6;
  // Prepared at its first use.
  Result<sqlite3_stmt*> statement(engine::Family family, Use use);

  // What is done with the whole database.
  enum class Step : std::uint8_t { begin_read, begin_write, commit, bury };
  static constexpr std::size_t step_count = 4;
  Result<sqlite3_stmt*> statement(Step step);
  // All but bury, which has parameters.
  Result<void> run(Step step);

  // Ends a transaction without its changes; nothing happens if a failure has ended it already.
  void roll_back();

  // Copies what the log has into the database file and makes both durable, as far as readers allow.
  // Truncates the log if `truncate` and nobody reads it. Whether the whole log was copied; nothing
  // happened if another connection does the same right now (`unavailable`).
  Result<bool> checkpoint(bool truncate);

  // From now on, closing leaves the log as it is.
  void keep_log_at_close();

  [[nodiscard]] sqlite3* handle() { return database_.get(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] Error error(int code) const;

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

  Connection(std::filesystem::path path, sqlite3* database)
      : path_(std::move(path)), database_(database) {}
  Result<sqlite3_stmt*> prepare(Statement& slot, std::string_view sql);

  std::filesystem::path path_;
  std::unique_ptr<sqlite3, Close> database_;
  // Behind the database, so that they end before it.
  std::array<std::array<Statement, use_count>, engine::family_count> statements_;
  std::array<Statement, step_count> steps_;
};

}  // namespace strand::sqlite
