// What a client is told of its transactions when a server refuses it, or is gone.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <strand/store.h>

#include "queue/forwarding_store.h"
#include "server/access.h"
#include "server/fault_proxy.h"
#include "server/grpc_server.h"
#include "store/remote/remote_store.h"

namespace strand::server {
namespace {

using namespace std::chrono_literals;

Transaction sending(const std::string& body) {
  Transaction transaction;
  Send send;
  send.queue = "q";
  send.body = body;
  transaction.sends.push_back(send);
  return transaction;
}

Result<std::unique_ptr<Store>> connect(std::uint16_t port, remote::Patience patience = {}) {
  remote::Location location;
  location.host = "127.0.0.1";
  location.port = port;
  return remote::RemoteStore::open(location, patience);
}

std::unique_ptr<GrpcServer> serve(Store& store, const Access& access) {
  GrpcServerOptions options;
  options.port = 0;
  return GrpcServer::start(store, access, options).value();
}

// Lets everybody in, until it lets nobody in.
class Doorkeeper final : public Access {
 public:
  Result<std::shared_ptr<const Permit>> admit(
      std::optional<std::string_view> /*bearer*/) const override {
    if (generation_ > 0) return failure(Errc::forbidden, "nobody is let in any more");
    return std::make_shared<const Permit>("somebody",
                                          std::vector<Permit::Grant>{{Role::admin, "#"}});
  }
  std::uint64_t generation() const override { return generation_; }
  void close() { ++generation_; }

 private:
  std::atomic<std::uint64_t> generation_ = 0;
};

// Applies, and does not answer until it is told to.
class HeldStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  using Store::apply;
  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) override {
    auto results = behind().apply(transactions);
    std::unique_lock lock(mutex_);
    ++held_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return released_; });
    return results;
  }
  void wait_for(int calls) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_ >= calls; });
  }
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int held_ = 0;
  bool released_ = false;
};

TEST(RemoteRefused, What_was_begun_before_a_token_was_taken_away_is_answered) {
  const auto store = open("memory:").value();
  HeldStore held(*store);
  Doorkeeper access;
  const auto server = serve(held, access);
  const auto remote = connect(server->port()).value();
  auto first = std::async(std::launch::async, [&] { return remote->apply(sending("before")); });
  held.wait_for(1);
  access.close();
  auto second = std::async(std::launch::async, [&] { return remote->apply(sending("after")); });
  // The second is refused while the first is under way.
  std::this_thread::sleep_for(50ms);
  held.release();
  EXPECT_TRUE(first.get());
  EXPECT_EQ(second.get().error().code, Errc::forbidden);
  EXPECT_EQ(store->stats("q").value().accepted, 1U);
}

TEST(RemoteRefused, What_may_have_been_applied_is_not_called_refused) {
  const auto store = open("memory:").value();
  HeldStore held(*store);
  const OpenAccess open_access;
  auto server = serve(held, open_access);
  FaultProxy proxy(server->port(), 1, {});
  const auto remote = connect(proxy.port()).value();
  const auto send = [&](std::string body) {
    return std::async(std::launch::async, [&, body] { return remote->apply(sending(body)); });
  };
  // Two requests of one stream, applied and not answered. The first is so large that the second
  // does not leave once more before the other server has refused the stream.
  auto first = send(std::string(900'000, 'a'));
  held.wait_for(1);
  auto second = send("b");
  held.wait_for(2);
  Doorkeeper closed;
  closed.close();
  const auto other = serve(*store, closed);
  proxy.set_server(other->port());
  std::thread ending([&] { server.reset(); });  // takes as long as its calls
  for (auto* result : {&first, &second}) {
    const auto answer = result->get();
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Errc::unknown_outcome) << answer.error().message;
  }
  held.release();
  ending.join();
  EXPECT_EQ(store->stats("q").value().accepted, 2U);
}

TEST(RemoteRefused, What_was_given_up_is_not_applied_when_the_server_comes_back) {
  const auto store = open("memory:").value();
  const OpenAccess access;
  auto server = serve(*store, access);
  FaultProxy proxy(server->port(), 1, {});
  const auto remote = connect(proxy.port(), {.connect = 5s, .call = 200ms}).value();
  ASSERT_TRUE(remote->apply(sending("before")));
  server.reset();
  for (int i = 0; i < 3; ++i)
    ASSERT_FALSE(remote->apply(sending("meanwhile")));
  server = serve(*store, access);
  proxy.set_server(server->port());
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (!remote->apply(sending("after")) && std::chrono::steady_clock::now() < until) {
  }
  // Of "after" there may be more than one: it was tried until it was confirmed.
  const auto page = store->peek({.queue = "q"}).value();
  ASSERT_GE(page.items.size(), 2U);
  for (std::size_t i = 1; i < page.items.size(); ++i)
    EXPECT_EQ(page.items[i].body, "after");
}

}  // namespace
}  // namespace strand::server
