#include "cli/bench/baselines.h"

#include <array>
#include <cerrno>
#include <memory>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "store/disk/place.h"

namespace strand::cli {

namespace {

namespace fs = std::filesystem;

}  // namespace

Result<Counted> baseline_file(const fs::path& folder, const QueueBenchOptions& options,
                              Duration duration) {
  const fs::path path = folder / "file";
  const disk::File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (file.fd() < 0) return std::unexpected(disk::cannot("write", path, errno));
  const std::string batch(options.batch * options.size_bytes, 'x');
  return run_threads(options.producers, duration, [&](unsigned) -> Result<std::uint64_t> {
    const bool written =
        ::write(file.fd(), batch.data(), batch.size()) == static_cast<ssize_t>(batch.size());
    const bool synced = options.durability != Durability::sync || ::fdatasync(file.fd()) == 0;
    if (!written || !synced) return std::unexpected(disk::cannot("write", path, errno));
    return options.batch;
  });
}

Result<Counted> baseline_rocksdb(const fs::path& folder, const QueueBenchOptions& options,
                                 Duration duration) {
  ::rocksdb::Options settings;
  settings.create_if_missing = true;
  settings.write_buffer_size = std::size_t{128} << 20U;
  settings.compression = ::rocksdb::kNoCompression;
  ::rocksdb::DB* opened = nullptr;
  const auto status = ::rocksdb::DB::Open(settings, (folder / "rocksdb").native(), &opened);
  if (!status.ok()) {
    return failure(Errc::io_error, fmt::format("raw RocksDB: {}", status.ToString()));
  }
  const std::unique_ptr<::rocksdb::DB> db(opened);
  const std::string value(options.size_bytes, 'x');
  ::rocksdb::WriteOptions writing;
  writing.sync = options.durability == Durability::sync;
  std::atomic<std::uint64_t> next = 0;
  return run_threads(options.producers, duration, [&](unsigned) -> Result<std::uint64_t> {
    ::rocksdb::WriteBatch batch;
    std::uint64_t number = next.fetch_add(options.batch);
    for (std::size_t i = 0; i < options.batch; ++i, ++number) {
      std::array<char, 8> key{};
      for (std::size_t byte = 0; byte < key.size(); ++byte) {
        key[byte] = static_cast<char>(number >> (56 - 8 * byte));
      }
      static_cast<void>(batch.Put({key.data(), key.size()}, value).ok());
    }
    const auto written = db->Write(writing, &batch);
    if (!written.ok()) {
      return failure(Errc::io_error, fmt::format("raw RocksDB: {}", written.ToString()));
    }
    return options.batch;
  });
}

std::string filesystem_of(const fs::path& path) {
  struct statfs found = {};
  if (::statfs(path.c_str(), &found) != 0) return "unknown";
  switch (static_cast<unsigned long>(found.f_type)) {
    case EXT4_SUPER_MAGIC:
      return "ext4";
    case XFS_SUPER_MAGIC:
      return "xfs";
    case BTRFS_SUPER_MAGIC:
      return "btrfs";
    case TMPFS_MAGIC:
      return "tmpfs";
    case RAMFS_MAGIC:
      return "ramfs";
    case OVERLAYFS_SUPER_MAGIC:
      return "overlay";
    case NFS_SUPER_MAGIC:
      return "nfs";
    case F2FS_SUPER_MAGIC:
      return "f2fs";
    case FUSE_SUPER_MAGIC:
      return "fuse";
    default:
      return fmt::format("{:#x}", static_cast<unsigned long>(found.f_type));
  }
}

bool is_memory(std::string_view filesystem) {
  return filesystem == "tmpfs" || filesystem == "ramfs";
}

}  // namespace strand::cli
