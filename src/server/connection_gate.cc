#include "server/connection_gate.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/planted.h"

namespace strand::server {

namespace {

constexpr int backlog = 4096;
constexpr auto look_every = std::chrono::milliseconds{50};
constexpr int pause_ms = 20;

std::optional<ino_t> inode_of(int descriptor) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) return std::nullopt;
  return status.st_ino;
}

std::string error_text() {
  std::array<char, 128> text{};
  return ::strerror_r(errno, text.data(), text.size());
}

Result<int> listen_at(const addrinfo& address) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return failure(Errc::io_error, error_text());
  const int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(fd, address.ai_addr, address.ai_addrlen) == 0 && ::listen(fd, backlog) == 0) return fd;
  auto error = failure(Errc::in_use, error_text());
  ::close(fd);
  return error;
}

std::uint16_t port_of(int listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

ConnectionGate::ConnectionGate(int listener, std::uint16_t port, std::size_t connections_max)
    : listener_(listener),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      port_(port),
      connections_max_(connections_max) {}

ConnectionGate::~ConnectionGate() {
  close();
  if (listener_ >= 0) ::close(listener_);
  ::close(wake_);
}

Result<std::unique_ptr<ConnectionGate>> ConnectionGate::listen(const Options& options) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(options.port);
  if (const int wrong = ::getaddrinfo(options.host.c_str(), port.c_str(), &hints, &found);
      wrong != 0) {
    return failure(Errc::invalid_argument,
                   fmt::format("cannot listen at {}: {}", options.host, ::gai_strerror(wrong)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  const auto listener = listen_at(*addresses);
  if (!listener) {
    return failure(listener.error().code,
                   fmt::format("cannot listen at {}:{}: {}; is another server running there? Name "
                               "another address with --grpc",
                               options.host, options.port, listener.error().message));
  }
  return std::unique_ptr<ConnectionGate>(
      new ConnectionGate(*listener, port_of(*listener), options.connections_max));
}

void ConnectionGate::open(Enter enter) {
  thread_ = std::thread([this, enter = std::move(enter)] { run(enter); });
}

void ConnectionGate::close() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  std::ignore = ::write(wake_, &one, sizeof one);
  thread_.join();
  // Who knocks from now on is told so, instead of waiting.
  ::close(std::exchange(listener_, -1));
}

void ConnectionGate::run(const Enter& enter) {
  std::array<pollfd, 2> polls = {{{wake_, POLLIN, 0}, {listener_, POLLIN, 0}}};
  while (true) {
    if (::poll(polls.data(), polls.size(), -1) < 0 && errno != EINTR) return;
    if (polls[0].revents != 0) return;
    const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor >= 0) {
      admit(descriptor, enter);
    } else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
      // Out of descriptors: those who knock wait, and others may go.
      ::poll(polls.data(), 1, pause_ms);
    }
  }
}

void ConnectionGate::admit(int descriptor, const Enter& enter) {
  // A descriptor that comes again was closed in between.
  connections_.erase(descriptor);
  if (connections_max_ > 0 && connections_.size() >= connections_max_ &&
      !STRAND_PLANTED("any-number-of-connections")) {
    forget_closed();
    if (connections_.size() >= connections_max_) {
      ++refused_;
      ::close(descriptor);
      return;
    }
  }
  if (connections_max_ > 0) {
    if (const auto inode = inode_of(descriptor)) connections_.emplace(descriptor, *inode);
  }
  const int yes = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  enter(descriptor);
}

void ConnectionGate::forget_closed() {
  const auto now = std::chrono::steady_clock::now();
  if (now < looked_at_ + look_every) return;
  looked_at_ = now;
  std::erase_if(connections_, [](const auto& connection) {
    return inode_of(connection.first) != connection.second;
  });
}

}  // namespace strand::server
