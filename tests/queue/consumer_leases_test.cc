#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <strand/consumer.h>

#include "consumer_fixture.h"

namespace strand {
namespace {

using namespace std::chrono_literals;
using Kind = ConsumerTrouble::Kind;

class ConsumerLeases : public ConsumerTest {};

// --- Leases ---

TEST_F(ConsumerLeases, A_lease_is_renewed_while_its_handler_runs) {
  send("k", "a");
  Gate running;
  Gate go_on;
  ConsumerOptions with_lease = options();
  with_lease.lease = 30s;
  const auto consumer = consume(with_lease, [&](Work&) {
    running.open();
    go_on.wait();
  });
  running.wait();
  for (std::size_t i = 1; i <= 10; ++i) {
    clock_->advance(15s);
    renewals_.wait_for(i);
    EXPECT_EQ(stats().leased, 1);
  }
  go_on.open();
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 1);
  EXPECT_TRUE(troubles().empty());
}

TEST_F(ConsumerLeases, Lanes_that_wait_for_a_worker_are_renewed_too) {
  send("a", "1");
  send("b", "2");
  Gate running;
  Gate go_on;
  ConsumerOptions with_lease = options();
  with_lease.lease = 30s;
  with_lease.lanes_in_flight = 2;
  const auto consumer = consume(with_lease, [&](Work&) {
    running.open();
    go_on.wait();
  });
  running.wait();
  while (stats().leases < 2)
    std::this_thread::yield();
  for (std::size_t i = 1; i <= 4; ++i) {
    clock_->advance(15s);
    renewals_.wait_for(i);
  }
  go_on.open();
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 2);
  EXPECT_TRUE(troubles().empty());
}

// A consumer must not sit on lanes that others could work on.
TEST_F(ConsumerLeases, Few_lanes_are_taken_before_it_is_known_how_quick_handlers_are) {
  for (int i = 0; i < 50; ++i)
    send("k" + std::to_string(i), "x");
  Gate running;
  Gate go_on;
  const auto consumer = consume([&](Work&) {
    running.open();
    go_on.wait();
  });
  running.wait();
  EXPECT_LE(stats().leases, 2);
  go_on.open();
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 50);
}

TEST_F(ConsumerLeases, Lanes_taken_for_quick_handlers_are_given_back_when_one_hangs) {
  Gate running;
  Gate go_on;
  ConsumerOptions with_lease = options();
  with_lease.lease = 30s;
  const auto consumer = consume(with_lease, [&](Work& work) {
    if (work.message().body != "hang") return;
    running.open();
    go_on.wait();
  });
  // Until it believes that handlers take no time.
  for (int i = 0; i < 2'000; ++i)
    send("k" + std::to_string(i), "quick");
  consumer->wait_idle();
  Transaction transaction;
  add_send(transaction, "q", "first", "hang");
  for (int i = 0; i < 20; ++i)
    add_send(transaction, "q", "k" + std::to_string(i), "quick");
  store_->apply(transaction).value();
  running.wait();
  ASSERT_GT(stats().leases, 2);
  clock_->advance(15s);
  while (stats().leases > 1)
    std::this_thread::yield();
  EXPECT_EQ(stats().ready, 20);
  for (const PeekedMessage& message : store_->peek({.queue = "q"}).value().items)
    EXPECT_EQ(message.attempts, 0);
  go_on.open();
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 2'021);
}

TEST_F(ConsumerLeases, A_handler_that_lost_its_lease_is_told_and_cannot_commit) {
  send("k", "a");
  Gate running;
  Notes<Errc> commits;
  std::atomic<int> calls = 0;
  ConsumerOptions with_lease = options();
  with_lease.lease = 30s;
  const auto consumer = consume(with_lease, [&](Work& work) {
    if (++calls > 1) return;
    std::atomic<bool> told = false;
    const std::stop_callback callback(work.stop_token(), [&] {
      told = true;
      told.notify_all();
    });
    running.open();
    told.wait(false);
    commits.add(work.commit().error().code);
  });
  running.wait();
  // An administrator takes the lane away.
  const auto seized = store_->lease({.queue = "q", .key = "k", .seize = true, .lease = 1h}).value();
  ASSERT_EQ(seized.size(), 1);
  clock_->advance(15s);
  commits.wait_for(1);
  EXPECT_EQ(commits.all().front(), Errc::lease_lost);
  Transaction done;
  done.settles.push_back(
      {.token = seized.front().token, .outcomes = {{.id = seized.front().messages.front().id}}});
  EXPECT_TRUE(store_->apply(done));
  consumer->wait_idle();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(consumer->stats().lost, 1);
  EXPECT_EQ(stats().acked, 1);
}

// The process was stopped past the lease, so the lane comes back while its old handler still runs.
TEST_F(ConsumerLeases, A_lane_that_comes_back_waits_for_its_old_handler) {
  send("k", "a");
  Gate running;
  Gate go_on;
  std::atomic<int> at_once = 0;
  std::atomic<int> calls = 0;
  ConsumerOptions two = options();
  two.workers = 2;
  two.lease = 30s;
  hooked_->before_renew = [] { return Error{Errc::unavailable, "cannot be reached"}; };
  Gate other;
  const auto consumer = consume(two, [&](Work& work) {
    if (work.key() == "other") return other.open();
    EXPECT_EQ(++at_once, 1);
    if (++calls == 1) {
      running.open();
      go_on.wait();
    }
    --at_once;
  });
  running.wait();
  clock_->advance(31s);
  while (stats().leased == 0)  // leased again, by the same consumer
    std::this_thread::yield();
  send("other", "x");
  other.wait();  // the other worker has come past the lane, if it could be had
  EXPECT_EQ(calls, 1);
  go_on.open();
  consumer->wait_idle();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(stats().acked, 2);
  EXPECT_EQ(consumer->stats().lost, 1);
}

// The answer to a renewal comes when the lane has been leased once more: it is about a lease that
// nobody holds.
TEST_F(ConsumerLeases, A_renewal_that_is_answered_late_harms_nobody) {
  send("k", "a");
  Gate running;
  Gate go_on;
  Gate asked;
  Gate answer;
  Notes<std::string> others;
  std::atomic<bool> slow = false;
  hooked_->before_renew = [&]() -> std::optional<Error> {
    if (!slow) return Error{Errc::unavailable, "cannot be reached"};
    asked.open();
    answer.wait();
    return std::nullopt;
  };
  ConsumerOptions two = options();
  two.workers = 2;
  two.lease = 30s;
  std::atomic<int> calls = 0;
  const auto consumer = consume(two, [&](Work& work) {
    if (work.key() != "k") return others.add(*work.key());
    if (++calls > 1) return;
    running.open();
    go_on.wait();
  });
  // Leased again by the same consumer; another lane that was handled since tells that it has it.
  const auto leased_again = [&](std::uint32_t deliveries, const std::string& other) {
    clock_->advance(31s);
    while (store_->peek({.queue = "q", .key = "k"}).value().items.front().deliveries < deliveries)
      std::this_thread::yield();
    const std::size_t before = others.all().size();
    send(other, "x");
    others.wait_for(before + 1);
  };
  running.wait();
  leased_again(2, "first");
  slow = true;
  clock_->advance(15s);
  asked.wait();
  leased_again(3, "second");
  answer.open();
  go_on.open();
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 3);
  EXPECT_EQ(consumer->stats().in_flight, 0);
}

