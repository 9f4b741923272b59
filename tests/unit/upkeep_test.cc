// A store with more to do than a call should wait for: the timer does it in slices, and store time
// waits for it.

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "unit/local_store_fixture.h"

namespace strand {
namespace {

using namespace std::chrono_literals;

// More than a call applies, and many slices.
constexpr std::size_t many = 5000;

class Upkeep : public LocalStoreFixture {
 protected:
  // So many messages without keys, of which one expires each millisecond from `first` on. When this
  // returns, the timer sleeps.
  void fill(std::size_t count, Duration first) {
    Transaction transaction;
    for (std::size_t i = 0; i < count; ++i) {
      Send& message = transaction.sends.emplace_back();
      message.queue = "short-lived";
      message.ttl = first + Duration{static_cast<std::int64_t>(i)};
    }
    ASSERT_TRUE(set_timer_by([&] { return store().apply(transaction); }));
  }

  // Lets time pass, so that the timer begins, and calls when its first slice is on its way to the
  // disk. The disk goes on when `call`, in a thread of its own, is inside the store.
  void during_the_first_slice(Duration step, const std::function<void()>& call) {
    disk().hold_writes();
    const std::size_t writes = disk().writes().count();
    clock().advance(step);
    ASSERT_TRUE(disk().writes().reaches(writes + 1));
    const std::size_t entered = clock().entered().count();
    const std::jthread caller([&] {
      CallCountingClock::count_this_thread();
      call();
    });
    ASSERT_TRUE(clock().entered().reaches(entered + 1));
    disk().release_writes();
  }

