#include "server/connection_gate.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <strand/store.h>

#include "server/access.h"
#include "server/grpc_server.h"
#include "store/remote/remote_store.h"

namespace strand::server {
namespace {

using namespace std::chrono_literals;

class Caller {
 public:
  explicit Caller(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Caller() { ::close(fd_); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // Whether the other side hangs up, within a while, without having said anything.
  [[nodiscard]] bool cut_off() const {
    const timeval limit{.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    char byte = 0;
    return ::recv(fd_, &byte, 1, 0) <= 0;
  }

 private:
  int fd_;
};

TEST(ConnectionGate, As_many_as_may_be_are_let_in_and_the_others_cut_off) {
  const auto gate = ConnectionGate::listen({.host = "127.0.0.1", .port = 0, .connections_max = 2});
  ASSERT_TRUE(gate);
  std::vector<int> inside;
  std::atomic<std::size_t> count = 0;
  (*gate)->open([&](int fd) {
    inside.push_back(fd);
    ++count;
  });
  const Caller first((*gate)->port());
  const Caller second((*gate)->port());
  const auto until = std::chrono::steady_clock::now() + 5s;
  while (count < 2 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(1ms);
  ASSERT_EQ(count, 2U);
  const Caller third((*gate)->port());
  EXPECT_TRUE(third.cut_off());
  EXPECT_EQ((*gate)->refused(), 1U);

  // Whoever has a connection closes it without a word.
  ::close(inside[0]);
  std::this_thread::sleep_for(60ms);  // it looks again after a while only
  const Caller fourth((*gate)->port());
  while (count < 3 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(count, 3U);
  (*gate)->close();
  for (std::size_t i = 1; i < inside.size(); ++i)
    ::close(inside[i]);
}

TEST(ConnectionGate, A_port_in_use_is_an_error_that_names_it) {
  const auto gate = ConnectionGate::listen({.host = "127.0.0.1", .port = 0, .connections_max = 0});
  ASSERT_TRUE(gate);
  const auto again =
      ConnectionGate::listen({.host = "127.0.0.1", .port = (*gate)->port(), .connections_max = 0});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::in_use);
  EXPECT_THAT(again.error().message, testing::HasSubstr(std::to_string((*gate)->port())));
}

TEST(ConnectionGate, A_server_has_room_again_when_clients_go) {
  const auto store = open("memory:").value();
  const OpenAccess access;
  GrpcServerOptions options;
  options.port = 0;
  options.connections_max = 3;
  const auto server = GrpcServer::start(*store, access, options).value();
  remote::Location location;
  location.host = "127.0.0.1";
  location.port = server->port();
  std::vector<std::unique_ptr<Store>> clients;
  for (int i = 0; i < 3; ++i)
    clients.push_back(remote::RemoteStore::open(location).value());
  EXPECT_FALSE(remote::RemoteStore::open(location, {.connect = 300ms, .call = 300ms}));
  EXPECT_TRUE(clients[2]->queues());
  clients.clear();
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (std::chrono::steady_clock::now() < until) {
    if (remote::RemoteStore::open(location, {.connect = 1s, .call = 1s})) return;
  }
  FAIL() << "nobody is let in any more";
}

}  // namespace
}  // namespace strand::server
