#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "server/http_fixture.h"

// Callers who are too slow, too many, or gone.

namespace strand::server {
namespace {

using namespace std::chrono_literals;

TEST_F(AdminHttp, A_head_that_drips_in_is_cut_off) {
  options_.limits.header_timeout = 200ms;
  RawClient client(port());
  client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n");
  const auto begun = std::chrono::steady_clock::now();
  // It is not enough to send something now and then.
  std::thread drip([&] {
    while (client.send("A: b\r\n") && std::chrono::steady_clock::now() < begun + 3s)
      std::this_thread::sleep_for(20ms);
  });
  const auto answer = client.answer();
  EXPECT_EQ(answer.status, 408U);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 2s);
  drip.join();
  EXPECT_TRUE(lives());
}

TEST_F(AdminHttp, A_body_that_drips_in_is_cut_off) {
  options_.limits.body_timeout = 200ms;
  RawClient client(port());
  client.send(
      "PUT /api/v1/queues/orders HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
      "Content-Type: application/json\r\n\r\n");
  const auto begun = std::chrono::steady_clock::now();
  std::thread drip([&] {
    while (client.send(" ") && std::chrono::steady_clock::now() < begun + 3s)
      std::this_thread::sleep_for(20ms);
  });
  EXPECT_EQ(client.answer().status, 408U);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 2s);
  drip.join();
}

TEST_F(AdminHttp, Who_says_nothing_is_hung_up_on) {
  options_.limits.idle_timeout = 100ms;
  RawClient silent(port());
  RawClient served(port());
  served.send(request_text("GET", "/healthz"));
  EXPECT_EQ(served.answer().status, 200U);
  EXPECT_TRUE(silent.is_closed_within(usual_patience));
  EXPECT_TRUE(served.is_closed_within(usual_patience));
  EXPECT_TRUE(eventually([&] { return server_->load().connections == 0; }));
}

TEST_F(AdminHttp, Who_does_not_read_the_answer_is_cut_off) {
  options_.limits.write_timeout = 200ms;
  for (int i = 0; i < 8; ++i)
    send("orders", "a", Bytes(1'000'000, 'x'));
  RawClient client(port());
  std::string many;
  for (int i = 0; i < 20; ++i)
    many += request_text("GET", "/api/v1/queues/orders/messages?limit=8");
  client.send(many);
  EXPECT_TRUE(eventually([&] { return server_->load().connections == 0; }));
  EXPECT_TRUE(lives());
}

TEST_F(AdminHttp, Too_many_connections_are_refused_politely) {
  options_.limits.connections = 3;
  std::vector<RawClient> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back(port());
    callers.back().send(request_text("GET", "/healthz"));
    EXPECT_EQ(callers.back().answer().status, 200U);
  }
  const auto refused = get("/healthz");
  EXPECT_EQ(refused.status, 503U);
  EXPECT_EQ(refused.field("retry-after"), "1");
  EXPECT_EQ(refused.field("connection"), "close");
  callers.front().send(request_text("GET", "/version"));
  EXPECT_EQ(callers.front().answer().status, 200U);
  callers.clear();
  EXPECT_TRUE(eventually([&] { return get("/healthz").status == 200; }));
}

TEST_F(AdminHttp, Who_says_nothing_makes_room_for_others) {
  options_.limits.connections = 3;
  options_.limits.idle_kept = 100ms;
  RawClient looker(port());
  looker.send(request_text("GET", "/api/v1/stats/stream?interval_ms=250"));
  looker.read_until("\n\n");
  RawClient silent(port());
  RawClient slow(port());
  slow.send("GET / HTTP/1.1\r\n");
  EXPECT_TRUE(eventually([&] { return server_->load().connections == 3; }));
  EXPECT_TRUE(eventually([&] { return get("/healthz").status == 200; }));
  EXPECT_TRUE(silent.is_closed_within(usual_patience));
  RawClient another(port());
  another.send(request_text("GET", "/healthz"));
  EXPECT_EQ(another.answer().status, 200U);
  EXPECT_TRUE(eventually([&] {
    RawClient newcomer(port());
    newcomer.send(request_text("GET", "/healthz"));
    return newcomer.answer().status == 200 && slow.is_closed_within(0ms);
  }));
  // Who is being served stays.
  EXPECT_THAT(looker.read_until("\n\n"), testing::HasSubstr("event: stats"));
}

// As many as the system lets one process have on both sides of them.
TEST_F(AdminHttp, Idle_connections_hold_nobody_up) {
  const bool full = std::getenv("STRAND_TEST_FULL") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  std::size_t count = full ? 10'000 : 1'000;
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 2 * count + 200) count = (files.rlim_cur - 200) / 2;
  options_.limits.connections = count + 10;
  std::vector<RawClient> idle;
  for (std::size_t i = 0; i < count; ++i) {
    idle.emplace_back(port());
    if (i % 3 == 0) idle.back().send("GET / HT");
  }
  EXPECT_TRUE(eventually([&] { return server_->load().connections >= count; }));
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(lives());
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 1s);
  idle.clear();
  EXPECT_TRUE(eventually([&] { return server_->load().connections == 0; }));
}

