// S2: at most one live lease per lane, and arrivals wait.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <map>
#include <thread>

#include "conformance/suite.h"

namespace strand::conformance {

// A message that arrives for a leased lane has no lock of its own: a store that locks messages
// instead of lanes hands it to a second worker at once.
// Rules: S2
// Behaviours: exclusive_instance_lock, completions_arriving_during_lock_blocked
// Trap: lock columns on message rows (a late arrival has no lock)
TEST_P(StoreConformance, A_late_arrival_waits_for_the_lane) {
  enqueue("orders", key("cust-7"), "a");
  const Lease holder = lease_one("orders");

  enqueue("orders", key("cust-7"), "late");

  EXPECT_THAT(lease_all("orders"), IsEmpty());
  EXPECT_THAT(lease({.queue = "orders", .key = "cust-7"}), IsEmpty());
  EXPECT_EQ(peek_one("orders", "late").state, MessageState::waiting);
  EXPECT_EQ(stats("orders").lanes_ready, 0U);
  ASSERT_TRUE(ack(holder));
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"late"});
}

// Whoever acks names what it has done; what came meanwhile has not been done.
// Rules: S2 S4
// Behaviours: ack_only_affects_locked_messages, message_tagging_during_lock
TEST_P(StoreConformance, A_late_arrival_is_not_settled_with_the_lease) {
  enqueue("orders", key("cust-7"), "a");
  const Lease holder = lease_one("orders");
  const MessageId late = enqueue("orders", key("cust-7"), "late");

  EXPECT_EQ(settle(holder, {acked(late)}).error().code, Errc::message_not_leased);
  ASSERT_TRUE(ack(holder));

  const Lease next = lease_one("orders");
  EXPECT_EQ(ids(next), Ids{late});
  EXPECT_EQ(next.messages[0].deliveries, 1U);
}

// Urgency decides between lanes; it is no way past the holder of one.
// Rules: S2 S12
TEST_P(StoreConformance, An_urgent_arrival_waits_for_the_lane_too) {
  enqueue("orders", key("cust-7"), "a", {.priority = Priority::low});
  const Lease holder = lease_one("orders");

  enqueue("orders", key("cust-7"), "urgent", {.priority = Priority::urgent});

  EXPECT_THAT(lease_all("orders"), IsEmpty());
  EXPECT_TRUE(ack(holder));
}

// Time, too, brings arrivals.
// Rules: S2 S7
TEST_P(StoreConformance, A_message_that_comes_due_waits_for_the_leased_lane) {
  enqueue("orders", key("cust-7"), "timer", {.delay = 10s});
  enqueue("orders", key("cust-7"), "a");
  const Lease holder = lease_one("orders", 30s);

  clock().advance(10s);

  EXPECT_THAT(lease_all("orders"), IsEmpty());
  EXPECT_EQ(peek_one("orders", "timer").state, MessageState::waiting);
  EXPECT_TRUE(ack(holder));
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"timer"});
}

// A lock that ends with the transaction that took it protects nothing while the work is done.
// Rules: S2
// Behaviours: worker_peek_lock_semantics
// Trap: an advisory lock taken in the claiming transaction ends at its commit
TEST_P(StoreConformance, A_lease_holds_its_lane_long_after_the_call_that_made_it) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});
  const Lease holder = lease({.queue = "orders", .messages = 1, .lease = 30s}).at(0);

  for (int second = 0; second < 29; ++second) {
    clock().advance(1s);
    enqueue("other", unkeyed, "unrelated commit");
    EXPECT_THAT(lease_all("orders"), IsEmpty());
  }
  EXPECT_TRUE(ack(holder));
}

// Customers do not wait for each other.
// Rules: S2
// Behaviours: cross_instance_lock_isolation
TEST_P(StoreConformance, A_leased_lane_does_not_hold_back_other_lanes) {
  enqueue("orders", key("a"), "a");
  enqueue("orders", key("b"), "b");
  const Lease first = lease_one("orders");
  const Lease second = lease_one("orders");

  EXPECT_EQ(bodies(first), Bodies{"a"});
  EXPECT_EQ(bodies(second), Bodies{"b"});
  EXPECT_NE(first.token, second.token);
  EXPECT_TRUE(ack(second));
  EXPECT_TRUE(ack(first)) << "settling one lane must leave the other's lease alone";
}

