#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/program.h"
#include "kafka/broker.h"
#include "postgres/server.h"
#include "pq/connection.h"

namespace strand::e2e {
namespace {

class BenchRelay : public Program {
 protected:
  void SetUp() override {
    for (const auto& reason : {postgres::TestServer::missing(), kafka::TestBroker::missing()})
      if (reason) GTEST_SKIP() << *reason;
  }
};

// Figures of a busy machine mean nothing; that they are there, and that nothing is left, does.
TEST_F(BenchRelay, Measures_all_strategies_beside_a_plain_loop_and_leaves_nothing_behind) {
  const std::string database = postgres::shared_server().fresh_database();
  const auto measure = [&](const std::string& part) {
    const Finished finished = run({"bench",  "relay",        "--store",
                                   database, "--kafka",      kafka::shared_broker().address(),
                                   "--only", part,           "--rows",
                                   "300",    "--naive-rows", "20",
                                   "--rate", "50",           "--duration",
                                   "1s",     "--sent",       "1000",
                                   "-o",     "json"});
    EXPECT_EQ(finished.exit, 0) << finished.err;
    const auto lines = json_lines(finished.out);
    EXPECT_EQ(lines.size(), 1U);
    return lines.empty() ? boost::json::object{} : lines.front();
  };
  const boost::json::object drain = measure("drain");
  ASSERT_FALSE(drain.empty());
  EXPECT_GT(drain.at("rows_per_s").as_double(), 0);
  for (const char* name : {"naive", "advisory", "skip_locked", "shards"})
    EXPECT_GT(drain.at("drain").at(name).at("times_naive").as_double(), 0) << name;

  const boost::json::object steady = measure("steady");
  ASSERT_FALSE(steady.empty());
  const boost::json::value& ms = steady.at("latency_ms");
  EXPECT_GT(ms.at("p50").as_double(), 0);
  EXPECT_GE(ms.at("p99").as_double(), ms.at("p50").as_double());
  const boost::json::object claim = measure("claim");
  ASSERT_FALSE(claim.empty());
  for (const char* name : {"advisory", "skip_locked", "shards"}) {
    EXPECT_GT(steady.at("steady").at(name).at("rows").to_number<int>(), 10) << name;
    EXPECT_GT(claim.at("claim").at(name).at("sent_us").as_double(), 0) << name;
  }
  const auto connection = postgres::Connection::open(database);
  ASSERT_TRUE(connection);
  const auto left = (*connection)
                        ->run(postgres::Group{{"SELECT count(*) FROM pg_namespace WHERE nspname "
                                               "LIKE 'strand%'",
                                               {}}});
  ASSERT_TRUE(left);
  EXPECT_EQ(left->front().int8(0, 0), 0);
}

TEST_F(BenchRelay, Needs_a_database_and_a_broker) {
  EXPECT_EQ(run({"bench", "relay", "--kafka", "127.0.0.1:1"}).exit, 2);
  EXPECT_EQ(run({"bench", "relay", "--store", "postgres://localhost/x"}).exit, 2);
}

}  // namespace
}  // namespace strand::e2e
