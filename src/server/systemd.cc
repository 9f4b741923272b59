#include "server/systemd.h"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "store/disk/place.h"

namespace strand::server {

Result<void> notify(std::string_view state) {
  const char* const name = std::getenv("NOTIFY_SOCKET");  // NOLINT(concurrency-mt-unsafe)
  if (name == nullptr || *name == '\0') return {};
  const std::string_view path = name;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if ((path.front() != '/' && path.front() != '@') || path.size() >= sizeof address.sun_path) {
    return failure(Errc::unsupported,
                   fmt::format("NOTIFY_SOCKET is {}, which is no socket that can be used", path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  // An abstract socket: its name begins with a zero byte, and has no end but its length.
  if (path.front() == '@') address.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const disk::File socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return std::unexpected(disk::cannot("use", name, errno));
  ssize_t sent = 0;
  do {
    sent = ::sendto(socket.fd(), state.data(), state.size(), MSG_NOSIGNAL,
                    reinterpret_cast<const sockaddr*>(&address), length);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return std::unexpected(disk::cannot("write to", name, errno));
  return {};
}

Result<void> notify_reloading() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return notify(fmt::format("RELOADING=1\nMONOTONIC_USEC={}{:06}", now.tv_sec, now.tv_nsec / 1000));
}

}  // namespace strand::server
