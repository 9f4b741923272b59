// Consumers under the real clock, whose handlers throw, hang past their lease, lose it, commit by
// themselves and forward; consumers that are stopped and started again. What the store was asked
// and answered is judged in the end, as in store_threads_test.cc.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <strand/consumer.h>

#include "model/recorder.h"
#include "sim/random.h"
#include "threads/recorded_store.h"

namespace strand {
namespace {

using namespace std::chrono_literals;
using sim::Random;

constexpr std::uint32_t max_attempts = 3;
constexpr Duration lease_length = 20ms;

std::uint64_t chosen_seed() {
  const char* given = std::getenv("STRAND_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

class ConsumerThreads : public testing::Test {
 protected:
  ConsumerThreads() {
    std::cout << "repeat with STRAND_SEED=" << seed_ << "\n";
    Transaction transaction;
    transaction.admin =
        ConfigureQueue{.queue = "work", .settings = {.max_attempts = max_attempts, .backoff = {}}};
    store_->apply(transaction).value();
  }

  void produce(std::size_t number, std::size_t count) {
    Random random(seed_ + number);
    for (std::size_t i = 0; i < count; ++i) {
      Transaction transaction;
      Send& send = transaction.sends.emplace_back();
      send.queue = "work";
      if (!random.one_in(6)) send.key = "lane " + std::to_string(random.below(10));
      send.body = std::to_string(number) + "-" + std::to_string(i);
      if (random.one_in(4)) send.delay = Duration{random.between(0, 5)};
      EXPECT_TRUE(recorded_.apply(transaction));
      if (random.one_in(20)) std::this_thread::sleep_for(1ms);
    }
  }

  // A consumer for a while, and another one after it.
  void consume(std::size_t number) {
    Random random(seed_ + 1000 + number);
    while (!drained_) {
      ConsumerOptions options;
      options.queues = {"work"};
      options.workers = static_cast<std::uint32_t>(random.between(1, 3));
      options.hand_out = random.one_in(3) ? HandOut::messages : HandOut::lanes;
      options.batch_messages = static_cast<std::uint32_t>(random.between(1, 8));
      options.lease = lease_length;
      options.handler_time = 10ms;
      options.durability = Durability::async;
      if (random.one_in(3)) options.coalesce = Coalesce{.window = 2ms, .messages = 4};
      // No two handlers of one lane at once, whatever has become of the lease of the first.
      std::mutex mutex;
      std::map<std::string, int> running;
      const auto consumer = Consumer::start(recorded_, options, [&](Work& work) {
        const std::string lane = work.key().value_or("");
        if (!lane.empty()) {
          const std::lock_guard lock(mutex);
          EXPECT_EQ(++running[lane], 1) << lane;
        }
        const auto leave = [&] {
          const std::lock_guard lock(mutex);
          if (!lane.empty()) --running[lane];
        };
        try {
          const Verdict verdict = handle(work);
          leave();
          return verdict;
        } catch (...) {
          leave();
          throw;
        }
      });
      for (const auto until = std::chrono::steady_clock::now() + 50ms;
           !drained_ && std::chrono::steady_clock::now() < until;)
        std::this_thread::sleep_for(1ms);
      if (random.one_in(2)) {
        (*consumer)->stop(1ms);
      } else {
        (*consumer)->stop();
      }
      handled_ += (*consumer)->stats().messages;
      lost_ += (*consumer)->stats().lost;
    }
  }

  Verdict handle(Work& work) {
    if (draining_) return Verdict::ok();
    const std::uint64_t dice =
        std::hash<std::string>{}(work.message().body + std::to_string(calls_++) +
                                 std::to_string(seed_)) %
        20;
    switch (dice) {
      case 0:
        throw std::runtime_error("thrown");
      case 1:
        return Verdict::retry("later", 1ms);
      case 2:
        return Verdict::dead("no good");
      case 3:
        return Verdict::release();
      case 4:  // past its time, and past its lease
        std::this_thread::sleep_for(lease_length + 15ms);
        return Verdict::ok();
      case 5:
        work.decide(work.messages().back(), Verdict::retry("the last", 0ms));
        return Verdict::ok();
      case 6:
        forward(work);
        return Verdict::ok();
      case 7:
        forward(work);
        if (const auto committed = work.commit(); !committed) {
          EXPECT_EQ(committed.error().code, Errc::lease_lost) << committed.error().message;
        }
        return Verdict::ok();
      case 8:
        forward(work);
        throw std::runtime_error("thrown, and nothing may be forwarded");
      default:
        return Verdict::ok();
    }
  }

  void forward(Work& work) {
    Send& send = work.transaction().sends.emplace_back();
    send.queue = "later";
    send.body = "forwarded " + std::to_string(forwarded_++);
    send.delay = 1h;
  }

  void drain() {
    draining_ = true;
    while (recorded_.stats("work")->live() > 0)
      std::this_thread::sleep_for(1ms);
    drained_ = true;
  }

  const std::uint64_t seed_ = chosen_seed();
  std::unique_ptr<Store> store_ = open("memory:").value();
  model::Recorder recorder_{max_attempts};
  RecordedStore recorded_{*store_, recorder_};
  std::atomic<bool> draining_ = false;
  std::atomic<bool> drained_ = false;
  std::atomic<std::uint64_t> calls_ = 0;
  std::atomic<std::uint64_t> forwarded_ = 0;
  std::atomic<std::uint64_t> handled_ = 0;
  std::atomic<std::uint64_t> lost_ = 0;
};

TEST_F(ConsumerThreads, What_consumers_do_keeps_every_promise) {
  const std::size_t count = std::getenv("STRAND_TEST_FULL") != nullptr ? 20'000 : 1'000;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 3; ++i)
    threads.emplace_back([this, i] { consume(i); });
  std::vector<std::thread> producers;
  for (std::size_t i = 0; i < 2; ++i)
    producers.emplace_back([this, i, count] { produce(i, count); });
  for (std::thread& producer : producers)
    producer.join();
  drain();
  for (std::thread& thread : threads)
    thread.join();

  std::vector<model::Remains> remains = {remains_of(*store_, "work")};
  if (store_->stats("later")) remains.push_back(remains_of(*store_, "later"));
  EXPECT_NO_THROW(recorder_.check(remains));
  EXPECT_EQ(remains.front().stats.leases, 0);
  EXPECT_GT(handled_, count);
  EXPECT_GT(lost_, 0) << "nobody hung past his lease";
}

}  // namespace
}  // namespace strand
