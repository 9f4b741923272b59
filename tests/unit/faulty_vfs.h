#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <sqlite3.h>

namespace strand {

// A VFS of SQLite that does what the system's own does, writes down the writes and syncs, and fails
// where it is told to. Registered while it lives; reach it by name().
//
// Threads: none; for tests that write from one thread, and read from none meanwhile.
class FaultyVfs {
 public:
  FaultyVfs() {
    own_ = *real_;
    own_.zName = name_.c_str();
    own_.pAppData = this;
    own_.szOsFile = static_cast<int>(sizeof(File)) + real_->szOsFile;
    own_.xOpen = open;
    sqlite3_vfs_register(&own_, 0);
  }
  FaultyVfs(const FaultyVfs&) = delete;
  FaultyVfs& operator=(const FaultyVfs&) = delete;
  ~FaultyVfs() { sqlite3_vfs_unregister(&own_); }

  [[nodiscard]] const std::string& name() const { return name_; }

  // "write" or "sync", and the end of the file's name: "store", "store-wal".
  struct Event {
    std::string what;
    std::string file;
  };
  std::vector<Event> events;
  // The result that an event has instead of being done; SQLITE_OK lets it be done.
  std::function<int(const Event&)> fault;

 private:
  struct File {
    sqlite3_file base;
    FaultyVfs* vfs;
    const char* name;
    [[nodiscard]] sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
    [[nodiscard]] const sqlite3_io_methods& methods() { return *real()->pMethods; }
  };
  static File& of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }

  int happens(std::string_view what, const char* file) {
    const std::string_view path = file == nullptr ? "" : file;
    Event event{std::string(what), std::string(path.substr(path.find_last_of('/') + 1))};
    const int code = fault ? fault(event) : SQLITE_OK;
    events.push_back(std::move(event));
    return code;
  }

  static int open(sqlite3_vfs* vfs, const char* name, sqlite3_file* out, int flags, int* got) {
    auto* const self = static_cast<FaultyVfs*>(vfs->pAppData);
    File& file = of(out);
    std::memset(out, 0, static_cast<std::size_t>(vfs->szOsFile));
    file.vfs = self;
    file.name = name;
    const int code = self->real_->xOpen(self->real_, name, file.real(), flags, got);
    if (code == SQLITE_OK) out->pMethods = &methods;
    return code;
  }
  static int write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 at) {
    File& f = of(file);
    const int code = f.vfs->happens("write", f.name);
    return code != SQLITE_OK ? code : f.methods().xWrite(f.real(), bytes, count, at);
  }
  static int sync(sqlite3_file* file, int flags) {
    File& f = of(file);
    const int code = f.vfs->happens("sync", f.name);
    return code != SQLITE_OK ? code : f.methods().xSync(f.real(), flags);
  }

  // clang-format off
  static constexpr sqlite3_io_methods methods = {
      .iVersion = 2,
      .xClose = [](sqlite3_file* f) { return of(f).methods().xClose(of(f).real()); },
      .xRead = [](sqlite3_file* f, void* out, int count, sqlite3_int64 at) {
        return of(f).methods().xRead(of(f).real(), out, count, at); },
      .xWrite = write,
      .xTruncate = [](sqlite3_file* f, sqlite3_int64 size) {
        return of(f).methods().xTruncate(of(f).real(), size); },
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

  const std::string name_ = "strand-faulty";
  sqlite3_vfs* real_ = sqlite3_vfs_find(nullptr);
  sqlite3_vfs own_{};
};

}  // namespace strand
