#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <strand/store.h>

#include "server/access.h"
#include "server/http/http_server.h"
#include "server/http_client.h"

namespace strand::server {

// Looks again and again, for things that have no bell.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds patience = usual_patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
  return true;
}

// Some tokens.
class KnownTokens final : public Access {
 public:
  void set(const std::string& token, std::vector<Permit::Grant> grants) {
    const std::lock_guard lock(mutex_);
    permits_[token] = std::make_shared<const Permit>(token + "-name", std::move(grants));
    ++generation_;
  }
  void forget(const std::string& token) {
    const std::lock_guard lock(mutex_);
    permits_.erase(token);
    ++generation_;
  }

  [[nodiscard]] Result<std::shared_ptr<const Permit>> admit(
      std::optional<std::string_view> bearer) const override {
    const std::lock_guard lock(mutex_);
    const auto found = permits_.find(std::string(bearer.value_or("")));
    if (found == permits_.end()) return failure(Errc::forbidden, "bring a token that is known");
    return found->second;
  }
  [[nodiscard]] std::uint64_t generation() const override { return generation_; }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Permit>> permits_;
  std::atomic<std::uint64_t> generation_ = 0;
};

// A served store in memory, for everybody unless a test knows tokens.
class AdminHttp : public testing::Test {
 protected:
  AdminHttp() : store_(open("memory:").value()) {}

  // With the options as they are now; called by the first request otherwise.
  void start() { start(open_access_); }
  void start(const Access& access) {
    options_.port = 0;
    auto server = HttpServer::start(options_, access);
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
    if (serves_) server_->serve(*store_);
  }
  std::uint16_t port() {
    if (!server_) start();
    return server_->port();
  }

  HttpAnswer call(std::string_view method, std::string_view target, HttpExtras extras = {}) {
    return request(port(), method, target, extras);
  }
  HttpAnswer get(std::string_view target) { return call("GET", target); }
  HttpAnswer get_as(const std::string& token, std::string_view target) {
    return call("GET", target, {.token = token});
  }
  HttpAnswer post(std::string_view target, std::optional<std::string> body = {}) {
    return call("POST", target, {.body = std::move(body)});
  }
  HttpAnswer put(std::string_view target, std::string body) {
    return call("PUT", target, {.body = std::move(body)});
  }
  // Bytes as they are, on a connection of their own.
  HttpAnswer raw(std::string_view bytes) {
    RawClient client(port());
    client.send(bytes);
    return client.answer();
  }
  // Whether others are served.
  bool lives() { return get("/healthz").status == 200 && get("/api/v1/queues").status == 200; }

  MessageId send(const std::string& queue, std::optional<std::string> key, Bytes body) {
    Transaction transaction;
    Send& message = transaction.sends.emplace_back();
    message.queue = queue;
    message.key = std::move(key);
    message.body = std::move(body);
    return store_->apply(transaction).value().sent.front().id;
  }
  // A dead letter.
  MessageId bury(const std::string& queue, const std::string& key, Bytes body) {
    const MessageId id = send(queue, key, std::move(body));
    LeaseRequest request;
    request.queue = queue;
    request.key = key;
    const auto leases = store_->lease(request).value();
    Transaction transaction;
    transaction.settles.push_back(
        {.token = leases.front().token,
         .outcomes = {{.id = id, .kind = Outcome::Kind::dead, .reason = "broken"}}});
    store_->apply(transaction).value();
    return id;
  }

  std::unique_ptr<Store> store_;
  OpenAccess open_access_;
  HttpOptions options_ = {.version = "1.2.3"};
  bool serves_ = true;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace strand::server
