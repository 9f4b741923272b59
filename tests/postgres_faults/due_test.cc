// What one process does while another one applies what is due.

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <strand/store.h>

#include "postgres/fixture.h"

namespace strand::postgres_faults {
namespace {

using namespace std::chrono_literals;

using DueElsewhere = postgres::PostgresTest;

void send(Store& store, const std::string& body, Duration delay) {
  Transaction transaction;
  Send& send = transaction.sends.emplace_back();
  send.queue = "work";
  send.key = "k";
  send.body = body;
  send.delay = delay;
  const auto sent = store.apply(transaction);
  ASSERT_TRUE(sent) << sent.error().message;
}

// Only one process at a time applies what is due, and its commit takes as long as it takes.
TEST_F(DueElsewhere, A_lane_is_served_in_order_while_another_process_applies_what_is_due) {
  const auto store = open(url());
  ASSERT_TRUE(store) << store.error().message;
  const auto other = connect_to(url());
  query(*other, "select pg_advisory_lock(hashtextextended('strand due strand', 0))");

  send(**store, "first", 20ms);
  std::this_thread::sleep_for(40ms);
  send(**store, "second", 0ms);
  const auto leases = (*store)->lease({.queue = "work"});

  ASSERT_TRUE(leases) << leases.error().message;
  ASSERT_EQ(leases->size(), 1);
  std::vector<std::string> bodies;
  for (const Message& message : leases->front().messages)
    bodies.push_back(message.body);
  EXPECT_EQ(bodies, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ((*store)->stats("work")->leased, 2);
}

TEST_F(DueElsewhere, A_pull_brings_what_is_due_while_another_process_applies_it) {
  const auto store = open(url());
  ASSERT_TRUE(store) << store.error().message;
  const auto other = connect_to(url());
  send(**store, "first", 0ms);
  const auto leases = (*store)->lease({.queue = "work"});
  ASSERT_TRUE(leases) << leases.error().message;
  ASSERT_EQ(leases->size(), 1);
  query(*other, "select pg_advisory_lock(hashtextextended('strand due strand', 0))");

  send(**store, "second", 20ms);
  std::this_thread::sleep_for(40ms);
  send(**store, "third", 0ms);
  const auto pulled = (*store)->pull(leases->front().token, leases->front().cursor, {});

  ASSERT_TRUE(pulled) << pulled.error().message;
  ASSERT_EQ(pulled->messages.size(), 2);
  EXPECT_EQ(pulled->messages[0].body, "second");
  EXPECT_EQ(pulled->messages[1].body, "third");
}

}  // namespace
}  // namespace strand::postgres_faults
