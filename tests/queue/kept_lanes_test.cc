#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "consumer_fixture.h"

// Lanes that a handler keeps between two messages.

namespace strand {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

class KeptLanes : public ConsumerTest {
 protected:
  [[nodiscard]] ConsumerOptions keeping(KeepLanes keep = {}) const {
    ConsumerOptions result = options();
    result.lease = 15s;
    result.keep = keep;
    return result;
  }

  // Notes the epoch and the messages of each batch, and keeps the lane.
  struct Seen {
    Epoch epoch{};
    Bodies bodies;
    bool first = false;
  };
  [[nodiscard]] auto keeper() {
    return [this](Work& work) {
      work.keep_lane();
      work.when_committed([this, key = *work.key()] { committed_.add(key); });
      seen_.add({work.epoch(), bodies(work.messages()), work.first_of_lease()});
      return Verdict::ok();
    };
  }
  void await_kept(const Consumer& consumer, std::uint64_t count) {
    while (consumer.stats().kept != count || consumer.stats().in_flight > 0)
      std::this_thread::yield();
  }
  void await_leases(std::uint64_t count) {
    while (stats().leases != count)
      std::this_thread::yield();
  }

  Notes<Seen> seen_;
  Notes<std::string> committed_;
};

TEST_F(KeptLanes, The_next_messages_come_under_the_same_lease) {
  const auto consumer = consume(keeping(), keeper());
  send("k", "a");
  seen_.wait_for(1);
  await_kept(*consumer, 1);
  EXPECT_EQ(stats().leases, 1U);
  send("k", "b");
  seen_.wait_for(2);
  send("k", "c");
  seen_.wait_for(3);
  consumer->wait_idle();
  const auto seen = seen_.all();
  EXPECT_EQ(seen[1].bodies, Bodies{"b"});
  EXPECT_EQ(seen[1].epoch, seen[0].epoch);
  EXPECT_EQ(seen[2].epoch, seen[0].epoch);
  EXPECT_TRUE(seen[0].first);
  EXPECT_FALSE(seen[1].first);
  EXPECT_EQ(stats().acked, 3U);
  EXPECT_THAT(committed_.all(), ElementsAre("k", "k", "k"));
}

TEST_F(KeptLanes, A_message_that_comes_before_the_lane_is_watched_is_not_forgotten) {
  hooked_->before_watching_a_lane = [&, sent = false]() mutable {
    if (!std::exchange(sent, true)) send("k", "b");
  };
  const auto consumer = consume(keeping(), keeper());
  send("k", "a");
  seen_.wait_for(2);
  EXPECT_EQ(seen_.all()[1].bodies, Bodies{"b"});
}

TEST_F(KeptLanes, Without_a_message_a_lane_is_given_back_after_a_while) {
  const auto consumer = consume(keeping({.idle = 10s, .total = 60s}), keeper());
  send("k", "a");
  seen_.wait_for(1);
  await_kept(*consumer, 1);
  clock_->advance(9999ms);
  consumer->wait_idle();
  EXPECT_EQ(stats().leases, 1U);
  clock_->advance(1ms);
  await_leases(0);
  send("k", "b");
  seen_.wait_for(2);
  EXPECT_NE(seen_.all()[0].epoch, seen_.all()[1].epoch);
}

TEST_F(KeptLanes, A_lane_that_is_never_idle_is_given_back_when_its_time_is_over) {
  ConsumerOptions keeping_long = keeping({.idle = 10s, .total = 20s});
  keeping_long.lease = 1h;
  const auto consumer = consume(keeping_long, keeper());
  for (std::size_t i = 0; i < 5; ++i) {  // the last one after 16 s
    if (i > 0) clock_->advance(4s);
    send("k", "x");
    seen_.wait_for(i + 1);
    await_kept(*consumer, 1);
  }
  EXPECT_EQ(seen_.all()[4].epoch, seen_.all()[0].epoch);
  clock_->advance(4s);
  await_leases(0);
}

TEST_F(KeptLanes, Beyond_the_limit_the_one_that_was_idle_for_longest_is_given_back) {
  const auto consumer = consume(keeping({.lanes_max = 2}), keeper());
  for (const char* key : {"a", "b", "a", "c"}) {
    const std::size_t before = seen_.all().size();
    send(key, "x");
    seen_.wait_for(before + 1);
    consumer->wait_idle();
  }
  await_leases(2);
  EXPECT_EQ(consumer->stats().kept, 2U);
  const Epoch epoch_of_a = seen_.all()[0].epoch;
  send("a", "again");
  seen_.wait_for(5);
  EXPECT_EQ(seen_.all()[4].epoch, epoch_of_a);  // b was given back
}

TEST_F(KeptLanes, A_lane_is_let_go_when_it_is_told_so) {
  const auto consumer = consume(keeping(), keeper());
  send("k", "a");
  seen_.wait_for(1);
  await_kept(*consumer, 1);
  consumer->let_go("q", "another");
  consumer->let_go("q", "k");
  await_leases(0);
  consumer->wait_idle();
  EXPECT_EQ(consumer->stats().kept, 0U);
}

TEST_F(KeptLanes, A_lease_that_was_taken_away_is_noticed) {
  const auto consumer = consume(keeping(), keeper());
  send("k", "a");
  seen_.wait_for(1);
  await_kept(*consumer, 1);
  const auto mine = store_->lease({.queue = "q", .key = "k", .seize = true, .lease = 1h}).value();
  while (consumer->stats().kept > 0)
    std::this_thread::yield();
  Transaction end;
  end.settles = {Settle{.token = mine.front().token}};
  ASSERT_TRUE(store_->apply(end));
  send("k", "b");
  seen_.wait_for(2);
  EXPECT_NE(seen_.all()[0].epoch, seen_.all()[1].epoch);
  EXPECT_THAT(troubles(), IsEmpty());
}

TEST_F(KeptLanes, A_lease_that_ran_out_is_noticed_and_costs_no_attempt) {
  hooked_->before_renew = [] { return Error{Errc::unavailable, "not now"}; };
  const auto consumer = consume(keeping({.idle = 1h, .total = 2h}), keeper());
  send("k", "a");
  seen_.wait_for(1);
  await_kept(*consumer, 1);
  clock_->advance(15s);
  send("k", "b");
  seen_.wait_for(2);
  EXPECT_NE(seen_.all()[0].epoch, seen_.all()[1].epoch);
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 2U);
  EXPECT_EQ(stats().dead, 0U);
}

