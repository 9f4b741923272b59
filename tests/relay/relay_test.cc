#include "relay/relay.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>

#include "kafka/broker.h"
#include "kafka/mock.h"
#include "postgres/pooler.h"
#include "relay/fixture.h"
#include "relay/status.h"

// Relays in this process, from a real database to a real broker.

namespace strand::relay {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class RelayRuns : public RelayTest {
 protected:
  void SetUp() override {
    RelayTest::SetUp();
    if (const auto reason = kafka::TestBroker::missing()) GTEST_SKIP() << *reason;
  }

  static kafka::TestBroker& broker() { return kafka::shared_broker(); }
  static std::string to_broker() {
    return fmt::format("\"bootstrap.servers\" = \"{}\"", broker().address());
  }

  // The payloads' numbers, by key, in the order in which they lie in the topic.
  static std::map<std::string, std::vector<std::string>> by_key(const std::string& topic) {
    std::map<std::string, std::vector<std::string>> found;
    for (const kafka::Stored& message : broker().messages(topic))
      found[message.key].push_back(message.value.value_or("(tombstone)"));
    return found;
  }
  static std::vector<std::string> numbered(int count) {
    std::vector<std::string> result;
    for (int n = 1; n <= count; ++n)
      result.push_back(fmt::format("{{\"n\": {}}}", n));
    return result;
  }
  static double metric(const Relay& relay, std::string_view name) {
    for (const Metric& metric : relay.metrics())
      if (metric.name == name) return metric.value;
    ADD_FAILURE() << "no metric " << name;
    return 0;
  }
};

struct Kind {
  const char* strategy;
  const char* style;
};

class RelayKinds : public RelayRuns, public ::testing::WithParamInterface<Kind> {};

INSTANTIATE_TEST_SUITE_P(All, RelayKinds,
                         ::testing::Values(Kind{"advisory", "mark"}, Kind{"advisory", "delete"},
                                           Kind{"advisory", "status"}, Kind{"skip_locked", "mark"},
                                           Kind{"skip_locked", "delete"},
                                           Kind{"skip_locked", "status"}, Kind{"shards", "mark"},
                                           Kind{"shards", "delete"}, Kind{"shards", "status"}),
                         [](const auto& test) {
                           return fmt::format("{}_{}", test.param.strategy, test.param.style);
                         });

TEST_P(RelayKinds, Rows_of_each_entity_arrive_once_and_in_order) {
  const std::string topic = broker().fresh_topic(4);
  const Config wanted = config(fmt::format("strategy = \"{}\"\nstyle = \"{}\"\ntopic = \"{}\"",
                                           GetParam().strategy, GetParam().style, topic),
                               to_broker());
  init(wanted);
  for (int n = 1; n <= 5; ++n)
    for (const char* entity : {"a", "b", "c", "d"})
      insert(entity, fmt::format("{{\"n\": {}}}", n));
  const auto relay = start(wanted);
  ASSERT_NE(relay, nullptr);
  wait_until_empty(*relay);
  for (int n = 6; n <= 8; ++n)
    insert("a", fmt::format("{{\"n\": {}}}", n));
  wait_until_empty(*relay);
  relay->stop();
  const auto found = by_key(topic);
  EXPECT_THAT(found, Contains(Pair("a", numbered(8))));
  for (const char* entity : {"b", "c", "d"})
    EXPECT_THAT(found, Contains(Pair(entity, numbered(5))));
  EXPECT_EQ(metric(*relay, "strand_relay_rows_total"), 23);
  EXPECT_THAT(log(), IsEmpty());
  // Nothing is left behind.
  EXPECT_EQ(number("SELECT count(*) FROM strand_relay_claims"), 0);
  EXPECT_EQ(number("SELECT count(*) FROM strand_relay_workers"), 0);
  EXPECT_EQ(number("SELECT count(*) FROM strand_relay_shards WHERE until > now()"), 0);
  EXPECT_EQ(number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), 0);
}

