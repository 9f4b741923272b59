#include "relay/read_topics.h"

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>

#include "kafka/broker.h"
#include "kafka/client.h"

namespace strand::relay {
namespace {

using namespace std::chrono_literals;
using kafka::Owned;
using kafka::shared_broker;
using kafka::TestBroker;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ReadTopics : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = TestBroker::missing()) GTEST_SKIP() << *reason;
  }

  static void send(rd_kafka_t* producer, const std::string& topic, const std::string& id,
                   std::int32_t partition = 0) {
    std::map<std::string, std::string> headers;
    if (!id.empty()) headers["id"] = id;
    kafka::produce(producer, topic, partition, "key", "value", headers);
  }

  static Owned<rd_kafka_t> producer(std::map<std::string, std::string> more = {}) {
    more.insert({{"bootstrap.servers", shared_broker().address()}, {"linger.ms", "0"}});
    return kafka::make_client(RD_KAFKA_PRODUCER, more);
  }

  static std::unique_ptr<TopicReader> reader() {
    // As in a configuration: what is for producers does no harm.
    auto opened = TopicReader::open(
        {{"bootstrap.servers", shared_broker().address()}, {"linger.ms", "1"}}, 10s);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }

  static std::vector<std::string> ids(const std::vector<TopicMessage>& found) {
    std::vector<std::string> result;
    for (const TopicMessage& one : found)
      result.push_back(one.id.value_or("none"));
    return result;
  }
};

TEST_F(ReadTopics, All_that_was_there_is_read_and_nothing_that_came_later) {
  const std::string topic = shared_broker().fresh_topic(2);
  const std::string empty = shared_broker().fresh_topic();
  const auto client = producer();
  for (const char* id : {"1", "2", "", "3"})
    send(client.get(), topic, id);
  send(client.get(), topic, "other", 1);
  ASSERT_EQ(rd_kafka_flush(client.get(), 30'000), RD_KAFKA_RESP_ERR_NO_ERROR);

  const std::vector<std::string> topics{empty, topic};
  const auto read = reader();
  const auto ranges = read->ranges(topics);
  ASSERT_TRUE(ranges) << ranges.error().message;
  ASSERT_EQ(ranges->size(), 3U);
  send(client.get(), topic, "later");
  ASSERT_EQ(rd_kafka_flush(client.get(), 30'000), RD_KAFKA_RESP_ERR_NO_ERROR);

  const auto found = read->read(topics, *ranges);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->size(), 5U);
  std::vector<TopicMessage> first;
  for (const TopicMessage& one : *found)
    if (one.partition == 0) first.push_back(one);
  EXPECT_THAT(ids(first), ElementsAre("1", "2", "none", "3"));
  EXPECT_EQ(first.front().topic, 1U);
  EXPECT_EQ(first.front().key, "key");
  EXPECT_EQ(first.back().offset, 3);

  // A second look starts at the beginning again.
  const auto more = read->ranges(topics);
  ASSERT_TRUE(more);
  EXPECT_EQ(read->read(topics, *more)->size(), 6U);
}

// A consumer that reads committed messages never sees them either.
TEST_F(ReadTopics, What_a_transaction_has_undone_or_left_open_is_not_read) {
  const std::string topic = shared_broker().fresh_topic();
  const auto client = producer({{"transactional.id", "read-topics"}});
  ASSERT_EQ(rd_kafka_init_transactions(client.get(), 30'000), nullptr);
  for (const char* id : {"kept", "undone", "open"}) {
    ASSERT_EQ(rd_kafka_begin_transaction(client.get()), nullptr);
    send(client.get(), topic, id);
    ASSERT_EQ(rd_kafka_flush(client.get(), 30'000), RD_KAFKA_RESP_ERR_NO_ERROR);
    if (std::string_view(id) == "kept") {
      ASSERT_EQ(rd_kafka_commit_transaction(client.get(), 30'000), nullptr);
    } else if (std::string_view(id) == "undone") {
      ASSERT_EQ(rd_kafka_abort_transaction(client.get(), 30'000), nullptr);
    }
  }
  const auto read = reader();
  const auto ranges = read->ranges({topic});
  ASSERT_TRUE(ranges) << ranges.error().message;
  EXPECT_GT(ranges->front().end, 3);
  const auto found = read->read({topic}, *ranges);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(ids(*found), ElementsAre("kept"));
}

TEST_F(ReadTopics, A_topic_that_is_not_there_is_named) {
  const auto read = reader();
  const auto refused = read->ranges({"no-such-topic"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::not_found);
  EXPECT_THAT(refused.error().message, HasSubstr("no-such-topic"));

  std::vector<std::string> missing;
  const auto without = read->ranges({"no-such-topic"}, &missing);
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_THAT(missing, ElementsAre("no-such-topic"));
}

TEST_F(ReadTopics, A_broker_that_is_not_there_is_unavailable_and_a_wrong_setting_is_named) {
  auto nowhere =
      TopicReader::open({{"bootstrap.servers", "127.0.0.1:1"}, {"log_level", "0"}}, 300ms);
  ASSERT_TRUE(nowhere) << nowhere.error().message;
  const auto refused = (*nowhere)->ranges({"orders"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unavailable);

  const auto wrong = TopicReader::open({{"bootstrap.sirvers", "127.0.0.1:1"}}, 300ms);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("bootstrap.sirvers"));
}

}  // namespace
}  // namespace strand::relay