TEST_F(KeptLanes, A_lane_whose_lease_ran_out_before_is_not_kept_at_first) {
  hooked_->before_renew = [] { return Error{Errc::unavailable, "not now"}; };
  Gate running;
  Gate go_on;
  const auto consumer = consume(keeping(), [&, n = 0](Work& work) mutable {
    if (n++ == 0) {
      running.open();
      go_on.wait();
    }
    return keeper()(work);
  });
  send("k", "a");
  running.wait();
  clock_->advance(15s);
  go_on.open();
  seen_.wait_for(2);
  for (const char* body : {"b", "c"})
    send("k", body);
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 3U);
}

TEST_F(KeptLanes, Lanes_that_are_kept_are_renewed_together) {
  const auto consumer = consume(keeping({.idle = 1h, .total = 2h}), keeper());
  for (std::size_t i = 1; i <= 3; ++i) {
    send("k" + std::to_string(i), "x");
    await_kept(*consumer, i);
  }
  for (int i = 0; i < 10; ++i) {
    const std::size_t before = renewals_.all().size();
    clock_->advance(5s);
    renewals_.wait_for(before + 1);
  }
  EXPECT_EQ(stats().leases, 3U);
  EXPECT_LE(renewals_.all().size(), 12U);
}

TEST_F(KeptLanes, Stopping_gives_back_what_is_kept) {
  const auto consumer = consume(keeping(), keeper());
  send("k", "a");
  seen_.wait_for(1);
  await_kept(*consumer, 1);
  consumer->stop();
  EXPECT_EQ(stats().leases, 0U);
}

