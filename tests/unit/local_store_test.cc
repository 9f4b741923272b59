// A store in this process: callers share writes, and nothing is shown before it is written.

#include "store/local/local_store.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "unit/local_store_fixture.h"

namespace strand {
namespace {

using namespace std::chrono_literals;

class LocalStoreTest : public LocalStoreFixture {
 protected:
  // While a write is held up, lets `calls` run, each in its own thread, until all are inside the
  // store; then lets the write go on. Returns how many of them were answered before that.
  template <class... Calls>
  std::size_t during_a_held_write(Calls... calls) {
    disk().hold_writes();
    const std::size_t writes = disk().writes().count();
    std::jthread leader([&] { EXPECT_TRUE(store().apply(send("held", "x"))); });
    EXPECT_TRUE(disk().writes().reaches(writes + 1));

    const std::size_t entered = clock().entered().count();
    std::atomic<bool> released = false;
    std::atomic<std::size_t> early = 0;
    const auto counted = [&](auto& call) {
      return std::jthread([&] {
        CallCountingClock::count_this_thread();
        call();
        if (!released) ++early;
      });
    };
    std::vector<std::jthread> threads;
    (threads.push_back(counted(calls)), ...);
    EXPECT_TRUE(clock().entered().reaches(entered + sizeof...(calls)));
    released = true;
    disk().release_writes();
    threads.clear();
    return early;
  }
};

TEST_F(LocalStoreTest, Callers_that_come_during_a_write_share_the_next_one) {
  disk().hold_writes();
  const std::size_t writes = disk().writes().count();
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { EXPECT_TRUE(store().apply(send("orders", "first"))); });
  ASSERT_TRUE(disk().writes().reaches(writes + 1));
  constexpr std::size_t followers = 8;
  for (std::size_t i = 0; i < followers; ++i) {
    threads.emplace_back([&, i] {
      CallCountingClock::count_this_thread();
      EXPECT_TRUE(store().apply(send("orders", std::to_string(i))));
    });
  }
  ASSERT_TRUE(clock().entered().reaches(followers));
  disk().release_writes();
  threads.clear();
  EXPECT_EQ(disk().writes().count(), writes + 2);
  EXPECT_EQ(ready("orders"), followers + 1);
}

TEST_F(LocalStoreTest, The_transactions_of_one_call_are_one_write) {
  const std::size_t writes = disk().writes().count();
  const std::vector<Transaction> transactions = {send("orders", "a"), send("orders", "b"),
                                                 send("", "refused"), send("orders", "c")};
  const auto results = store().apply(transactions);
  ASSERT_EQ(results.size(), 4U);
  EXPECT_TRUE(results[0] && results[1] && results[3]);
  EXPECT_EQ(results[2].error().code, Errc::invalid_argument);
  EXPECT_EQ(disk().writes().count(), writes + 1);
}

TEST_F(LocalStoreTest, A_write_is_synced_if_any_of_its_transactions_asks_for_it) {
  Transaction async = send("orders", "a");
  async.durability = Durability::async;
  ASSERT_TRUE(store().apply(async));  // creating a queue may need a sync of its own
  const std::size_t synced = disk().synced_writes();
  ASSERT_TRUE(store().apply(async));
  EXPECT_EQ(disk().synced_writes(), synced);
  const std::vector<Transaction> mixed = {async, send("orders", "b")};
  for (const auto& result : store().apply(mixed))
    ASSERT_TRUE(result);
  EXPECT_EQ(disk().synced_writes(), synced + 1);
}

// --- Nothing is shown before it is written (S1) ---

TEST_F(LocalStoreTest, Receipts_wait_for_their_own_write) {
  EXPECT_EQ(during_a_held_write([&] { EXPECT_TRUE(store().apply(send("orders", "a"))); }), 0U);
}

TEST_F(LocalStoreTest, A_lease_waits_until_it_and_its_messages_are_written) {
  ASSERT_TRUE(store().apply(send("orders", "a")));
  EXPECT_EQ(during_a_held_write([&] { EXPECT_EQ(lease_one("orders").messages.front().body, "a"); }),
            0U);
}

TEST_F(LocalStoreTest, Reads_of_memory_wait_for_what_they_may_have_seen) {
  EXPECT_EQ(during_a_held_write([&] { EXPECT_EQ(store().stats("held")->ready, 1U); },
                                [&] { EXPECT_EQ(store().queues()->size(), 1U); },
                                [&] { EXPECT_EQ(store().peek(all_of("held"))->items.size(), 1U); }),
            0U);
}

// The answer tells of a message that may yet fail to be written.
TEST_F(LocalStoreTest, Errors_wait_for_what_they_may_have_seen) {
  Transaction named = send("held", "x");
  named.sends.front().name = "only";
  disk().hold_writes();
  const std::size_t writes = disk().writes().count();
  std::jthread leader([&] { EXPECT_TRUE(store().apply(named)); });
  ASSERT_TRUE(disk().writes().reaches(writes + 1));
  std::atomic<bool> released = false;
  std::jthread second([&] {
    CallCountingClock::count_this_thread();
    EXPECT_EQ(store().apply(named).error().code, Errc::name_taken);
    EXPECT_TRUE(released);
  });
  ASSERT_TRUE(clock().entered().reaches(1));
  released = true;
  disk().release_writes();
}

// A poll that finds nothing shows nothing: it must not cost a sync of somebody else.
TEST_F(LocalStoreTest, An_empty_lease_does_not_wait) {
  ASSERT_TRUE(store().apply(send("orders", "a")));
  const Lease held = lease_one("orders");
  disk().hold_writes();
  const std::size_t writes = disk().writes().count();
  std::jthread leader([&] { EXPECT_TRUE(store().apply(send("held", "x"))); });
  ASSERT_TRUE(disk().writes().reaches(writes + 1));
  EXPECT_TRUE(store().lease(from("orders"))->empty());
  disk().release_writes();
}

// It does not wait, and nobody else may come: so somebody must see to what it found to be due.
TEST_F(LocalStoreTest, What_an_empty_lease_found_to_be_due_is_written_all_the_same) {
  Transaction expiring = send("orders", "a");
  expiring.sends.front().ttl = 5s;
  ASSERT_TRUE(set_timer_by([&] { return store().apply(expiring); }));
  std::size_t writes = disk().writes().count();
  clock().pass_unnoticed(5s);
  EXPECT_TRUE(store().lease(from("orders"))->empty());
  EXPECT_EQ(disk().writes().count(), writes + 1) << "by itself, when nothing is in flight";

  ASSERT_TRUE(store().apply(expiring));
  writes = disk().writes().count();
  disk().hold_writes();
  std::jthread leader([&] { EXPECT_TRUE(store().apply(send("held", "x"))); });
  ASSERT_TRUE(disk().writes().reaches(writes + 1));
  clock().pass_unnoticed(5s);
  EXPECT_TRUE(store().lease(from("orders"))->empty());
  disk().release_writes();
  leader.join();
  EXPECT_EQ(disk().writes().count(), writes + 2) << "by the leader of the batch in front";
}

TEST_F(LocalStoreTest, Reads_of_the_archive_show_what_is_written_and_do_not_wait) {
  ASSERT_TRUE(store().apply(write_record("space", "key", "old")));
  disk().hold_writes();
  const std::size_t writes = disk().writes().count();
  std::jthread leader([&] { EXPECT_TRUE(store().apply(write_record("space", "key", "new"))); });
  ASSERT_TRUE(disk().writes().reaches(writes + 1));
  EXPECT_EQ((*store().record("space", "key"))->value, "old");
  disk().release_writes();
  leader.join();
  EXPECT_EQ((*store().record("space", "key"))->value, "new");
}

// --- Transactions that need the store for themselves ---

TEST_F(LocalStoreTest, Administration_keeps_its_place_among_the_transactions_of_a_call) {
  const std::vector<Transaction> transactions = {
      send("orders", "a"),
      administer(PurgeQueue{.queue = "orders", .key = {}}),
      send("orders", "b"),
      send("orders", "c"),
      administer(PurgeQueue{.queue = "orders", .key = {}}),
      send("orders", "d")};
  const auto results = store().apply(transactions);
  for (const auto& result : results)
    ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(results[1]->affected, 1U);
  EXPECT_EQ(results[4]->affected, 2U);
  const auto stats = store().stats("orders");
  EXPECT_EQ(stats->ready, 1U);
  EXPECT_EQ(stats->purged, 3U);
}

// It reads the archive, and must find there what the call before it decided.
TEST_F(LocalStoreTest, Administration_sees_what_was_decided_just_before) {
  ASSERT_TRUE(store().apply(send("orders", "a")));
  const Lease lease = lease_one("orders");
  Transaction kill = ack(lease);
  kill.settles.front().outcomes.front().kind = Outcome::Kind::dead;
  const MessageId id = lease.messages.front().id;
  const std::vector<Transaction> transactions = {
      kill, administer(Redrive{.queue = "orders", .ids = {id}, .to = {}})};
  for (const auto& result : store().apply(transactions)) {
    ASSERT_TRUE(result) << result.error().message;
  }
  EXPECT_EQ(lease_one("orders").messages.front().id, id);
}

// What became due just before belongs to what it must find in the archive.
TEST_F(LocalStoreTest, Administration_sees_what_is_due_by_then) {
  QueueSettings settings;
  settings.on_expired = OnExpired::dead;
  ASSERT_TRUE(store().apply(administer(ConfigureQueue{.queue = "orders", .settings = settings})));
  Transaction expiring = send("orders", "a");
  expiring.sends.front().ttl = 5s;
  const auto sent = set_timer_by([&] { return store().apply(expiring); });
  ASSERT_TRUE(sent);
  clock().pass_unnoticed(5s);
  const auto redriven = store().apply(
      administer(Redrive{.queue = "orders", .ids = {sent->sent.front().id}, .to = {}}));
  ASSERT_TRUE(redriven) << redriven.error().message;
  EXPECT_EQ(redriven->time, store().now());
  EXPECT_EQ(ready("orders"), 1U);
}

TEST_F(LocalStoreTest, Nobody_gets_ahead_of_administration_that_waits_for_a_write) {
  const std::size_t writes = disk().writes().count();
  disk().hold_writes();
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { EXPECT_TRUE(store().apply(send("orders", "before"))); });
  ASSERT_TRUE(disk().writes().reaches(writes + 1));
  threads.emplace_back([&] {
    CallCountingClock::count_this_thread();
    const auto purged = store().apply(administer(PurgeQueue{.queue = "orders", .key = {}}));
    ASSERT_TRUE(purged);
    EXPECT_EQ(purged->affected, 1U);
  });
  ASSERT_TRUE(clock().entered().reaches(1));
  threads.emplace_back([&] {
    CallCountingClock::count_this_thread();
    EXPECT_TRUE(store().apply(send("orders", "after")));
  });
  EXPECT_FALSE(clock().entered().reaches(2, 20ms));
  disk().release_writes();
  threads.clear();
  EXPECT_EQ(ready("orders"), 1U);
}

