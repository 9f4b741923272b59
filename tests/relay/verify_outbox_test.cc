#include "relay/verify_outbox.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kafka/broker.h"
#include "postgres/fixture.h"
#include "relay/config.h"
#include "relay/init_sql.h"
#include "relay/outbox.h"

namespace strand::relay {
namespace {

using namespace std::chrono_literals;
using kafka::shared_broker;
using kafka::Stored;
using kafka::TestBroker;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An outbox and a topic, filled by hand: as a relay would, or as it must not.
class VerifyOutbox : public postgres::PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (IsSkipped()) return;
    if (const auto reason = TestBroker::missing()) GTEST_SKIP() << *reason;
    connection_ = connect_to(url());
    topic_ = shared_broker().fresh_topic(2);
  }

  // With these lines for the table.
  void make(const std::string& table) {
    const auto config = parse_config(
        fmt::format("[database]\nurl = \"{}\"\n[kafka]\n\"bootstrap.servers\" = \"{}\"\n"
                    "[relay]\nnotify = false\n[tables.outbox]\n{}\n",
                    url(), shared_broker().address(), table),
        "relay.toml");
    ASSERT_TRUE(config) << config.error().message;
    config_ = *config;
    script(*connection_, outbox_sql(config_.tables.front()));
  }

  // The rows of `a` and `b`, by turns: 1 and 3 are of a, 2 and 4 of b.
  void insert_rows(const std::string& values = "now()", const std::string& column = "sent_at") {
    script(*connection_,
           fmt::format("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload{0}{1}) "
                       "SELECT i, 'order', CASE WHEN i % 2 = 1 THEN 'a' ELSE 'b' END, 'T', '{{}}'"
                       "{0}{2} FROM generate_series(1, 4) i",
                       column.empty() ? "" : ", ", column, column.empty() ? "" : values));
  }

  static std::vector<Stored> messages(
      const std::vector<std::pair<std::string, std::string>>& sent) {
    std::vector<Stored> all;
    for (const auto& [key, id] : sent)
      all.push_back({.key = key, .value = "{}", .headers = {{"id", id}}});
    return all;
  }

  Result<OutboxVerified> verified(const VerifyOutboxOptions& options = {}) {
    const auto outbox =
        Outbox::describe(*connection_, config_.tables.front(), OwnTables(config_.own_schema));
    if (!outbox) return std::unexpected(outbox.error());
    return verify_outbox(*connection_, *outbox, config_.kafka, options);
  }

  Config config_;
  std::unique_ptr<postgres::Connection> connection_;
  std::string topic_;
};

TEST_F(VerifyOutbox, A_table_that_was_relayed_is_right) {
  make(fmt::format("topic = \"{}\"", topic_));
  insert_rows();
  script(*connection_, "UPDATE outbox SET sent_at = NULL WHERE id = 4");
  shared_broker().send(topic_, messages({{"a", "1"}, {"b", "2"}, {"a", "1"}, {"a", "3"}}));
  const auto found = verified();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->report.ok);
  EXPECT_EQ(found->report.rows, 4U);
  EXPECT_EQ(found->report.sent, 3U);
  EXPECT_EQ(found->report.delivered, 3U);
  EXPECT_EQ(found->report.repeated, 1U);
  EXPECT_THAT(found->topics, ElementsAre(topic_));
}

TEST_F(VerifyOutbox, What_is_missing_out_of_order_and_unknown_is_found) {
  make(fmt::format("topic = \"{}\"", topic_));
  insert_rows();
  shared_broker().send(topic_, messages({{"a", "3"}, {"a", "1"}, {"b", "4"}, {"b", "77"}}));
  const auto found = verified();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_FALSE(found->report.ok);
  EXPECT_EQ(found->report.reordered, 1U);
  EXPECT_EQ(found->report.missing, 1U);
  EXPECT_EQ(found->report.unknown, 1U);
  EXPECT_EQ(verified({.allow_unknown = true})->report.findings.size(), 2U);
}

