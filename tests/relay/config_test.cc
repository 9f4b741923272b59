#include "relay/config.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

namespace strand::relay {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Config> parse(const std::string& text) {
  return parse_config("[database]\nurl = \"postgres://h/d\"\n" + text, "relay.toml");
}

std::string complaint(const std::string& text) {
  const auto parsed = parse(text);
  EXPECT_FALSE(parsed) << text;
  return parsed ? "" : parsed.error().message;
}

TEST(RelayConfig, Nothing_but_a_table_has_the_names_of_Debezium) {
  const auto config = parse("[tables.outbox]");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_EQ(config->tables.size(), 1U);
  const TableSettings& table = config->tables.front();
  EXPECT_EQ(table.full_name(), "public.outbox");
  EXPECT_EQ(table.columns.key, "aggregateid");
  EXPECT_EQ(table.topic, "outbox.event.${aggregatetype}");
  EXPECT_EQ(table.strategy, Strategy::advisory);
  EXPECT_EQ(table.lease, std::chrono::seconds{30});
  EXPECT_EQ(table.delivery_timeout, std::chrono::seconds{15});
}

TEST(RelayConfig, A_table_says_otherwise_than_the_relay) {
  const auto config = parse(
      "[relay]\nstrategy = \"skip_locked\"\nlease = \"8s\"\n[tables.a]\ntable = \"app.events\"\n"
      "[tables.b]\nstrategy = \"shards\"\nlease = \"4s\"\nonly_shards = [\"0-2\", \"9\"]\n");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->tables[0].full_name(), "app.events");
  EXPECT_EQ(config->tables[0].strategy, Strategy::skip_locked);
  EXPECT_EQ(config->tables[0].delivery_timeout, std::chrono::seconds{4});
  EXPECT_EQ(config->tables[1].strategy, Strategy::shards);
  EXPECT_EQ(config->tables[1].delivery_timeout, std::chrono::seconds{2});
  EXPECT_THAT(config->tables[1].only_shards, ElementsAre(0, 1, 2, 9));
}

TEST(RelayConfig, An_unknown_key_is_refused_and_the_nearest_one_named) {
  EXPECT_THAT(complaint("[tables.outbox]\nstratgy = \"shards\"\n"),
              AllOf(HasSubstr("relay.toml: [tables.outbox] stratgy"),
                    HasSubstr("did you mean 'strategy'?")));
  EXPECT_THAT(complaint("[tabels.outbox]\n"), HasSubstr("did you mean 'tables'?"));
  EXPECT_THAT(complaint("[tables.outbox]\ncolumns = { kye = \"x\" }\n"),
              HasSubstr("did you mean 'key'?"));
  EXPECT_THAT(complaint("[tables.outbox]\nstrategy = \"advisery\"\n"),
              AllOf(HasSubstr("did you mean 'advisory'?"), HasSubstr("skip_locked")));
}

TEST(RelayConfig, Values_that_do_not_go_together_are_refused_with_the_reason) {
  EXPECT_THAT(complaint("[tables.outbox]\nlease = \"10s\"\ndelivery_timeout = \"9s\"\n"),
              HasSubstr("three quarters of the lease"));
  EXPECT_THAT(complaint("[tables.outbox]\ntransactional = true\n"), HasSubstr("shards"));
  EXPECT_THAT(complaint("[tables.outbox]\nstrategy = \"shards\"\ntransactional = true\n"
                        "lease = \"2s\"\npoll = \"100ms\"\n"),
              HasSubstr("at least 5s"));
  EXPECT_THAT(complaint("[tables.outbox]\nstyle = \"delete\"\nretention = \"1h\"\n"),
              HasSubstr("retention"));
  EXPECT_THAT(complaint("[tables.outbox]\nlease = 30\n"), HasSubstr("in quotes"));
  EXPECT_THAT(complaint("[tables.outbox]\nworkers = 0\n"), HasSubstr("from 1"));
  EXPECT_THAT(complaint("[tables.a]\ntable = \"t\"\n[tables.b]\ntable = \"public.t\"\n"),
              HasSubstr("twice"));
  EXPECT_THAT(complaint("[tables.outbox]\nonly_shards = [\"3-99\"]\nshards = 16\n"),
              HasSubstr("below 16"));
  EXPECT_THAT(complaint(""), HasSubstr("no table to relay"));
  EXPECT_THAT(complaint("[tables.outbox\n"), HasSubstr("no TOML"));
}

TEST(RelayConfig, Settings_of_Kafka_pass_through_but_not_those_that_order_depends_on) {
  const auto config = parse(
      "[kafka]\n\"bootstrap.servers\" = \"k:9092\"\nsasl.username = \"u\"\nlinger.ms = 5\n"
      "[tables.outbox]\n");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->kafka.at("bootstrap.servers"), "k:9092");
  EXPECT_EQ(config->kafka.at("sasl.username"), "u");
  EXPECT_EQ(config->kafka.at("linger.ms"), "5");
  EXPECT_THAT(complaint("[kafka]\n\"acks\" = 1\n[tables.outbox]\n"),
              HasSubstr("the relay sets it"));
}

TEST(RelayConfig, Secrets_come_from_the_environment) {
  ASSERT_EQ(::setenv("STRAND_TEST_SECRET", "hush", 1), 0);
  const auto config =
      parse("[kafka]\n\"sasl.password\" = \"x${STRAND_TEST_SECRET}y\"\n[tables.outbox]\n");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->kafka.at("sasl.password"), "xhushy");
  EXPECT_THAT(complaint("[kafka]\n\"sasl.password\" = \"${STRAND_TEST_UNSET}\"\n[tables.outbox]\n"),
              HasSubstr("no variable STRAND_TEST_UNSET"));
}

}  // namespace
}  // namespace strand::relay
