#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http_fixture.h"

// Streams of events.

namespace strand::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// The data of the next event of that kind; null if none comes.
boost::json::value next_event(RawClient& client, const std::string& kind) {
  const std::string text = client.read_until("\n\n");
  const std::string begin = "event: " + kind + "\ndata: ";
  if (!text.starts_with(begin)) {
    ADD_FAILURE() << "instead of " << kind << ": " << text;
    return nullptr;
  }
  return boost::json::parse(text.substr(begin.size(), text.size() - begin.size() - 2));
}

RawClient look_on(std::uint16_t port, const std::string& target, HttpExtras extras = {}) {
  RawClient client(port);
  client.send(request_text("GET", target, extras));
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("200 OK"));
  EXPECT_THAT(head, HasSubstr("text/event-stream"));
  return client;
}

TEST_F(AdminHttp, Counts_are_streamed_as_they_change) {
  send("orders", "a", "1");
  RawClient client = look_on(port(), "/api/v1/stats/stream?interval_ms=250");
  EXPECT_EQ(next_event(client, "stats").at("queues").at(0).at("stats").at("ready"), 1);
  send("orders", "a", "2");
  EXPECT_TRUE(eventually(
      [&] { return next_event(client, "stats").at("queues").at(0).at("stats").at("ready") == 2; }));
}

TEST_F(AdminHttp, The_interval_has_bounds) {
  for (const char* interval : {"0", "249", "60001", "x", "-1"}) {
    EXPECT_EQ(get(std::string("/api/v1/stats/stream?interval_ms=") + interval).status, 400U)
        << interval;
  }
}

TEST_F(AdminHttp, A_stream_ends_with_a_farewell) {
  RawClient client = look_on(port(), "/api/v1/stats/stream?interval_ms=60000");
  next_event(client, "stats");
  EXPECT_TRUE(server_->drain(5s));
  EXPECT_EQ(next_event(client, "end").at("reason"), "the server stops");
  EXPECT_TRUE(client.is_closed_within(usual_patience));
}

TEST_F(AdminHttp, There_are_only_so_many_streams) {
  options_.limits.streams = 2;
  {
    RawClient first = look_on(port(), "/api/v1/stats/stream");
    RawClient second = look_on(port(), "/api/v1/stats/stream?interval_ms=250");
    EXPECT_EQ(get("/api/v1/stats/stream").status, 503U);
    EXPECT_EQ(server_->load().streams, 2U);
    EXPECT_EQ(get("/api/v1/stats").status, 200U);
  }
  EXPECT_TRUE(eventually([&] { return server_->load().streams == 0; }));
}

TEST_F(AdminHttp, A_stream_shows_what_its_permit_lets_it_see_at_that_time) {
  KnownTokens tokens;
  tokens.set("worker", {{Role::receive, "orders"}});
  send("orders", "a", "1");
  send("secret", "a", "2");
  start(tokens);
  RawClient client = look_on(port(), "/api/v1/stats/stream?interval_ms=250", {.token = "worker"});
  const auto names = [&] {
    std::string all;
    const auto event = next_event(client, "stats");
    if (!event.is_object()) return all;
    for (const auto& queue : event.at("queues").as_array())
      all += std::string(queue.at("name").as_string()) + " ";
    return all;
  };
  EXPECT_EQ(names(), "orders ");
  tokens.set("worker", {{Role::receive, "#"}});
  EXPECT_TRUE(eventually([&] { return names() == "orders secret "; }));
  tokens.forget("worker");
  std::string last;
  EXPECT_TRUE(eventually([&] {
    last = client.read_until("\n\n");
    return last.starts_with("event: end");
  }));
  EXPECT_THAT(last, HasSubstr("not known any more"));
  EXPECT_TRUE(client.is_closed_within(usual_patience));
  server_.reset();
}

TEST_F(AdminHttp, Many_streams_are_served_beside_others) {
  std::vector<RawClient> lookers;
  for (int i = 0; i < 50; ++i)
    lookers.emplace_back(port());
  // All at once, so that most of them wait for what one of them has read.
  for (const RawClient& looker : lookers)
    looker.send(request_text("GET", "/api/v1/stats/stream?interval_ms=250"));
  for (RawClient& looker : lookers)
    EXPECT_THAT(looker.read_until("\r\n\r\n"), HasSubstr("200 OK"));
  for (RawClient& looker : lookers)
    EXPECT_TRUE(next_event(looker, "stats").is_object());
  EXPECT_TRUE(lives());
  EXPECT_LE(server_->load().requests, 1U);
}

}  // namespace
}  // namespace strand::server