// A worker that is told to stop while it still connects has nothing to complain of.
TEST_F(RelayRuns, Stopping_before_all_workers_are_connected_is_no_trouble) {
  const Config wanted = config("workers = 16", to_broker());
  init(wanted);
  for (int i = 0; i < 10; ++i) {
    const auto relay = start(wanted);
    ASSERT_NE(relay, nullptr);
    relay->stop();
  }
  EXPECT_THAT(log(), IsEmpty());
  EXPECT_EQ(number("SELECT count(*) FROM strand_relay_workers"), 0);
}

TEST_F(RelayRuns, A_message_has_key_headers_partition_and_tombstone_of_its_row) {
  const std::string topic = broker().fresh_topic(3);
  const Config wanted = config(
      "columns = { headers = \"headers\", topic = \"topic\", partition = \"part\", traceparent = "
      "\"trace\" }\nheader_columns = { tenant = \"tenant\" }\nheaders = { source = \"shop\" }",
      to_broker());
  init(wanted);
  query(
      look(),
      "INSERT INTO outbox (aggregatetype, aggregateid, type, payload, headers, topic, part, trace, "
      "tenant) VALUES ('order', 'k', 'Gone', NULL, '{\"x\": 1, \"y\": \"z\"}', '" +
          topic + "', 2, 'tp', 'acme')");
  const auto relay = start(wanted);
  wait_until_empty(*relay);
  const auto messages = broker().messages(topic);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages.front().key, "k");
  EXPECT_EQ(messages.front().value, std::nullopt);
  EXPECT_EQ(messages.front().partition, 2);
  const std::map<std::string, std::string> headers = {
      {"id", "2"}, {"type", "Gone"}, {"traceparent", "tp"}, {"tenant", "acme"}, {"source", "shop"},
      {"x", "1"},  {"y", "z"}};
  EXPECT_EQ(messages.front().headers, headers);
}

TEST_F(RelayRuns, Shards_run_in_transactions_of_Kafka) {
  const std::string topic = broker().fresh_topic(2);
  const Config wanted = config(
      fmt::format("strategy = \"shards\"\nshards = 2\nworkers = 2\ntransactional = true\ntopic = "
                  "\"{}\"",
                  topic),
      to_broker());
  init(wanted);
  insert_many("a", 3);
  insert_many("b", 3);
  const auto relay = start(wanted);
  wait_until_empty(*relay);
  // A transaction is decided when it is confirmed; readers are shown it a moment later.
  wait_until([&] { return broker().messages(topic).size() >= 6; });
  const auto found = by_key(topic);
  EXPECT_THAT(found, Contains(Pair("a", numbered(3))));
  EXPECT_THAT(found, Contains(Pair("b", numbered(3))));
}

TEST_F(RelayRuns, Shards_can_be_those_of_partitions) {
  const std::string topic = broker().fresh_topic(4);
  const Config wanted =
      config(fmt::format("strategy = \"shards\"\nshards = 4\nworkers = 2\nshard_by = "
                         "\"partition\"\ntopic = \"{}\"\ncolumns = {{ partition = \"part\" }}",
                         topic),
             to_broker());
  init(wanted);
  for (int n = 1; n <= 3; ++n)
    for (int partition = 0; partition < 4; ++partition)
      query(look(), fmt::format("INSERT INTO outbox (aggregatetype, aggregateid, type, payload, "
                                "part) VALUES ('o', 'a', 't', '{{\"n\": {}}}', {})",
                                n, partition));
  const auto relay = start(wanted);
  wait_until_empty(*relay);
  std::map<std::int32_t, std::vector<std::string>> found;
  for (const kafka::Stored& message : broker().messages(topic))
    found[message.partition].push_back(message.value.value_or(""));
  for (int partition = 0; partition < 4; ++partition)
    EXPECT_EQ(found[partition], numbered(3)) << partition;
}

// --- Poison ---

