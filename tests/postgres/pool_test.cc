#include "store/postgres/pool.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "postgres/fixture.h"

namespace strand::postgres {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class PoolTest : public PostgresTest {
 protected:
  static PooledConnection acquire(Pool& pool, Duration wait = 20s) {
    auto connection = pool.acquire(wait);
    EXPECT_TRUE(connection) << connection.error().message;
    return std::move(connection.value());
  }
  static void terminate(TestServer& server, int pid) {
    server.sql("SELECT pg_terminate_backend(" + std::to_string(pid) + ", 10000)");
  }
};

TEST_F(PoolTest, Connections_are_opened_when_needed_and_used_again) {
  Pool pool(url(), 3, "");
  EXPECT_EQ(pool.size(), 0U);
  int pid = 0;
  {
    const PooledConnection one = acquire(pool);
    pid = one->backend_pid();
    const PooledConnection other = acquire(pool);
    EXPECT_NE(other->backend_pid(), pid);
    EXPECT_EQ(pool.size(), 2U);
  }
  EXPECT_EQ(pool.size(), 2U);
  PooledConnection again = acquire(pool);
  EXPECT_EQ(again->backend_pid(), pid);
  again = acquire(pool);
  EXPECT_EQ(pool.size(), 2U);
}

TEST_F(PoolTest, Whoever_finds_all_in_use_waits) {
  Pool pool(url(), 1, "");
  auto first = std::make_unique<PooledConnection>(acquire(pool));
  const int pid = (*first)->backend_pid();
  const auto refused = pool.acquire(20ms);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("all 1 connections to PostgreSQL are in use"));
  std::jthread giver([&] {
    std::this_thread::sleep_for(50ms);
    first.reset();
  });
  EXPECT_EQ(acquire(pool)->backend_pid(), pid);
}

TEST_F(PoolTest, Many_threads_share_few_connections) {
  Pool pool(url(), 3, "");
  script(*acquire(pool), "CREATE TABLE counted (i int8); INSERT INTO counted VALUES (0)");
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 12; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 50; ++j) {
          query(*acquire(pool), "UPDATE counted SET i = i + 1");
        }
      });
    }
  }
  EXPECT_EQ(query(*acquire(pool), "SELECT i FROM counted").int8(0, 0), 12 * 50);
  EXPECT_EQ(pool.size(), 3U);
}

TEST_F(PoolTest, Every_new_connection_runs_the_script) {
  Pool pool(url(), 2, "SET work_mem = '7MB'; SET application_name = 'here'");
  const PooledConnection one = acquire(pool);
  const PooledConnection other = acquire(pool);
  EXPECT_EQ(query(*one, "SELECT current_setting('work_mem')").bytes(0, 0), "7MB");
  EXPECT_EQ(query(*other, "SELECT current_setting('application_name')").bytes(0, 0), "here");

  Pool wrong(url(), 1, "SET nothing = 1");
  const auto refused = wrong.acquire(20s);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::invalid_argument);
  EXPECT_THAT(refused.error().message, HasSubstr("nothing"));
}

// Closed by the server while nobody looked: to its next user that would be a transaction with an
// unknown outcome, or one more to repeat.
TEST_F(PoolTest, A_connection_that_was_closed_while_idle_is_not_handed_out) {
  Pool pool(url(), 2, "");
  const int pid = acquire(pool)->backend_pid();
  terminate(shared_server(), pid);
  const PooledConnection connection = acquire(pool);
  EXPECT_NE(connection->backend_pid(), pid);
  query(*connection, "SELECT 1");
  EXPECT_EQ(pool.size(), 1U);
}

TEST_F(PoolTest, A_connection_that_broke_in_use_is_thrown_away) {
  Pool pool(url(), 1, "");
  {
    const PooledConnection connection = acquire(pool);
    terminate(shared_server(), connection->backend_pid());
    Group group;
    group.push_back({"SELECT 1", {}});
    EXPECT_FALSE(connection->run(group));
  }
  EXPECT_EQ(pool.size(), 0U);
  query(*acquire(pool), "SELECT 1");
}

TEST_F(PoolTest, What_trying_again_does_not_mend_is_said_at_once) {
  Pool pool(shared_server().url("nowhere"), 1, "");
  const auto begin = std::chrono::steady_clock::now();
  const auto refused = pool.acquire(60s);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::not_found);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
}

TEST_F(PoolTest, Closing_wakes_those_who_wait) {
  // For a connection, and for a server.
  Pool busy(url(), 1, "");
  Pool down("postgres://strand@127.0.0.1:1/strand", 1, "");
  const PooledConnection held = acquire(busy);
  const auto waiting = [](Pool& pool) {
    return std::jthread([&pool] {
      const auto refused = pool.acquire(10min);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, Errc::unavailable);
    });
  };
  const auto one = waiting(busy);
  const auto other = waiting(down);
  std::this_thread::sleep_for(50ms);
  busy.close();
  down.close();
}

class PoolOnItsServer : public PoolTest {};

TEST_F(PoolOnItsServer, Recovers_when_the_server_was_restarted) {
  TestServer server;
  Pool pool(server.fresh_database(), 4, "");
  {
    const PooledConnection one = acquire(pool);
    const PooledConnection other = acquire(pool);
    script(*one, "CREATE TABLE kept AS SELECT 1::int8 AS i");
  }
  server.restart(TestServer::Stop::fast);
  EXPECT_EQ(query(*acquire(pool), "SELECT i FROM kept").int8(0, 0), 1);
  server.kill();
  const auto refused = pool.acquire(100ms);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unavailable);
  EXPECT_THAT(refused.error().message, HasSubstr(std::to_string(server.port())));
  // It waits while there is none, and goes on when there is one.
  std::jthread late([&] {
    const PooledConnection connection = acquire(pool, 60s);
    EXPECT_EQ(query(*connection, "SELECT i FROM kept").int8(0, 0), 1);
  });
  server.start();
}

}  // namespace
}  // namespace strand::postgres