  QueueStats counts(const std::string& queue) {
    const auto stats = store().stats(queue);
    EXPECT_TRUE(stats) << stats.error().message;
    return stats.value_or(QueueStats{});
  }
};

TEST_F(Upkeep, Sends_go_on_between_the_slices) {
  fill(many, 1s);
  const std::size_t before = disk().written().size();
  during_the_first_slice(1h, [&] { EXPECT_TRUE(store().apply(send("orders", "a"))); });
  ASSERT_TRUE(disk().gone().reaches(many)) << "the timer goes on by itself";

  const auto written = disk().written();
  EXPECT_EQ(written[before].came, 0U);
  EXPECT_EQ(written[before + 1].came, 1U) << "the send is in the batch after the first slice";
  for (std::size_t i = before; i < written.size(); ++i)
    EXPECT_LE(written[i].gone, 128U) << "batch " << i;
  EXPECT_GE(written.size() - before, many / 128);

  const QueueStats stats = counts("short-lived");
  EXPECT_EQ(stats.accepted, many);
  EXPECT_EQ(stats.expired, many);
  EXPECT_EQ(stats.live(), 0U);
  EXPECT_EQ(ready("orders"), 1U);
}

// What is little is not worth a lag.
TEST_F(Upkeep, A_call_applies_by_itself_what_is_little) {
  fill(1000, 1s);
  const std::size_t writes = disk().writes().count();
  clock().pass_unnoticed(1h);
  EXPECT_EQ(counts("short-lived").expired, 1000U);
  EXPECT_EQ(disk().writes().count(), writes + 1);
}

TEST_F(Upkeep, A_call_leaves_to_the_timer_what_is_much) {
  fill(many, 1s);
  clock().pass_unnoticed(1h);
  const QueueStats first = counts("short-lived");
  EXPECT_EQ(first.expired, 1000U) << "as much as a call applies";
  EXPECT_EQ(first.live(), many - 1000);
  EXPECT_EQ(first.accepted, many);
  ASSERT_TRUE(disk().gone().reaches(many)) << "the timer was told";
  EXPECT_EQ(counts("short-lived").expired, many);
}

// An instant is never divided: whatever happens at the same time happens together.
TEST_F(Upkeep, What_is_due_at_one_instant_is_one_slice) {
  Transaction together;
  for (std::size_t i = 0; i < many; ++i) {
    Send& message = together.sends.emplace_back();
    message.queue = "short-lived";
    message.ttl = 1s;
  }
  ASSERT_TRUE(set_timer_by([&] { return store().apply(together); }));
  const std::size_t before = disk().written().size();
  clock().advance(1s);
  ASSERT_TRUE(disk().gone().reaches(many));
  EXPECT_EQ(disk().written()[before].gone, many);
}

TEST_F(Upkeep, Store_time_waits_for_what_is_due) {
  const Time start = store().now();
  fill(many, 1s);
  during_the_first_slice(1h, [&] {
    EXPECT_TRUE(store().apply(send("orders", "a", {}, 500ms)));
    EXPECT_EQ(store().now(), start + 1h) << "the clock does not wait";
  });
  ASSERT_TRUE(disk().gone().reaches(many));
  const auto peeked = store().peek(all_of("orders"));
  ASSERT_TRUE(peeked);
  ASSERT_EQ(peeked->items.size(), 1U);
  EXPECT_EQ(peeked->items[0].enqueued_at, start + 1s + 127ms) << "so far the first slice came";
  EXPECT_EQ(peeked->items[0].due, peeked->items[0].enqueued_at + 500ms);
  EXPECT_EQ(peeked->items[0].state, MessageState::ready);
}

TEST_F(Upkeep, A_lease_that_ran_out_meanwhile_cannot_settle_once_its_end_is_passed) {
  QueueSettings once;
  once.max_attempts = 1;
  ASSERT_TRUE(store().apply(administer(ConfigureQueue{.queue = "orders", .settings = once})));
  ASSERT_TRUE(store().apply(send("orders", "early", "a")));
  ASSERT_TRUE(store().apply(send("orders", "late", "b")));
  const Time start = store().now();
  fill(many, 1s);
  LeaseRequest request = from("orders");
  request.lease = 3s;  // in the middle of what is due
  const auto early = store().lease(request);
  const auto late = store().lease(request);
  ASSERT_TRUE(early && early->size() == 1 && late && late->size() == 1);
  // Store time has not come there yet: the lease is in force, and nobody else has had it.
  during_the_first_slice(1h, [&] { EXPECT_TRUE(store().apply(ack(early->front()))); });
  ASSERT_TRUE(disk().gone().reaches(many + 2));
  EXPECT_EQ(store().apply(ack(late->front())).error().code, Errc::lease_lost);

  const auto dead = store().dead_letters({.queue = "orders"});
  ASSERT_TRUE(dead);
  ASSERT_EQ(dead->items.size(), 1U);
  EXPECT_EQ(dead->items[0].body, "late");
  EXPECT_EQ(dead->items[0].dead_at, start + 3s) << "at its own time, not at that of the slice";
  EXPECT_EQ(counts("orders").acked, 1U);
}

// Clients take the time of an id from Store::now(), which does not wait.
TEST_F(Upkeep, A_transaction_id_may_be_ahead_of_store_time_by_any_lag) {
  fill(many, 1s);
  const Time then = store().now() + 24h;
  const auto with_id = [&](Time time) {
    Transaction transaction = send("orders", "a");
    transaction.id = TransactionId{.client = 7, .number = 1, .time = time};
    return store().apply(transaction);
  };
  during_the_first_slice(24h, [&] {
    EXPECT_TRUE(with_id(then));
    EXPECT_TRUE(with_id(then)) << "a repeat";
  });
  ASSERT_TRUE(disk().gone().reaches(many));
  EXPECT_EQ(ready("orders"), 1U);
}

TEST_F(Upkeep, Administration_does_not_wait_for_all_of_it) {
  fill(many, 1s);
  const std::size_t before = disk().written().size();
  during_the_first_slice(1h, [&] {
    const std::vector<Transaction> transactions = {
        send("orders", "a"), administer(PurgeQueue{.queue = "orders", .key = {}}),
        send("orders", "b")};
    for (const auto& result : store().apply(transactions))
      EXPECT_TRUE(result) << result.error().message;
  });
  ASSERT_TRUE(disk().gone().reaches(many + 1));
  const auto written = disk().written();
  std::size_t gone = 0;
  std::size_t last = before;
  for (std::size_t i = before; i < written.size(); ++i) {
    if (written[i].came > 0) last = i;
  }
  for (std::size_t i = before; i <= last; ++i)
    gone += written[i].gone;
  EXPECT_LT(gone, many) << "when the last of it was written";
  EXPECT_EQ(counts("orders").purged, 1U);
  EXPECT_EQ(ready("orders"), 1U);
}

TEST_F(Upkeep, A_store_that_is_closed_in_the_middle_goes_on_where_it_stopped) {
  constexpr std::size_t very_many = 4 * many;
  fill(very_many, 1s);
  disk().hold_writes();
  const std::size_t writes = disk().writes().count();
  clock().advance(1h);
  ASSERT_TRUE(disk().writes().reaches(writes + 1));
  {
    const std::size_t closing = clock().closing().count();
    const std::jthread closer([&] { close(); });
    ASSERT_TRUE(clock().closing().reaches(closing + 1));
    disk().release_writes();
  }
  EXPECT_LT(messages_on_disk(), very_many);
  EXPECT_GT(messages_on_disk(), 0U) << "the close did not wait for all of it";
  open();
  const QueueStats stats = counts("short-lived");
  EXPECT_EQ(stats.accepted, very_many);
  EXPECT_EQ(stats.expired, very_many);
  EXPECT_EQ(stats.live(), 0U);
}

// The store is read again, and reading applies all that is due.
TEST_F(Upkeep, A_slice_that_cannot_be_written_is_not_lost) {
  fill(many, 1s);
  disk().hold_writes();
  const std::size_t writes = disk().writes().count();
  clock().advance(1h);
  ASSERT_TRUE(disk().writes().reaches(writes + 1));
  disk().fail_next_write(Fault::before);
  const std::size_t reopens = disk().reopens();
  disk().release_writes();
  ASSERT_TRUE(disk().reopening().reaches(reopens + 1));
  EXPECT_TRUE(store().apply(send("orders", "a")));
  const QueueStats stats = counts("short-lived");
  EXPECT_EQ(stats.expired, many);
  EXPECT_EQ(stats.live(), 0U);
  clock().advance(1s);
  EXPECT_EQ(ready("orders"), 1U);
}

}  // namespace
}  // namespace strand