TEST_F(KeptLanes, A_commit_that_fails_calls_nobody_back) {
  std::atomic<int> destroyed = 0;
  std::atomic<int> called = 0;
  struct Token {
    std::atomic<int>* count;
    ~Token() { ++*count; }
  };
  Gate running;
  Gate go_on;
  const auto consumer = consume(keeping(), [&, n = 0](Work& work) mutable {
    work.keep_lane();
    work.when_committed([&called, token = std::make_unique<Token>(&destroyed)] { ++called; });
    if (n++ == 0) {
      running.open();
      go_on.wait();
    }
  });
  send("k", "a");
  running.wait();
  const auto mine = store_->lease({.queue = "q", .key = "k", .seize = true}).value();
  go_on.open();
  while (destroyed == 0)
    std::this_thread::yield();
  EXPECT_EQ(called, 0);
  Transaction end;
  end.settles = {Settle{.token = mine.front().token}};
  ASSERT_TRUE(store_->apply(end));
  consumer->wait_idle();
  EXPECT_EQ(called, 1);
  EXPECT_EQ(stats().acked, 1U);
}

TEST_F(KeptLanes, What_is_not_ok_is_not_kept) {
  configure({.backoff = {0ms}});
  const auto consumer = consume(keeping(), [&, n = 0](Work& work) mutable {
    work.keep_lane();
    work.when_committed([&] { committed_.add("x"); });
    return n++ == 0 ? Verdict::retry("once") : Verdict::ok();
  });
  send("k", "a");
  committed_.wait_for(1);
  consumer->wait_idle();
  EXPECT_EQ(committed_.all().size(), 1U);
  EXPECT_EQ(consumer->stats().kept, 1U);
}

TEST_F(KeptLanes, While_other_lanes_wait_none_is_kept) {
  Gate running;
  Gate go_on;
  const auto consumer = consume(keeping(), [&](Work& work) {
    work.keep_lane();
    if (*work.key() != "first") return;
    running.open();
    go_on.wait();
  });
  send("first", "x");
  running.wait();
  for (int i = 0; i < 5; ++i)
    send("k" + std::to_string(i), "x");
  while (stats().leases < 2)
    std::this_thread::yield();
  go_on.open();
  consumer->wait_idle();
  EXPECT_LT(consumer->stats().kept, 6U);
}

TEST_F(KeptLanes, Messages_to_a_lane_that_is_kept_are_gathered_if_that_is_wanted) {
  ConsumerOptions gathering = keeping();
  gathering.coalesce = Coalesce{.window = 100ms,
                                .messages = 3,
                                .worth = [](const Lease&) { return false; },
                                .kept_lanes = true};
  Notes<std::optional<Duration>> waits;
  const auto consumer = consume(gathering, [&](Work& work) {
    waits.add(work.gathered());
    return keeper()(work);
  });
  send("k", "a");
  seen_.wait_for(1);
  await_kept(*consumer, 1);
  send("k", "b");
  while (stats().leased == 0)
    std::this_thread::yield();
  send("k", "c");
  clock_->advance(100ms);
  seen_.wait_for(2);
  EXPECT_EQ(seen_.all()[1].bodies, (Bodies{"b", "c"}));
  EXPECT_EQ(waits.all()[0], std::nullopt);
  EXPECT_EQ(waits.all()[1], 100ms);
}

TEST_F(KeptLanes, Many_who_send_and_one_who_is_impatient_lose_nothing) {
  const auto consumer = consume(keeping({.idle = 2s, .total = 4s, .lanes_max = 3}), keeper());
  constexpr int senders = 3;
  constexpr int count = 200;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < senders; ++i) {
      threads.emplace_back([&, i] {
        for (int n = 0; n < count; ++n)
          send("k" + std::to_string((n * (i + 1)) % 7), std::to_string(n));
      });
    }
    threads.emplace_back([&] {
      for (int n = 0; n < count; ++n)
        clock_->advance(500ms);
    });
    threads.emplace_back([&] {
      for (int n = 0; n < count; ++n)
        consumer->let_go("q", "k" + std::to_string(n % 7));
    });
  }
  consumer->wait_idle();
  const QueueStats after = stats();
  EXPECT_EQ(after.acked, senders * count)
      << "ready " << after.ready << ", delayed " << after.delayed << ", waiting " << after.waiting
      << ", leased " << after.leased << ", dead " << after.dead << ", leases " << after.leases
      << ", kept " << consumer->stats().kept << ", in flight " << consumer->stats().in_flight;
}

}  // namespace
}  // namespace strand
