#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http_fixture.h"

// Who may do what, and what web pages of other sites may not.

namespace strand::server {
namespace {

using testing::HasSubstr;

class AdminHttpAccess : public AdminHttp {
 protected:
  AdminHttpAccess() {
    tokens_.set("root", {{Role::admin, "#"}});
    tokens_.set("worker", {{Role::send, "orders"}, {Role::receive, "orders"}});
    tokens_.set("sender", {{Role::send, "orders"}});
    send("orders", "a", "1");
    send("secret", "a", "2");
    start(tokens_);
  }
  ~AdminHttpAccess() override { server_.reset(); }

  unsigned status_as(const std::string& token, std::string_view method, std::string_view target,
                     std::optional<std::string> body = {}) {
    return call(method, target, {.token = token, .body = std::move(body)}).status;
  }

  KnownTokens tokens_;
};

TEST_F(AdminHttpAccess, Nobody_gets_in_without_a_known_token) {
  for (const char* path : {"/api/v1/queues", "/api/v1/queues/orders", "/api/v1/nothing", "/metrics",
                           "/api/v1/stats/stream", "/api/v1/queues/%zz"}) {
    const auto none = get(path);
    EXPECT_EQ(none.status, 401U) << path;
    EXPECT_EQ(none.field("www-authenticate"), "Bearer");
    EXPECT_EQ(none.code(), "unauthorized");
    EXPECT_EQ(get_as("forged", path).status, 401U) << path;
  }
  EXPECT_EQ(call("GET", "/api/v1/queues", {.fields = "Authorization: Basic cm9vdA==\r\n"}).status,
            401U);
  EXPECT_EQ(call("GET", "/api/v1/queues", {.fields = "Authorization: Bearer\r\n"}).status, 401U);
  EXPECT_EQ(get_as("root", "/api/v1/queues").status, 200U);
}

TEST_F(AdminHttpAccess, Health_and_the_document_are_for_everybody) {
  for (const char* path : {"/", "/healthz", "/readyz", "/version", "/openapi.json"})
    EXPECT_EQ(get(path).status, 200U) << path;
}

TEST_F(AdminHttpAccess, A_list_has_what_the_caller_sees) {
  const auto all = get_as("root", "/api/v1/queues").json();
  EXPECT_EQ(all.at("items").as_array().size(), 2U);
  const auto some = get_as("worker", "/api/v1/queues").json();
  ASSERT_EQ(some.at("items").as_array().size(), 1U);
  EXPECT_EQ(some.at("items").at(0).at("name"), "orders");
  EXPECT_EQ(get_as("sender", "/api/v1/stats").json().at("queues").as_array().size(), 1U);
}

TEST_F(AdminHttpAccess, What_is_forbidden_looks_like_what_does_not_exist) {
  for (const char* rest : {"", "/messages", "/dead-letters", "/dead-letters/1"}) {
    const auto there = get_as("worker", std::string("/api/v1/queues/secret") + rest);
    const auto nowhere = get_as("worker", std::string("/api/v1/queues/absent") + rest);
    EXPECT_EQ(there.status, 403U) << rest;
    EXPECT_EQ(nowhere.status, 403U) << rest;
    EXPECT_EQ(there.code(), nowhere.code());
  }
}

TEST_F(AdminHttpAccess, A_token_for_data_administers_nothing) {
  bury("orders", "x", "dead");
  const std::string one = "/api/v1/queues/orders";
  EXPECT_EQ(status_as("worker", "GET", one + "/messages"), 200U);
  EXPECT_EQ(status_as("worker", "GET", one + "/dead-letters"), 200U);
  EXPECT_EQ(status_as("worker", "PUT", one, "{}"), 403U);
  EXPECT_EQ(status_as("worker", "DELETE", one), 403U);
  for (const char* verb : {"/pause", "/resume", "/purge", "/lanes/a/resume", "/messages/1/resume"})
    EXPECT_EQ(status_as("worker", "POST", one + verb), 403U) << verb;
  for (const char* verb : {"/dead-letters/redrive", "/dead-letters/drop"})
    EXPECT_EQ(status_as("worker", "POST", one + verb, R"({"all":true})"), 403U) << verb;
  EXPECT_EQ(status_as("worker", "PUT", "/api/v1/topics/orders", R"({"retain_ms":1})"), 403U);
  EXPECT_EQ(status_as("worker", "PUT", "/api/v1/subscriptions/orders", R"({"pattern":"#"})"), 403U);
  EXPECT_EQ(status_as("worker", "DELETE", "/api/v1/subscriptions/orders"), 403U);
  EXPECT_EQ(status_as("worker", "GET", "/api/v1/workflows"), 403U);
  EXPECT_EQ(status_as("worker", "POST", "/api/v1/workflows/a/terminate"), 403U);
  EXPECT_EQ(status_as("worker", "GET", "/api/v1/workers"), 403U);
  EXPECT_EQ(status_as("worker", "GET", "/metrics"), 403U);
  EXPECT_EQ(status_as("sender", "GET", one + "/messages"), 403U);
  EXPECT_EQ(store_->stats("orders")->dead, 1U);
  EXPECT_EQ(store_->stats("orders")->ready, 1U);
}

// Or its messages would get to where the caller may not send.
TEST_F(AdminHttpAccess, A_redrive_needs_a_permit_for_both_queues) {
  tokens_.set("owner", {{Role::admin, "orders"}});
  bury("orders", "x", "dead");
  const std::string place = "/api/v1/queues/orders/dead-letters/redrive";
  EXPECT_EQ(status_as("owner", "POST", place, R"({"all":true,"to":"secret"})"), 403U);
  EXPECT_EQ(status_as("owner", "PUT", "/api/v1/queues/orders",
                      R"({"dead_notice_to":{"queue":"secret"}})"),
            403U);
  EXPECT_EQ(status_as("owner", "PUT", "/api/v1/subscriptions/orders", R"({"pattern":"#"})"), 403U);
  EXPECT_EQ(status_as("owner", "POST", place, R"({"all":true})"), 200U);
}

TEST_F(AdminHttpAccess, The_log_has_the_name_of_the_token_and_not_the_token) {
  std::mutex mutex;
  std::string caller;
  options_.on_request = [&](const HttpRequestDone& request) {
    const std::lock_guard lock(mutex);
    caller = request.caller;
  };
  start(tokens_);
  get_as("root", "/api/v1/queues");
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return caller == "root-name";
  }));
  server_.reset();
}

TEST_F(AdminHttp, A_page_of_another_site_cannot_change_anything) {
  send("orders", "a", "1");
  const std::string drop = "/api/v1/queues/orders/dead-letters/drop";
  // What a form or fetch may send anywhere without asking first.
  for (const char* type :
       {"text/plain", "application/x-www-form-urlencoded", "", "text/plain; application/json"}) {
    const auto answer = call("POST", drop, {.body = R"({"all":true})", .content_type = type});
    EXPECT_EQ(answer.status, 415U) << type;
  }
  EXPECT_EQ(
      call("POST", drop, {.body = R"({"all":true})", .content_type = "Application/JSON; charset=x"})
          .status,
      200U);
  const auto answer = call("GET", "/api/v1/queues", {.fields = "Origin: http://evil.example\r\n"});
  EXPECT_EQ(answer.field("access-control-allow-origin"), "");
  EXPECT_EQ(get("/api/v1/queues/orders/purge").status, 405U);
}

// A form without fields has no body, and needs no permission of the browser either.
TEST_F(AdminHttp, A_form_on_another_site_cannot_change_anything) {
  send("orders", "a", "1");
  const auto from = [&](const std::string& fields) {
    return call("POST", "/api/v1/queues/orders/purge", {.fields = fields}).status;
  };
  EXPECT_EQ(from("Origin: http://evil.example\r\nContent-Length: 0\r\n"), 403U);
  EXPECT_EQ(from("Origin: null\r\n"), 403U);
  EXPECT_EQ(from("Origin: http://localhost.evil.example\r\n"), 403U);
  EXPECT_EQ(from("Sec-Fetch-Site: cross-site\r\n"), 403U);
  EXPECT_EQ(store_->stats("orders")->ready, 1U);
  EXPECT_EQ(from("Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n"), 200U);
}

TEST_F(AdminHttp, Answers_are_for_no_cache_frame_or_other_site) {
  for (const char* path : {"/", "/api/v1/queues", "/nothing"}) {
    const auto answer = get(path);
    EXPECT_EQ(answer.field("x-content-type-options"), "nosniff");
    EXPECT_EQ(answer.field("content-security-policy"), "default-src 'self'");
    EXPECT_EQ(answer.field("cache-control"), "no-store");
  }
}

// A page whose own name was made to mean this machine (DNS rebinding) is told by that name.
TEST_F(AdminHttp, Without_tokens_only_names_of_this_machine_are_answered_to) {
  const auto host = [&](const std::string& name) {
    return raw("GET /api/v1/queues HTTP/1.1\r\nHost: " + name + "\r\n\r\n").status;
  };
  for (const char* name :
       {"localhost", "LocalHost:7480", "127.0.0.1", "127.0.0.1:80", "[::1]:7480"})
    EXPECT_EQ(host(name), 200U) << name;
  for (const char* name : {"evil.example", "evil.example:7480", "localhost.evil.example",
                           "127.0.0.1.evil.example", "", "[", "10.0.0.1"}) {
    EXPECT_EQ(host(name), 421U) << name;
  }
  // Such a page can bring any token that it likes.
  EXPECT_EQ(raw("GET /api/v1/queues HTTP/1.1\r\nHost: evil.example\r\n"
                "Authorization: Bearer x\r\n\r\n")
                .status,
            421U);
}

TEST_F(AdminHttpAccess, With_a_token_any_name_will_do) {
  EXPECT_EQ(raw("GET /api/v1/queues HTTP/1.1\r\nHost: strand.example\r\n"
                "Authorization: Bearer root\r\n\r\n")
                .status,
            200U);
}

}  // namespace
}  // namespace strand::server
