// S1: what was accepted stays, what was refused never was.
#include <array>
#include <atomic>
#include <thread>

#include "conformance/suite.h"

namespace strand::conformance {

// A message is all its parts: a store that loses a header has lost the message.
// Rules: S1
TEST_P(StoreConformance, Everything_of_a_message_is_there_after_a_reopen) {
  const Bytes body{"nul \0 and \xff bytes", 17};
  const MessageId id = enqueue("orders", key("cust-7"), body,
                               {.headers = {{"trace", "1"}, {"trace", "2"}, {"empty", ""}},
                                .priority = Priority::high,
                                .ttl = 1h,
                                .label = "gpu",
                                .name = "the-name"});
  const Time accepted = now();

  reopen();

  const Lease lease = lease_one("orders");
  ASSERT_THAT(lease.messages, SizeIs(1));
  const Message& message = lease.messages[0];
  EXPECT_EQ(lease.queue, "orders");
  EXPECT_EQ(lease.key, "cust-7");
  EXPECT_EQ(lease.label, "gpu");
  EXPECT_EQ(message.id, id);
  EXPECT_EQ(message.body, body);
  EXPECT_EQ(message.headers, (Headers{{"trace", "1"}, {"trace", "2"}, {"empty", ""}}));
  EXPECT_EQ(message.priority, Priority::high);
  EXPECT_EQ(message.enqueued_at, accepted);
  EXPECT_EQ(message.due, accepted);
  EXPECT_EQ(message.expires_at, accepted + 1h);
  EXPECT_EQ(message.name, "the-name");
  EXPECT_EQ(message.topic, std::nullopt);
}

// Large values take other paths than small ones: their own column family, page or round trip.
// Rules: S1 S19 Records
// Behaviours: kv_large_value
TEST_P(StoreConformance, The_largest_body_and_record_are_there_after_a_reopen) {
  const Limits limits;
  Bytes body(limits.body_bytes_max, 'b');
  Bytes value(limits.record_bytes_max, 'r');
  body.front() = body.back() = '\0';
  value.front() = value.back() = '\xff';
  Transaction large;
  large.sends.push_back(send("orders", key("cust-7"), body));
  large.records.push_back({.space = "s", .key = "k", .value = value, .expected = {}});
  ASSERT_TRUE(apply(large));

  reopen();

  EXPECT_TRUE(lease_one("orders").messages.at(0).body == body);
  EXPECT_TRUE(Answer(store().record("s", "k")).value()->value == value);
}

// Repeating committed work is as bad as losing it.
// Rules: S1
TEST_P(StoreConformance, Settled_messages_stay_settled_after_a_reopen) {
  enqueue_all("orders", key("a"), {"acked", "dead"});
  enqueue("orders", key("b"), "retried");
  ASSERT_TRUE(ack(lease({.queue = "orders", .key = "a", .messages = 1}).at(0)));
  ASSERT_TRUE(dead(lease_key("orders", "a"), "no use"));
  ASSERT_TRUE(retry(lease_key("orders", "b"), 1h));

  reopen();

  EXPECT_THAT(lease_all("orders"), IsEmpty());
  EXPECT_EQ(stats("orders").acked, 1U);
  EXPECT_EQ(bodies(dead_letters("orders")), Bodies{"dead"});
  EXPECT_EQ(bodies(peek("orders", MessageState::backoff)), Bodies{"retried"});
}

// The outcome of a step and the messages it causes must never come apart.
// Rules: S1 S4
// Behaviours: multi_operation_atomic_ack, worker_ack_atomicity
TEST_P(StoreConformance, A_transaction_with_many_parts_happens_at_once) {
  enqueue("orders", key("cust-7"), "order");
  enqueue("timers", key("cust-7"), "reminder", {.delay = 1h, .name = "remind"});
  const Lease lease = lease_one("orders");

  Transaction step;
  step.settles.push_back(settlement(lease, {acked(id_of(lease, "order"))}));
  step.cancels.push_back({.queue = "timers", .name = "remind"});
  step.sends.push_back(send("ship", key("cust-7"), "parcel"));
  step.records.push_back({.space = "orders", .key = "cust-7", .value = "paid", .expected = {}});
  const Receipt receipt = apply(step).value();

  EXPECT_EQ(receipt.time, now());
  EXPECT_EQ(receipt.cancelled, std::vector<bool>{true});
  ASSERT_THAT(receipt.sent, SizeIs(1));
  EXPECT_EQ(stats("orders").acked, 1U);
  EXPECT_THAT(peek("timers"), IsEmpty());
  EXPECT_EQ(ids(lease_one("ship")), Ids{receipt.sent[0].id});
  EXPECT_EQ(Answer(store().record("orders", "cust-7")).value()->value, "paid");
}

// Half a transaction is worse than none: the client will do it all again.
// Rules: S1 S5
// Behaviours: atomicity_failure_rollback, lock_released_only_on_successful_ack
TEST_P(StoreConformance, A_refused_transaction_leaves_no_trace) {
  enqueue("orders", key("a"), "a");
  enqueue("timers", unkeyed, "reminder", {.delay = 1h, .name = "remind"});
  const Lease good = lease_one("orders");
  const QueueStats before = stats("orders");

  // Everything is in order but for the last part: the record is not at that version.
  Transaction step;
  step.settles.push_back(settlement(good, {acked(id_of(good, "a"))}));
  step.cancels.push_back({.queue = "timers", .name = "remind"});
  step.sends.push_back(send("orders", key("b"), "b"));
  step.sends.push_back(send("brand-new", key("b"), "b"));
  step.records.push_back(
      {.space = "orders", .key = "a", .value = "paid", .expected = Version{4711}});
  ASSERT_EQ(apply(step).error().code, Errc::version_mismatch);

  EXPECT_EQ(stats("orders"), before);
  EXPECT_EQ(bodies(peek("timers")), Bodies{"reminder"});
  EXPECT_FALSE(has_queue("brand-new"));
  EXPECT_EQ(Answer(store().record("orders", "a")).value(), std::nullopt);
  EXPECT_TRUE(ack(good)) << "the failed settle must not have ended the lease";
}

// A client that batches must not have its neighbours' mistakes.
// Rules: S1
TEST_P(StoreConformance, A_failed_transaction_does_not_keep_the_others_from_being_applied) {
  std::array<Transaction, 3> batch;
  batch[0].sends.push_back(send("orders", key("a"), "first"));
  batch[1].sends.push_back(send("orders", key("a"), "refused"));
  batch[1].records.push_back({.space = "s", .key = "k", .value = "v", .expected = Version{4711}});
  batch[2].sends.push_back(send("orders", key("a"), "third"));

  const std::vector<Result<Receipt>> results = store().apply(batch);

  ASSERT_THAT(results, SizeIs(3));
  EXPECT_TRUE(results[0].has_value());
  EXPECT_EQ(Answer(results[1]).error().code, Errc::version_mismatch);
  EXPECT_TRUE(results[2].has_value());
  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"first", "third"}));
}

