#include "server/server.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <strand/store.h>

#include "server/doc_tables.h"
#include "server/http_client.h"
#include "server/raw_grpc.h"

namespace strand::server {
namespace {

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    config_.store.url = "memory:";
    config_.http.listen = "127.0.0.1:0";
    config_.grpc.listen = "127.0.0.1:0";
  }
  ~ServerTest() override {
    server_.reset();
    ::close(null_);
  }

  void start() { server_ = Server::start(config_, "1.2.3", log_).value(); }
  [[nodiscard]] std::unique_ptr<Store> connect() const {
    return open("strand://127.0.0.1:" + std::to_string(server_->grpc_port())).value();
  }

  ServerConfig config_;
  int null_ = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  Log log_{{.fd = null_}};
  std::unique_ptr<Server> server_;
};

Transaction sending(const std::string& queue) {
  Transaction transaction;
  Send send;
  send.queue = queue;
  send.body = "x";
  transaction.sends.push_back(send);
  return transaction;
}

TEST_F(ServerTest, What_is_sent_over_gRPC_is_seen_over_HTTP) {
  start();
  const auto store = connect();
  ASSERT_TRUE(store->apply(sending("orders")));
  const auto answer = request(server_->http_port(), "GET", "/api/v1/queues/orders");
  EXPECT_EQ(answer.status, 200U);
  EXPECT_EQ(answer.json().at("stats").at("ready").as_int64(), 1);
  EXPECT_EQ(request(server_->http_port(), "GET", "/readyz").status, 200U);
  EXPECT_THAT(request(server_->http_port(), "GET", "/version").body, testing::HasSubstr("1.2.3"));
}

TEST_F(ServerTest, The_standard_health_service_says_that_it_serves) {
  start();
  RawGrpcClient client(server_->grpc_port());
  const auto answer = client.call("/grpc.health.v1.Health/Check", std::string());
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.bytes, "\x08\x01");  // status: SERVING
}

TEST_F(ServerTest, Reflection_tells_of_the_schema) {
  start();
  RawGrpcClient client(server_->grpc_port());
  const auto answer = client.call("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                  std::string("\x3a\x00", 2));  // list_services: ""
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_THAT(answer.bytes, testing::HasSubstr("strand.v1.Store"));
}

TEST_F(ServerTest, Without_an_address_it_does_not_listen) {
  config_.http.listen = "";
  start();
  EXPECT_EQ(server_->http_port(), 0);
  EXPECT_TRUE(connect()->queues());
}

TEST_F(ServerTest, After_a_drain_nobody_is_served) {
  start();
  const std::uint16_t grpc = server_->grpc_port();
  const std::uint16_t http = server_->http_port();
  server_->drain();
  EXPECT_FALSE(open("strand://127.0.0.1:" + std::to_string(grpc)));
  EXPECT_EQ(RawClient(http).answer().status, 0U);
}

TEST_F(ServerTest, A_store_that_cannot_be_opened_is_an_error) {
  config_.store.url = "rocksdb:/proc/no/such/place";
  const auto server = Server::start(config_, "1.2.3", log_);
  ASSERT_FALSE(server);
  EXPECT_THAT(server.error().message, testing::HasSubstr("/proc/no/such/place"));
}

TEST_F(ServerTest, Beyond_this_machine_it_needs_TLS) {
  config_.grpc.listen = "0.0.0.0:0";
  const auto server = Server::start(config_, "1.2.3", log_);
  ASSERT_FALSE(server);
  EXPECT_THAT(server.error().message, testing::HasSubstr("insecure"));
}

// Name, type and help of each family of the listeners.
std::set<std::vector<std::string>> listeners_families(const std::string& text) {
  std::map<std::string, std::string> helps;
  std::set<std::vector<std::string>> families;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash;
    std::string kind;
    std::string name;
    words >> hash >> kind >> name >> std::ws;
    std::string rest;
    std::getline(words, rest);
    if (hash != "#" || (!name.starts_with("strand_grpc_") && !name.starts_with("strand_http_"))) {
      continue;
    }
    if (kind == "HELP") helps[name] = rest;
    if (kind == "TYPE") families.insert({"`" + name + "`", rest, helps[name]});
  }
  return families;
}

TEST_F(ServerTest, Every_metric_of_the_listeners_is_in_the_table_and_the_other_way_round) {
  start();
  ASSERT_TRUE(connect()->queues());
  std::set<std::vector<std::string>> documented;
  for (const auto& row : test::rows_of("docs/metrics.md", "metric")) {
    if (row[0].starts_with("`strand_grpc_") || row[0].starts_with("`strand_http_")) {
      documented.insert({row[0], row[1], row[3]});
    }
  }
  const auto answer = request(server_->http_port(), "GET", "/metrics");
  EXPECT_EQ(documented, listeners_families(answer.body));
}

}  // namespace
}  // namespace strand::server
