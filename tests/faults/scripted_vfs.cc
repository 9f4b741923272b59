#include "faults/scripted_vfs.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

namespace strand::faults {

namespace fs = std::filesystem;
using Kind = DiskOperation::Kind;

namespace {

std::string next_name() {
  static std::atomic<std::uint64_t> count{0};
  return fmt::format("strand-scripted-{}", ++count);
}

int failed(int error, int otherwise) { return error == ENOSPC ? SQLITE_FULL : otherwise; }

std::string folder_of(const std::string& file) { return fs::path(file).parent_path().native(); }

}  // namespace

// Lies in memory that SQLite provides, with the real file behind it.
struct ScriptedVfs::File {
  sqlite3_file base;
  ScriptedVfs* vfs;
  const char* name;     // none: a temporary file, which the script does not see
  bool names_its_self;  // its first sync also makes its name durable, as SQLite's own VFS does
  [[nodiscard]] sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  [[nodiscard]] const sqlite3_io_methods& methods() { return *real()->pMethods; }
};

ScriptedVfs::File& ScriptedVfs::of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }

ScriptedVfs::ScriptedVfs(DiskScript& script)
    : script_(script), name_(next_name()), real_(sqlite3_vfs_find(nullptr)), own_(*real_) {
  own_.zName = name_.c_str();
  own_.pAppData = this;
  own_.szOsFile = static_cast<int>(sizeof(File)) + real_->szOsFile;
  own_.xOpen = open;
  own_.xDelete = remove;
  sqlite3_vfs_register(&own_, 0);
}

ScriptedVfs::~ScriptedVfs() { sqlite3_vfs_unregister(&own_); }

void ScriptedVfs::tell_renames() {
  const std::lock_guard lock(mutex_);
  for (auto copy = copies_.begin(); copy != copies_.end();) {
    if (fs::exists(*copy)) {
      ++copy;
      continue;
    }
    const std::string to = copy->substr(0, copy->size() - std::string_view(".new").size());
    script_.after({.kind = Kind::rename, .file = to, .from = *copy});
    script_.after({.kind = Kind::sync_folder, .file = folder_of(to)});
    copy = copies_.erase(copy);
  }
}

int ScriptedVfs::open(sqlite3_vfs* vfs, const char* name, sqlite3_file* out, int flags, int* got) {
  auto& self = *static_cast<ScriptedVfs*>(vfs->pAppData);
  std::memset(out, 0, static_cast<std::size_t>(vfs->szOsFile));
  File& file = of(out);
  file.vfs = &self;
  file.name = name;
  self.tell_renames();
  const bool creates =
      name != nullptr && (flags & SQLITE_OPEN_CREATE) != 0 && !fs::exists(fs::path(name));
  const DiskOperation create{.kind = Kind::create, .file = name == nullptr ? "" : name};
  if (creates) {
    if (const int error = self.script_.before(create)) return failed(error, SQLITE_CANTOPEN);
  }
  const int code = self.real_->xOpen(self.real_, name, file.real(), flags, got);
  if (code != SQLITE_OK) return code;
  out->pMethods = &methods;
  if (!creates) return code;
  self.script_.after(create);
  file.names_its_self = (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0;
  if (create.file.ends_with(".new")) {
    const std::lock_guard lock(self.mutex_);
    self.copies_.insert(create.file);
  }
  return code;
}

int ScriptedVfs::remove(sqlite3_vfs* vfs, const char* name, int sync_folder) {
  auto& self = *static_cast<ScriptedVfs*>(vfs->pAppData);
  if (!fs::exists(fs::path(name))) return self.real_->xDelete(self.real_, name, sync_folder);
  const DiskOperation remove{.kind = Kind::remove, .file = name};
  if (self.script_.before(remove) != 0) return SQLITE_IOERR_DELETE;
  const int code = self.real_->xDelete(self.real_, name, 0);
  if (code != SQLITE_OK) return code;
  self.script_.after(remove);
  if (sync_folder == 0) return code;
  const DiskOperation sync{.kind = Kind::sync_folder, .file = folder_of(name)};
  if (self.script_.before(sync) != 0) return SQLITE_IOERR_DIR_FSYNC;
  self.script_.after(sync);
  return code;
}

int ScriptedVfs::write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 at) {
  File& f = of(file);
  if (f.name == nullptr) return f.methods().xWrite(f.real(), bytes, count, at);
  DiskScript& script = f.vfs->script_;
  DiskOperation write{.kind = Kind::write,
                      .file = f.name,
                      .offset = static_cast<std::uint64_t>(at),
                      .data = {static_cast<const char*>(bytes), static_cast<std::size_t>(count)}};
  const int error = script.before(write);
  if (error != 0) write.data = write.data.substr(0, script.written_of(write));
  int code = SQLITE_OK;
  if (!write.data.empty()) {
    code = f.methods().xWrite(f.real(), bytes, static_cast<int>(write.data.size()), at);
    if (code == SQLITE_OK) script.after(write);
  }
  return error != 0 ? failed(error, SQLITE_IOERR_WRITE) : code;
}

