#include "kafka/broker.h"

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kafka/client.h"

namespace strand::kafka {
namespace {

using namespace std::chrono_literals;

class BrokerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = TestBroker::missing()) GTEST_SKIP() << *reason;
  }

  static Owned<rd_kafka_t> producer(const TestBroker& broker) {
    return make_client(RD_KAFKA_PRODUCER,
                       {{"bootstrap.servers", broker.address()}, {"enable.idempotence", "true"}});
  }

  static void send(rd_kafka_t* producer, const std::string& topic, std::string_view key,
                   std::string_view value) {
    produce(producer, topic, 0, key, std::string(value), {{"kind", "test"}});
  }

  static std::vector<std::string> values(const TestBroker& broker, const std::string& topic) {
    std::vector<std::string> found;
    for (const Stored& one : broker.messages(topic))
      found.push_back(one.value.value_or("none"));
    return found;
  }
};

TEST_F(BrokerTest, What_was_confirmed_is_there_in_order_after_every_end) {
  TestBroker broker;
  const std::string topic = broker.fresh_topic();
  const auto client = producer(broker);
  std::vector<std::string> sent;
  for (int i = 0; i < 3; ++i) {
    for (const char* part : {"a", "b", "c"}) {
      sent.push_back(fmt::format("{}{}", part, i));
      send(client.get(), topic, "key", sent.back());
    }
    ASSERT_EQ(rd_kafka_flush(client.get(), 30'000), RD_KAFKA_RESP_ERR_NO_ERROR);
    if (i == 0) {
      broker.stop();
    } else {
      broker.kill();
    }
    EXPECT_FALSE(broker.running());
    broker.start();
    EXPECT_EQ(values(broker, topic), sent);
  }
  const Stored first = broker.messages(topic).front();
  EXPECT_EQ(first.key, "key");
  EXPECT_EQ(first.offset, 0);
  EXPECT_THAT(first.headers, ::testing::ElementsAre(std::pair("kind", "test")));
}

TEST_F(BrokerTest, A_paused_broker_confirms_nothing_until_it_goes_on) {
  TestBroker& broker = shared_broker();
  const std::string topic = broker.fresh_topic(3);
  const auto client = producer(broker);
  send(client.get(), topic, "key", "before");
  ASSERT_EQ(rd_kafka_flush(client.get(), 30'000), RD_KAFKA_RESP_ERR_NO_ERROR);
  broker.pause();
  send(client.get(), topic, "key", "meanwhile");
  EXPECT_EQ(rd_kafka_flush(client.get(), 300), RD_KAFKA_RESP_ERR__TIMED_OUT);
  broker.resume();
  EXPECT_EQ(rd_kafka_flush(client.get(), 30'000), RD_KAFKA_RESP_ERR_NO_ERROR);
  EXPECT_EQ(values(broker, topic), (std::vector<std::string>{"before", "meanwhile"}));
}

TEST_F(BrokerTest, A_topic_is_made_once_and_one_that_was_not_made_is_named) {
  TestBroker& broker = shared_broker();
  broker.create_topic("orders", 2);
  EXPECT_TRUE(broker.messages("orders").empty());
  EXPECT_THROW(broker.create_topic("orders"), std::runtime_error);
  try {
    static_cast<void>(broker.messages("nowhere"));
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("nowhere"));
  }
}

TEST_F(BrokerTest, A_setting_that_does_not_fit_is_named) {
  try {
    const TestBroker broker({.settings = {{"num.io.threads", "many"}}});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("num.io.threads"));
  }
}

// Otherwise each test that is stopped by hand leaves a broker behind.
TEST_F(BrokerTest, A_broker_does_not_outlive_its_test) {
  int pipe[2] = {-1, -1};
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t test = ::fork();
  if (test == 0) {
    const TestBroker broker;
    const pid_t pid = broker.pid();
    static_cast<void>(!::write(pipe[1], &pid, sizeof(pid)));
    ::raise(SIGKILL);
  }
  pid_t broker = 0;
  ASSERT_EQ(::read(pipe[0], &broker, sizeof(broker)), static_cast<ssize_t>(sizeof(broker)));
  ::waitpid(test, nullptr, 0);
  const auto gone = [&] {
    std::ifstream file("/proc/" + std::to_string(broker) + "/stat");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return text.empty() || text.find(") Z") != std::string::npos;
  };
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!gone() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_TRUE(gone());
  ::close(pipe[0]);
  ::close(pipe[1]);
}

}  // namespace
}  // namespace strand::kafka
