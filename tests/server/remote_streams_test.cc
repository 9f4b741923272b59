// Streams that break while several threads use them.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <strand/store.h>

#include "server/access.h"
#include "server/fault_proxy.h"
#include "server/grpc_server.h"
#include "store/remote/remote_store.h"

namespace strand::server {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<GrpcServer> serve(Store& store, const Access& access) {
  GrpcServerOptions options;
  options.port = 0;
  return GrpcServer::start(store, access, options).value();
}

// What is written to a stream at the moment of its end must not find it gone.
TEST(RemoteStreams, May_end_at_any_moment) {
  const auto store = open("memory:").value();
  const OpenAccess access;
  auto server = serve(*store, access);
  FaultProxy proxy(server->port(), 1, {});
  remote::Location location;
  location.host = "127.0.0.1";
  location.port = proxy.port();
  const auto remote = remote::RemoteStore::open(location).value();
  std::atomic<std::uint64_t> sent = 0;
  std::vector<std::jthread> threads;
  const auto until = std::chrono::steady_clock::now() + 2s;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; std::chrono::steady_clock::now() < until; ++k) {
        const Watch watch = remote->watch(WatchQueue{fmt::format("{} {}", i, k)}, [] {});
        Transaction transaction;
        transaction.sends.emplace_back().queue = "q";
        ASSERT_TRUE(remote->apply(transaction));
        ++sent;
      }
    });
  }
  while (std::chrono::steady_clock::now() < until) {
    // A server that ends says so on every stream.
    auto next = serve(*store, access);
    proxy.set_server(next->port());
    server->drain(10s);
    server = std::move(next);
    std::this_thread::sleep_for(5ms);
  }
  threads.clear();
  EXPECT_EQ(store->stats("q").value().accepted, sent);
}

}  // namespace
}  // namespace strand::server