TEST_F(RelayRuns, A_poison_row_parks_its_entity_and_no_other) {
  const std::string topic = broker().fresh_topic();
  const Config wanted =
      config(fmt::format("topic = \"{}\"\ncolumns = {{ topic = \"topic\" }}", topic), to_broker());
  init(wanted);
  insert("bad", R"({"n": 1})");
  query(look(),
        "INSERT INTO outbox (aggregatetype, aggregateid, type, payload, topic) VALUES ('o', "
        "'bad', 't', '{\"n\": 2}', 'no such/topic')");
  insert("bad", R"({"n": 3})");
  insert_many("good", 3);
  const auto relay = start(wanted);
  wait_until_empty(*relay);
  auto found = by_key(topic);
  EXPECT_THAT(found, Contains(Pair("good", numbered(3))));
  EXPECT_THAT(found, Contains(Pair("bad", ElementsAre(R"({"n": 1})")))) << "what came before went";
  const auto tables = status(wanted);
  ASSERT_TRUE(tables) << tables.error().message;
  ASSERT_EQ(tables->front().trouble.size(), 1U);
  EXPECT_EQ(tables->front().trouble.front().entity, "bad");
  EXPECT_EQ(tables->front().trouble.front().state, "parked");
  EXPECT_THAT(tables->front().trouble.front().reason, HasSubstr("no name of a topic"));
  EXPECT_EQ(tables->front().waiting_rows, 2);
  // Mended and resumed, it goes on in order.
  query(look(), "UPDATE outbox SET topic = NULL");
  EXPECT_EQ(resume(wanted, wanted.tables.front(), {}), 1U);
  wait_until_empty(*relay);
  EXPECT_THAT(by_key(topic), Contains(Pair("bad", numbered(3))));
}

TEST_F(RelayRuns, A_blocked_entity_is_tried_again_and_heals) {
  const std::string topic = broker().fresh_topic();
  const Config wanted =
      config(fmt::format("topic = \"{}\"\ncolumns = {{ topic = \"topic\" }}\non_poison = "
                         "\"block\"\npoison_backoff = [\"10ms\", \"50ms\"]",
                         topic),
             to_broker());
  init(wanted);
  query(look(),
        "INSERT INTO outbox (aggregatetype, aggregateid, type, payload, topic) VALUES ('o', "
        "'bad', 't', '{\"n\": 1}', '?')");
  insert("bad", R"({"n": 2})");
  const auto relay = start(wanted);
  wait_until([&] {
    return number("SELECT coalesce(max(attempts), 0)::int8 FROM strand_relay_trouble") >= 3;
  });
  EXPECT_THAT(by_key(topic), IsEmpty()) << "nothing overtakes the first row";
  query(look(), "UPDATE outbox SET topic = NULL");
  wait_until([&] { return number("SELECT count(*) FROM outbox WHERE sent_at IS NULL") == 0; });
  EXPECT_THAT(by_key(topic), Contains(Pair("bad", numbered(2))));
  wait_until([&] { return number("SELECT count(*) FROM strand_relay_trouble") == 0; });
}

// The broker refuses a message that the client would have taken: with it, the batch it was in.
TEST_F(RelayRuns, A_row_that_the_broker_refuses_goes_to_the_dead_letters_alone) {
  const std::string topic = broker().fresh_topic() + ".small";
  broker().create_topic(topic, 1, {{"max.message.bytes", "2000"}});
  broker().create_topic(topic + ".dead");
  const Config wanted = config(fmt::format("topic = \"{}\"\non_poison = \"dead_letter\"", topic),
                               to_broker() + "\n\"compression.type\" = \"none\"");
  init(wanted);
  insert("bad", R"({"n": 1})");
  insert("bad", fmt::format(R"({{"n": "{}"}})", std::string(3000, 'x')));
  insert("bad", R"({"n": 3})");
  insert_many("good", 3);
  const auto relay = start(wanted);
  wait_until_empty(*relay);
  EXPECT_EQ(metric(*relay, "strand_relay_dead_letters_total"), 1);
  // Others may have come twice, because they went with it at first.
  std::vector<std::string> first;
  const auto found = by_key(topic);
  for (const std::string& value : found.at("bad"))
    if (std::ranges::find(first, value) == first.end()) first.push_back(value);
  EXPECT_THAT(first, ElementsAre(R"({"n": 1})", R"({"n": 3})"));
  const auto dead = broker().messages(topic + ".dead");
  ASSERT_EQ(dead.size(), 1U);
  EXPECT_EQ(dead.front().key, "bad");
  EXPECT_EQ(dead.front().headers.at("strand-relay-topic"), topic);
  EXPECT_THAT(dead.front().headers.at("strand-relay-reason"), HasSubstr("large"));
  EXPECT_EQ(number("SELECT count(*) FROM strand_relay_trouble"), 0);
}

