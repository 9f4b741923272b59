// Looking on at what is published.

#include <memory>
#include <string>
#include <vector>

#include <strand/topics.h>

#include "queue/consumer_fixture.h"
#include "queue/fixture.h"

namespace strand::queue {
namespace {

std::function<void(const Message&)> noting(Notes<Bytes>& notes) {
  return [&notes](const Message& message) { notes.add(message.body); };
}

// The queues of tails.
std::vector<std::string> tails(Store& store) {
  std::vector<std::string> names;
  for (const QueueInfo& info : Answer(store.queues()).value())
    if (info.name.starts_with("strand.tail.")) names.push_back(info.name);
  return names;
}

TEST_P(QueueLibrary, A_tail_shows_what_is_published_and_leaves_nothing_behind) {
  Topics topics(store());
  ASSERT_TRUE(Answer(topics.publish("orders.eu", "before")));
  Notes<Bytes> seen;
  {
    const auto tail = Answer(topics.tail("orders.*", noting(seen))).value();
    for (const char* const body : {"a", "b", "c"})
      ASSERT_TRUE(Answer(topics.publish("orders.eu", body, {.key = "k"})));
    ASSERT_TRUE(Answer(topics.publish("bills.eu", "x", {.key = "k"})));
    seen.wait_for(3);
    EXPECT_THAT(tails(store()), SizeIs(1));
  }
  EXPECT_EQ(seen.all(), (Bodies{"a", "b", "c"}));
  EXPECT_THAT(Answer(store().queues()).value(), IsEmpty());
  EXPECT_THAT(Answer(topics.list()).value(), IsEmpty());
  EXPECT_EQ(Answer(topics.publish("orders.eu", "after")).value().matched, 0U);
}

TEST_P(QueueLibrary, A_tail_may_start_in_the_past) {
  Topics topics(store());
  ASSERT_TRUE(Answer(topics.retain("orders", 1h)));
  ASSERT_TRUE(Answer(topics.publish("orders", "a", {.key = "k"})));
  clock().advance(1min);
  ASSERT_TRUE(Answer(topics.publish("orders", "b", {.key = "k"})));
  Notes<Bytes> seen;
  const auto tail = Answer(topics.tail("#", noting(seen), Time{})).value();
  ASSERT_TRUE(Answer(topics.publish("orders", "c", {.key = "k"})));
  seen.wait_for(3);
  EXPECT_EQ(seen.all(), (Bodies{"a", "b", "c"}));
}

TEST_P(QueueLibrary, Tails_do_not_disturb_each_other) {
  Topics topics(store());
  Notes<Bytes> mine;
  Notes<Bytes> yours;
  const auto one = Answer(topics.tail("#", noting(mine))).value();
  auto other = Answer(topics.tail("#", noting(yours))).value();
  ASSERT_TRUE(Answer(topics.publish("t", "a")));
  mine.wait_for(1);
  yours.wait_for(1);
  other.reset();
  ASSERT_TRUE(Answer(topics.publish("t", "b")));
  mine.wait_for(2);
  EXPECT_EQ(mine.all(), (Bodies{"a", "b"}));
}

TEST_P(QueueLibrary, A_tail_with_a_bad_pattern_is_refused_and_leaves_nothing_behind) {
  Topics topics(store());
  EXPECT_EQ(Answer(topics.tail("#.x", [](const Message&) {})).error().code, Errc::invalid_argument);
  EXPECT_THAT(Answer(store().queues()).value(), IsEmpty());
}

// What a killed process had in its hands is not a failure that anybody has to look at.
TEST_P(QueueLibrary, What_a_killed_tail_held_is_gone_after_a_minute_without_dead_letters) {
  Topics topics(store());
  QueueSettings settings_of_tail;
  {
    const auto tail = Answer(topics.tail("#", [](const Message&) {})).value();
    settings_of_tail = settings(tails(store()).at(0));
  }
  configure("left", settings_of_tail);
  ASSERT_TRUE(Answer(topics.subscribe("left", "#")));
  ASSERT_TRUE(Answer(topics.publish("t", "a")));
  std::ignore = lease_one("left");
  clock().advance(31s);
  EXPECT_EQ(stats("left").ready, 1U);  // the lease ran out
  clock().advance(30s);
  EXPECT_EQ(stats("left").live(), 0U);
  EXPECT_EQ(stats("left").dead, 0U);
  EXPECT_EQ(stats("left").expired, 1U);
}

TEST_P(QueueLibrary, A_new_tail_removes_those_whose_process_was_killed) {
  Topics topics(store());
  ASSERT_TRUE(Answer(topics.subscribe("strand.tail.0000000000000001", "old.#")));
  ASSERT_TRUE(Answer(topics.subscribe("strand.tail.0000000000000002", "#")));
  ASSERT_TRUE(Answer(topics.subscribe("strand.tailor", "old.#")));  // somebody's own
  ASSERT_TRUE(Answer(topics.publish("old.t", "a", {.key = "k"})));
  std::ignore = drain("strand.tail.0000000000000002");
  clock().advance(31s);
  ASSERT_TRUE(Answer(topics.publish("new", "b")));  // one that lives has not taken it yet

  const auto tail = Answer(topics.tail("none", [](const Message&) {})).value();
  EXPECT_FALSE(has_queue("strand.tail.0000000000000001"));
  EXPECT_TRUE(has_queue("strand.tail.0000000000000002"));
  EXPECT_TRUE(has_queue("strand.tailor"));
}

}  // namespace
}  // namespace strand::queue
