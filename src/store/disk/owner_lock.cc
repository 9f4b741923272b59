#include "store/disk/owner_lock.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <strand/time.h>

#include "base/text.h"

namespace strand::disk {

namespace {

// What people know a process by.
std::string own_name() {
  std::ifstream comm("/proc/self/comm");
  std::string name;
  std::getline(comm, name);
  return name.empty() ? "unknown" : name;
}

std::string describe_self() {
  const auto now = std::chrono::floor<Duration>(std::chrono::system_clock::now());
  return fmt::format("process {} ({}), since {}\n", ::getpid(), own_name(), format_time(now));
}

std::string read_holder(int fd) {
  std::array<char, 256> text{};
  const ssize_t count = ::pread(fd, text.data(), text.size(), 0);
  std::string holder(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  while (!holder.empty() && holder.back() == '\n')
    holder.pop_back();
  // Between its lock and its first line there is an instant in which a holder has no name yet.
  return holder.empty() ? "another process" : base::printable(holder);
}

}  // namespace

Result<OwnerLock> OwnerLock::take(const std::filesystem::path& file, std::string_view store) {
  OwnerLock lock(File(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)));
  if (lock.file_.fd() < 0) return std::unexpected(cannot("open the lock file", file, errno));
  if (::flock(lock.file_.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return std::unexpected(cannot("lock", file, errno));
    return failure(Errc::in_use,
                   fmt::format("{} is in use by {}; a store has one owner: stop that process, or "
                               "let it serve the store to others (strand serve)",
                               store, read_holder(lock.file_.fd())));
  }
  const std::string self = describe_self();
  if (::ftruncate(lock.file_.fd(), 0) != 0 ||
      ::pwrite(lock.file_.fd(), self.data(), self.size(), 0) != static_cast<ssize_t>(self.size())) {
    // The lock holds all the same; a full disk must not keep its owner out.
    static_cast<void>(::ftruncate(lock.file_.fd(), 0));
  }
  return lock;
}

}  // namespace strand::disk