TEST_F(ConsumerLeases, A_handler_over_its_time_is_told_and_its_lane_goes_to_others) {
  send("k", "a");
  Gate running;
  Gate go_on;
  Gate told;
  std::atomic<int> calls = 0;
  ConsumerOptions limited = options();
  limited.lease = 30s;
  limited.handler_time = 1min;
  const auto consumer = consume(limited, [&](Work& work) {
    if (++calls > 1) return;
    const std::stop_callback callback(work.stop_token(), [&] { told.open(); });
    running.open();
    go_on.wait();
  });
  running.wait();
  for (std::size_t i = 1; i <= 3; ++i) {
    clock_->advance(15s);
    renewals_.wait_for(i);
  }
  clock_->advance(15s);
  told.wait();
  clock_->advance(31s);
  EXPECT_EQ(store_->peek({.queue = "q"}).value().items.front().attempts, 1);
  go_on.open();
  consumer->wait_idle();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(stats().acked, 1);
}

// --- A store in trouble ---

TEST_F(ConsumerLeases, A_store_that_is_unavailable_for_a_while_is_tried_again) {
  send("k", "a");
  std::atomic<int> refused = 0;
  hooked_->before_lease = [&]() -> std::optional<Error> {
    if (++refused > 2) return std::nullopt;
    return Error{Errc::unavailable, "not now"};
  };
  Notes<std::string> seen;
  const auto consumer = consume([&](Work& work) { seen.add(work.message().body); });
  seen.wait_for(1);
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 1);
  EXPECT_EQ(troubles(), (std::vector{Kind::store_failed, Kind::store_failed}));
}

TEST_F(ConsumerLeases, A_commit_that_failed_is_repeated_and_its_handler_is_not) {
  send("k", "a");
  std::atomic<int> refused = 0;
  hooked_->before_apply = [&](std::span<const Transaction>) -> std::optional<Error> {
    if (++refused > 3) return std::nullopt;
    return Error{Errc::unavailable, "not now"};
  };
  std::atomic<int> calls = 0;
  const auto consumer = consume([&](Work&) { ++calls; });
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 1);
  EXPECT_EQ(calls, 1);
}

TEST_F(ConsumerLeases, An_unknown_outcome_is_repeated_and_happens_once) {
  send("k", "a");
  std::atomic<int> unknown = 0;
  hooked_->after_apply = [&]() -> std::optional<Error> {
    if (++unknown > 2) return std::nullopt;
    return Error{Errc::unknown_outcome, "the connection broke"};
  };
  const auto consumer = consume([&](Work& work) { add_send(work.transaction(), "out", "", "x"); });
  consumer->wait_idle();
  EXPECT_EQ(stats().acked, 1);
  EXPECT_EQ(stats("out").accepted, 1);
}

TEST_F(ConsumerLeases, One_lost_lease_does_not_keep_others_from_being_committed) {
  constexpr int lanes = 10;
  for (int i = 0; i < lanes; ++i)
    send("k" + std::to_string(i), "x");
  Gate all_run;
  Gate go_on;
  std::atomic<int> started = 0;
  ConsumerOptions many = options();
  many.workers = lanes;
  const auto consumer = consume(many, [&](Work&) {
    if (++started == lanes) all_run.open();
    go_on.wait();
  });
  all_run.wait();
  const auto seized = store_->lease({.queue = "q", .key = "k3", .seize = true}).value();
  ASSERT_EQ(seized.size(), 1);
  go_on.open();
  consumer->stop();
  EXPECT_EQ(stats().acked, lanes - 1);
  EXPECT_EQ(consumer->stats().lost, 1);
}

}  // namespace
}  // namespace strand
