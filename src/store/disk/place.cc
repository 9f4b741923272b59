#include "store/disk/place.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/text.h"

namespace strand::disk {

namespace {

namespace fs = std::filesystem;

std::string_view advice(int error_number) {
  switch (error_number) {
    case EACCES:
    case EPERM:
      return "; check who owns it, and its permissions";
    case EROFS:
      return "; its file system is mounted read-only";
    case ENOSPC:
    case EDQUOT:
      return "; make room";
    case ENOENT:
      return "; make the folder that it lies in, or correct the path";
    case EMFILE:
    case ENFILE:
      return "; raise the limit of open files";
    default:
      return "";
  }
}

Errc code_of(int error_number) {
  switch (error_number) {
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOTDIR:
    case EISDIR:
    case ENOENT:
    case ENAMETOOLONG:
      return Errc::invalid_argument;
    case ENOSPC:
    case EDQUOT:
      return Errc::store_full;
    default:
      return Errc::io_error;
  }
}

bool write_whole(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = ::write(fd, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Error cannot(std::string_view verb, const fs::path& path, int error_number) {
  return {code_of(error_number),
          fmt::format("cannot {} {}: {}{}", verb, base::printable(path.native()),
                      std::generic_category().message(error_number), advice(error_number))};
}

Result<void> prepare_folder(const fs::path& path, bool create) {
  std::error_code error;
  const fs::file_status found = fs::status(path, error);
  if (found.type() == fs::file_type::not_found) {
    if (!create) {
      return failure(Errc::not_found,
                     fmt::format("there is no store at {}", base::printable(path.native())));
    }
    fs::create_directories(path, error);
    if (error) return std::unexpected(cannot("make the folder", path, error.value()));
    // So that the folder itself survives power loss, as what is in it will.
    return sync_folder(fs::absolute(path).parent_path());
  }
  if (error) return std::unexpected(cannot("look at", path, error.value()));
  if (found.type() != fs::file_type::directory) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} is a file, and the store is a folder; name another path",
                               base::printable(path.native())));
  }
  if (::access(path.c_str(), R_OK | W_OK | X_OK) != 0) {
    return std::unexpected(cannot("write to the folder", path, errno));
  }
  return {};
}

Result<void> write_durably(const fs::path& file, std::string_view content) {
  fs::path unfinished = file;
  unfinished += ".new";
  {
    const File out(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (out.fd() < 0) return std::unexpected(cannot("write", unfinished, errno));
    if (!write_whole(out.fd(), content) || ::fdatasync(out.fd()) != 0) {
      return std::unexpected(cannot("write", unfinished, errno));
    }
  }
  if (::rename(unfinished.c_str(), file.c_str()) != 0) {
    return std::unexpected(cannot("rename to", file, errno));
  }
  return sync_folder(file.parent_path());
}

Result<void> sync_folder(const fs::path& folder) {
  const File opened(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.fd() < 0) return std::unexpected(cannot("open the folder", folder, errno));
  if (::fsync(opened.fd()) != 0) return std::unexpected(cannot("sync the folder", folder, errno));
  return {};
}

}  // namespace strand::disk