// A lane is a key in a queue, not a key.
// Rules: S2
TEST_P(StoreConformance, The_same_key_in_two_queues_is_two_lanes) {
  enqueue("orders", key("cust-7"), "order");
  enqueue("invoices", key("cust-7"), "invoice");

  const Lease order = lease_one("orders");
  const Lease invoice = lease_one("invoices");

  EXPECT_EQ(bodies(invoice), Bodies{"invoice"});
  EXPECT_TRUE(ack(order));
  EXPECT_TRUE(ack(invoice));
}

// A claim of many lanes must be one lease each, whole, however many messages a lane has.
// Rules: S2 S4
// Behaviours: lock_token_uniqueness
// Trap: SELECT DISTINCT … FOR UPDATE is refused
TEST_P(StoreConformance, A_request_for_many_lanes_leases_each_of_them_once) {
  for (const char* body : {"1", "2", "3"}) {
    for (const char* lane : {"a", "b", "c"})
      enqueue("orders", key(lane), lane + Bytes{body});
  }

  const std::vector<Lease> leases = lease({.queue = "orders", .lanes = 10});

  ASSERT_THAT(leases, SizeIs(3));
  EXPECT_EQ(bodies(leases[0]), (Bodies{"a1", "a2", "a3"}));
  EXPECT_EQ(bodies(leases[1]), (Bodies{"b1", "b2", "b3"}));
  EXPECT_EQ(bodies(leases[2]), (Bodies{"c1", "c2", "c3"}));
  EXPECT_NE(leases[0].token, leases[1].token);
  EXPECT_NE(leases[1].token, leases[2].token);
  EXPECT_NE(leases[0].token, leases[2].token);
}

// A holder with nothing in hand still holds: it waits for more, and means to pull it.
// Rules: S2 S4
TEST_P(StoreConformance, An_empty_kept_lease_still_holds_its_lane) {
  enqueue("orders", key("cust-7"), "a");
  const Lease holder = lease_one("orders");
  ASSERT_TRUE(ack(holder, Then::keep));
  EXPECT_EQ(stats("orders").leases, 1U);

  enqueue("orders", key("cust-7"), "b");

  EXPECT_THAT(lease_all("orders"), IsEmpty());
  EXPECT_EQ(bodies(*pull(holder)), Bodies{"b"});
}

// A message that a turn sends to itself is work for the next turn, not part of this one.
// Rules: S2
TEST_P(StoreConformance, A_message_that_the_holder_sends_to_its_own_lane_is_an_arrival) {
  enqueue("orders", key("cust-7"), "a");
  const Lease holder = lease_one("orders");

  Transaction step;
  step.settles.push_back(settlement(holder, {acked(id_of(holder, "a"))}, Then::keep));
  step.sends.push_back(send("orders", key("cust-7"), "to myself"));
  const MessageId sent = apply(step).value().sent.at(0).id;

  EXPECT_THAT(lease_all("orders"), IsEmpty());
  EXPECT_EQ(settle(holder, {acked(sent)}, Then::keep).error().code, Errc::message_not_leased);
  EXPECT_EQ(bodies(*pull(holder)), Bodies{"to myself"});
}

// Ending a lease and sending to its lane in one step must leave the message to be found.
// Rules: S2
// Trap: a completer's "delete the key row if no message" can strand a message
TEST_P(StoreConformance, A_message_sent_by_the_step_that_ends_the_lease_is_ready) {
  enqueue("orders", key("cust-7"), "a");
  const Lease holder = lease_one("orders");

  Transaction step;
  step.settles.push_back(settlement(holder, {acked(id_of(holder, "a"))}));
  step.sends.push_back(send("orders", key("cust-7"), "next"));
  ASSERT_TRUE(apply(step));

  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"next"});
}

// No key is special: not one whose hash is the smallest integer, not one with a NUL or a quote.
// Rules: S2
// Trap: abs(hashtext(k)) fails on INT_MIN
TEST_P(StoreConformance, Any_bytes_make_a_lane_of_their_own) {
  constexpr std::size_t count = 3000;
  std::vector<std::string> keys;
  for (int byte = 0; byte < 256; ++byte)
    keys.emplace_back(1, static_cast<char>(byte));
  keys.insert(keys.end(),
              {std::string{"\0\0", 2}, std::string{"a\0b", 3}, "'; DROP TABLE lanes; --", "%", "_",
               std::string(512, 'k'), "cust-7", "CUST-7", "cust-7 ", " cust-7"});
  while (keys.size() < count)
    keys.push_back("key " + std::to_string(keys.size()));
  std::ranges::sort(keys);
  keys.erase(std::ranges::unique(keys).begin(), keys.end());
  Transaction all;
  for (const std::string& k : keys)
    all.sends.push_back(send("orders", key(k), k));
  ASSERT_TRUE(apply(all));

  const std::vector<Lease> leases = lease({.queue = "orders", .lanes = 10'000, .messages = 10'000});

  std::vector<std::string> leased;
  for (const Lease& lease : leases) {
    EXPECT_EQ(bodies(lease), Bodies{lease.key.value_or("none")});
    leased.push_back(lease.key.value_or("none"));
  }
  std::ranges::sort(leased);
  EXPECT_EQ(leased, keys);
}

