#include "store/sqlite/page_checksums.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "base/assert.h"
#include "store/sqlite/schema.h"

namespace strand::sqlite {

namespace {

// "The Database Header" in SQLite's manual.
constexpr std::string_view magic{"SQLite format 3\0", 16};
constexpr std::size_t reserved_at = 20;
constexpr std::size_t application_at = 68;
constexpr int header_bytes = 100;
constexpr int page_bytes_min = 512;

bool is_page(int count) { return count >= page_bytes_min && (count & (count - 1)) == 0; }

bool of_a_store(std::string_view header) {
  std::uint32_t application = 0;
  for (std::size_t i = 0; i < 4; ++i)
    application = (application << 8U) | static_cast<unsigned char>(header[application_at + i]);
  return header.starts_with(magic) && header[reserved_at] == PageChecksums::reserved_bytes &&
         application == application_id;
}

// Where a page belongs is part of it, so that one in the wrong place is found too. Never zero,
// which stands for no checksum.
std::uint64_t checksum_of(const char* page, std::size_t size, sqlite3_int64 at) {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15U;
  const std::uint64_t sum = XXH3_64bits(page, size) + (static_cast<std::uint64_t>(at) * odd);
  return sum == 0 ? 1 : sum;
}

std::string next_name() {
  static std::atomic<std::uint64_t> count{0};
  return fmt::format("strand-checksums-{}", ++count);
}

}  // namespace

// Lies in memory that SQLite provides, with the file below behind it.
struct PageChecksums::File {
  sqlite3_file base;
  bool checked;  // its header says that its pages have checksums
  [[nodiscard]] sqlite3_file* below() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  [[nodiscard]] const sqlite3_io_methods& methods() { return *below()->pMethods; }
};

PageChecksums::File& PageChecksums::of(sqlite3_file* file) {
  return *reinterpret_cast<File*>(file);
}

PageChecksums::PageChecksums(const std::string& below)
    : name_(next_name()),
      below_(sqlite3_vfs_find(below.empty() ? nullptr : below.c_str())),
      own_() {
  STRAND_ASSERT(below_ != nullptr, "the VFS of a store is registered");
  own_ = *below_;
  own_.zName = name_.c_str();
  own_.pNext = nullptr;
  own_.szOsFile = static_cast<int>(sizeof(File)) + below_->szOsFile;
  own_.pAppData = below_;
  own_.xOpen = open;
  // The others look at their VFS too.
  own_.xDelete = [](sqlite3_vfs* vfs, const char* name, int sync) {
    auto* const to = static_cast<sqlite3_vfs*>(vfs->pAppData);
    return to->xDelete(to, name, sync);
  };
  own_.xAccess = [](sqlite3_vfs* vfs, const char* name, int flags, int* out) {
    auto* const to = static_cast<sqlite3_vfs*>(vfs->pAppData);
    return to->xAccess(to, name, flags, out);
  };
  own_.xFullPathname = [](sqlite3_vfs* vfs, const char* name, int count, char* out) {
    auto* const to = static_cast<sqlite3_vfs*>(vfs->pAppData);
    return to->xFullPathname(to, name, count, out);
  };
  sqlite3_vfs_register(&own_, 0);
}

PageChecksums::~PageChecksums() { sqlite3_vfs_unregister(&own_); }

int PageChecksums::open(sqlite3_vfs* vfs, const char* name, sqlite3_file* out, int flags,
                        int* got) {
  auto* const below = static_cast<sqlite3_vfs*>(vfs->pAppData);
  if ((flags & SQLITE_OPEN_MAIN_DB) == 0) return below->xOpen(below, name, out, flags, got);
  std::memset(out, 0, static_cast<std::size_t>(vfs->szOsFile));
  const int code = below->xOpen(below, name, of(out).below(), flags, got);
  // A file that failed to open may still want to be closed.
  if (of(out).below()->pMethods != nullptr) out->pMethods = &methods;
  return code;
}

int PageChecksums::read(sqlite3_file* file, void* out, int count, sqlite3_int64 at) {
  File& f = of(file);
  const int code = f.methods().xRead(f.below(), out, count, at);
  if (code != SQLITE_OK) return code;
  char* const page = static_cast<char*>(out);
  if (at == 0 && count >= header_bytes) f.checked = of_a_store({page, header_bytes});
  if (!f.checked || !is_page(count) || at % count != 0) return code;
  const auto size = static_cast<std::size_t>(count - reserved_bytes);
  std::uint64_t stored = 0;
  std::memcpy(&stored, page + size, sizeof stored);
  if (stored == 0) return code;
  if (stored != checksum_of(page, size, at)) return SQLITE_IOERR_DATA;
  std::memset(page + size, 0, reserved_bytes);
  return code;
}

int PageChecksums::write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 at) {
  File& f = of(file);
  const auto* const page = static_cast<const char*>(bytes);
  if (at == 0 && count >= header_bytes) f.checked = of_a_store({page, header_bytes});
  if (!f.checked || !is_page(count) || at % count != 0) {
    return f.methods().xWrite(f.below(), bytes, count, at);
  }
  // What SQLite holds stays as it is: its log has checksums over it.
  thread_local std::vector<char> copy;
  const auto size = static_cast<std::size_t>(count - reserved_bytes);
  copy.assign(page, page + count);
  const std::uint64_t sum = checksum_of(page, size, at);
  std::memcpy(copy.data() + size, &sum, sizeof sum);
  return f.methods().xWrite(f.below(), copy.data(), count, at);
}

// clang-format off
const sqlite3_io_methods PageChecksums::methods = {
    .iVersion = 2,  // no mmap, which would go past read()
    .xClose = [](sqlite3_file* f) { return of(f).methods().xClose(of(f).below()); },
    .xRead = read,
    .xWrite = write,
    .xTruncate = [](sqlite3_file* f, sqlite3_int64 size) {
      return of(f).methods().xTruncate(of(f).below(), size); },
    .xSync = [](sqlite3_file* f, int flags) { return of(f).methods().xSync(of(f).below(), flags); },
    .xFileSize = [](sqlite3_file* f, sqlite3_int64* size) {
      return of(f).methods().xFileSize(of(f).below(), size); },
    .xLock = [](sqlite3_file* f, int lock) { return of(f).methods().xLock(of(f).below(), lock); },
    .xUnlock = [](sqlite3_file* f, int lock) {
      return of(f).methods().xUnlock(of(f).below(), lock); },
    .xCheckReservedLock = [](sqlite3_file* f, int* out) {
      return of(f).methods().xCheckReservedLock(of(f).below(), out); },
    .xFileControl = [](sqlite3_file* f, int op, void* argument) {
      return of(f).methods().xFileControl(of(f).below(), op, argument); },
    .xSectorSize = [](sqlite3_file* f) { return of(f).methods().xSectorSize(of(f).below()); },
    .xDeviceCharacteristics = [](sqlite3_file* f) {
      return of(f).methods().xDeviceCharacteristics(of(f).below()); },
    .xShmMap = [](sqlite3_file* f, int page, int size, int extend, void volatile** out) {
      return of(f).methods().xShmMap(of(f).below(), page, size, extend, out); },
    .xShmLock = [](sqlite3_file* f, int offset, int n, int flags) {
      return of(f).methods().xShmLock(of(f).below(), offset, n, flags); },
    .xShmBarrier = [](sqlite3_file* f) { of(f).methods().xShmBarrier(of(f).below()); },
    .xShmUnmap = [](sqlite3_file* f, int remove) {
      return of(f).methods().xShmUnmap(of(f).below(), remove); },
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};
// clang-format on

}  // namespace strand::sqlite