// --- Outages ---

TEST_F(RelayRuns, Kafka_down_is_waited_for_and_order_is_kept) {
  kafka::MockBroker mock;
  mock.create_topic("t");
  const Config wanted = config("topic = \"t\"\nlease = \"2s\"\ndelivery_timeout = \"500ms\"",
                               fmt::format("\"bootstrap.servers\" = \"{}\"", mock.address()));
  init(wanted);
  mock.down();
  insert_many("a", 3);
  const auto relay = start(wanted);
  wait_until([&] { return metric(*relay, "strand_relay_outages_total") >= 2; });
  EXPECT_EQ(number("SELECT count(*) FROM outbox WHERE sent_at IS NOT NULL"), 0);
  mock.up();
  wait_until_empty(*relay);
  EXPECT_EQ(metric(*relay, "strand_relay_rows_total"), 3);
  EXPECT_EQ(number("SELECT count(*) FROM strand_relay_trouble"), 0) << "an outage is no poison";
}

// A worker that has lost its session must not go on waiting: somebody else has its entities.
TEST_F(RelayRuns, A_lost_session_ends_the_wait_for_Kafka) {
  kafka::MockBroker mock;
  mock.create_topic("t");
  const Config wanted = config("topic = \"t\"\nworkers = 1\nlease = \"60s\"",
                               fmt::format("\"bootstrap.servers\" = \"{}\"", mock.address()));
  init(wanted);
  const auto relay = start(wanted);
  insert("a");
  wait_until_empty(*relay);
  mock.delay(std::chrono::seconds{20});
  insert("a");
  wait_until([&] {
    return number(
               "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT "
               "oid FROM pg_database WHERE datname = current_database())") > 0;
  });
  const auto began = std::chrono::steady_clock::now();
  query(look(),
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND database = "
        "(SELECT oid FROM pg_database WHERE datname = current_database())");
  mock.delay(std::chrono::milliseconds{0});
  wait_until([&] { return metric(*relay, "strand_relay_reconnects_total") >= 1; });
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds{15});
  wait_until_empty(*relay);
}

TEST_F(RelayRuns, A_database_that_restarts_is_connected_to_again) {
  postgres::TestServer server;
  const std::string topic = broker().fresh_topic();
  Config wanted = config(fmt::format("topic = \"{}\"", topic), to_broker());
  wanted.conninfo = server.fresh_database();
  const auto own = connect_to(wanted.conninfo);
  const TableSettings& table = wanted.tables.front();
  script(*own, own_tables_sql(OwnTables("public")) + outbox_sql(table) + indexes_sql(table) +
                   triggers_sql(table));
  const auto relay = start(wanted);
  wait_until([&] {
    return query(*own, "SELECT count(*) FROM strand_relay_workers").int8(0, 0) == table.workers;
  });
  server.restart(postgres::TestServer::Stop::immediate);
  const auto again = connect_to(wanted.conninfo);
  query(*again,
        "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('o', 'a', 't', "
        "'{\"n\": 1}')");
  wait_until_empty(*relay);
  EXPECT_THAT(by_key(topic), Contains(Pair("a", numbered(1))));
  EXPECT_GE(metric(*relay, "strand_relay_reconnects_total"), 1);
  relay->stop();
}

// --- Starting ---

TEST_F(RelayRuns, A_pooler_in_transaction_mode_is_refused) {
  if (const auto reason = postgres::TestPooler::missing()) GTEST_SKIP() << *reason;
  Config wanted = config("", to_broker());
  init(wanted);
  const postgres::TestPooler transactions(postgres::shared_server(), "transaction");
  wanted.conninfo = transactions.through(url());
  const auto refused = Relay::start(wanted, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("pooler in transaction mode"));

  const postgres::TestPooler sessions(postgres::shared_server(), "session");
  wanted.conninfo = sessions.through(url());
  const auto taken = Relay::start(wanted, {});
  EXPECT_TRUE(taken) << taken.error().message;
}