// A consumer may take for granted that a lease has what it was made for.
TEST_F(LocalStoreTest, A_lease_that_is_lost_before_it_can_be_shown_is_not_handed_out) {
  Transaction named = send("orders", "a");
  named.sends.at(0).name = "n";
  ASSERT_TRUE(store().apply(named));
  Transaction cancel;
  cancel.cancels.push_back({.queue = "orders", .name = "n"});

  disk().hold_writes();
  const std::size_t writes = disk().writes().count();
  std::jthread leader([&] { EXPECT_TRUE(store().apply(send("held", "x"))); });
  ASSERT_TRUE(disk().writes().reaches(writes + 1));
  // Both are decided, one after the other, and written together.
  std::jthread consumer([&] {
    CallCountingClock::count_this_thread();
    const auto leases = store().lease(from("orders"));
    ASSERT_TRUE(leases);
    EXPECT_TRUE(leases->empty());
  });
  ASSERT_TRUE(clock().entered().reaches(1));
  std::jthread canceller([&] {
    CallCountingClock::count_this_thread();
    const auto receipt = store().apply(cancel);
    ASSERT_TRUE(receipt);
    EXPECT_EQ(receipt->cancelled, std::vector{true});
  });
  ASSERT_TRUE(clock().entered().reaches(2));
  disk().release_writes();
}

