#pragma once

#include <mutex>
#include <set>
#include <string>

#include <sqlite3.h>

#include "faults/disk_script.h"

namespace strand::faults {

// The real file system, as SQLite sees it, under a script. Registered while it lives, by name().
//
// Threads: as SQLite's own.
// Limits:  renames do not go through a VFS; that of a log which was copied (`-wal.new`) is told to
//          the script when the next file is opened, together with the sync of the folder.
class ScriptedVfs {
 public:
  explicit ScriptedVfs(DiskScript& script);
  ScriptedVfs(const ScriptedVfs&) = delete;
  ScriptedVfs& operator=(const ScriptedVfs&) = delete;
  ~ScriptedVfs();

  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  struct File;
  static File& of(sqlite3_file* file);
  static int open(sqlite3_vfs* vfs, const char* name, sqlite3_file* out, int flags, int* got);
  static int remove(sqlite3_vfs* vfs, const char* name, int sync_folder);
  static int write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 at);
  static int truncate(sqlite3_file* file, sqlite3_int64 size);
  static int sync(sqlite3_file* file, int flags);
  static const sqlite3_io_methods methods;

  void tell_renames();

  DiskScript& script_;
  const std::string name_;
  sqlite3_vfs* const real_;
  sqlite3_vfs own_;
  std::mutex mutex_;
  std::set<std::string> copies_;  // logs that were copied and not renamed yet
};

}  // namespace strand::faults
