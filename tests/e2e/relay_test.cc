#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/program.h"
#include "postgres/server.h"
#include "pq/connection.h"

namespace strand::e2e {
namespace {

using testing::HasSubstr;

// The commands of the relay as people use them, without a broker.
class RelayCommands : public Program {
 protected:
  void SetUp() override {
    if (const auto reason = postgres::TestServer::missing()) GTEST_SKIP() << *reason;
    database_ = postgres::shared_server().fresh_database();
    config_ = folder() + "/relay.toml";
    std::ofstream(config_) << fmt::format(
        "[database]\nurl = \"{}\"\n[kafka]\n\"bootstrap.servers\" = \"127.0.0.1:1\"\n"
        "[tables.outbox]\n[tables.second]\nstyle = \"delete\"\nstrategy = \"skip_locked\"\n",
        database_);
  }

  Words relay(Words words) const {
    words.insert(words.begin(), "relay");
    words.insert(words.end(), {"--config", config_});
    return words;
  }
  void sql(const std::string& text) const {
    auto connection = postgres::Connection::open(database_);
    ASSERT_TRUE(connection) << connection.error().message;
    const auto done = (*connection)->script(text);
    ASSERT_TRUE(done) << done.error().message;
  }
  void insert(const std::string& table, const std::string& entity) const {
    sql(
        fmt::format("INSERT INTO {} (aggregatetype, aggregateid, type, payload) VALUES ('order', "
                    "'{}', 'Paid', '{{}}')",
                    table, entity));
  }

  std::string database_;
  std::string config_;
};

TEST_F(RelayCommands, From_an_empty_database_to_messages) {
  EXPECT_THAT(refused(1, relay({"run", "--sink", "stdout"})), HasSubstr("strand relay init"));
  EXPECT_THAT(ok(relay({"init"})), HasSubstr("CREATE TABLE IF NOT EXISTS \"public\".\"outbox\""));
  EXPECT_EQ(ok(relay({"init", "--apply"})), "");
  EXPECT_EQ(ok(relay({"check", "--no-kafka"})), "all is well\n");
  insert("outbox", "order-7");
  insert("second", "order-8");
  EXPECT_EQ(json_lines(ok(relay({"run", "--dry-run"}))).size(), 2U);
  const std::string metrics = folder() + "/metrics.json";
  const Finished finished =
      run(relay({"run", "--sink", "stdout", "--until-empty", "--metrics", metrics}));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  const auto messages = json_lines(finished.out);
  ASSERT_EQ(messages.size(), 2U);
  for (const auto& message : messages)
    EXPECT_EQ(text(message, "topic"), "outbox.event.order");
  const auto status = json_lines(ok(relay({"status", "-o", "json"})));
  ASSERT_EQ(status.size(), 2U);
  EXPECT_EQ(text(status[0], "table"), "outbox");
  EXPECT_EQ(count(status[0], "waiting_rows"), 0U);
  EXPECT_EQ(text(status[1], "strategy"), "skip_locked");
  EXPECT_TRUE(std::filesystem::exists(metrics));
}

TEST_F(RelayCommands, A_signal_lets_it_finish) {
  ok(relay({"init", "--apply"}));
  insert("outbox", "order-7");
  Process process(command(relay({"run", "--sink", "stdout"})), on_store());
  EXPECT_THAT(process.read_line(), HasSubstr("order-7"));
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait().exit, 0);
  const auto status = json_lines(ok(relay({"status", "-o", "json"})));
  EXPECT_EQ(count(status[0], "waiting_rows"), 0U) << "what was sent is marked";
  EXPECT_EQ(text(status[0], "workers"), "[]") << "everything was given back";
}

TEST_F(RelayCommands, Mistakes_are_said_in_one_line) {
  EXPECT_THAT(refused(1, {"relay", "run"}), HasSubstr("--config"));
  EXPECT_THAT(refused(1, {"relay", "run", "--config", folder() + "/none.toml"}),
              HasSubstr("cannot read"));
  EXPECT_THAT(refused(1, relay({"status", "--table", "outbx"})),
              HasSubstr("did you mean 'outbox'?"));
  EXPECT_THAT(refused(2, relay({"run", "--strategy", "hope"})), HasSubstr("no strategy 'hope'"));
  EXPECT_THAT(refused(2, relay({"run", "--sink", "smtp"})), HasSubstr("kafka and stdout"));
  EXPECT_THAT(refused(2, relay({"resume"})), HasSubstr("--all"));
  std::ofstream(config_, std::ios::app) << "retension = \"1h\"\n";
  EXPECT_THAT(refused(1, relay({"status"})), HasSubstr("did you mean 'retention'?"));
}

}  // namespace
}  // namespace strand::e2e