// The guard against a second holder must hold when everyone asks at the same moment.
// Rules: S2 S3
// Behaviours: concurrent_instance_fetching, multi_threaded_lock_contention,
//             multi_threaded_no_duplicate_processing
// Trap: a NOT EXISTS(… processing) guard races
TEST_P(StoreConformance, Many_threads_never_hold_one_lane_together) {
  constexpr int threads = 4;
  constexpr int lanes = 5;
  constexpr int messages = 200;
  for (int i = 0; i < messages; ++i) {
    enqueue("orders", key(std::to_string(i % lanes)), std::to_string(i));
  }

  std::array<std::atomic<int>, lanes> holders{};
  std::array<std::vector<int>, lanes> done;  // written by the holder of the lane alone
  const auto work = [&] {
    // There are more lanes than threads, so nobody goes home early; and whoever acks looks again.
    while (true) {
      const Answer<std::vector<Lease>> leases = try_lease({.queue = "orders", .messages = 3});
      EXPECT_TRUE(leases);
      if (!leases || leases->empty()) return;
      for (const Lease& lease : *leases) {
        const auto lane = static_cast<std::size_t>(std::stoi(*lease.key));
        EXPECT_EQ(++holders.at(lane), 1) << "two holders of lane " << lane;
        for (const Message& message : lease.messages)
          done.at(lane).push_back(std::stoi(message.body));
        --holders.at(lane);
        EXPECT_TRUE(ack(lease));
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i)
      workers.emplace_back(work);
  }

  EXPECT_EQ(stats("orders").acked, static_cast<std::uint64_t>(messages));
  for (const std::vector<int>& lane : done) {
    EXPECT_THAT(lane, SizeIs(messages / lanes)) << "handed out twice, or not at all";
    EXPECT_TRUE(std::ranges::is_sorted(lane));
  }
}

// When a lease runs out under contention, one heir is enough.
// Rules: S2 S6
// Behaviours: multi_threaded_lock_expiration_recovery, concurrent_lock_attempts_respect_expiration
TEST_P(StoreConformance, Of_many_threads_one_inherits_an_expired_lane) {
  constexpr int threads = 4;
  enqueue("orders", key("cust-7"), "a");
  const Lease lost = lease_one("orders", 30s);
  clock().advance(30s);

  std::barrier start{threads};
  std::atomic<int> heirs = 0;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i) {
      workers.emplace_back([&] {
        start.arrive_and_wait();
        const Answer<std::vector<Lease>> leases = try_lease({.queue = "orders"});
        EXPECT_TRUE(leases);
        if (leases) heirs += static_cast<int>(leases->size());
      });
    }
  }

  EXPECT_EQ(heirs, 1);
  EXPECT_EQ(ack(lost).error().code, Errc::lease_lost);
}

// The moment between "the lane is empty" and "the lane is gone" is where messages get lost.
// Rules: S2 S16
// Trap: a completer's "delete the key row if no message" can strand a message
TEST_P(StoreConformance, A_message_sent_while_its_lane_is_being_emptied_is_never_stranded) {
  constexpr int messages = 300;
  configure("orders", QueueSettings{});
  std::atomic<bool> sending = true;
  std::jthread sender{[&] {
    for (int i = 0; i < messages; ++i) {
      EXPECT_TRUE(try_enqueue("orders", key("cust-7"), std::to_string(i)));
    }
    sending = false;
  }};

  // Ends only when nothing was found although all had been sent before the look.
  Bodies got;
  while (true) {
    const bool more_to_come = sending;
    const Bodies found = drain("orders");
    got.insert(got.end(), found.begin(), found.end());
    if (found.empty() && !more_to_come) break;
  }

  EXPECT_THAT(got, SizeIs(messages));
  EXPECT_EQ(stats("orders").acked, static_cast<std::uint64_t>(messages));
}

}  // namespace strand::conformance