TEST_F(LocalStoreTest, Administration_is_not_starved_by_others) {
  ASSERT_TRUE(store().apply(send("orders", "a")));
  std::atomic<bool> stop = false;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop)
        ASSERT_TRUE(store().apply(send("orders", "x")));
    });
  }
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(store().apply(administer(PurgeQueue{.queue = "orders", .key = {}})));
  }
  stop = true;
  threads.clear();
  EXPECT_GE(store().stats("orders")->purged, 1U);
}

// --- A disk that is nearly full ---

// Whatever adds something is refused, so that those who settle still find room.
TEST_F(LocalStoreTest, A_disk_that_is_nearly_full_takes_settles_and_nothing_that_adds) {
  const auto refusal = [&](const Transaction& transaction) -> std::optional<Errc> {
    const auto receipt = store().apply(transaction);
    if (receipt) return std::nullopt;
    return receipt.error().code;
  };
  Transaction publish;
  publish.publishes.emplace_back().topic = "orders.new";
  ASSERT_TRUE(store().apply(send("orders", "a", "7")));
  ASSERT_TRUE(store().apply(send("orders", "b", "8")));
  const Lease first = lease_one("orders");
  disk().set_free_bytes(Limits{}.disk_reserve_bytes - 1);
  const Lease second = lease_one("orders");  // a write, after which the room is looked at

  EXPECT_EQ(refusal(send("orders", "c")), Errc::store_full);
  EXPECT_EQ(refusal(publish), Errc::store_full);
  EXPECT_EQ(refusal(write_record("space", "key", "value")), Errc::store_full);
  EXPECT_EQ(refusal(ack(first)), std::nullopt);
  // Whoever hands on what he has done may still do so, down to a lower reserve.
  Transaction hand_on = ack(second);
  hand_on.sends = send("next", "b").sends;
  disk().set_free_bytes(Limits{}.disk_settle_reserve_bytes - 1);
  ASSERT_TRUE(store().stats("orders"));
  EXPECT_EQ(refusal(hand_on), Errc::store_full);
  disk().set_free_bytes(Limits{}.disk_settle_reserve_bytes);
  EXPECT_EQ(refusal(hand_on), std::nullopt);

  disk().set_free_bytes(Limits{}.disk_reserve_bytes);
  EXPECT_EQ(refusal(publish), std::nullopt);
}