TEST_F(VerifyOutbox, Topics_are_those_of_the_template_and_of_the_column_and_dead_letters) {
  const std::string other = shared_broker().fresh_topic();
  make(
      "topic = \"no.${aggregatetype}\"\ncolumns = { topic = \"goes_to\" }\n"
      "on_poison = \"dead_letter\"");
  insert_rows();
  script(*connection_,
         fmt::format("UPDATE outbox SET goes_to = CASE aggregateid WHEN 'a' THEN '{}' "
                     "ELSE '{}' END WHERE id < 4",
                     topic_, other));
  shared_broker().send(topic_, messages({{"a", "1"}, {"a", "3"}}));
  shared_broker().send(other, messages({{"b", "2"}}));
  shared_broker().create_topic(other + ".dead");
  shared_broker().send(other + ".dead", messages({{"b", "4"}}));
  const auto found = verified();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->report.ok);
  EXPECT_THAT(found->topics,
              ::testing::UnorderedElementsAre("no.order", "no.order.dead", topic_, topic_ + ".dead",
                                              other, other + ".dead"));
  EXPECT_THAT(found->absent,
              ::testing::UnorderedElementsAre("no.order", "no.order.dead", topic_ + ".dead"));
}

TEST_F(VerifyOutbox, A_table_with_a_status_and_an_order_of_its_own) {
  make(fmt::format(
      "topic = \"{}\"\nstyle = \"status\"\ncolumns = {{ id = \"event\", order = \"n\" }}", topic_));
  script(*connection_,
         "INSERT INTO outbox (event, n, aggregatetype, aggregateid, type, status) VALUES "
         "('00000000-0000-0000-0000-000000000002', 1, 'order', 'a', 'T', 'SENT'), "
         "('00000000-0000-0000-0000-000000000001', 2, 'order', 'a', 'T', 'SENT'), "
         "('00000000-0000-0000-0000-000000000003', 3, 'order', 'a', 'T', 'PROCESSING')");
  shared_broker().send(topic_, messages({{"a", "00000000-0000-0000-0000-000000000002"},
                                         {"a", "00000000-0000-0000-0000-000000000001"}}));
  const auto found = verified();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->report.ok);
  EXPECT_EQ(found->report.sent, 2U);
}

TEST_F(VerifyOutbox, Rows_that_are_deleted_are_held_against_a_list) {
  make(fmt::format("topic = \"{}\"\nstyle = \"delete\"", topic_));
  insert_rows("", "");
  script(*connection_, "DELETE FROM outbox WHERE id < 4");
  shared_broker().send(topic_, messages({{"a", "1"}, {"b", "2"}, {"a", "3"}}));
  const auto refused = verified();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("--expected"));

  const auto expected = parse_expected(
      "{\"id\": \"1\", \"key\": \"a\"}\n{\"id\": \"2\", \"key\": \"b\"}\n\n"
      "{\"id\": \"3\", \"key\": \"a\"}\n{\"id\": \"4\", \"key\": \"b\"}\n");
  ASSERT_TRUE(expected) << expected.error().message;
  VerifyOutboxOptions options{.topics = {topic_}, .expected = *expected};
  const auto found = verified(options);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->report.ok);
  EXPECT_EQ(found->report.sent, 3U);  // row 4 waits in the table

  options.expected->push_back({.id = "5", .entity = "a", .order = 5});
  EXPECT_EQ(verified(options)->report.missing, 1U);
  std::swap(options.expected->at(0).order, options.expected->at(2).order);
  EXPECT_EQ(verified(options)->report.reordered, 1U);
}

TEST_F(VerifyOutbox, A_list_with_a_line_that_is_none_names_it) {
  const auto wrong = parse_expected("{\"id\": \"1\", \"key\": \"a\"}\n{\"id\": 2}\n");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("line 2"));
}

}  // namespace
}  // namespace strand::relay
