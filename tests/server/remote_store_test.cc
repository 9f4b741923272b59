#include "store/remote/remote_store.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/store.h>

#include "server/access.h"
#include "server/fault_proxy.h"
#include "server/grpc_server.h"
#include "store/remote/location.h"

namespace strand::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Transaction sending(const std::string& queue, const std::string& body) {
  Transaction transaction;
  Send send;
  send.queue = queue;
  send.key = "k";
  send.body = body;
  transaction.sends.push_back(send);
  return transaction;
}

std::unique_ptr<GrpcServer> serve(Store& store, const Access& access, std::uint16_t port = 0) {
  GrpcServerOptions options;
  options.port = port;
  return GrpcServer::start(store, access, options).value();
}

Result<std::unique_ptr<Store>> connect(std::uint16_t port, remote::Patience patience = {}) {
  remote::Location location;
  location.host = "127.0.0.1";
  location.port = port;
  return remote::RemoteStore::open(location, patience);
}

TEST(RemoteLocation, Says_where_the_server_is) {
  const auto plain = remote::parse_location("strand://example.org");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->address(), "example.org:7481");
  EXPECT_FALSE(plain->tls);
  const auto secure = remote::parse_location("strands://[::1]:9?ca=%2fa%20b&token-file=t");
  ASSERT_TRUE(secure);
  EXPECT_EQ(secure->address(), "[::1]:9");
  EXPECT_TRUE(secure->tls);
  EXPECT_EQ(secure->ca_file, "/a b");
  EXPECT_EQ(secure->token_file, "t");
}

TEST(RemoteLocation, Refuses_what_is_none) {
  for (const char* url :
       {"strand:", "strand://", "strand://:1", "strand://h:", "strand://h:0", "strand://h:65536",
        "strand://h:1x", "strand://[::1", "strand://[::1]x", "strand://h?", "strand://h?x=1",
        "strand://h?ca", "strand://h?ca=a", "strands://h?cert=a", "strand://h h", "strand://h/x"}) {
    const auto location = remote::parse_location(url);
    if (std::string_view(url) == "strand://h?") {
      EXPECT_TRUE(location);
      continue;
    }
    ASSERT_FALSE(location) << url;
    EXPECT_EQ(location.error().code, Errc::invalid_argument);
    EXPECT_THAT(location.error().message, HasSubstr("strand://HOST:PORT"));
  }
}

TEST(RemoteStore, Without_a_server_the_error_says_what_to_do) {
  const auto store = open("memory:").value();
  const OpenAccess access;
  const std::uint16_t port = serve(*store, access)->port();  // and it is gone again
  const auto remote = connect(port);
  ASSERT_FALSE(remote);
  EXPECT_EQ(remote.error().code, Errc::unavailable);
  EXPECT_THAT(remote.error().message, HasSubstr("strand serve"));
}

TEST(RemoteStore, Goes_on_when_the_server_comes_back) {
  const auto store = open("memory:").value();
  const OpenAccess access;
  auto server = serve(*store, access);
  FaultProxy proxy(server->port(), 1, {});
  const auto remote = connect(proxy.port()).value();
  ASSERT_TRUE(remote->apply(sending("q", "before")));

  std::atomic<int> calls = 0;
  const Watch watch = remote->watch(WatchQueue{"q"}, [&] { ++calls; });
  server.reset();
  std::thread sender([&] { EXPECT_TRUE(remote->apply(sending("q", "meanwhile"))); });
  std::thread reader([&] { EXPECT_EQ(remote->stats("q").value().accepted > 0, true); });
  server = serve(*store, access);
  proxy.set_server(server->port());
  sender.join();
  reader.join();
  const auto leases = remote->lease({.queue = "q"}).value();
  ASSERT_EQ(leases.at(0).messages.size(), 2U);
  EXPECT_EQ(leases.at(0).messages.at(1).body, "meanwhile");
  // The watch is in place again.
  const int before = calls;
  ASSERT_TRUE(remote->apply(sending("q", "after")));
  Transaction settling;
  settling.settles.push_back({.token = leases.at(0).token});
  ASSERT_TRUE(remote->apply(settling));
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (calls == before && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(1ms);
  EXPECT_GT(calls, before);
}

TEST(RemoteStore, Patience_ends) {
  const auto store = open("memory:").value();
  const OpenAccess access;
  auto server = serve(*store, access);
  const auto remote = connect(server->port(), {.connect = 5s, .call = 100ms}).value();
  server.reset();
  const auto sent = remote->apply(sending("q", "x"));
  ASSERT_FALSE(sent);
  EXPECT_TRUE(sent.error().code == Errc::unavailable || sent.error().code == Errc::unknown_outcome);
  EXPECT_TRUE(sent.error().retryable());
  const auto stats = remote->stats("q");
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, Errc::unavailable);
}