// --- Time ---

TEST_F(LocalStoreTest, What_becomes_due_wakes_those_who_watch_without_any_call) {
  ASSERT_TRUE(store().apply(send("orders", "later", {}, 10s)));
  Signal called;
  const Watch watch = store().watch(WatchQueue{"orders"}, [&] { called.raise(); });
  clock().advance(10s);
  EXPECT_TRUE(called.reaches(1));
  EXPECT_EQ(lease_one("orders").messages.front().body, "later");
}

TEST_F(LocalStoreTest, The_timer_of_a_real_clock_wakes_by_itself) {
  auto opened = strand::open("memory:");
  ASSERT_TRUE(opened);
  Store& store = **opened;
  // The first is later than the second: the timer must be set forward.
  ASSERT_TRUE(store.apply(send("orders", "later", {}, 1h)));
  ASSERT_TRUE(store.apply(send("orders", "soon", {}, 20ms)));
  Signal called;
  const Watch watch = store.watch(WatchQueue{"orders"}, [&] { called.raise(); });
  EXPECT_TRUE(called.reaches(1));
  EXPECT_EQ(store.lease(from("orders"))->size(), 1U);
}

TEST_F(LocalStoreTest, Reads_show_what_is_due_at_once) {
  Transaction expiring = send("orders", "a");
  expiring.sends.front().ttl = 5s;
  QueueSettings settings;
  settings.on_expired = OnExpired::dead;
  ASSERT_TRUE(store().apply(administer(ConfigureQueue{.queue = "orders", .settings = settings})));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(store().apply(expiring));
    clock().advance(5s);  // the timer and this thread now race to apply it
    ASSERT_EQ(store().dead_letters({.queue = "orders", .after = {}})->items.size(),
              static_cast<std::size_t>(i) + 1);
  }
}

TEST_F(LocalStoreTest, Store_time_follows_the_monotonic_clock) {
  const Time start = store().now();
  clock().set_wall(clock().wall() - 48h);
  clock().advance(5s);
  EXPECT_EQ(store().now(), start + 5s);
  clock().set_wall(clock().wall() + 1000h);
  clock().advance(5s);
  EXPECT_EQ(store().now(), start + 10s);
}

TEST_F(LocalStoreTest, Store_time_does_not_go_back_when_the_wall_has) {
  clock().advance(1h);
  ASSERT_TRUE(store().apply(send("orders", "a")));
  const Time before = store().now();
  clock().set_wall(clock().wall() - 48h);
  reopen();
  EXPECT_GE(store().now(), before);
  const Time after = store().now();
  clock().advance(1s);
  EXPECT_EQ(store().now(), after + 1s);
}

