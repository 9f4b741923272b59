#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kafka/broker.h"
#include "postgres/fixture.h"
#include "postgres/server.h"
#include "relay/config.h"
#include "relay/init_sql.h"
#include "relay/relay.h"

// The database moves to another machine: the primary vanishes, its standby takes over.

namespace strand::relay {
namespace {

std::vector<std::string> strategies() {
  // A pair of servers takes its time: the one whose locks do not move with the database always.
  const bool full = std::getenv("STRAND_TEST_FULL") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  if (full) return {"advisory", "skip_locked", "shards"};
  return {"advisory"};
}

class RelayFailover : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const auto reason = kafka::TestBroker::missing()) GTEST_SKIP() << *reason;
  }

  // Tries until it knows that the row is there. It may have been there when an answer was lost: so
  // only if it is not.
  static void insert(std::unique_ptr<postgres::Connection>& connection, const std::string& url,
                     const std::string& entity, int n) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{60};
    while (std::chrono::steady_clock::now() < give_up) {
      if (connection == nullptr) {
        auto opened = postgres::Connection::open(url);
        if (!opened) {
          std::this_thread::sleep_for(std::chrono::milliseconds{20});  // nobody is there
          continue;
        }
        connection = *std::move(opened);
      }
      const auto done = connection->script(fmt::format(
          "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) SELECT 'order', '{0}', "
          "'Happened', '{{\"n\": {1}}}' WHERE NOT EXISTS (SELECT FROM outbox WHERE aggregateid = "
          "'{0}' AND payload->>'n' = '{1}')",
          entity, n));
      if (done) return;
      connection.reset();
    }
    FAIL() << "the database has not come back";
  }
};

INSTANTIATE_TEST_SUITE_P(Strategies, RelayFailover, ::testing::ValuesIn(strategies()),
                         [](const auto& info) { return info.param; });

TEST_P(RelayFailover, Every_committed_row_arrives_in_order_before_and_after) {
  constexpr int rows = 60;
  const std::vector<std::string> entities = {"a", "b", "c", "d"};
  postgres::TestPair pair;
  const std::string url = pair.fresh_database();
  kafka::TestBroker& broker = kafka::shared_broker();
  const std::string topic = broker.fresh_topic(2);
  const auto wanted = parse_config(
      fmt::format(
          "[database]\nurl = \"{}\"\n[kafka]\n\"bootstrap.servers\" = \"{}\"\n"
          "[tables.outbox]\nstrategy = \"{}\"\nlease = \"3s\"\nworkers = 3\ntopic = \"{}\"\n",
          url, broker.address(), GetParam(), topic),
      "test.toml");
  ASSERT_TRUE(wanted) << wanted.error().message;
  auto connection = postgres::Connection::open(url).value();
  ASSERT_TRUE(connection->script(own_tables_sql(OwnTables(wanted->own_schema))));
  const TableSettings& table = wanted->tables.front();
  ASSERT_TRUE(connection->script(outbox_sql(table) + indexes_sql(table) + triggers_sql(table)));

  auto relay = Relay::start(*wanted, {});
  ASSERT_TRUE(relay) << relay.error().message;
  std::atomic<int> inserted = 0;
  std::thread application([&] {
    for (int n = 1; n <= rows; ++n) {
      for (const std::string& entity : entities)
        insert(connection, url, entity, n);
      inserted = n;
      inserted.notify_all();
    }
  });
  for (int n = inserted; n < rows / 3; n = inserted)
    inserted.wait(n);
  pair.fail_over();
  application.join();

  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  while (!(*relay)->empty().value_or(false)) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "rows wait on";
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  (*relay)->stop();

  std::map<std::string, std::vector<std::string>> first;  // deliveries of each row
  for (const kafka::Stored& message : broker.messages(topic)) {
    auto& seen = first[message.key];
    const std::string value = message.value.value_or("");
    if (std::ranges::find(seen, value) == seen.end()) seen.push_back(value);
  }
  std::vector<std::string> all;
  for (int n = 1; n <= rows; ++n)
    all.push_back(fmt::format("{{\"n\": {}}}", n));
  for (const std::string& entity : entities)
    EXPECT_EQ(first[entity], all) << entity;
}

}  // namespace
}  // namespace strand::relay
