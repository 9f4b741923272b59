#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/program.h"

// topic tail

namespace strand::e2e {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TopicTail : public Program {
 protected:
  void publish(const std::string& topic, const std::string& body) const {
    ok({"topic", "publish", topic, body});
  }
};

TEST_F(TopicTail, Prints_what_was_retained_and_leaves_nothing_behind) {
  ok({"topic", "set", "orders.eu.paid", "retain=1h"});
  publish("orders.eu.paid", "first");
  publish("orders.eu.paid", "second");
  const auto messages = json_lines(
      ok({"topic", "tail", "orders.#", "--from", "beginning", "--count", "2", "-o", "json"}));
  ASSERT_EQ(messages.size(), 2);
  EXPECT_EQ(text(messages[0], "body"), "first");
  EXPECT_EQ(text(messages[0], "topic"), "orders.eu.paid");
  EXPECT_EQ(text(messages[1], "body"), "second");
  EXPECT_EQ(
      json_lines(ok({"topic", "ls", "-o", "json"})).front().at("subscriptions").as_array().size(),
      0);
  EXPECT_EQ(ok({"queue", "ls", "-o", "json"}), "");
}

TEST_F(TopicTail, Ends_after_its_time_and_by_a_signal) {
  EXPECT_EQ(ok({"topic", "tail", "#", "--for", "10ms"}), "");
  Process process(command({"topic", "tail", "#"}), on_store());
  process.wait_until_it_catches(SIGINT);
  process.signal(SIGINT);
  EXPECT_EQ(process.wait().exit, 0);
}

TEST_F(TopicTail, A_wrong_pattern_is_refused) {
  EXPECT_THAT(refused(1, {"topic", "tail", "a.#.b"}), HasSubstr("#"));
}

}  // namespace
}  // namespace strand::e2e
