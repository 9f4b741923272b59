// What handlers need that keep the history of an instance: the history itself, labels, a stop for a
// person to look at, and leases of a length of their own.

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/consumer.h>

#include "consumer_fixture.h"

namespace strand {
namespace {

using namespace std::chrono_literals;

class ConsumerInstances : public ConsumerTest {
 protected:
  // One more event for the instance of the lane.
  static void append(Work& work, std::uint64_t expected_length) {
    work.transaction().appends.push_back(
        {.token = work.lease().token, .expected_length = expected_length, .events = {"event"}});
  }
};

TEST_F(ConsumerInstances, A_lane_comes_with_its_history_if_that_is_asked_for) {
  Notes<std::size_t> lengths;
  ConsumerOptions with_history = options();
  with_history.history = true;
  const auto consumer = consume(with_history, [&](Work& work) {
    EXPECT_TRUE(work.first_of_lease());
    const auto& history = work.lease().history;
    lengths.add(history ? history->events.size() : 0);
    append(work, lengths.all().back());
  });
  for (int i = 0; i < 3; ++i) {
    send("k", "x");
    consumer->wait_idle();
  }
  EXPECT_EQ(lengths.all(), (std::vector<std::size_t>{0, 1, 2}));
}

TEST_F(ConsumerInstances, A_later_batch_of_a_lease_says_that_the_history_may_be_old) {
  for (int i = 0; i < 3; ++i)
    send("k", std::to_string(i));
  Notes<bool> first;
  ConsumerOptions small = options();
  small.batch_messages = 2;
  small.hand_out = HandOut::messages;
  const auto consumer = consume(small, [&](Work& work) { first.add(work.first_of_lease()); });
  consumer->wait_idle();
  EXPECT_EQ(first.all().front(), true);
  EXPECT_THAT(first.all(), testing::Contains(false));
}

TEST_F(ConsumerInstances, A_parked_lane_stays_as_it_is_until_it_is_resumed) {
  send("k", "a");
  send("k", "b");
  std::atomic<bool> park = true;
  Notes<Bodies> seen;
  const auto consumer = consume([&](Work& work) {
    seen.add(bodies(work.messages()));
    add_send(work.transaction(), "out", "", "x");
    return park ? Verdict::park("a person should look") : Verdict::ok();
  });
  consumer->wait_idle();
  const auto peeked = store_->peek({.queue = "q", .key = "k"}).value();
  ASSERT_EQ(peeked.items.size(), 2);
  EXPECT_EQ(peeked.items[0].state, MessageState::parked);
  EXPECT_EQ(peeked.items[0].park_reason, "a person should look");
  EXPECT_EQ(peeked.items[0].attempts, 0);
  EXPECT_EQ(store_->stats("out").error().code, Errc::not_found) << "what it wanted was discarded";

  park = false;
  Transaction resume;
  resume.admin = ResumeLane{.queue = "q", .key = "k"};
  ASSERT_TRUE(store_->apply(resume));
  consumer->wait_idle();
  EXPECT_EQ(seen.all(), (std::vector<Bodies>{{"a", "b"}, {"a", "b"}}));
  EXPECT_EQ(stats().acked, 2);
}

// What was done counts, and what comes next waits for a person.
TEST_F(ConsumerInstances, A_lane_can_be_parked_by_a_commit) {
  send("k", "a");
  const auto consumer = consume([&](Work& work) {
    add_send(work.transaction(), "q", "k", "later");
    if (work.message().body == "a") work.park_lane("a person should look");
  });
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 1);
  EXPECT_EQ(stats().parked, 1);
}

TEST_F(ConsumerInstances, One_message_cannot_be_parked) {
  send("k", "a");
  const auto consumer = consume([&](Work& work) {
    EXPECT_THROW(work.decide(work.message(), Verdict::park("alone")), std::invalid_argument);
  });
  consumer->wait_idle();
}

TEST_F(ConsumerInstances, A_handler_may_label_its_lane) {
  send("k", "a");
  send("k", "later", 1h);
  const auto consumer = consume([&](Work& work) { work.set_label("second@2"); });
  consumer->wait_idle();
  const auto peeked = store_->peek({.queue = "q", .key = "k"}).value();
  ASSERT_EQ(peeked.items.size(), 1);
  EXPECT_EQ(peeked.items.front().label, "second@2");
}

// The queue says 30 s; this handler wants to be missed earlier than that.
TEST_F(ConsumerInstances, A_handler_may_change_the_length_of_its_lease) {
  send("k", "a");
  Gate shortened;
  Gate go_on;
  std::atomic<bool> dead = false;
  hooked_->before_renew = [&]() -> std::optional<Error> {
    if (!dead) return std::nullopt;
    return Error{Errc::unavailable, "the process is as good as dead"};
  };
  std::atomic<int> calls = 0;
  const auto consumer = consume([&](Work& work) {
    if (++calls > 1) return;
    EXPECT_TRUE(work.lease_for(3s));
    shortened.open();
    go_on.wait();
  });
  shortened.wait();
  dead = true;
  clock_->advance(4s);
  // It has run out, and the consumer itself, or whoever asks first, gets the message anew.
  std::ignore = store_->lease({.queue = "q"});
  EXPECT_EQ(store_->peek({.queue = "q"}).value().items.at(0).attempts, 1);
  go_on.open();
  consumer->stop();
  EXPECT_EQ(consumer->stats().lost, 1);
}

// Not once when it was asked for: all the time.
TEST_F(ConsumerInstances, The_length_of_a_lease_holds_for_its_renewals) {
  send("k", "a");
  Gate shortened;
  Gate go_on;
  const auto consumer = consume([&](Work& work) {
    EXPECT_TRUE(work.lease_for(3s));
    shortened.open();
    go_on.wait();
  });
  shortened.wait();
  renewals_.wait_for(1);
  for (std::size_t renewals = 2; renewals < 12; ++renewals) {
    clock_->advance(2s);
    renewals_.wait_for(renewals);
  }
  EXPECT_TRUE(store_->lease({.queue = "q"}).value().empty());
  go_on.open();
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 1);
}

}  // namespace
}  // namespace strand
