// What one process does while another one applies what is due.

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
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

struct Wish {
  std::optional<std::string> key = "k";
  Duration delay{0};
  std::optional<Duration> ttl = {};
};

void send(Store& store, const std::string& body, const Wish& wish = {}) {
  Transaction transaction;
  Send& send = transaction.sends.emplace_back();
  send.queue = "work";
  send.key = wish.key;
  send.body = body;
  send.delay = wish.delay;
  send.ttl = wish.ttl;
  const auto sent = store.apply(transaction);
  ASSERT_TRUE(sent) << sent.error().message;
}

// Only one process at a time applies what is due, and its commit takes as long as it takes.
TEST_F(DueElsewhere, A_lane_is_served_in_order_while_another_process_applies_what_is_due) {
  const auto store = open(url());
  ASSERT_TRUE(store) << store.error().message;
  const auto other = connect_to(url());
  query(*other, "select pg_advisory_lock(hashtextextended('strand due strand', 0))");

  send(**store, "first", {.delay = 20ms});
  std::this_thread::sleep_for(40ms);
  send(**store, "second");
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
  send(**store, "first");
  const auto leases = (*store)->lease({.queue = "work"});
  ASSERT_TRUE(leases) << leases.error().message;
  ASSERT_EQ(leases->size(), 1);
  query(*other, "select pg_advisory_lock(hashtextextended('strand due strand', 0))");

  send(**store, "second", {.delay = 20ms});
  std::this_thread::sleep_for(40ms);
  send(**store, "third");
  const auto pulled = (*store)->pull(leases->front().token, leases->front().cursor, {});

  ASSERT_TRUE(pulled) << pulled.error().message;
  ASSERT_EQ(pulled->messages.size(), 2);
  EXPECT_EQ(pulled->messages[0].body, "second");
  EXPECT_EQ(pulled->messages[1].body, "third");
}

// After its deadline a message is never handed out, whoever sweeps it.
TEST_F(DueElsewhere, What_has_expired_is_not_handed_out_before_it_is_swept) {
  const auto store = open(url());
  ASSERT_TRUE(store) << store.error().message;
  const auto other = connect_to(url());
  query(*other, "select pg_advisory_lock(hashtextextended('strand due strand', 0))");

  send(**store, "in a lane", {.ttl = 20ms});
  send(**store, "behind it");
  send(**store, "alone in its lane", {.key = "other", .ttl = 20ms});
  send(**store, "unkeyed", {.key = std::nullopt, .ttl = 20ms});
  std::this_thread::sleep_for(40ms);
  const auto leases = (*store)->lease({.queue = "work", .lanes = 10});

  ASSERT_TRUE(leases) << leases.error().message;
  std::vector<std::string> bodies;
  for (const Lease& lease : *leases) {
    for (const Message& message : lease.messages)
      bodies.push_back(message.body);
  }
  EXPECT_EQ(bodies, std::vector<std::string>{"behind it"});
  query(*other, "select pg_advisory_unlock_all()");
  for (int tries = 0; tries < 500 && (*store)->stats("work")->expired < 3; ++tries)
    std::this_thread::sleep_for(10ms);
  const QueueStats stats = (*store)->stats("work").value();
  EXPECT_EQ(stats.expired, 3);
  EXPECT_EQ(stats.live(), 1);
}

// Nothing is written then that could tell: somebody has to look at the clock.
TEST_F(DueElsewhere, The_end_of_a_grace_wakes_those_who_watch_the_queue_soon) {
  const auto store = open(url());
  ASSERT_TRUE(store) << store.error().message;
  send(**store, "first");
  const auto leases = (*store)->lease({.queue = "work", .owner = "me"});
  ASSERT_TRUE(leases) << leases.error().message;
  Transaction ack;
  Settle& settle = ack.settles.emplace_back();
  settle.token = leases->front().token;
  settle.outcomes.push_back({.id = leases->front().messages.front().id});
  settle.owner_hint = OwnerHint{.owner = "me", .valid_for = 1min, .grace = 1s};
  ASSERT_TRUE((*store)->apply(ack));

  const auto other = open(url());
  ASSERT_TRUE(other) << other.error().message;
  std::mutex mutex;
  std::condition_variable called;
  bool may_have = true;
  const Watch watch = (*other)->watch(WatchQueue{"work"}, [&] {
    const std::lock_guard lock(mutex);
    may_have = true;
    called.notify_one();
  });
  send(**store, "second");
  const auto begin = std::chrono::steady_clock::now();
  bool found = false;
  while (!found) {
    {
      std::unique_lock lock(mutex);
      ASSERT_TRUE(called.wait_for(lock, 60s, [&] { return may_have; }));
      may_have = false;
    }
    const auto theirs = (*other)->lease({.queue = "work", .owner = "other"});
    ASSERT_TRUE(theirs) << theirs.error().message;
    found = !theirs->empty();
  }
  // A sweep every ten seconds would have come across it as well.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

}  // namespace
}  // namespace strand::postgres_faults
