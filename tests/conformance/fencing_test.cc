// S5: a token that is not current changes nothing.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <thread>

#include "conformance/suite.h"

namespace strand::conformance {

// A stalled holder must not finish work that has moved on to another.
// Rules: S5 S6
// Behaviours: worker_ack_fails_after_lock_expiry, lost_lock_token_handling
TEST_P(StoreConformance, An_expired_holder_cannot_settle) {
  enqueue("orders", key("cust-7"), "a");
  const Lease slow = lease_one("orders", 30s);
  clock().advance(31s);
  const Lease fast = lease_one("orders", 30s);
  EXPECT_EQ(bodies(fast), Bodies{"a"});
  EXPECT_GT(fast.token.epoch(), slow.token.epoch());

  EXPECT_EQ(ack(slow).error().code, Errc::lease_lost);
  EXPECT_TRUE(ack(fast));
  EXPECT_EQ(stats("orders").acked, 1U);
}

// A lease is over at its end even if nobody has asked for the lane since.
// Rules: S5 S6 S17
// Behaviours: lock_expiration_during_ack
TEST_P(StoreConformance, An_expired_holder_cannot_settle_even_if_nobody_took_the_lane) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders", 30s);

  clock().advance(30s);

  EXPECT_EQ(ack(lease).error().code, Errc::lease_lost);
  EXPECT_EQ(stats("orders").acked, 0U);
}

// Renewing is asking "is it still mine?", so the answer has to be right.
// Rules: S5
// Behaviours: worker_lock_renewal_after_expiration, orchestration_lock_renewal_after_expiration
TEST_P(StoreConformance, An_expired_holder_can_neither_renew_nor_pull) {
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders", 30s);
  clock().advance(30s);
  enqueue("orders", key("cust-7"), "b");

  EXPECT_EQ(renew(lease, 30s).error().code, Errc::lease_lost);
  EXPECT_EQ(pull(lease).error().code, Errc::lease_lost);
  EXPECT_EQ(peek_one("orders", "b").deliveries, 0U);
  EXPECT_EQ(stats("orders").leases, 0U);
}

// After the end there is nothing left to do with a token.
// Rules: S5
// Behaviours: worker_lock_renewal_after_ack
TEST_P(StoreConformance, A_token_is_lost_once_its_lease_has_ended) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  const Lease lease = lease_one("orders");
  ASSERT_TRUE(settle(lease, {acked(id_of(lease, "a"))}));

  EXPECT_EQ(settle(lease, {acked(id_of(lease, "b"))}).error().code, Errc::lease_lost);
  EXPECT_EQ(settle(lease, {}).error().code, Errc::lease_lost);
  EXPECT_EQ(renew(lease, 30s).error().code, Errc::lease_lost);
  EXPECT_EQ(pull(lease).error().code, Errc::lease_lost);
}

// "Not current" is said the same way when the lane, or its queue, is no more: the client need not
// know what became of it.
// Rules: S5 S22
TEST_P(StoreConformance, A_token_is_lost_when_its_lane_or_queue_is_gone) {
  enqueue("orders", key("cust-7"), "a");
  enqueue("invoices", key("cust-7"), "b");
  const Lease emptied = lease_one("orders");
  const Lease removed = lease_one("invoices");
  ASSERT_TRUE(ack(emptied));
  ASSERT_TRUE(admin(RemoveQueue{.queue = "invoices", .force = true}));

  EXPECT_EQ(ack(emptied).error().code, Errc::lease_lost);
  EXPECT_EQ(ack(removed).error().code, Errc::lease_lost);
  reopen();
  EXPECT_EQ(ack(emptied).error().code, Errc::lease_lost);
  EXPECT_EQ(ack(removed).error().code, Errc::lease_lost);
}