int ScriptedVfs::truncate(sqlite3_file* file, sqlite3_int64 size) {
  File& f = of(file);
  if (f.name == nullptr) return f.methods().xTruncate(f.real(), size);
  const DiskOperation truncate{
      .kind = Kind::truncate, .file = f.name, .offset = static_cast<std::uint64_t>(size)};
  if (f.vfs->script_.before(truncate) != 0) return SQLITE_IOERR_TRUNCATE;
  const int code = f.methods().xTruncate(f.real(), size);
  if (code == SQLITE_OK) f.vfs->script_.after(truncate);
  return code;
}

int ScriptedVfs::sync(sqlite3_file* file, int flags) {
  File& f = of(file);
  if (f.name == nullptr) return f.methods().xSync(f.real(), flags);
  const DiskOperation sync{.kind = Kind::sync, .file = f.name};
  if (f.vfs->script_.before(sync) != 0) return SQLITE_IOERR_FSYNC;
  const int code = f.methods().xSync(f.real(), flags);
  if (code != SQLITE_OK) return code;
  f.vfs->script_.after(sync);
  if (!f.names_its_self) return code;
  const DiskOperation folder{.kind = Kind::sync_folder, .file = folder_of(sync.file)};
  if (f.vfs->script_.before(folder) != 0) return SQLITE_IOERR_FSYNC;
  f.vfs->script_.after(folder);
  f.names_its_self = false;
  return code;
}

// clang-format off
const sqlite3_io_methods ScriptedVfs::methods = {
    .iVersion = 2,
    .xClose = [](sqlite3_file* f) { return of(f).methods().xClose(of(f).real()); },
    .xRead = [](sqlite3_file* f, void* out, int count, sqlite3_int64 at) {
      return of(f).methods().xRead(of(f).real(), out, count, at); },
    .xWrite = write,
    .xTruncate = truncate,
    .xSync = sync,
    .xFileSize = [](sqlite3_file* f, sqlite3_int64* size) {
      return of(f).methods().xFileSize(of(f).real(), size); },
    .xLock = [](sqlite3_file* f, int lock) { return of(f).methods().xLock(of(f).real(), lock); },
    .xUnlock = [](sqlite3_file* f, int lock) {
      return of(f).methods().xUnlock(of(f).real(), lock); },
    .xCheckReservedLock = [](sqlite3_file* f, int* out) {
      return of(f).methods().xCheckReservedLock(of(f).real(), out); },
    .xFileControl = [](sqlite3_file* f, int op, void* argument) {
      return of(f).methods().xFileControl(of(f).real(), op, argument); },
    .xSectorSize = [](sqlite3_file* f) { return of(f).methods().xSectorSize(of(f).real()); },
    .xDeviceCharacteristics = [](sqlite3_file* f) {
      return of(f).methods().xDeviceCharacteristics(of(f).real()); },
    .xShmMap = [](sqlite3_file* f, int page, int size, int extend, void volatile** out) {
      return of(f).methods().xShmMap(of(f).real(), page, size, extend, out); },
    .xShmLock = [](sqlite3_file* f, int offset, int n, int flags) {
      return of(f).methods().xShmLock(of(f).real(), offset, n, flags); },
    .xShmBarrier = [](sqlite3_file* f) { of(f).methods().xShmBarrier(of(f).real()); },
    .xShmUnmap = [](sqlite3_file* f, int remove) {
      return of(f).methods().xShmUnmap(of(f).real(), remove); },
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};
// clang-format on

}  // namespace strand::faults
