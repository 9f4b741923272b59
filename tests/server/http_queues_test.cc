#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http_fixture.h"

// Queues, messages, dead letters, topics: what is asked for, and what is answered.

namespace strand::server {
namespace {

using boost::json::value;
using testing::HasSubstr;

std::vector<std::string> names_in(const value& page, std::string_view member) {
  std::vector<std::string> names;
  for (const value& item : page.at("items").as_array())
    names.emplace_back(item.at(member).as_string());
  return names;
}

using Names = std::vector<std::string>;

TEST_F(AdminHttp, Queues_are_listed_with_counts_and_settings) {
  send("orders", "a", "1");
  send("orders", "a", "2");
  send("mails", {}, "3");
  const auto answer = get("/api/v1/queues");
  EXPECT_EQ(answer.status, 200U);
  EXPECT_EQ(answer.field("content-type"), "application/json");
  const value page = answer.json();
  EXPECT_EQ(names_in(page, "name"), (Names{"mails", "orders"}));
  EXPECT_EQ(page.at("items").at(1).at("stats").at("ready"), 2);
  EXPECT_EQ(page.at("items").at(1).at("settings").at("max_attempts"), 4);
  EXPECT_EQ(page.at("more"), false);
  EXPECT_TRUE(page.at("next").is_null());
}

TEST_F(AdminHttp, A_list_is_read_page_by_page) {
  for (const char* name : {"a", "b", "c", "d", "e"})
    send(name, {}, "x");
  Names seen;
  std::string after;
  for (int pages = 0; pages < 3; ++pages) {
    const value page = get("/api/v1/queues?limit=2&after=" + after).json();
    for (const std::string& name : names_in(page, "name"))
      seen.push_back(name);
    EXPECT_EQ(page.at("more").as_bool(), pages < 2);
    if (page.at("next").is_string()) after = std::string(page.at("next").as_string());
  }
  EXPECT_EQ(seen, (Names{"a", "b", "c", "d", "e"}));
}

TEST_F(AdminHttp, A_queue_is_created_by_its_settings) {
  const auto answer =
      put("/api/v1/queues/orders",
          R"({"max_attempts": 7, "backoff_ms": [10, 20], "retry_policy": "skip", "ttl_ms": 60000,
              "dead_notice_to": {"queue": "notices", "key": "k"}})");
  EXPECT_EQ(answer.status, 200U) << answer.body;
  const value settings = get("/api/v1/queues/orders").json().at("settings");
  EXPECT_EQ(settings.at("max_attempts"), 7);
  EXPECT_EQ(settings.at("backoff_ms").as_array().size(), 2U);
  EXPECT_EQ(settings.at("retry_policy"), "skip");
  EXPECT_EQ(settings.at("ttl_ms"), 60'000);
  EXPECT_EQ(settings.at("dead_notice_to").at("queue"), "notices");
}

TEST_F(AdminHttp, Settings_that_are_not_named_stay) {
  put("/api/v1/queues/orders", R"({"max_attempts": 7, "ttl_ms": 60000})");
  EXPECT_EQ(put("/api/v1/queues/orders", R"({"ttl_ms": null})").status, 200U);
  const value settings = get("/api/v1/queues/orders").json().at("settings");
  EXPECT_EQ(settings.at("max_attempts"), 7);
  EXPECT_TRUE(settings.at("ttl_ms").is_null());
}

TEST_F(AdminHttp, What_is_shown_of_settings_can_be_sent_back) {
  put("/api/v1/queues/orders", R"({"max_attempts": 7})");
  const value settings = get("/api/v1/queues/orders").json().at("settings");
  EXPECT_EQ(put("/api/v1/queues/orders", boost::json::serialize(settings)).status, 200U);
  EXPECT_EQ(get("/api/v1/queues/orders").json().at("settings"), settings);
}

TEST_F(AdminHttp, A_mistyped_setting_is_refused_by_its_name) {
  const auto unknown = put("/api/v1/queues/orders", R"({"max_atempts": 7})");
  EXPECT_EQ(unknown.status, 400U);
  EXPECT_EQ(unknown.code(), "invalid_argument");
  EXPECT_THAT(unknown.message(), HasSubstr("did you mean 'max_attempts'"));
  const auto type = put("/api/v1/queues/orders", R"({"max_attempts": "7"})");
  EXPECT_EQ(type.status, 400U);
  EXPECT_THAT(type.message(), HasSubstr("max_attempts"));
  EXPECT_EQ(put("/api/v1/queues/orders", R"({"retry_policy": "maybe"})").status, 400U);
  EXPECT_EQ(put("/api/v1/queues/orders", R"({"max_attempts": 1e300})").status, 400U);
  EXPECT_EQ(put("/api/v1/queues/orders", R"({"max_attempts": -1})").status, 400U);
  EXPECT_EQ(put("/api/v1/queues/orders", R"({"lease_ms": 99999999999999999999})").status, 400U);
  EXPECT_EQ(put("/api/v1/queues/orders", R"([])").status, 400U);
  EXPECT_EQ(put("/api/v1/queues/orders", R"({"max_attempts": 1, "max_attempts": 2})").status, 400U);
  EXPECT_EQ(get("/api/v1/queues/orders").status, 404U);
}

TEST_F(AdminHttp, A_queue_is_paused_and_resumed) {
  send("orders", "a", "1");
  EXPECT_EQ(post("/api/v1/queues/orders/pause").json().at("paused"), true);
  EXPECT_EQ(get("/api/v1/queues/orders").json().at("paused"), true);
  EXPECT_EQ(post("/api/v1/queues/orders/resume").json().at("paused"), false);
  EXPECT_EQ(get("/api/v1/queues/orders").json().at("paused"), false);
}

TEST_F(AdminHttp, A_queue_or_a_lane_is_purged) {
  send("orders", "a", "1");
  send("orders", "b", "2");
  send("orders", "b", "3");
  EXPECT_EQ(post("/api/v1/queues/orders/purge?key=b").json().at("purged"), 2);
  EXPECT_EQ(post("/api/v1/queues/orders/purge").json().at("purged"), 1);
}

TEST_F(AdminHttp, A_queue_is_removed) {
  send("orders", "a", "1");
  LeaseRequest wanted;
  wanted.queue = "orders";
  ASSERT_FALSE(store_->lease(wanted).value().empty());
  const auto in_use = call("DELETE", "/api/v1/queues/orders");
  EXPECT_EQ(in_use.status, 409U);
  EXPECT_EQ(in_use.code(), "in_use");
  EXPECT_EQ(call("DELETE", "/api/v1/queues/orders?force=perhaps").status, 400U);
  EXPECT_EQ(call("DELETE", "/api/v1/queues/orders?force=true").status, 200U);
  EXPECT_EQ(get("/api/v1/queues/orders").status, 404U);
}

TEST_F(AdminHttp, A_parked_lane_is_resumed) {
  put("/api/v1/queues/orders", R"({"on_exhausted": "park", "max_attempts": 1})");
  const MessageId id = send("orders", "a/b ü", "1");
  LeaseRequest wanted;
  wanted.queue = "orders";
  const auto leases = store_->lease(wanted).value();
  Transaction fail;
  fail.settles.push_back({.token = leases.front().token,
                          .outcomes = {{.id = id, .kind = Outcome::Kind::retry, .reason = "no"}}});
  store_->apply(fail).value();
  EXPECT_EQ(get("/api/v1/queues/orders/messages?state=parked").json().at("items").at(0).at("key"),
            "a/b ü");
  EXPECT_EQ(post("/api/v1/queues/orders/lanes/a%2Fb%20%C3%BC/resume").json().at("resumed"), 1);
  EXPECT_EQ(get("/api/v1/queues/orders").json().at("stats").at("parked"), 0);
}

TEST_F(AdminHttp, Messages_are_peeked_at) {
  send("orders", "a", "first");
  send("orders", "b", "second");
  send("orders", "a", "third");
  const value lane = get("/api/v1/queues/orders/messages?key=a").json();
  ASSERT_EQ(lane.at("items").as_array().size(), 2U);
  EXPECT_EQ(lane.at("items").at(0).at("body"), "first");
  EXPECT_EQ(lane.at("items").at(0).at("state"), "ready");
  const value one = get("/api/v1/queues/orders/messages?limit=1").json();
  EXPECT_EQ(one.at("more"), true);
  const value next =
      get("/api/v1/queues/orders/messages?limit=2&after=" + std::string(one.at("next").as_string()))
          .json();
  EXPECT_EQ(next.at("items").at(0).at("body"), "second");
  EXPECT_EQ(get("/api/v1/queues/orders/messages?state=odd").status, 400U);
  EXPECT_EQ(get("/api/v1/queues/orders/messages?limit=0").status, 400U);
  EXPECT_EQ(get("/api/v1/queues/orders/messages?limit=1001").status, 400U);
  EXPECT_EQ(get("/api/v1/queues/orders/messages?limti=1").status, 400U);
  EXPECT_EQ(get("/api/v1/queues/orders/messages?after=x").status, 400U);
  EXPECT_EQ(get("/api/v1/queues/nothing/messages").status, 404U);
}

TEST_F(AdminHttp, Bytes_that_are_no_text_are_shown_as_base64) {
  send("orders", std::string("\xff\x00k", 3), "\xff\xfe");
  const value item = get("/api/v1/queues/orders/messages?key=%FF%00k").json().at("items").at(0);
  EXPECT_EQ(item.at("body_base64"), "//4=");
  EXPECT_EQ(item.at("key_base64"), "/wBr");
}

TEST_F(AdminHttp, A_page_of_large_messages_ends_before_it_is_too_large) {
  for (int i = 0; i < 40; ++i)
    send("orders", "a", Bytes(200'000, 'x'));
  const auto answer = get("/api/v1/queues/orders/messages?limit=1000");
  EXPECT_LT(answer.body.size(), 3'000'000U);
  EXPECT_EQ(answer.json().at("more"), true);
  EXPECT_GT(answer.json().at("items").as_array().size(), 1U);
}

TEST_F(AdminHttp, A_dead_letter_is_shown) {
  const MessageId id = bury("orders", "a", "bad");
  const value listed = get("/api/v1/queues/orders/dead-letters").json();
  EXPECT_EQ(listed.at("items").at(0).at("reason"), "broken");
  const std::string place =
      "/api/v1/queues/orders/dead-letters/" + std::to_string(static_cast<std::uint64_t>(id));
  EXPECT_EQ(get(place).json().at("body"), "bad");
  EXPECT_EQ(get("/api/v1/queues/orders/dead-letters/999999").status, 404U);
  EXPECT_EQ(get("/api/v1/queues/orders/dead-letters/x").status, 400U);
}

TEST_F(AdminHttp, A_dead_letter_is_redriven) {
  const auto id = std::to_string(static_cast<std::uint64_t>(bury("orders", "a", "bad")));
  const auto answer = post("/api/v1/queues/orders/dead-letters/redrive", R"({"ids":[)" + id + "]}");
  EXPECT_EQ(answer.json().at("redriven"), 1) << answer.body;
  EXPECT_EQ(store_->stats("orders")->ready, 1U);
  bury("orders", "b", "worse");
  EXPECT_EQ(post("/api/v1/queues/orders/dead-letters/redrive", R"({"all":true,"to":"again"})")
                .json()
                .at("redriven"),
            1);
  EXPECT_EQ(store_->stats("again")->ready, 1U);
}

TEST_F(AdminHttp, Dead_letters_are_dropped) {
  const auto id = std::to_string(static_cast<std::uint64_t>(bury("orders", "a", "bad")));
  bury("orders", "b", "bad");
  const std::string place = "/api/v1/queues/orders/dead-letters/drop";
  EXPECT_EQ(post(place, "{\"ids\":[" + id + "]}").json().at("dropped"), 1);
  EXPECT_EQ(post(place, R"({"all":true})").json().at("dropped"), 1);
  EXPECT_EQ(store_->stats("orders")->dead, 0U);
}

// Nobody drops all of them by forgetting to say which.
TEST_F(AdminHttp, Which_dead_letters_must_be_said) {
  bury("orders", "a", "bad");
  const std::string place = "/api/v1/queues/orders/dead-letters/drop";
  for (const char* body : {"{}", R"({"ids":[]})", R"({"all":false})", R"({"all":true,"ids":[1]})",
                           R"({"ids":["1"]})", R"({"ids":1})", R"({"all":1})"}) {
    EXPECT_EQ(post(place, body).status, 400U) << body;
  }
  EXPECT_EQ(post(place).status, 400U);
  EXPECT_EQ(store_->stats("orders")->dead, 1U);
}

TEST_F(AdminHttp, Topics_retain_and_queues_subscribe) {
  EXPECT_EQ(put("/api/v1/topics/orders.paid", R"({"retain_ms": 60000})").json().at("retain_ms"),
            60'000);
  EXPECT_EQ(get("/api/v1/topics").json().at("items").at(0).at("name"), "orders.paid");
  EXPECT_EQ(put("/api/v1/subscriptions/mails", R"({"pattern": "orders.*"})").status, 200U);
  EXPECT_EQ(put("/api/v1/subscriptions/mails", R"({"pattern": "orders.#"})").status, 409U);
  EXPECT_EQ(
      put("/api/v1/subscriptions/all", R"({"pattern":"#","from":"2026-01-01T00:00:00Z"})").status,
      200U);
  EXPECT_EQ(put("/api/v1/subscriptions/bad", R"({"pattern":"#","from":"yesterday"})").status, 400U);
  EXPECT_EQ(put("/api/v1/subscriptions/bad", R"({"pattern":"a..b"})").status, 400U);
  EXPECT_EQ(put("/api/v1/subscriptions/bad", R"({})").status, 400U);
  EXPECT_EQ(put("/api/v1/topics/orders.paid", R"({})").status, 400U);
  EXPECT_EQ(names_in(get("/api/v1/subscriptions").json(), "queue"), (Names{"all", "mails"}));
  EXPECT_EQ(call("DELETE", "/api/v1/subscriptions/mails").status, 200U);
  EXPECT_EQ(call("DELETE", "/api/v1/subscriptions/mails").status, 404U);
}

TEST_F(AdminHttp, Stats_of_all_queues_are_one_answer) {
  send("orders", "a", "1");
  const value stats = get("/api/v1/stats").json();
  EXPECT_EQ(stats.at("queues").at(0).at("name"), "orders");
  EXPECT_EQ(stats.at("queues").at(0).at("stats").at("ready"), 1);
}

TEST_F(AdminHttp, The_server_tells_how_it_is) {
  options_.metrics = [] { return std::string("strand_up 1\n"); };
  EXPECT_EQ(get("/healthz").json().at("status"), "ok");
  EXPECT_EQ(get("/readyz").json().at("status"), "ready");
  EXPECT_EQ(get("/version").json().at("version"), "1.2.3");
  EXPECT_EQ(get("/metrics").body, "strand_up 1\n");
  const auto page = get("/");
  EXPECT_EQ(page.field("content-type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.body, HasSubstr("href=\"/api/v1/queues\""));
  EXPECT_THAT(page.body, HasSubstr("href=\"/openapi.json\""));
}

TEST_F(AdminHttp, While_the_store_is_loaded_the_server_says_so) {
  serves_ = false;
  options_.readiness = [] { return Result<void>{}; };
  EXPECT_EQ(get("/healthz").status, 200U);
  const auto ready = get("/readyz");
  EXPECT_EQ(ready.status, 503U);
  EXPECT_THAT(ready.message(), HasSubstr("loading"));
  const auto queues = get("/api/v1/queues");
  EXPECT_EQ(queues.status, 503U);
  EXPECT_EQ(queues.field("retry-after"), "1");
  EXPECT_EQ(get("/api/v1/stats/stream").status, 503U);
  server_->serve(*store_);
  EXPECT_EQ(get("/readyz").status, 200U);
  EXPECT_EQ(get("/api/v1/queues").status, 200U);
}

TEST_F(AdminHttp, Unknown_paths_and_methods_are_told_apart) {
  EXPECT_EQ(get("/api/v1/queue").code(), "not_found");
  EXPECT_EQ(get("/api/v1/queues/").status, 404U);
  EXPECT_EQ(get("//api/v1/queues").status, 404U);
  const auto answer = post("/api/v1/queues");
  EXPECT_EQ(answer.status, 405U);
  EXPECT_EQ(answer.field("allow"), "GET, HEAD");
  EXPECT_EQ(call("BREW", "/api/v1/queues").status, 405U);
  EXPECT_EQ(call("OPTIONS", "/api/v1/queues").status, 405U);
}

TEST_F(AdminHttp, Head_is_get_without_its_body) {
  const auto whole = get("/api/v1/queues");
  const auto head = call("HEAD", "/api/v1/queues");
  EXPECT_EQ(head.status, 200U);
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(head.field("content-length"), std::to_string(whole.body.size()));
}

TEST_F(AdminHttp, A_connection_serves_one_request_after_the_other) {
  RawClient client(port());
  for (int i = 0; i < 3; ++i) {
    client.send(request_text("GET", "/healthz"));
    EXPECT_EQ(client.answer().status, 200U);
  }
  // Two at once, and one that ends it.
  client.send(request_text("GET", "/version") + request_text("GET", "/api/v1/queues") +
              request_text("GET", "/healthz", {.fields = "Connection: close\r\n"}));
  EXPECT_EQ(client.answer().json().at("version"), "1.2.3");
  EXPECT_EQ(client.answer().json().at("more"), false);
  EXPECT_EQ(client.answer().json().at("status"), "ok");
  EXPECT_TRUE(client.is_closed_within(usual_patience));
}

TEST_F(AdminHttp, Answers_name_their_request) {
  const auto named = call("GET", "/version", {.fields = "X-Request-Id: abc-1.2_3\r\n"});
  EXPECT_EQ(named.field("x-request-id"), "abc-1.2_3");
  const auto error = call("GET", "/nothing", {.fields = "X-Request-Id: abc\r\n"});
  EXPECT_EQ(error.json().at("error").at("request_id"), "abc");
  const auto odd = call("GET", "/version", {.fields = "X-Request-Id: a b<script>\r\n"});
  EXPECT_THAT(odd.field("x-request-id"), testing::Not(HasSubstr("script")));
  EXPECT_NE(odd.field("x-request-id"), get("/version").field("x-request-id"));
}

TEST_F(AdminHttp, Requests_are_told_to_the_log) {
  std::mutex mutex;
  std::vector<HttpRequestDone> done;
  options_.on_request = [&](const HttpRequestDone& request) {
    const std::lock_guard lock(mutex);
    done.push_back(request);
  };
  call("PUT", "/api/v1/queues/orders?secret=1", {.body = "{}"});
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return !done.empty();
  }));
  EXPECT_EQ(done.front().method, "PUT");
  EXPECT_EQ(done.front().path, "/api/v1/queues/orders");
  EXPECT_EQ(done.front().status, 400U);
  EXPECT_EQ(done.front().peer, "127.0.0.1");
  EXPECT_FALSE(done.front().request_id.empty());
  server_.reset();
}

}  // namespace
}  // namespace strand::server
