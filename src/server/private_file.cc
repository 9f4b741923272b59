#include "server/private_file.h"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/planted.h"
#include "base/text.h"
#include "store/disk/place.h"

namespace strand::server {

namespace {

using disk::cannot;
using disk::File;
using std::filesystem::path;

constexpr std::size_t file_bytes_max = std::size_t{16} << 20U;

Result<void> check_private(const File& opened, const path& file) {
  struct stat status{};
  if (::fstat(opened.fd(), &status) != 0) return std::unexpected(cannot("look at", file, errno));
  const std::string name = base::printable(file.string());
  if (!S_ISREG(status.st_mode)) {
    return failure(Errc::invalid_argument, fmt::format("{} is no regular file", name));
  }
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
    return failure(Errc::forbidden,
                   fmt::format("{} belongs to another user, who could change it; make it yours: "
                               "chown {} {}",
                               name, ::geteuid(), name));
  }
  const mode_t others = STRAND_PLANTED("group-may-read-tokens") ? 007 : 077;
  if ((status.st_mode & others) != 0) {
    return failure(Errc::forbidden, fmt::format("{} may be used by others than its owner, and it "
                                                "has secrets in it; chmod 600 {}",
                                                name, name));
  }
  if (status.st_size > static_cast<off_t>(file_bytes_max)) {
    return failure(Errc::limit_exceeded, fmt::format("{} has more than 16 MiB", name));
  }
  return {};
}

Result<std::string> read_all(const File& opened, const path& file) {
  std::string text;
  char buffer[8192];
  while (text.size() <= file_bytes_max) {
    const ssize_t count = ::read(opened.fd(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::unexpected(cannot("read", file, errno));
    if (count == 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
  }
  return text;
}

Result<void> write_all(const File& opened, std::string_view text, const path& file) {
  while (!text.empty()) {
    const ssize_t count = ::write(opened.fd(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::unexpected(cannot("write", file, errno));
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  if (::fsync(opened.fd()) != 0) return std::unexpected(cannot("sync", file, errno));
  return {};
}

}  // namespace

Result<std::string> read_private(const path& file) {
  // Without blocking: a pipe of that name would wait for somebody to write into it.
  const File opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (opened.fd() < 0) return std::unexpected(cannot("open", file, errno));
  if (auto checked = check_private(opened, file); !checked) {
    return std::unexpected(checked.error());
  }
  return read_all(opened, file);
}

Result<void> append_private(const path& file,
                            const std::function<Result<std::string>(std::string_view)>& add) {
  const File opened(
      ::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600));
  if (opened.fd() < 0) return std::unexpected(cannot("open", file, errno));
  if (auto checked = check_private(opened, file); !checked) return checked;
  if (::flock(opened.fd(), LOCK_EX) != 0) return std::unexpected(cannot("lock", file, errno));
  const auto before = read_all(opened, file);
  if (!before) return std::unexpected(before.error());
  const auto added = add(*before);
  if (!added) return std::unexpected(added.error());
  return write_all(opened, *added, file);
}

}  // namespace strand::server
