#include "server/fault_proxy.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <list>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace strand::server {

namespace {

using Steady = std::chrono::steady_clock;
constexpr std::size_t buffer_max = std::size_t{1} << 20U;
constexpr std::size_t throttled_bytes = 1024;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {
    if (fd_ < 0) throw std::runtime_error("the proxy cannot open a socket");
    ::fcntl(fd_, F_SETFL, O_NONBLOCK);  // NOLINT(cppcoreguidelines-pro-type-vararg)
    const int yes = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// One way of a conversation.
struct Way {
  std::string waiting;  // read, and not passed on yet
  Steady::time_point not_before{};
  bool source_ended = false;
  bool told_target = false;  // that the source has ended
  bool half_closed = false;
};

struct Conversation {
  Socket client;
  Socket server;
  Way up;    // from the client to the server
  Way down;  // and back
  bool throttled = false;
  bool over = false;
};

}  // namespace

class FaultProxy::Loop {
 public:
  Loop(FaultProxy& proxy, int listener, std::uint64_t seed, Faults faults)
      : proxy_(proxy), listener_(listener), random_(seed), faults_(faults) {}

  void run() {
    while (true) {
      std::vector<pollfd> polls = {{proxy_.wake_[0], POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
      int timeout = -1;
      const auto now = Steady::now();
      for (const Conversation& one : all_) {
        polls.push_back({one.client.fd(), events(one.up, one.down, now), 0});
        polls.push_back({one.server.fd(), events(one.down, one.up, now), 0});
        for (const Way* way : {&one.up, &one.down}) {
          if (!way->waiting.empty() && way->not_before > now) timeout = 1;
        }
      }
      ::poll(polls.data(), polls.size(), timeout);
      if (polls[0].revents != 0) return;
      std::size_t i = 2;
      for (Conversation& one : all_) {
        const short client = polls[i++].revents;
        const short server = polls[i++].revents;
        if (((client | server) & (POLLERR | POLLNVAL)) != 0) one.over = true;
        read(one, one.client, one.up, true, client);
        read(one, one.server, one.down, false, server);
        pass_on(one, one.server, one.up);
        pass_on(one, one.client, one.down);
        if (one.up.told_target && one.down.told_target) one.over = true;
      }
      all_.remove_if([](const Conversation& one) { return one.over; });
      if (polls[1].revents != 0) accept();
    }
  }

 private:
  static short events(const Way& in, const Way& out, Steady::time_point now) {
    int wanted = 0;
    if (!in.source_ended && in.waiting.size() < buffer_max) wanted |= POLLIN;
    if (!out.waiting.empty() && out.not_before <= now) wanted |= POLLOUT;
    return static_cast<short>(wanted);
  }

  bool happens(std::uint32_t one_in) {
    if (one_in == 0 || random_() % one_in != 0) return false;
    ++proxy_.count_;
    return true;
  }

  void accept() {
    const int fd = ::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    Socket client(fd);
    Socket server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(proxy_.server_port_);
    ::connect(server.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    all_.push_back({std::move(client), std::move(server), {}, {}});
  }

  void read(Conversation& one, const Socket& source, Way& way, bool upwards, short revents) {
    if ((revents & (POLLIN | POLLHUP)) == 0 || one.over || way.source_ended) return;
    std::array<char, 16384> piece{};
    const ssize_t got = ::recv(source.fd(), piece.data(), piece.size(), 0);
    if (got < 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK) one.over = true;
      return;
    }
    if (got == 0) {
      way.source_ended = true;
      return;
    }
    // What is large comes in a thousand pieces: if each of them could be its end, it would never
    // come through.
    const bool large = static_cast<std::size_t>(got) == piece.size();
    if (!large && ((!upwards && happens(faults_.lose_answer)) || happens(faults_.cut))) {
      one.over = true;
      return;
    }
    if (upwards && happens(faults_.half_close)) way.half_closed = true;
    if (way.half_closed) return;
    const std::string_view text(piece.data(), static_cast<std::size_t>(got));
    way.waiting += text;
    if (happens(faults_.duplicate)) way.waiting += text;
    if (happens(faults_.throttle)) one.throttled = true;
    if (happens(faults_.delay)) {
      way.not_before = Steady::now() + std::chrono::milliseconds(random_() % faults_.delay_ms);
    }
  }

  static void pass_on(Conversation& one, const Socket& target, Way& way) {
    if (one.over || Steady::now() < way.not_before) return;
    if (!way.waiting.empty()) {
      const std::size_t wanted =
          one.throttled ? std::min(way.waiting.size(), throttled_bytes) : way.waiting.size();
      const ssize_t sent = ::send(target.fd(), way.waiting.data(), wanted, MSG_NOSIGNAL);
      if (sent < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOTCONN) one.over = true;
        return;
      }
      way.waiting.erase(0, static_cast<std::size_t>(sent));
      if (one.throttled) way.not_before = Steady::now() + std::chrono::milliseconds(1);
    }
    if (way.waiting.empty() && (way.source_ended || way.half_closed) && !way.told_target) {
      ::shutdown(target.fd(), SHUT_WR);
      way.told_target = true;
    }
  }

  FaultProxy& proxy_;
  Socket listener_;
  std::mt19937_64 random_;
  const Faults faults_;
  std::list<Conversation> all_;
};

FaultProxy::FaultProxy(std::uint16_t server_port, std::uint64_t seed, Faults faults)
    : server_port_(server_port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(listener, 1024) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      ::pipe2(wake_, O_CLOEXEC) != 0) {
    throw std::runtime_error("the proxy cannot listen");
  }
  port_ = ntohs(address.sin_port);
  thread_ =
      std::thread([this, listener, seed, faults] { Loop(*this, listener, seed, faults).run(); });
}

FaultProxy::~FaultProxy() {
  std::ignore = ::write(wake_[1], "x", 1);
  thread_.join();
  ::close(wake_[0]);
  ::close(wake_[1]);
}

}  // namespace strand::server
