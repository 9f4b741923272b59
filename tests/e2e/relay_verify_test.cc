#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/program.h"
#include "kafka/broker.h"
#include "postgres/server.h"
#include "pq/connection.h"

namespace strand::e2e {
namespace {

using kafka::shared_broker;
using testing::HasSubstr;

// A table as a relay leaves it, and a topic.
class RelayVerifyCommand : public Program {
 protected:
  void SetUp() override {
    for (const auto& reason : {postgres::TestServer::missing(), kafka::TestBroker::missing()})
      if (reason) GTEST_SKIP() << *reason;
    database_ = postgres::shared_server().fresh_database();
    topic_ = shared_broker().fresh_topic();
    config_ = folder() + "/relay.toml";
    write_config("");
    ok({"relay", "init", "--config", config_, "--apply"});
  }

  void write_config(const std::string& more) const {
    std::ofstream(config_) << fmt::format(
        "[database]\nurl = \"{}\"\n[kafka]\n\"bootstrap.servers\" = \"{}\"\n[tables.outbox]\n"
        "topic = \"{}\"\n{}\n",
        database_, shared_broker().address(), topic_, more);
  }

  void sql(const std::string& text) const {
    auto connection = postgres::Connection::open(database_);
    ASSERT_TRUE(connection) << connection.error().message;
    const auto done = (*connection)->script(text);
    ASSERT_TRUE(done) << done.error().message;
  }

  void send(const std::vector<std::string>& ids) const {
    std::vector<kafka::Stored> messages;
    for (const std::string& id : ids)
      messages.push_back({.key = "order-7", .value = "{}", .headers = {{"id", id}}});
    shared_broker().send(topic_, messages);
  }

  std::string database_;
  std::string topic_;
  std::string config_;
};

TEST_F(RelayVerifyCommand, Says_whether_the_topic_has_what_the_table_says_was_sent) {
  // Without the trigger, which would give them other numbers.
  sql("ALTER TABLE outbox DISABLE TRIGGER USER; INSERT INTO outbox (aggregatetype, aggregateid, "
      "type, payload, sent_at) "
      "SELECT 'order', 'order-7', 'OrderPaid', '{}', now() FROM generate_series(1, 3)");
  send({"1", "2", "1", "2"});

  const Finished wrong = run({"relay", "verify", "--config", config_});
  EXPECT_EQ(wrong.exit, 1);
  EXPECT_EQ(wrong.err, "strand: 1 things are wrong\n");
  EXPECT_THAT(wrong.out, HasSubstr("missing: row 3 of order-7 was sent, and is in no topic\n"));

  send({"3"});
  EXPECT_THAT(ok({"relay", "verify", "--config", config_}), HasSubstr("every row that was sent"));
  const auto report = json({"relay", "verify", "--config", config_});
  EXPECT_EQ(text(report, "ok"), "true");
  EXPECT_EQ(text(report, "table"), "outbox");
  EXPECT_EQ(count(report, "sent"), 3U);
  EXPECT_EQ(count(report, "delivered"), 3U);
  EXPECT_EQ(count(report, "repeated"), 2U);
  EXPECT_EQ(count(report, "missing"), 0U);

  send({"77"});
  EXPECT_EQ(run({"relay", "verify", "--config", config_}).exit, 1);
  EXPECT_EQ(count(json({"relay", "verify", "--config", config_, "--allow-unknown"}), "unknown"),
            1U);
}

TEST_F(RelayVerifyCommand, A_table_that_keeps_nothing_needs_a_list) {
  write_config("style = \"delete\"");
  send({"1", "2"});
  EXPECT_THAT(refused(1, {"relay", "verify", "--config", config_}), HasSubstr("--expected"));

  const std::string list = folder() + "/rows";
  std::ofstream(list) << "{\"id\": \"1\", \"key\": \"order-7\"}\n"
                         "{\"id\": \"2\", \"key\": \"order-7\"}\n";
  const Words command{"relay",   "verify", "--config",   config_,
                      "--topic", topic_,   "--expected", list};
  EXPECT_EQ(count(json(command), "delivered"), 2U);
  std::ofstream(list, std::ios::app) << "{\"id\": \"3\"}\n";
  EXPECT_THAT(refused(1, command), HasSubstr("line 3"));
  std::ofstream(list) << "{\"id\": \"2\", \"key\": \"order-7\"}\n"
                         "{\"id\": \"1\", \"key\": \"order-7\"}\n";
  const Finished wrong = run(command);
  EXPECT_EQ(wrong.exit, 1);
  EXPECT_THAT(wrong.out, HasSubstr("reordered: row 2 of order-7 comes after the later row 1"));
  EXPECT_THAT(refused(1, {"relay", "verify", "--config", config_, "--expected", "/no/such/file"}),
              HasSubstr("/no/such/file"));
}

}  // namespace
}  // namespace strand::e2e