TEST_F(RelayRuns, What_will_not_mend_itself_is_said_at_the_start) {
  const auto refusal = [&](const Config& wanted) {
    const auto started = Relay::start(wanted, {});
    EXPECT_FALSE(started);
    return started ? "" : started.error().message;
  };
  EXPECT_THAT(refusal(config("", to_broker())), HasSubstr("strand relay init"));
  const Config wanted = config("", to_broker());
  init(wanted);
  EXPECT_THAT(refusal(config("columns = { key = \"agregateid\" }", to_broker())),
              HasSubstr("did you mean 'aggregateid'?"));
  EXPECT_THAT(refusal(config("columns = { order = \"created_at\" }", to_broker())),
              HasSubstr("columns.order"));
  EXPECT_THAT(refusal(config("", to_broker() + "\n\"lingr.ms\" = 3")), HasSubstr("lingr.ms"));
  EXPECT_THAT(refusal(config("", "")), HasSubstr("bootstrap.servers"));
}

TEST_F(RelayRuns, Workers_of_another_strategy_wait_for_the_end_of_those_before) {
  const std::string topic = broker().fresh_topic();
  const auto with = [&](const char* strategy) {
    return config(fmt::format("strategy = \"{}\"\nworkers = 1\nlease = \"1s\"\ntopic = \"{}\"",
                              strategy, topic),
                  to_broker());
  };
  init(with("shards"));
  const auto first = start(with("advisory"));
  wait_until([&] { return number("SELECT count(*) FROM strand_relay_workers") == 1; });
  const auto second = start(with("skip_locked"));
  wait_until([&] { return !log().empty(); });
  EXPECT_THAT(log().front(), HasSubstr("with the strategy advisory; waiting until it ends"));
  first->stop();
  insert("a", R"({"n": 1})");
  wait_until_empty(*second);
  EXPECT_EQ(metric(*second, "strand_relay_rows_total"), 1);
}

TEST_F(RelayRuns, Shards_are_shared_evenly_and_handed_over) {
  const Config wanted = config("strategy = \"shards\"\nshards = 8\nworkers = 2", to_broker());
  init(wanted);
  const auto owned = [&] {
    return number(
        "SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM strand_relay_shards "
        "WHERE until > now() GROUP BY owner) c");
  };
  const auto held = [&] {
    return number("SELECT count(*) FROM strand_relay_shards WHERE until > now()");
  };
  const auto first = start(wanted);
  wait_until([&] { return held() == 8 && owned() == 4; });
  {
    const auto second = start(wanted);
    wait_until([&] { return held() == 8 && owned() == 2; });
  }
  wait_until([&] { return held() == 8 && owned() == 4; });
}

// --- Cost, retention, wake-ups ---

TEST_F(RelayRuns, A_notification_wakes_up_without_a_poll) {
  const std::string topic = broker().fresh_topic();
  const Config wanted =
      config(fmt::format("topic = \"{}\"\nlease = \"60s\"\npoll = \"20s\"", topic), to_broker());
  init(wanted);
  const auto relay = start(wanted);
  insert("a", R"({"n": 1})");
  wait_until_empty(*relay);
  const auto began = std::chrono::steady_clock::now();
  insert("a", R"({"n": 2})");
  wait_until_empty(*relay);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds{10});
}