// Later transactions of a batch may build on earlier ones: they are applied in order.
// Rules: S1 S3
TEST_P(StoreConformance, Transactions_of_a_batch_are_applied_in_order) {
  std::array<Transaction, 3> batch;
  batch[0].sends.push_back(send("orders", key("a"), "old", {.name = "unique"}));
  batch[1].cancels.push_back({.queue = "orders", .name = "unique"});
  batch[2].sends.push_back(send("orders", key("a"), "new", {.name = "unique"}));

  for (const Result<Receipt>& result : store().apply(batch))
    EXPECT_TRUE(Answer(result));

  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"new"});
  EXPECT_EQ(stats("orders").dropped, 1U);
}

// `async` gives up power loss, not a restart of the process.
// Rules: S1
TEST_P(StoreConformance, Async_messages_survive_a_reopen) {
  Transaction quick;
  quick.durability = Durability::async;
  quick.sends.push_back(send("orders", key("a"), "quick"));
  ASSERT_TRUE(apply(quick));

  reopen();

  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"quick"});
}

// An id that comes twice would let an old receipt name a new message.
// Rules: S1 S3
TEST_P(StoreConformance, Message_ids_grow_and_are_never_reused_even_after_a_reopen) {
  const MessageId first = enqueue("orders", key("a"), "first");
  const MessageId other = enqueue("invoices", key("b"), "other queue");
  EXPECT_EQ(drain("orders"), Bodies{"first"});
  EXPECT_EQ(drain("invoices"), Bodies{"other queue"});

  reopen();

  const MessageId later = enqueue("orders", key("a"), "later");
  EXPECT_LT(first, other);
  EXPECT_LT(other, later);
}

