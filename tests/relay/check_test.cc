#include "relay/check.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kafka/broker.h"
#include "relay/fixture.h"
#include "relay/status.h"

namespace strand::relay {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RelayCheck : public RelayTest {
 protected:
  std::vector<Finding> findings(const Config& wanted, bool kafka = false) {
    auto found = check(wanted, {.kafka = kafka});
    EXPECT_TRUE(found) << found.error().message;
    return found.value_or(std::vector<Finding>{});
  }
  static auto finding(const std::string& kind, const std::string& what) {
    return Contains(
        AllOf(Field("kind", &Finding::kind, kind), Field("what", &Finding::what, HasSubstr(what))));
  }
};

TEST_F(RelayCheck, What_init_makes_is_right_for_every_strategy_and_style) {
  int number = 0;
  for (const char* strategy : {"advisory", "skip_locked", "shards"}) {
    for (const char* style : {"mark", "delete", "status"}) {
      for (const char* order : {"lock", "watermark"}) {
        const Config wanted = config(
            fmt::format("table = \"t{}\"\nstrategy = \"{}\"\nstyle = \"{}\"\ncommit_order = \"{}\"",
                        ++number, strategy, style, order));
        init(wanted);
        init(wanted);  // it can be run again
        EXPECT_THAT(findings(wanted), IsEmpty()) << strategy << " " << style << " " << order;
      }
    }
  }
}

TEST_F(RelayCheck, Each_thing_that_is_missing_is_named) {
  const Config wanted = config("strategy = \"shards\"");
  EXPECT_THAT(findings(wanted), AllOf(finding("own_table", "strand_relay_claims"),
                                      finding("table", "no table public.outbox")));
  init(wanted);
  script(look(),
         "DROP INDEX outbox_waiting; DROP INDEX outbox_waiting_by_key; DROP INDEX "
         "outbox_waiting_by_shard; DROP TRIGGER outbox_order ON outbox; ALTER TABLE outbox DISABLE "
         "TRIGGER outbox_notify; ALTER TABLE outbox ALTER aggregateid DROP NOT NULL");
  EXPECT_THAT(
      findings(wanted),
      AllOf(finding("index", "no index on (id)"), finding("index", "no index on (aggregateid, id)"),
            finding("index", "a shard"), finding("trigger", "outbox_order"),
            finding("trigger", "polling only"), finding("column", "may be NULL")));
  // One that covers all rows would do, but grow with those that were sent.
  script(look(), "CREATE INDEX ON outbox (id)");
  EXPECT_THAT(findings(wanted), finding("index", "no index on (id)"));
}

TEST_F(RelayCheck, An_index_for_another_number_of_shards_will_not_do) {
  init(config("strategy = \"shards\"\nshards = 16"));
  EXPECT_THAT(findings(config("strategy = \"shards\"\nshards = 16")), IsEmpty());
  for (const int shards : {1, 6, 8, 160}) {
    EXPECT_THAT(findings(config(fmt::format("strategy = \"shards\"\nshards = {}", shards))),
                finding("index", "a shard"));
  }
}

TEST_F(RelayCheck, A_column_without_a_sequence_gets_no_trigger_that_needs_one) {
  const Config wanted = config();
  const auto connection = connect_to(url());
  script(
      *connection,
      "CREATE TABLE outbox (id bigint PRIMARY KEY, aggregatetype text, aggregateid text NOT NULL, "
      "type text, payload jsonb, sent_at timestamptz)");
  const auto refused = connection->script(triggers_sql(wanted.tables.front()));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("no sequence of its own"));
}

TEST_F(RelayCheck, Missing_privileges_are_named) {
  const Config wanted = config("retention = \"1h\"");
  init(wanted);
  Config other = wanted;
  postgres::TestServer& server = postgres::shared_server();
  const std::string database = url().substr(url().rfind('/') + 1);
  server.sql("DROP ROLE IF EXISTS relay_reader; CREATE ROLE relay_reader LOGIN PASSWORD 'x'");
  server.sql("GRANT USAGE ON SCHEMA public TO relay_reader; GRANT SELECT ON outbox TO relay_reader",
             database);
  other.conninfo =
      fmt::format("postgres://relay_reader:x@127.0.0.1:{}/{}", server.port(), database);
  EXPECT_THAT(findings(other), AllOf(finding("privilege", "may not UPDATE on public.outbox"),
                                     finding("privilege", "may not DELETE on public.outbox"),
                                     finding("privilege", "strand_relay_epochs")));
  server.sql("DROP OWNED BY relay_reader", database);
  server.sql("DROP ROLE relay_reader");
}

TEST_F(RelayCheck, Topics_and_brokers_are_looked_for) {
  if (const auto reason = kafka::TestBroker::missing()) GTEST_SKIP() << *reason;
  const std::string there = kafka::shared_broker().fresh_topic();
  const std::string kafka =
      fmt::format("\"bootstrap.servers\" = \"{}\"", kafka::shared_broker().address());
  const Config fine = config(fmt::format("topic = \"{}\"", there), kafka);
  init(fine);
  EXPECT_THAT(findings(fine, true), IsEmpty());
  insert("a");
  EXPECT_THAT(findings(config("topic = \"nowhere.${aggregatetype}\"", kafka), true),
              finding("topic", "no topic nowhere.order"));
}

TEST_F(RelayCheck, Status_tells_what_waits_and_since_when) {
  const Config wanted = config();
  init(wanted);
  auto tables = status(wanted);
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_EQ(tables->front().waiting_rows, 0);
  EXPECT_FALSE(tables->front().oldest);
  insert("z");
  insert("a");
  query(look(),
        "UPDATE outbox SET created_at = now() - interval '90 seconds' WHERE aggregateid = 'z'");
  tables = status(wanted);
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_EQ(tables->front().waiting_rows, 2);
  ASSERT_TRUE(tables->front().oldest);
  EXPECT_EQ(tables->front().oldest->entity, "z");
  EXPECT_GE(tables->front().oldest->waiting_ms.value_or(0), 90'000);
}

}  // namespace
}  // namespace strand::relay
