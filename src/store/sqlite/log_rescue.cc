#include "store/sqlite/log_rescue.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "store/disk/place.h"

namespace strand::sqlite {

namespace {

namespace fs = std::filesystem;

// Locks the database file as SQLite does for exclusive use, until destruction. Whoever has the
// database open in WAL mode holds a lock on one of these bytes.
class SoleUse {
 public:
  static Result<SoleUse> take(const fs::path& path) {
    SoleUse use(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (use.fd_ < 0) return std::unexpected(disk::cannot("open", path, errno));
    struct flock lock = lock_bytes();
    if (::fcntl(use.fd_, F_OFD_SETLK, &lock) == 0) return use;
    if (errno != EAGAIN && errno != EACCES)
      return std::unexpected(disk::cannot("lock", path, errno));
    lock = lock_bytes();
    const bool known =
        ::fcntl(use.fd_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0;
    return failure(Errc::in_use,
                   fmt::format("{} was not closed in order, and cannot be brought in order while "
                               "{} has it open too: close that program, then open the store again",
                               base::printable(path.native()),
                               known ? fmt::format("process {}", lock.l_pid) : "another program"));
  }
  SoleUse(SoleUse&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  SoleUse& operator=(SoleUse&&) = delete;
  SoleUse(const SoleUse&) = delete;
  SoleUse& operator=(const SoleUse&) = delete;
  ~SoleUse() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  explicit SoleUse(int fd) : fd_(fd) {}

  // PENDING_BYTE and the 511 bytes behind it: "File Locking And Concurrency" in SQLite's manual.
  static struct flock lock_bytes() {
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = 0x40000000;
    lock.l_len = 512;
    return lock;
  }

  int fd_;
};

// A file that is reached through a VFS, as SQLite itself does: what tests do to a VFS happens here
// too.
class VfsFile {
 public:
  VfsFile(const Place& place, const fs::path& path)
      : path_(path),
        vfs_(sqlite3_vfs_find(place.vfs.empty() ? nullptr : place.vfs.c_str())),
        name_(sqlite3_create_filename(place.path.c_str(), "", path.c_str(), 0, nullptr)) {}
  VfsFile(const VfsFile&) = delete;
  VfsFile& operator=(const VfsFile&) = delete;
  ~VfsFile() {
    if (file() != nullptr && file()->pMethods != nullptr) file()->pMethods->xClose(file());
    sqlite3_free_filename(name_);
  }

  Result<void> open(int flags) {
    if (vfs_ == nullptr || name_ == nullptr) return refused(SQLITE_CANTOPEN);
    memory_.resize((static_cast<std::size_t>(vfs_->szOsFile) / sizeof(std::max_align_t)) + 1);
    return check(
        vfs_->xOpen(vfs_, sqlite3_filename_wal(name_), file(), flags | SQLITE_OPEN_WAL, nullptr));
  }
  Result<std::int64_t> size() {
    sqlite3_int64 bytes = 0;
    if (auto done = check(file()->pMethods->xFileSize(file(), &bytes)); !done) {
      return std::unexpected(std::move(done).error());
    }
    return bytes;
  }
  Result<void> read(std::string& out, std::int64_t at) {
    return check(file()->pMethods->xRead(file(), out.data(), static_cast<int>(out.size()), at));
  }
  Result<void> write(const std::string& bytes, std::int64_t at) {
    return check(
        file()->pMethods->xWrite(file(), bytes.data(), static_cast<int>(bytes.size()), at));
  }
  Result<void> truncate() { return check(file()->pMethods->xTruncate(file(), 0)); }
  Result<void> sync() { return check(file()->pMethods->xSync(file(), SQLITE_SYNC_NORMAL)); }

 private:
  sqlite3_file* file() {
    return memory_.empty() ? nullptr : reinterpret_cast<sqlite3_file*>(memory_.data());
  }
  Result<void> check(int code) {
    if (code != SQLITE_OK) return refused(code);
    return {};
  }
  Result<void> refused(int code) const {
    return std::unexpected(sqlite_error(path_, code, errno, sqlite3_errstr(code)));
  }

  fs::path path_;
  sqlite3_vfs* vfs_;
  const char* name_;
  std::vector<std::max_align_t> memory_;
};

Result<void> copy_durably(const Place& place, const fs::path& from, const fs::path& to) {
  // The largest page that SQLite has; its VFS takes no more than twice that at once.
  constexpr std::int64_t chunk_bytes = 65536;
  VfsFile in(place, from);
  VfsFile out(place, to);
  if (auto opened = in.open(SQLITE_OPEN_READWRITE); !opened) return opened;
  if (auto opened = out.open(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE); !opened) return opened;
  // One that was begun and not finished may lie there.
  if (auto emptied = out.truncate(); !emptied) return emptied;
  const auto size = in.size();
  if (!size) return std::unexpected(size.error());
  std::string chunk;
  for (std::int64_t at = 0; at < *size; at += chunk_bytes) {
    chunk.resize(static_cast<std::size_t>(std::min(chunk_bytes, *size - at)));
    if (auto done = in.read(chunk, at); !done) return done;
    if (auto done = out.write(chunk, at); !done) return done;
  }
  return out.sync();
}

}  // namespace

bool has_log(const Place& place) {
  const auto holds_something = [](const fs::path& path) {
    struct stat found = {};
    return ::stat(path.c_str(), &found) == 0 && found.st_size > 0;
  };
  // Without its database a log is of no use, and SQLite removes it.
  return holds_something(place.path) && holds_something(place.log());
}

Result<void> rescue_log(const Place& place) {
  const auto sole_use = SoleUse::take(place.path);
  if (!sole_use) return std::unexpected(sole_use.error());
  const fs::path log = place.log();
  const fs::path copy = place.beside("-wal.new");
  if (auto copied = copy_durably(place, log, copy); !copied) return copied;
  if (::rename(copy.c_str(), log.c_str()) != 0) {
    return std::unexpected(disk::cannot("rename to", log, errno));
  }
  return disk::sync_folder(log.parent_path());
}

}  // namespace strand::sqlite