// A queue that forgets its policy overnight drops what it should have kept.
// Rules: S1
TEST_P(StoreConformance, Settings_survive_a_reopen) {
  QueueSettings unusual;
  unusual.max_attempts = 7;
  unusual.backoff = {3s, 4s};
  unusual.retry_policy = RetryPolicy::skip;
  unusual.on_exhausted = OnExhausted::park;
  unusual.ttl = 2h;
  unusual.on_expired = OnExpired::dead;
  unusual.dedup_window = 9min;
  unusual.lease = 45s;
  unusual.starvation_after = 11s;
  unusual.max_length = 99;
  configure("orders", unusual);

  reopen();

  EXPECT_EQ(settings("orders"), unusual);
}

// What the holder of a lease learns about a message's past must outlive the process.
// Rules: S1 S6
TEST_P(StoreConformance, Counters_of_a_message_survive_a_reopen) {
  enqueue("orders", key("a"), "a");
  ASSERT_TRUE(retry(lease_one("orders"), 0s, "first try"));
  ASSERT_TRUE(release(lease_one("orders")));

  reopen();

  const Lease lease = lease_one("orders");
  EXPECT_EQ(lease.messages.at(0).deliveries, 3U);
  EXPECT_EQ(lease.messages.at(0).attempts, 1U);
  EXPECT_EQ(peek_one("orders", "a").last_reason, "first try");
}

// Two writers of one store would break every other rule, unless the store is made for many: then a
// lease is one for all of them.
// Rules: S1 S2
TEST_P(StoreConformance, A_store_has_one_owner_or_one_holder_of_each_lane) {
  enqueue("orders", key("a"), "a");

  Answer<std::unique_ptr<Store>> second = open_again();
  if (GetParam().single_owner) {
    EXPECT_EQ(second.error().code, Errc::in_use);
    EXPECT_FALSE(second.error().message.empty());
    EXPECT_EQ(bodies(lease_one("orders")), Bodies{"a"}) << "the owner must not have noticed";
    return;
  }
  Store& other = *second.value();
  const Lease held = lease_one("orders");
  EXPECT_THAT(Answer(other.lease({.queue = "orders"})).value(), IsEmpty());
  Transaction acks;
  acks.settles.push_back(settlement(held, {acked(held.messages.at(0).id)}));
  EXPECT_TRUE(other.apply(acks)) << "a token is good wherever it was got";
  EXPECT_EQ(stats("orders").acked, 1U);
}

// A reader must never see a part of a transaction, however the calls interleave.
// Rules: S1
TEST_P(StoreConformance, A_transaction_is_seen_whole_or_not_at_all) {
  constexpr int rounds = 200;
  configure("pairs", QueueSettings{});
  std::atomic<bool> writing = true;
  std::jthread writer{[&] {
    for (int round = 0; round < rounds; ++round) {
      Transaction pair;
      pair.sends.push_back(send("pairs", key("a"), "left"));
      pair.sends.push_back(send("pairs", key("b"), "right"));
      EXPECT_TRUE(apply(pair));
    }
    writing = false;
  }};

  while (writing && !HasFailure()) {
    const QueueStats seen = stats("pairs");
    EXPECT_EQ(seen.accepted % 2, 0U) << "half a transaction was shown";
    EXPECT_EQ(seen.ready, seen.accepted);
    EXPECT_EQ(peek("pairs").size() % 2, 0U);
  }
}

}  // namespace strand::conformance