TEST_F(LocalStoreTest, Store_time_does_not_stand_still_after_a_failed_write) {
  ASSERT_TRUE(store().apply(send("orders", "a")));
  const Time before = store().now();
  clock().advance(7s);
  disk().fail_next_write(Fault::before);
  EXPECT_FALSE(store().apply(send("orders", "b")));
  EXPECT_EQ(store().now(), before + 7s);
  const auto receipt = store().apply(send("orders", "c"));
  ASSERT_TRUE(receipt);
  EXPECT_EQ(receipt->time, before + 7s);
}

// --- Watches ---

TEST_F(LocalStoreTest, A_commit_after_watch_returned_calls_back) {
  Signal queue;
  Signal record;
  const Watch watching[] = {store().watch(WatchQueue{"not there yet"}, [&] { queue.raise(); }),
                            store().watch(WatchRecord{"space", "key"}, [&] { record.raise(); })};
  ASSERT_TRUE(store().apply(send("not there yet", "a")));
  EXPECT_TRUE(queue.reaches(1));
  ASSERT_TRUE(store().apply(write_record("space", "key", "value")));
  EXPECT_TRUE(record.reaches(1));
}

TEST_F(LocalStoreTest, A_callback_may_use_the_store) {
  Signal leased;
  const Watch watch = store().watch(WatchQueue{"orders"}, [&] {
    const auto leases = store().lease(from("orders"));
    if (leases && !leases->empty() && store().apply(ack(leases->front()))) leased.raise();
  });
  ASSERT_TRUE(store().apply(send("orders", "a")));
  EXPECT_TRUE(leased.reaches(1));
}

TEST_F(LocalStoreTest, Watching_a_lane_calls_for_new_messages_and_for_its_end) {
  ASSERT_TRUE(store().apply(send("orders", "a", "key")));
  const Lease lease = lease_one("orders");
  Signal called;
  const Watch watch = store().watch(WatchLane{lease.token}, [&] { called.raise(); });
  ASSERT_TRUE(store().apply(send("orders", "b", "key")));
  EXPECT_TRUE(called.reaches(1));
  clock().advance(1h);
  EXPECT_TRUE(called.reaches(2));
}

// Its end came before the watch: waiting for it would be waiting for ever.
TEST_F(LocalStoreTest, Watching_a_lane_with_a_token_that_is_not_current_calls_at_once) {
  ASSERT_TRUE(store().apply(send("orders", "a", "key")));
  const Lease lease = lease_one("orders");
  ASSERT_TRUE(store().apply(ack(lease)));
  Signal called;
  const Watch watch = store().watch(WatchLane{lease.token}, [&] { called.raise(); });
  EXPECT_TRUE(called.reaches(1));
}

// --- Closing ---

TEST_F(LocalStoreTest, What_was_decided_is_there_after_closing_and_opening) {
  ASSERT_TRUE(store().apply(send("orders", "a", "key")));
  ASSERT_TRUE(store().apply(send("orders", "b", "key", 10s)));
  const Lease lease = lease_one("orders");
  reopen();
  EXPECT_EQ(store().stats("orders")->leased, 1U);
  EXPECT_EQ(store().stats("orders")->delayed, 1U);
  EXPECT_TRUE(store().apply(ack(lease)));
}

// The line itself is not stored: it is made anew from places and priorities.
TEST_F(LocalStoreTest, A_lane_that_went_to_the_back_is_in_front_again_after_opening) {
  ASSERT_TRUE(store().apply(send("orders", "a", "1")));
  ASSERT_TRUE(store().apply(send("orders", "b", "2")));
  Transaction release;
  release.settles.push_back({.token = lease_one("orders").token});
  ASSERT_TRUE(store().apply(release));
  reopen();
  EXPECT_EQ(lease_one("orders").messages.at(0).body, "a");
}

TEST_F(LocalStoreTest, Closing_beside_a_passing_clock_is_safe) {
  std::atomic<bool> stop = false;
  std::jthread passing([&] {
    while (!stop)
      clock().advance(1ms);
  });
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(store().apply(send("orders", "a", {}, 3ms)));
    reopen();
  }
  stop = true;
}

}  // namespace
}  // namespace strand