// Blocks that a claim, a read and a mark touch, with few and with many sent rows.
TEST_F(RelayRuns, The_cost_of_a_claim_does_not_grow_with_sent_rows) {
  for (const char* strategy : {"advisory", "skip_locked", "shards"}) {
    const Config wanted = config(fmt::format("strategy = \"{}\"", strategy), to_broker());
    init(wanted);
    const auto cost = [&] {
      for (const char* entity : {"a", "b", "c"})
        insert(entity);
      Hand one(url(), wanted.tables.front(), 0);
      const std::string blocks =
          "SELECT (heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::int8 FROM "
          "pg_statio_user_tables WHERE relname = 'outbox'";
      query(*one.connection, "SELECT pg_stat_force_next_flush()");
      query(look(), "SELECT pg_stat_force_next_flush()");
      const std::int64_t before = number(blocks);
      const auto held = one.claim();
      EXPECT_EQ(held.size(), 3U);
      for (const Claim& claim : held) {
        const auto rows = one.read({claim});
        EXPECT_EQ(rows.size(), 1U);
      }
      EXPECT_TRUE(one.mark(held, {}));
      query(*one.connection, "SELECT pg_stat_force_next_flush()");
      EXPECT_TRUE(one.claims->end());
      const std::int64_t after = number(blocks);
      query(look(), "DELETE FROM outbox WHERE sent_at IS NULL");
      return after - before;
    };
    const auto add_sent = [&](int count) {
      script(look(), "ALTER TABLE outbox DISABLE TRIGGER USER");  // which take their time
      query(look(), fmt::format("INSERT INTO outbox (aggregatetype, aggregateid, type, sent_at) "
                                "SELECT 'order', 'e' || n % 1000, 'x', now() FROM "
                                "generate_series(1, {}) n",
                                count));
      script(look(), "ALTER TABLE outbox ENABLE TRIGGER USER; ANALYZE outbox");
    };
    add_sent(100);
    const std::int64_t few = cost();
    add_sent(50'000);
    const std::int64_t many = cost();
    EXPECT_GT(few, 0) << strategy;
    EXPECT_LE(many, few + 30) << strategy;
    script(look(), "TRUNCATE outbox");
  }
}

TEST_F(RelayRuns, Old_rows_are_forgotten_and_waiting_ones_never) {
  const Config wanted = config("retention = \"1h\"", to_broker());
  init(wanted);
  insert("a");
  insert("b");
  insert("c");
  query(look(), "UPDATE outbox SET sent_at = now() - interval '2 hours' WHERE aggregateid = 'a'");
  query(look(), "UPDATE outbox SET sent_at = now() WHERE aggregateid = 'b'");
  Hand one(url(), wanted.tables.front(), 0);
  EXPECT_EQ(one.source->forget_sent(10), 1U);
  EXPECT_EQ(number("SELECT count(*) FROM outbox"), 2);
  EXPECT_EQ(number("SELECT count(*) FROM outbox WHERE aggregateid = 'a'"), 0);
}

TEST_F(RelayRuns, A_dry_run_shows_messages_and_changes_nothing) {
  const Config wanted = config("", to_broker());
  init(wanted);
  insert_many("a", 2);
  std::vector<std::string> lines;
  const auto done = dry_run(wanted, [&](std::string_view line) { lines.emplace_back(line); });
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines.front(), HasSubstr(R"("topic":"outbox.event.order")"));
  EXPECT_EQ(number("SELECT count(*) FROM outbox WHERE sent_at IS NULL"), 2);
}

TEST_F(RelayRuns, A_trace_tells_each_step_of_an_entity) {
  const std::string topic = broker().fresh_topic();
  const Config wanted = config(fmt::format("workers = 1\ntopic = \"{}\"", topic), to_broker());
  init(wanted);
  insert("a");
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("strand-relay-trace-{}", ::getpid());
  {
    const auto relay = start(wanted, {.process = "p1", .trace_file = file});
    wait_until_empty(*relay);
  }
  std::ifstream stream(file);
  std::vector<std::string> events;
  for (std::string line; std::getline(stream, line);) {
    EXPECT_THAT(line, HasSubstr(R"("process":"p1")"));
    EXPECT_THAT(line, HasSubstr(R"("entity":"a")"));
    const auto begin = line.find(R"("event":")") + 9;
    events.push_back(line.substr(begin, line.find('"', begin) - begin));
  }
  std::filesystem::remove(file);
  EXPECT_THAT(events, ElementsAre("claim", "publish", "confirmed", "released", "marked"));
}

}  // namespace
}  // namespace strand::relay