// A stale step is stale as a whole: its messages, records and cancels must not happen either.
// Rules: S5
TEST_P(StoreConformance, A_stale_settle_changes_nothing_at_all) {
  enqueue("orders", key("cust-7"), "a");
  enqueue("timers", unkeyed, "reminder", {.delay = 1h, .name = "remind"});
  const Lease slow = lease_one("orders", 30s);
  clock().advance(30s);
  const QueueStats before = stats("orders");

  Transaction stale;
  stale.settles.push_back(settlement(slow, {acked(id_of(slow, "a"))}));
  stale.cancels.push_back({.queue = "timers", .name = "remind"});
  stale.sends.push_back(send("ship", key("cust-7"), "parcel"));
  stale.records.push_back({.space = "orders", .key = "cust-7", .value = "paid", .expected = {}});
  EXPECT_EQ(apply(stale).error().code, Errc::lease_lost);

  EXPECT_EQ(stats("orders"), before);
  EXPECT_EQ(bodies(peek("timers")), Bodies{"reminder"});
  EXPECT_FALSE(has_queue("ship"));
  EXPECT_EQ(Answer(store().record("orders", "cust-7")).value(), std::nullopt);
}

// A step over two lanes is one step: if one of them has moved on, it did not happen.
// Rules: S5 S22
TEST_P(StoreConformance, One_stale_token_fails_the_settles_of_all) {
  enqueue("orders", key("a"), "a");
  enqueue("orders", key("b"), "b");
  const Lease stale = lease_key("orders", "a", 10s);
  const Lease good = lease_key("orders", "b", 1min);
  clock().advance(10s);

  Transaction both;
  both.settles = {settlement(good, {acked(id_of(good, "b"))}),
                  settlement(stale, {acked(id_of(stale, "a"))})};
  EXPECT_EQ(apply(both).error().code, Errc::lease_lost);

  EXPECT_EQ(stats("orders").acked, 0U);
  EXPECT_TRUE(ack(good)) << "the good lease goes on";
}

// The epoch is a fencing number for other systems, too: it must grow over all lanes and queues.
// Rules: S5
// Behaviours: lock_token_uniqueness
TEST_P(StoreConformance, Each_lease_has_a_higher_epoch_than_all_before_it) {
  for (const char* queue : {"orders", "invoices"}) {
    for (const char* lane : {"a", "b"})
      enqueue(queue, key(lane), lane);
    enqueue(queue, unkeyed, "alone");
  }
  std::vector<Epoch> epochs;
  const auto take = [&](const std::vector<Lease>& leases) {
    // Within one request their order is free.
    std::vector<Epoch> taken;
    for (const Lease& lease : leases)
      taken.push_back(lease.token.epoch());
    std::ranges::sort(taken);
    epochs.insert(epochs.end(), taken.begin(), taken.end());
  };

  take(lease({.queue = "invoices"}));
  take(lease_all("orders"));
  take(lease_all("invoices"));
  clock().advance(30s);
  take(lease_all("orders"));
  take({seize("orders", "a")});

  EXPECT_THAT(epochs, SizeIs(10));
  EXPECT_EQ(std::ranges::adjacent_find(epochs, std::greater_equal{}), epochs.end());
}

// Epochs that start again after a restart would make a token of yesterday current.
// Rules: S5
TEST_P(StoreConformance, Epochs_grow_over_a_reopen) {
  enqueue("orders", key("cust-7"), "a");
  Epoch highest{};
  for (int restart = 0; restart < 5; ++restart) {
    const Lease lease = lease_one("orders");
    EXPECT_GT(lease.token.epoch(), highest);
    highest = lease.token.epoch();
    ASSERT_TRUE(release(lease));
    reopen();
    EXPECT_EQ(ack(lease).error().code, Errc::lease_lost);
  }
}

