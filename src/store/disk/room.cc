#include "store/disk/room.h"

#include <sys/statvfs.h>

namespace strand::disk {

std::optional<std::uint64_t> free_bytes(const std::filesystem::path& path) {
  struct statvfs found = {};
  if (::statvfs(path.c_str(), &found) != 0) return std::nullopt;
  return std::uint64_t{found.f_bavail} * found.f_frsize;
}

}  // namespace strand::disk