TEST_F(AdminHttp, Who_vanishes_leaves_nothing_behind) {
  send("orders", "a", Bytes(500'000, 'x'));
  const std::string whole = request_text("PUT", "/api/v1/queues/orders", {.body = "{}"});
  for (std::size_t cut = 1; cut <= whole.size(); cut += 7) {
    RawClient client(port());
    client.send(whole.substr(0, cut));
    client.vanish();
  }
  for (int i = 0; i < 20; ++i) {
    RawClient client(port());
    client.send(request_text("GET", "/api/v1/queues/orders/messages"));
    client.vanish();
    RawClient looker(port());
    looker.send(request_text("GET", "/api/v1/stats/stream?interval_ms=250"));
    looker.vanish();
  }
  EXPECT_TRUE(eventually([&] {
    const auto load = server_->load();
    return load.connections == 0 && load.streams == 0 && load.requests == 0;
  }));
  EXPECT_TRUE(lives());
}

// Holds up those who ask for figures, until it is opened.
class Gate {
 public:
  std::string pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    return "passed\n";
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool wait_for(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 5s, [&] { return waiting_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

TEST_F(AdminHttp, Too_many_requests_at_once_are_told_to_come_again) {
  Gate gate;
  options_.worker_threads = 2;
  options_.limits.in_flight = 3;
  options_.metrics = [&] { return gate.pass(); };
  std::vector<RawClient> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back(port());
    callers.back().send(request_text("GET", "/metrics"));
  }
  ASSERT_TRUE(gate.wait_for(2));
  ASSERT_TRUE(eventually([&] { return server_->load().requests == 3; }));
  const auto refused = get("/api/v1/queues");
  EXPECT_EQ(refused.status, 503U);
  EXPECT_EQ(refused.field("retry-after"), "1");
  EXPECT_EQ(get("/healthz").status, 200U);  // health does not wait for anybody
  gate.open();
  for (RawClient& caller : callers)
    EXPECT_EQ(caller.answer().body, "passed\n");
  EXPECT_TRUE(eventually([&] { return lives(); }));
}

TEST_F(AdminHttp, Limits_are_as_configured) {
  options_.limits.header_bytes = 300;
  options_.limits.body_bytes = 20;
  options_.limits.json_depth = 2;
  const std::string start = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: ";
  EXPECT_EQ(raw(start + std::string(200, 'x') + "\r\n\r\n").status, 200U);
  EXPECT_EQ(raw(start + std::string(300, 'x') + "\r\n\r\n").status, 431U);
  EXPECT_EQ(put("/api/v1/queues/a", R"({"max_attempts": 12})").status, 200U);
  EXPECT_EQ(put("/api/v1/queues/a", R"({"max_attempts": 123})").status, 413U);
  EXPECT_EQ(put("/api/v1/queues/a", R"({"backoff_ms":[]})").status, 200U);
  const auto deep = put("/api/v1/queues/a", R"({"ttl_ms":[[]]})");
  EXPECT_THAT(deep.message(), testing::HasSubstr("2 levels"));
}

// Each is within its own limit.
TEST_F(AdminHttp, Bodies_and_answers_of_all_callers_have_a_limit_together) {
  options_.limits.held_bytes = 500'000;
  for (int i = 0; i < 4; ++i)
    send("orders", "a", Bytes(100'000, 'x'));
  const std::string start =
      "PUT /api/v1/queues/other HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: ";
  RawClient slow(port());
  slow.send(start + "300000\r\n\r\n{");
  EXPECT_TRUE(eventually([&] { return get("/api/v1/queues/orders/messages").status == 503; }));
  EXPECT_EQ(raw(start + "300000\r\n\r\n").status, 503U);
  EXPECT_EQ(get("/api/v1/queues/orders/messages?limit=1").status, 200U);
  EXPECT_EQ(put("/api/v1/queues/other", "{}").status, 200U);
  slow.vanish();
  EXPECT_TRUE(eventually([&] { return get("/api/v1/queues/orders/messages").status == 200; }));
}

TEST_F(AdminHttp, What_is_under_way_is_finished_before_the_end) {
  Gate gate;
  options_.metrics = [&] { return gate.pass(); };
  RawClient idle(port());
  RawClient busy(port());
  busy.send(request_text("GET", "/metrics"));
  ASSERT_TRUE(gate.wait_for(1));
  bool drained = false;
  std::thread drain([&] { drained = server_->drain(5s); });
  EXPECT_TRUE(idle.is_closed_within(usual_patience));
  EXPECT_TRUE(eventually([&] { return request(server_->port(), "GET", "/healthz").status == 0; }));
  gate.open();
  const auto answer = busy.answer();
  EXPECT_EQ(answer.body, "passed\n");
  EXPECT_EQ(answer.field("connection"), "close");
  drain.join();
  EXPECT_TRUE(drained);
}

TEST_F(AdminHttp, The_end_does_not_wait_for_those_who_take_too_long) {
  RawClient slow(port());
  slow.send("GET /healthz HTT");
  ASSERT_TRUE(eventually([&] { return server_->load().connections == 1; }));
  // Its first bytes must have been seen, or it counts as idle and is let go at once.
  slow.send("P/1.1\r\n");
  const auto begun = std::chrono::steady_clock::now();
  server_->drain(100ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 2s);
  EXPECT_TRUE(slow.is_closed_within(usual_patience));
}

TEST_F(AdminHttp, A_server_that_goes_takes_its_callers_with_it) {
  RawClient idle(port());
  RawClient looker(port());
  looker.send(request_text("GET", "/api/v1/stats/stream"));
  looker.read_until("\n\n");
  server_.reset();
  EXPECT_TRUE(idle.is_closed_within(usual_patience));
  EXPECT_TRUE(looker.is_closed_within(usual_patience));
}

TEST_F(AdminHttp, A_port_that_is_taken_is_said_to_be) {
  HttpOptions options;
  options.port = port();
  const auto second = HttpServer::start(options, open_access_);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, testing::HasSubstr(std::to_string(port())));
  options.host = "no such host";
  EXPECT_FALSE(HttpServer::start(options, open_access_));
}

}  // namespace
}  // namespace strand::server
