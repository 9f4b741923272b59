// Many threads, one message a call: the store writes them together and confirms them one by one.

#include <cstddef>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "model/recorder.h"
#include "threads/recorded_client.h"

namespace strand {
namespace {

constexpr std::size_t threads_count = 8;
constexpr std::size_t sends_per_thread = 400;

void send_all(RecordedClient client, std::size_t thread) {
  MessageId last{};
  for (std::size_t i = 0; i < sends_per_thread; ++i) {
    Transaction transaction;
    transaction.sends.emplace_back().queue = "orders";
    transaction.sends.back().key = "one lane";
    transaction.sends.back().body = std::to_string(thread) + " " + std::to_string(i);
    const auto receipt = client.apply(transaction);
    ASSERT_TRUE(receipt) << receipt.error().message;
    EXPECT_GT(receipt->sent.at(0).id, last);
    last = receipt->sent.at(0).id;
  }
}

TEST(GroupCommit, Single_sends_of_many_threads_are_all_confirmed_and_in_each_ones_order) {
  const auto store = open("memory:").value();
  model::Recorder recorder(0);
  std::vector<std::jthread> threads;
  for (std::size_t thread = 0; thread < threads_count; ++thread) {
    threads.emplace_back([&, thread] { send_all(RecordedClient(*store, recorder), thread); });
  }
  threads.clear();

  RecordedClient reader(*store, recorder);
  EXPECT_EQ(reader.stats("orders")->accepted, threads_count * sends_per_thread);
  const auto leases =
      reader.lease({.queue = "orders", .messages = threads_count * sends_per_thread}).value();
  ASSERT_EQ(leases.size(), 1U);
  ASSERT_EQ(leases[0].messages.size(), threads_count * sends_per_thread);
  std::map<std::size_t, std::size_t> next;
  for (const Message& message : leases[0].messages) {
    const std::size_t thread = std::stoul(message.body);
    EXPECT_EQ(message.body, std::to_string(thread) + " " + std::to_string(next[thread]++));
  }
  const std::vector<model::Remains> remains = {remains_of(*store, "orders")};
  EXPECT_NO_THROW(recorder.check(remains));
}

}  // namespace
}  // namespace strand
