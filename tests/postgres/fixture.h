#pragma once

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "postgres/server.h"
#include "pq/connection.h"

namespace strand::postgres {

// A test on a database of its own.
class PostgresTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = TestServer::missing()) {
      GTEST_SKIP() << *reason;
    }
  }

  // Of the server that the tests share.
  const std::string& url() {
    if (url_.empty()) {
      url_ = shared_server().fresh_database();
    }
    return url_;
  }

  static std::unique_ptr<Connection> connect_to(const std::string& url) {
    auto connection = Connection::open(url);
    EXPECT_TRUE(connection) << connection.error().message;
    return connection ? std::move(*connection) : nullptr;
  }

  // Succeeds, or the test fails.
  static Rows query(Connection& connection, std::string sql, Params params = {}) {
    Group group;
    group.push_back({std::move(sql), std::move(params)});
    GroupResult result = connection.run(group);
    if (!result) {
      ADD_FAILURE() << group.front().sql << ": " << result.error().sqlstate << " "
                    << result.error().message;
      return {};
    }
    return std::move(result->front());
  }

  static void script(Connection& connection, const std::string& sql) {
    const auto done = connection.script(sql);
    EXPECT_TRUE(done) << sql << ": " << done.error().message;
  }

 private:
  std::string url_;
};

}  // namespace strand::postgres
