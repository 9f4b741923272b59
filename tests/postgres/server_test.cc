#include "postgres/server.h"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "postgres/fixture.h"

namespace strand::postgres {
namespace {

using namespace std::chrono_literals;

class ServerTest : public PostgresTest {};

TEST_F(ServerTest, Databases_are_new_and_empty_and_belong_to_an_ordinary_user) {
  const std::string one = shared_server().fresh_database();
  EXPECT_NE(one, shared_server().fresh_database());
  const auto connection = connect_to(one);
  EXPECT_EQ(
      query(*connection, "SELECT count(*) FROM pg_tables WHERE tableowner = 'strand'").int8(0, 0),
      0);
  EXPECT_FALSE(query(*connection, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
                   .boolean(0, 0));
}

TEST_F(ServerTest, What_was_committed_survives_every_end) {
  TestServer server({.settings = {{"max_connections", "20"}}});
  const std::string url = server.fresh_database();
  script(*connect_to(url), "CREATE TABLE kept (i int8)");
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto connection = connect_to(url);
    query(*connection, "INSERT INTO kept VALUES ($1)", Params().int8(i));
    EXPECT_EQ(query(*connection, "SHOW max_connections").bytes(0, 0), "20");
    if (i == 0) {
      server.restart(TestServer::Stop::fast);
    } else if (i == 1) {
      server.restart(TestServer::Stop::immediate);
    } else {
      server.kill();
      EXPECT_FALSE(server.running());
      server.start();
    }
  }
  EXPECT_EQ(query(*connect_to(url), "SELECT count(*) FROM kept").int8(0, 0), 3);
}

TEST_F(ServerTest, A_durable_server_syncs) {
  const TestServer server({.durable = true});
  const auto connection = connect_to(server.url());
  EXPECT_EQ(query(*connection, "SHOW fsync").bytes(0, 0), "on");
  EXPECT_EQ(query(*connection, "SHOW full_page_writes").bytes(0, 0), "on");
}

// Otherwise each test that is stopped by hand leaves a server behind.
TEST_F(ServerTest, A_server_does_not_outlive_its_test) {
  int pipe[2] = {-1, -1};
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t test = ::fork();
  if (test == 0) {
    const TestServer server;
    const pid_t pid = server.pid();
    static_cast<void>(!::write(pipe[1], &pid, sizeof(pid)));
    ::raise(SIGKILL);
  }
  pid_t server = 0;
  ASSERT_EQ(::read(pipe[0], &server, sizeof(server)), static_cast<ssize_t>(sizeof(server)));
  ::waitpid(test, nullptr, 0);
  const auto gone = [&] {
    const std::string stat = "/proc/" + std::to_string(server) + "/stat";
    std::ifstream file(stat);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return text.empty() || text.find(") Z") != std::string::npos;
  };
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!gone() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_TRUE(gone());
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_F(ServerTest, A_setting_that_is_none_is_named) {
  try {
    const TestServer server({.settings = {{"nonsense", "1"}}});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("nonsense"));
  }
}

TEST_F(ServerTest, A_synchronous_standby_takes_over_with_all_that_was_committed) {
  TestPair pair;
  const std::string url = pair.fresh_database();
  {
    const auto connection = connect_to(url);
    script(*connection, "CREATE TABLE kept (i int8)");
    for (std::int64_t i = 0; i < 100; ++i) {
      query(*connection, "INSERT INTO kept VALUES ($1)", Params().int8(i));
    }
  }
  pair.fail_over();
  const auto connection = connect_to(url);
  EXPECT_EQ(query(*connection, "SELECT count(*) FROM kept").int8(0, 0), 100);
  query(*connection, "INSERT INTO kept VALUES (100)");
}

}  // namespace
}  // namespace strand::postgres
