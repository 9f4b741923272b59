// Settles that meet the end of their lease: the token wins or the clock does, never both.

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "model/recorder.h"
#include "threads/recorded_client.h"

namespace strand {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t rounds = 90;
constexpr std::size_t lanes = 64;
constexpr std::size_t settlers = 3;
constexpr std::size_t steps = 16;  // of one millisecond, over which the leases of a round end
static_assert(rounds * lanes >= 5000);

Transaction ack(const Lease& lease) {
  Transaction transaction;
  Settle& settle = transaction.settles.emplace_back();
  settle.token = lease.token;
  for (const Message& message : lease.messages)
    settle.outcomes.push_back({.id = message.id});
  return transaction;
}

class ExpiryRaces : public ::testing::TestWithParam<int> {
 protected:
  // A message in each lane, and leases that end one after the other, some each millisecond.
  void prepare(RecordedClient& client) {
    tried_ = 0;
    tokens_.clear();
    std::vector<Transaction> sends(lanes);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      Send& send = sends[lane].sends.emplace_back();
      send.queue = "races";
      send.key = "lane " + std::to_string(lane);
      send.body = std::to_string(sent_++);
    }
    for (const auto& receipt : client.apply(sends))
      ASSERT_TRUE(receipt);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      auto leases = client.lease(
          {.queue = "races", .lanes = 1, .lease = Duration{1 + static_cast<long>(lane % steps)}});
      ASSERT_TRUE(leases && leases->size() == 1);
      tokens_.push_back(std::move(leases->front()));
    }
  }

  // Every settler tries every token, by the order of their ends.
  void settle_all(RecordedClient& client) {
    for (std::size_t end = 0; end < steps; ++end) {
      for (std::size_t lane = end; lane < lanes; lane += steps) {
        const bool won = client.apply(ack(tokens_[lane])).has_value();
        ++(won ? won_ : lost_);
        ++tried_;
        tried_.notify_all();
      }
    }
  }

  // Keeps time in step with the settlers, a little ahead or behind: some of the leases that end at
  // a step have been tried when it comes, others not.
  void advance() {
    constexpr std::size_t tries = lanes / steps * settlers;  // of the leases that end at one step
    for (std::size_t step = 0; step < steps; ++step) {
      const std::size_t ahead = jitter_++ % (2 * tries);
      const std::size_t due = std::max(step * tries, ahead) - ahead;
      for (std::size_t tried = tried_; tried < due; tried = tried_)
        tried_.wait(tried);
      clock_->advance(1ms);
    }
  }

  // Takes over what the clock won, as soon as it can be had.
  void take_over(RecordedClient& client) {
    while (tried_ < lanes * settlers) {
      const auto leases = client.lease({.queue = "races", .lanes = 4, .lease = Duration{1h}});
      ASSERT_TRUE(leases);
      for (const Lease& lease : *leases) {
        EXPECT_TRUE(client.apply(ack(lease)));
        ++taken_over_;
      }
      if (leases->empty()) std::this_thread::yield();
    }
  }

  // What the taker did not see any more.
  void finish(RecordedClient& client) {
    const auto leases = client.lease({.queue = "races", .lanes = lanes, .lease = Duration{1h}});
    ASSERT_TRUE(leases);
    for (const Lease& lease : *leases)
      EXPECT_TRUE(client.apply(ack(lease)));
    taken_over_ += leases->size();
    ASSERT_EQ(client.stats("races")->live(), 0U);
  }

  // Runs `part` in each round, between the barriers.
  template <class Part>
  std::jthread racer(Part part) {
    return std::jthread([this, part] {
      RecordedClient client(*store_, recorder_);
      for (std::size_t round = 0; round < rounds; ++round) {
        barrier_.arrive_and_wait();
        part(client);
        barrier_.arrive_and_wait();
      }
    });
  }

  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  std::unique_ptr<Store> store_ = open("memory:", {.clock = clock_, .limits = {}}).value();
  model::Recorder recorder_{0};
  std::barrier<> barrier_{settlers + 3};
  std::vector<Lease> tokens_;
  std::atomic<std::size_t> tried_ = 0;
  std::atomic<std::size_t> won_ = 0;
  std::atomic<std::size_t> lost_ = 0;
  std::atomic<std::size_t> taken_over_ = 0;
  std::size_t sent_ = 0;
  std::size_t jitter_ = 0;
};

TEST_P(ExpiryRaces, A_token_settles_once_at_most_and_never_after_the_next_epoch) {
  std::vector<std::jthread> racers;
  for (std::size_t i = 0; i < settlers; ++i) {
    racers.push_back(racer([this](RecordedClient& client) { settle_all(client); }));
  }
  racers.push_back(racer([this](RecordedClient&) { advance(); }));
  racers.push_back(racer([this](RecordedClient& client) { take_over(client); }));
  RecordedClient client(*store_, recorder_);
  for (std::size_t round = 0; round < rounds; ++round) {
    prepare(client);
    barrier_.arrive_and_wait();
    barrier_.arrive_and_wait();
    finish(client);
  }
  racers.clear();

  std::cout << won_ << " races won by the token, " << taken_over_ << " by the clock" << std::endl;
  EXPECT_EQ(won_ + taken_over_, rounds * lanes);
  EXPECT_EQ(won_ + lost_, rounds * lanes * settlers);
  EXPECT_GT(won_, 0U) << "no settle came before the end of its lease: these were no races";
  EXPECT_GT(taken_over_, 0U) << "no lease ended before its settle: these were no races";
  const std::vector<model::Remains> remains = {remains_of(*store_, "races")};
  EXPECT_NO_THROW(recorder_.check(remains));
}

// One slice has more than 5,000 races; all of them more than 500,000.
int slices() {
  const bool full = std::getenv("STRAND_TEST_FULL") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  return full ? 90 : 1;
}
INSTANTIATE_TEST_SUITE_P(Slices, ExpiryRaces, ::testing::Range(0, slices()));

}  // namespace
}  // namespace strand
