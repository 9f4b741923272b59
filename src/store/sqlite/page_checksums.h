#pragma once

#include <string>

#include <sqlite3.h>

namespace strand::sqlite {

// A VFS over another one that keeps a checksum in the last 8 bytes of each page of a store's
// database file, and refuses a page that is not as it was written (SQLITE_IOERR_DATA).
//
// SQLite itself checks only its log. Any other program can still read the database: the bytes are
// ones that the file says are reserved. In memory and in the log they are zero, and a page that
// another program copied from the log into the database has none: it is believed.
//
// Registered while it lives; outlives all connections that use it. Databases that are not Strand's
// pass through untouched.
class PageChecksums {
 public:
  // `below` is the name of the other VFS; empty for SQLite's own.
  explicit PageChecksums(const std::string& below);
  PageChecksums(const PageChecksums&) = delete;
  PageChecksums& operator=(const PageChecksums&) = delete;
  ~PageChecksums();

  [[nodiscard]] const std::string& name() const { return name_; }

  static constexpr int reserved_bytes = 8;

 private:
  struct File;
  static File& of(sqlite3_file* file);
  static int open(sqlite3_vfs* vfs, const char* name, sqlite3_file* out, int flags, int* got);
  static int read(sqlite3_file* file, void* out, int count, sqlite3_int64 at);
  static int write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 at);
  static const sqlite3_io_methods methods;

  const std::string name_;
  sqlite3_vfs* const below_;
  sqlite3_vfs own_;
};

}  // namespace strand::sqlite
