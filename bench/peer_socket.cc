#include "peer_socket.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "child.h"

namespace strand::bench {

namespace {

constexpr std::size_t buffer_bytes = 262'144;

// -1 if nobody listens there.
int connected_socket(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

PeerSocket::PeerSocket(std::string peer, int port)
    : peer_(std::move(peer)), fd_(connected_socket(port)), buffer_(buffer_bytes, '\0') {
  if (fd_ < 0) give_up(fmt::format("cannot connect to {}: {}", peer_, std::strerror(errno)));
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const timeval limit{.tv_sec = 60, .tv_usec = 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

PeerSocket::~PeerSocket() { ::close(fd_); }

void PeerSocket::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) give_up(fmt::format("writing to {}: {}", peer_, std::strerror(errno)));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void PeerSocket::fill() {
  if (begin_ == end_) begin_ = end_ = 0;
  if (end_ == buffer_.size()) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    if (end_ == buffer_.size()) give_up(fmt::format("{} answers with too much", peer_));
  }
  const ssize_t got = ::recv(fd_, buffer_.data() + end_, buffer_.size() - end_, 0);
  if (got < 0 && errno == EINTR) return;
  if (got < 0) give_up(fmt::format("reading from {}: {}", peer_, std::strerror(errno)));
  if (got == 0) give_up(fmt::format("{} closed a connection", peer_));
  end_ += static_cast<std::size_t>(got);
}

std::string_view PeerSocket::read(std::size_t count) {
  while (!buffered(count))
    fill();
  return std::string_view(buffer_).substr(std::exchange(begin_, begin_ + count), count);
}

std::string_view PeerSocket::read_line() {
  for (std::size_t searched = 0;;) {
    const std::string_view waiting(buffer_.data() + begin_, end_ - begin_);
    const std::size_t end = waiting.find("\r\n", searched);
    if (end != std::string_view::npos) {
      begin_ += end + 2;
      return waiting.substr(0, end);
    }
    // The CR may have come without its LF.
    searched = waiting.empty() ? 0 : waiting.size() - 1;
    fill();
  }
}

bool PeerSocket::readable(int wait_ms) {
  if (end_ > begin_) return true;
  pollfd poll{.fd = fd_, .events = POLLIN, .revents = 0};
  return ::poll(&poll, 1, wait_ms) > 0;
}

bool listens(int port) {
  const int fd = connected_socket(port);
  if (fd < 0) return false;
  ::close(fd);
  return true;
}

std::string program_of_package(const std::string& program, const std::string& package) {
  for (const char* folder :
       {"/usr/lib/rabbitmq/bin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/"}) {
    if (::access((folder + program).c_str(), X_OK) == 0) return folder + program;
  }
  give_up(fmt::format("there is no {}; install the Debian package {}", program, package));
}

}  // namespace strand::bench
