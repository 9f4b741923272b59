// S17: store time, and what becomes due by itself.

#include "conformance/parts.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

// Off by one here differs between stores, and nobody would ever find it.
// Rules: S17 S3
TEST_P(StoreConformance, A_message_is_due_at_acceptance_plus_delay_to_the_millisecond) {
  const Receipt receipt = apply(together(send("orders", unkeyed, "a", {.delay = 10s}))).value();
  EXPECT_EQ(receipt.time, now());
  clock().advance(10s - 1ms);
  EXPECT_THAT(lease({.queue = "orders"}), IsEmpty());

  clock().advance(1ms);
  const Lease lease = lease_one("orders");
  EXPECT_EQ(lease.messages.at(0).enqueued_at, receipt.time);
  EXPECT_EQ(lease.messages.at(0).due, receipt.time + 10s);
}

// An operator looks at the numbers, not at leases: they must not be those of the last lease.
// Rules: S17 S16
TEST_P(StoreConformance, Reads_show_what_is_due_without_anyone_leasing) {
  enqueue("orders", key("1"), "delayed", {.delay = 10s});
  enqueue("orders", key("2"), "expiring", {.ttl = 10s});
  enqueue("orders", key("3"), "leased");
  ASSERT_EQ(bodies(lease_key("orders", "3", 10s)), Bodies{"leased"});
  clock().advance(10s);

  const QueueStats all = stats("orders");
  EXPECT_EQ(all.ready, 2U);
  EXPECT_EQ(all.delayed, 0U);
  EXPECT_EQ(all.leased, 0U);
  EXPECT_EQ(all.leases, 0U);
  EXPECT_EQ(all.expired, 1U);
  EXPECT_EQ(peek_one("orders", "delayed").state, MessageState::ready);
  EXPECT_EQ(peek_one("orders", "leased").attempts, 1U);
}

// What falls due in one long step happened in its own order: the lease ended before the TTL.
// Rules: S17 S6 S11
TEST_P(StoreConformance, A_long_step_of_time_does_what_many_short_ones_would) {
  configure("orders", {.max_attempts = 1, .ttl = {}});
  enqueue("orders", key("7"), "a", {.ttl = 1min});
  ASSERT_EQ(bodies(lease_one("orders", 10s)), Bodies{"a"});
  clock().advance(1h);

  // The lease ran out at 10 s and used up the only attempt; the TTL came to a dead letter.
  EXPECT_EQ(dead_letter("orders", "a").reason, "lease expired");
  EXPECT_EQ(stats("orders").expired, 0U);
}

// NTP or an administrator: leases and delays are measured, not compared with the calendar.
// Rules: S17
TEST_P(StoreConformance, A_wall_clock_set_forth_makes_nothing_due) {
  enqueue("orders", key("1"), "delayed", {.delay = 1h});
  enqueue("orders", key("2"), "leased");
  const Lease lease = lease_key("orders", "2", 1h);
  const Time before = now();
  clock().set_wall(clock().wall() + 48h);

  EXPECT_EQ(now(), before);
  EXPECT_EQ(stats("orders").delayed, 1U);
  EXPECT_TRUE(ack(lease));
}

// The other direction: an hour set back must not be an hour of standstill.
// Rules: S17
TEST_P(StoreConformance, A_wall_clock_set_back_delays_nothing) {
  enqueue("orders", key("1"), "delayed", {.delay = 1min});
  const Time before = now();
  clock().set_wall(clock().wall() - 48h);
  clock().advance(1min);

  EXPECT_EQ(now(), before + 1min);
  EXPECT_EQ(drain("orders"), Bodies{"delayed"});
}

// A machine that boots with the clock of 1970: what was accepted before must not lie in the future.
// Rules: S17 S3
TEST_P(StoreConformance, Store_time_does_not_go_back_when_the_store_is_opened_under_an_early_wall) {
  clock().advance(1h);
  const Time accepted = apply(together(send("orders", key("7"), "first"))).value().time;
  close();
  clock().set_wall(clock().wall() - 48h);
  reopen();

  EXPECT_GE(now(), accepted);
  enqueue("orders", key("7"), "second");
  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"first", "second"}))
      << "with a time before the first one's, the second would overtake it";
}

// Starting from the stored time must not mean standing still until the wall catches up.
// Rules: S17
TEST_P(StoreConformance, Time_goes_on_after_an_open_under_an_early_wall) {
  enqueue("orders", key("7"), "a", {.delay = 10s});
  close();
  clock().set_wall(clock().wall() - 48h);
  reopen();
  clock().advance(10s);
  EXPECT_EQ(drain("orders"), Bodies{"a"});
}

// The time that the store was closed has passed for its messages too.
// Rules: S17
TEST_P(StoreConformance, Time_passes_while_the_store_is_closed) {
  enqueue("orders", key("1"), "delayed", {.delay = 1h});
  enqueue("orders", key("2"), "expiring", {.ttl = 1h});
  close();
  clock().advance(2h);
  reopen();

  EXPECT_EQ(now(), clock().wall());
  EXPECT_EQ(drain("orders"), Bodies{"delayed"});
  EXPECT_EQ(stats("orders").expired, 1U);
}

// Clients put store time into their transaction ids: it has to be the one the store judges by.
// Rules: S17
TEST_P(StoreConformance, Store_time_follows_the_clock) {
  const Time before = now();
  EXPECT_EQ(now(), before);
  clock().advance(1ms);
  EXPECT_EQ(now(), before + 1ms);
  clock().advance(365 * 24h);
  EXPECT_EQ(now(), before + 1ms + 365 * 24h);
}

// Nobody looked for a while, and then much is due at once: it happens in the order of its times.
// Rules: S12 S17
TEST_P(StoreConformance, What_became_due_first_is_served_first_whatever_it_waited_for) {
  const auto wait = [&](const std::string& queue, Duration delay, Duration lease_length) {
    SendOptions later;
    later.delay = delay;
    enqueue(queue, key("delayed"), "delayed", later);
    enqueue(queue, key("leased"), "leased");
    ASSERT_EQ(bodies(lease_one(queue, lease_length)), Bodies{"leased"});
  };
  wait("delay first", 5s, 10s);
  wait("lease first", 10s, 5s);
  clock().advance(20s);
  EXPECT_EQ(bodies(lease_one("delay first")), Bodies{"delayed"});
  EXPECT_EQ(bodies(lease_one("delay first")), Bodies{"leased"});
  EXPECT_EQ(bodies(lease_one("lease first")), Bodies{"leased"});
  EXPECT_EQ(bodies(lease_one("lease first")), Bodies{"delayed"});
}

}  // namespace
}  // namespace strand::conformance