TEST(RemoteStore, Many_threads_share_one_connection) {
  const auto store = open("memory:").value();
  const OpenAccess access;
  const auto server = serve(*store, access);
  const auto remote = connect(server->port()).value();
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 50; ++k)
        ASSERT_TRUE(remote->apply(sending("q" + std::to_string(i), std::to_string(k))));
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (int i = 0; i < 16; ++i) {
    const auto leases = remote->lease({.queue = "q" + std::to_string(i)}).value();
    ASSERT_EQ(leases.at(0).messages.size(), 50U);
    for (std::size_t k = 0; k < 50; ++k)
      EXPECT_EQ(leases[0].messages[k].body, std::to_string(k));
  }
}

TEST(RemoteStore, A_large_batch_is_sent_in_pieces_and_in_order) {
  const auto store = open("memory:").value();
  const OpenAccess access;
  const auto server = serve(*store, access);
  const auto remote = connect(server->port()).value();
  std::vector<Transaction> all;
  for (int i = 0; i < 30; ++i)
    all.push_back(sending("q", std::to_string(i) + std::string(900'000, 'x')));
  all[7].sends[0].queue = "\xff";  // cannot travel
  const auto results = remote->apply(all);
  ASSERT_EQ(results.size(), 30U);
  EXPECT_EQ(results[7].error().code, Errc::invalid_argument);
  const auto page = remote->peek({.queue = "q", .key = {}, .state = {}, .after = {}}).value();
  ASSERT_EQ(page.items.size(), 29U);
  for (std::size_t i = 0, k = 0; i < 30; ++i) {
    if (i == 7) continue;
    ASSERT_TRUE(results[i]);
    EXPECT_EQ(page.items[k].id, results[i]->sent.at(0).id);
    ++k;
  }
}

TEST(RemoteStore, What_is_too_large_for_a_request_is_refused_before_it_is_sent) {
  const auto store = open("memory:").value();
  const OpenAccess access;
  const auto server = serve(*store, access);
  const auto remote = connect(server->port()).value();
  Transaction transaction;
  for (int i = 0; i < 40; ++i)
    transaction.sends.push_back(sending("q", std::string(1'000'000, 'x')).sends[0]);
  const auto result = remote->apply(transaction);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::transaction_too_large);
  EXPECT_TRUE(remote->apply(sending("q", "small")));
}

// Two tokens: one may send to orders.*, one may receive from it.
class TwoTokens final : public Access {
 public:
  Result<std::shared_ptr<const Permit>> admit(
      std::optional<std::string_view> bearer) const override {
    const bool revoked = generation_ > 0;
    if (bearer == "sender" && !revoked) {
      return std::make_shared<const Permit>("sender",
                                            std::vector<Permit::Grant>{{Role::send, "orders.*"}});
    }
    if (bearer == "receiver") {
      return std::make_shared<const Permit>(
          "receiver", std::vector<Permit::Grant>{{Role::receive, "orders.*"}});
    }
    return failure(Errc::forbidden, "nobody with this token is known here");
  }
  std::uint64_t generation() const override { return generation_; }
  void revoke() { ++generation_; }

 private:
  std::atomic<std::uint64_t> generation_ = 0;
};

class RemoteAccess : public testing::Test {
 protected:
  Result<std::unique_ptr<Store>> connect_as(const std::string& token) {
    const std::string path = testing::TempDir() + "strand-token-" + token;
    std::FILE* file = std::fopen(path.c_str(), "w");
    std::fputs((token + "\n").c_str(), file);
    std::fclose(file);
    remote::Location location;
    location.host = "127.0.0.1";
    location.port = server_->port();
    location.token_file = path;
    return remote::RemoteStore::open(location);
  }

  std::unique_ptr<Store> store_ = open("memory:").value();
  TwoTokens access_;
  std::unique_ptr<GrpcServer> server_ = serve(*store_, access_);
};

TEST_F(RemoteAccess, Who_brings_no_token_is_not_let_in) {
  const auto nobody = connect(server_->port());
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, Errc::forbidden);
  const auto forged = connect_as("forged");
  ASSERT_FALSE(forged);
  EXPECT_EQ(forged.error().code, Errc::forbidden);
  EXPECT_THAT(forged.error().message, testing::Not(HasSubstr("forged")));
}

TEST_F(RemoteAccess, Each_may_do_what_its_role_says) {
  const auto sender = connect_as("sender").value();
  const auto receiver = connect_as("receiver").value();
  EXPECT_TRUE(sender->apply(sending("orders.eu", "x")));
  EXPECT_EQ(sender->apply(sending("bills", "x")).error().code, Errc::forbidden);
  EXPECT_EQ(sender->lease({.queue = "orders.eu"}).error().code, Errc::forbidden);
  Transaction notice = sending("orders.eu", "y");
  notice.sends[0].dead_notice_to = Address{.queue = "bills", .key = {}};
  EXPECT_EQ(sender->apply(notice).error().code, Errc::forbidden);
  EXPECT_EQ(receiver->apply(sending("orders.eu", "x")).error().code, Errc::forbidden);
  EXPECT_EQ(receiver->lease({.queue = "orders.eu", .key = "k", .seize = true}).error().code,
            Errc::forbidden);
  const auto leases = receiver->lease({.queue = "orders.eu"}).value();
  ASSERT_EQ(leases.size(), 1U);
  Transaction settling;
  settling.settles.push_back({.token = leases[0].token});
  EXPECT_TRUE(receiver->apply(settling));
  Transaction purge;
  purge.admin = PurgeQueue{.queue = "orders.eu", .key = {}};
  EXPECT_EQ(receiver->apply(purge).error().code, Errc::forbidden);
  ASSERT_TRUE(store_->apply(sending("secret", "x")));
  EXPECT_EQ(receiver->queues().value().size(), 1U);
}

TEST_F(RemoteAccess, Unknown_and_forbidden_get_the_same_answer) {
  const auto receiver = connect_as("receiver").value();
  ASSERT_TRUE(store_->apply(sending("secret", "x")));
  const auto forbidden = receiver->stats("secret").error();
  const auto unknown = receiver->stats("nosuch").error();
  EXPECT_EQ(forbidden.code, unknown.code);
  std::string message = forbidden.message;
  message.replace(message.find("secret"), 6, "nosuch");
  EXPECT_EQ(message, unknown.message);
}

TEST_F(RemoteAccess, A_token_that_is_taken_away_ends_open_streams) {
  const auto sender = connect_as("sender").value();
  ASSERT_TRUE(sender->apply(sending("orders.eu", "x")));
  access_.revoke();
  EXPECT_EQ(sender->apply(sending("orders.eu", "x")).error().code, Errc::forbidden);
  EXPECT_EQ(store_->stats("orders.eu").value().accepted, 1U);
}

}  // namespace
}  // namespace strand::server