// Two threads that both believe to be the holder: one of them finishes the work.
// Rules: S5
// Behaviours: concurrent_ack_prevention
TEST_P(StoreConformance, Of_many_settles_with_one_token_one_ends_the_lease) {
  constexpr int threads = 4;
  enqueue("orders", key("cust-7"), "a");
  const Lease lease = lease_one("orders");

  std::barrier start{threads};
  std::atomic<int> succeeded = 0;
  std::atomic<int> lost = 0;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i) {
      workers.emplace_back([&] {
        start.arrive_and_wait();
        const Answer<Receipt> answer = ack(lease);
        if (answer) ++succeeded;
        if (!answer && answer.error().code == Errc::lease_lost) ++lost;
      });
    }
  }

  EXPECT_EQ(succeeded, 1);
  EXPECT_EQ(lost, threads - 1);
  EXPECT_EQ(stats("orders").acked, 1U);
}

// A token is a value: it may be written down and read back by another process.
// Rules: S5
TEST_P(StoreConformance, A_token_works_after_a_trip_through_text) {
  enqueue("orders", key("cust-7"), "a");
  Lease lease = lease_one("orders");

  lease.token = Answer(Token::parse(lease.token.to_string())).value();

  EXPECT_TRUE(ack(lease));
}

// Guessing a token must not be a way into somebody's lane.
// Rules: S5
// Behaviours: invalid_lock_token_rejection, invalid_lock_token_on_ack,
// worker_lock_renewal_invalid_token
TEST_P(StoreConformance, A_token_that_was_tampered_with_is_invalid) {
  enqueue("orders", key("cust-7"), "a");
  enqueue("orders", key("cust-8"), "b");
  const Lease genuine = lease_key("orders", "cust-7");
  const Lease other = lease_key("orders", "cust-8");
  const Token t = genuine.token;

  const std::array forged{
      Token{},
      Token{t.epoch(), t.place(), t.seal() + 1},
      Token{t.epoch(), t.place(), t.seal() ^ (std::uint64_t{1} << 63U)},
      Token{t.epoch(), t.place(), other.token.seal()},
      Token{Epoch{std::to_underlying(t.epoch()) + 1000}, t.place(), t.seal()},
      Token{t.epoch(), t.place() + 1000, t.seal()},
      Token{Epoch{UINT64_MAX}, UINT64_MAX, UINT64_MAX},
  };
  for (const Token& token : forged) {
    SCOPED_TRACE(token.to_string());
    Lease lease = genuine;
    lease.token = token;
    EXPECT_EQ(ack(lease).error().code, Errc::invalid_token);
    EXPECT_EQ(renew(lease, 1h).error().code, Errc::invalid_token);
    EXPECT_EQ(pull(lease).error().code, Errc::invalid_token);
  }
  EXPECT_EQ(stats("orders").acked, 0U);
  EXPECT_TRUE(ack(genuine));
}

// Two stores beside each other: the token of one says nothing about the other's lanes.
// Rules: S5
TEST_P(StoreConformance, A_token_of_another_store_is_invalid) {
  const std::unique_ptr<Store> another = open_another();
  Transaction order;
  order.sends.push_back(send("orders", key("cust-7"), "theirs"));
  ASSERT_TRUE(Answer(another->apply(order)));
  const Lease theirs = Answer(another->lease({.queue = "orders"})).value().at(0);
  enqueue("orders", key("cust-7"), "ours");
  const Lease ours = lease_one("orders");

  EXPECT_EQ(ack(theirs).error().code, Errc::invalid_token);
  EXPECT_EQ(renew(theirs, 1h).error().code, Errc::invalid_token);
  EXPECT_EQ(pull(theirs).error().code, Errc::invalid_token);
  EXPECT_TRUE(ack(ours));
}

// A seal that changes with every start would lose all leases at a restart.
// Rules: S5 S22
TEST_P(StoreConformance, A_forged_token_is_still_invalid_after_a_reopen) {
  enqueue("orders", key("cust-7"), "a");
  const Lease genuine = lease_one("orders");
  Lease forged = genuine;
  forged.token =
      Token{genuine.token.epoch(), genuine.token.place(), genuine.token.seal() ^ std::uint64_t{1}};

  reopen();

  EXPECT_EQ(ack(forged).error().code, Errc::invalid_token);
  EXPECT_TRUE(ack(genuine));
}

}  // namespace strand::conformance
