#include "server/lease_waiters.h"

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/store.h>

#include "server/executor.h"

namespace strand::server {
namespace {

using namespace std::chrono_literals;
using Answer = LeaseWaiters::Answer;

class LeaseWaitersTest : public testing::Test {
 protected:
  void send(const std::string& queue, const std::string& key, const std::string& label = "") {
    Transaction transaction;
    Send send;
    send.queue = queue;
    send.key = key;
    send.label = label;
    transaction.sends.push_back(send);
    ASSERT_TRUE(store_->apply(transaction));
  }

  struct Waiting {
    std::future<Answer> answer;
    std::shared_ptr<LeaseWaiters::Waiter> waiter;

    [[nodiscard]] bool answered() const {
      return answer.wait_for(0ms) == std::future_status::ready;
    }
  };
  Waiting wait(LeaseRequest request, std::chrono::milliseconds limit = 60s) {
    auto promise = std::make_shared<std::promise<Answer>>();
    Waiting waiting{.answer = promise->get_future(), .waiter = {}};
    waiting.waiter =
        waiters_->wait(std::move(request), LeaseWaiters::Steady::now() + limit,
                       [promise](Answer answer) { promise->set_value(std::move(answer)); });
    return waiting;
  }
  // Until those that were just added have looked for themselves, and stand in line.
  void wait_idle() {
    for (int i = 0; i < 2; ++i) {
      std::promise<void> ran;
      executor_.run_always([&] { ran.set_value(); });
      ran.get_future().wait();
    }
  }

  std::unique_ptr<Store> store_ = open("memory:").value();
  Executor executor_{1, 1000};
  std::unique_ptr<LeaseWaiters> waiters_ = std::make_unique<LeaseWaiters>(*store_, executor_, 100);
};

TEST_F(LeaseWaitersTest, What_is_there_is_answered_at_once) {
  send("q", "a");
  EXPECT_EQ(wait({.queue = "q"}).answer.get().value().at(0).key, "a");
}

TEST_F(LeaseWaitersTest, A_send_wakes_who_waits) {
  send("q", "a");
  auto first = wait({.queue = "q"});
  ASSERT_EQ(first.answer.get()->size(), 1U);
  auto second = wait({.queue = "q"});
  wait_idle();
  EXPECT_FALSE(second.answered());
  send("q", "b");
  EXPECT_EQ(second.answer.get().value().at(0).key, "b");
}

TEST_F(LeaseWaitersTest, A_queue_need_not_exist_yet) {
  auto waiting = wait({.queue = "later"});
  wait_idle();
  send("later", "a");
  EXPECT_EQ(waiting.answer.get().value().at(0).key, "a");
}

TEST_F(LeaseWaitersTest, A_send_is_for_the_one_who_has_waited_longest) {
  auto first = wait({.queue = "q"});
  wait_idle();
  auto second = wait({.queue = "q"});
  wait_idle();
  send("q", "a");
  EXPECT_EQ(first.answer.get().value().at(0).key, "a");
  wait_idle();
  EXPECT_FALSE(second.answered());
  send("q", "b");
  EXPECT_EQ(second.answer.get().value().at(0).key, "b");
}

TEST_F(LeaseWaitersTest, Who_asks_for_other_labels_is_found_behind_others) {
  auto red = wait({.queue = "q", .labels = {"red"}});
  auto blue = wait({.queue = "q", .labels = {"blue"}});
  wait_idle();
  send("q", "a", "blue");
  EXPECT_EQ(blue.answer.get().value().at(0).label, "blue");
  EXPECT_FALSE(red.answered());
}

TEST_F(LeaseWaitersTest, When_the_time_is_up_the_answer_is_empty) {
  EXPECT_EQ(wait({.queue = "q"}, 20ms).answer.get().value().size(), 0U);
  EXPECT_EQ(waiters_->waiting(), 0U);
}

TEST_F(LeaseWaitersTest, Who_is_gone_gets_nothing_and_holds_nothing) {
  auto gone = wait({.queue = "q"});
  wait_idle();
  EXPECT_TRUE(waiters_->cancel(gone.waiter));
  EXPECT_FALSE(waiters_->cancel(gone.waiter));
  auto next = wait({.queue = "q"});
  send("q", "a");
  EXPECT_EQ(next.answer.get().value().at(0).key, "a");
  EXPECT_THROW(gone.answer.get(), std::future_error);  // nobody will ever answer
}

// What a client is told by may hold the client, which holds its place in the line.
TEST_F(LeaseWaitersTest, Nothing_is_kept_of_those_who_were_answered_or_are_gone) {
  const auto kept = std::make_shared<int>(0);
  const auto begin = [&](std::chrono::milliseconds limit) {
    return waiters_->wait({.queue = "q"}, LeaseWaiters::Steady::now() + limit,
                          [kept](const Answer&) {});
  };
  const auto answered = begin(1ms);
  const auto gone = begin(60s);
  wait_idle();
  EXPECT_TRUE(waiters_->cancel(gone));
  const auto until = LeaseWaiters::Steady::now() + 10s;
  while (kept.use_count() > 1 && LeaseWaiters::Steady::now() < until)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(kept.use_count(), 1);
}

TEST_F(LeaseWaitersTest, An_error_is_an_answer) {
  const auto answer = wait({.queue = ""}).answer.get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::invalid_argument);
}

TEST_F(LeaseWaitersTest, Too_many_are_refused) {
  std::vector<Waiting> all;
  for (int i = 0; i < 100; ++i)
    all.push_back(wait({.queue = "q"}));
  EXPECT_EQ(wait({.queue = "q"}).waiter, nullptr);
}

TEST_F(LeaseWaitersTest, Draining_answers_everybody) {
  auto first = wait({.queue = "q"});
  auto second = wait({.queue = "r"});
  wait_idle();
  waiters_->drain();
  EXPECT_EQ(first.answer.get().value().size(), 0U);
  EXPECT_EQ(second.answer.get().value().size(), 0U);
  EXPECT_EQ(wait({.queue = "q"}).answer.get().value().size(), 0U);
}

// A store that loses the race on purpose: the message comes while nobody has looked yet.
TEST_F(LeaseWaitersTest, A_send_between_looking_and_waiting_is_seen) {
  for (int i = 0; i < 200; ++i) {
    auto waiting = wait({.queue = "race"});
    send("race", "k" + std::to_string(i));
    ASSERT_EQ(waiting.answer.wait_for(10s), std::future_status::ready);
    ASSERT_EQ(waiting.answer.get()->size(), 1U);
  }
}

}  // namespace
}  // namespace strand::server
