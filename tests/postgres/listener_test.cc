#include "pq/listener.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "postgres/fixture.h"

namespace strand::postgres {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a listener was told.
class Ear {
 public:
  std::unique_ptr<Listener> on(const std::string& url, std::string channel = "news",
                               std::string on_connect = {}) {
    return std::make_unique<Listener>(
        ListenerOptions{url, std::move(channel), std::move(on_connect)},
        [this](std::string_view payload) { change([&] { heard_.emplace_back(payload); }); },
        [this] { change([&] { ++connects_; }); });
  }

  bool wait_for_connects(int count) {
    return wait([&] { return connects_ >= count; });
  }
  bool wait_for_heard(std::size_t count) {
    return wait([&] { return heard_.size() >= count; });
  }
  std::vector<std::string> heard() {
    const std::lock_guard lock(mutex_);
    return heard_;
  }
  int connects() {
    const std::lock_guard lock(mutex_);
    return connects_;
  }

 private:
  template <class Change>
  void change(Change make) {
    const std::lock_guard lock(mutex_);
    make();
    changed_.notify_all();
  }
  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 30s, condition);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> heard_;
  int connects_ = 0;
};

class ListenerTest : public PostgresTest {
 protected:
  static void terminate_listeners(TestServer& server) {
    server.sql(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'");
  }
  Ear ear_;
};

TEST_F(ListenerTest, Notifications_are_heard_in_order) {
  const auto listener = ear_.on(url());
  ASSERT_TRUE(ear_.wait_for_connects(1));
  EXPECT_TRUE(listener->connected());
  const auto connection = connect_to(url());
  script(*connection, "NOTIFY news, 'one'; NOTIFY other, 'no'; NOTIFY news");
  Group group;
  group.push_back({"SELECT pg_notify('news', $1)::text", Params().text("three")});
  ASSERT_TRUE(connection->run(group));
  ASSERT_TRUE(ear_.wait_for_heard(3));
  EXPECT_THAT(ear_.heard(), ElementsAre("one", "", "three"));
  EXPECT_EQ(ear_.connects(), 1);
}

TEST_F(ListenerTest, A_channel_may_have_any_name) {
  const auto listener = ear_.on(url(), "Strand \"news\"; DROP");
  ASSERT_TRUE(ear_.wait_for_connects(1)) << listener->last_trouble();
  script(*connect_to(url()), R"(NOTIFY "Strand ""news""; DROP", 'x')");
  EXPECT_TRUE(ear_.wait_for_heard(1));
}

TEST_F(ListenerTest, After_its_connection_was_ended_it_listens_again_and_says_so) {
  const auto listener = ear_.on(url());
  for (int round = 1; round <= 3; ++round) {
    ASSERT_TRUE(ear_.wait_for_connects(round)) << listener->last_trouble();
    script(*connect_to(url()), "NOTIFY news, '" + std::to_string(round) + "'");
    ASSERT_TRUE(ear_.wait_for_heard(static_cast<std::size_t>(round)));
    terminate_listeners(shared_server());
  }
  EXPECT_TRUE(ear_.wait_for_connects(4));
  EXPECT_THAT(ear_.heard(), ElementsAre("1", "2", "3"));
  EXPECT_FALSE(listener->last_trouble().empty());
}

TEST_F(ListenerTest, Each_connection_runs_the_script_first) {
  const auto listener = ear_.on(url(), "news", "SELECT pg_advisory_lock(42)");
  ASSERT_TRUE(ear_.wait_for_connects(1));
  const auto connection = connect_to(url());
  const std::string taken = "SELECT pg_try_advisory_lock(42)";
  EXPECT_FALSE(query(*connection, taken).boolean(0, 0));
  terminate_listeners(shared_server());
  ASSERT_TRUE(ear_.wait_for_connects(2));
  EXPECT_FALSE(query(*connection, taken).boolean(0, 0));
}

// Each of them would otherwise wait for ever, or for a long time.
TEST_F(ListenerTest, It_stops_at_once_whatever_it_waits_for) {
  std::chrono::steady_clock::time_point begin;
  const auto holder = connect_to(url());
  script(*holder, "SELECT pg_advisory_lock(1)");
  {
    const auto for_news = ear_.on(url());
    Ear other;
    const auto for_a_lock = other.on(url(), "news", "SELECT pg_advisory_lock(1)");
    const auto for_a_host = other.on("postgres://strand@192.0.2.1/strand");
    const auto for_a_server = other.on("postgres://strand@127.0.0.1:1/strand");
    ASSERT_TRUE(ear_.wait_for_connects(1));
    const std::string waiting =
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    while (query(*holder, waiting).empty() || for_a_server->last_trouble().empty()) {
      std::this_thread::sleep_for(5ms);
    }
    EXPECT_FALSE(for_a_lock->connected());
    EXPECT_FALSE(for_a_server->connected());
    EXPECT_THAT(for_a_server->last_trouble(), HasSubstr("port 1"));
    begin = std::chrono::steady_clock::now();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 8s);
}

TEST_F(ListenerTest, It_outlives_its_server) {
  TestServer server;
  const auto listener = ear_.on(server.url());
  ASSERT_TRUE(ear_.wait_for_connects(1));
  server.kill();
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (listener->connected() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_FALSE(listener->connected());
  server.start();
  ASSERT_TRUE(ear_.wait_for_connects(2)) << listener->last_trouble();
  script(*connect_to(server.url()), "NOTIFY news, 'back'");
  ASSERT_TRUE(ear_.wait_for_heard(1));
}

}  // namespace
}  // namespace strand::postgres
