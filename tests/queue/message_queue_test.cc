// The four-method queue: enqueue, dequeue_batch, ack, abandon.

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <strand/message_queue.h>

#include "queue/fixture.h"

namespace strand::queue {
namespace {

// The next batch; ends the test when there is none.
MessageBatch batch_of(MessageQueue& messages, std::string_view queue,
                      std::source_location where = std::source_location::current()) {
  const auto batch = Answer(messages.dequeue_batch(queue)).value(where);
  if (!batch) throw conformance::CannotGoOn("no batch", where);
  return *batch;
}

bool has_batch(MessageQueue& messages, std::string_view queue) {
  return Answer(messages.dequeue_batch(queue)).value().has_value();
}

TEST_P(QueueLibrary, A_batch_is_all_that_waits_of_one_key_in_order) {
  MessageQueue messages(store());
  for (const char* const step : {"charge", "pack", "ship"})
    ASSERT_TRUE(Answer(messages.enqueue("orders", "order-7", step)));
  ASSERT_TRUE(Answer(messages.enqueue("orders", "order-8", "charge")));

  const MessageBatch first = batch_of(messages, "orders");
  EXPECT_EQ(first.routing_key, "order-7");
  EXPECT_EQ(first.messages, (Bodies{"charge", "pack", "ship"}));
  const MessageBatch second = batch_of(messages, "orders");
  EXPECT_EQ(second.routing_key, "order-8");
  EXPECT_FALSE(has_batch(messages, "orders"));
}

// What comes while a key is held must neither go to another caller nor be acked unseen.
TEST_P(QueueLibrary, A_late_arrival_waits_for_the_ack_and_is_not_acked_with_it) {
  MessageQueue messages(store());
  ASSERT_TRUE(Answer(messages.enqueue("orders", "order-7", "charge")));
  const MessageBatch held = batch_of(messages, "orders");
  ASSERT_TRUE(Answer(messages.enqueue("orders", "order-7", "pack")));
  EXPECT_FALSE(has_batch(messages, "orders"));

  EXPECT_TRUE(Answer(messages.ack(held.lock_token)));
  EXPECT_EQ(batch_of(messages, "orders").messages, Bodies{"pack"});
  EXPECT_EQ(stats("orders").acked, 1U);
}

TEST_P(QueueLibrary, What_is_acked_is_gone_and_its_token_over) {
  MessageQueue messages(store());
  ASSERT_TRUE(Answer(messages.enqueue("orders", "order-7", "charge")));
  const Token token = batch_of(messages, "orders").lock_token;
  EXPECT_TRUE(Answer(messages.ack(token)));
  EXPECT_FALSE(has_batch(messages, "orders"));
  EXPECT_EQ(Answer(messages.ack(token)).error().code, Errc::lease_lost);
  EXPECT_EQ(Answer(messages.abandon(token)).error().code, Errc::lease_lost);
}

// Only the first message can have failed: those behind it were not begun.
TEST_P(QueueLibrary, Abandon_charges_the_oldest_and_gives_back_the_rest_behind_it) {
  MessageQueue messages(store());
  ASSERT_TRUE(Answer(messages.enqueue("orders", "order-7", "charge")));
  ASSERT_TRUE(Answer(messages.enqueue("orders", "order-7", "pack")));
  EXPECT_TRUE(Answer(messages.abandon(batch_of(messages, "orders").lock_token, 10s)));

  EXPECT_FALSE(has_batch(messages, "orders"));
  const PeekedMessage oldest = peek_one("orders", "charge");
  EXPECT_EQ(oldest.state, MessageState::backoff);
  EXPECT_EQ(oldest.attempts, 1U);
  EXPECT_EQ(oldest.retry_at, now() + 10s);
  EXPECT_EQ(oldest.last_reason, "abandoned");
  EXPECT_EQ(peek_one("orders", "pack").state, MessageState::waiting);
  EXPECT_EQ(peek_one("orders", "pack").attempts, 0U);

  clock().advance(10s);
  EXPECT_EQ(batch_of(messages, "orders").messages, (Bodies{"charge", "pack"}));
}

TEST_P(QueueLibrary, Abandon_without_a_delay_waits_for_the_backoff_of_the_queue) {
  configure("orders", {.backoff = {7s, 20s}});
  MessageQueue messages(store());
  ASSERT_TRUE(Answer(messages.enqueue("orders", "order-7", "charge")));
  EXPECT_TRUE(Answer(messages.abandon(batch_of(messages, "orders").lock_token)));
  clock().advance(7s - 1ms);
  EXPECT_FALSE(has_batch(messages, "orders"));
  clock().advance(1ms);
  EXPECT_TRUE(Answer(messages.abandon(batch_of(messages, "orders").lock_token)));
  EXPECT_EQ(peek_one("orders", "charge").retry_at, now() + 20s);
}

TEST_P(QueueLibrary, Abandon_with_no_delay_at_all_is_tried_again_at_once) {
  MessageQueue messages(store());
  ASSERT_TRUE(Answer(messages.enqueue("orders", "order-7", "charge")));
  EXPECT_TRUE(Answer(messages.abandon(batch_of(messages, "orders").lock_token, 0s)));
  EXPECT_EQ(batch_of(messages, "orders").messages, Bodies{"charge"});
}

TEST_P(QueueLibrary, A_token_that_was_never_handed_out_is_invalid) {
  MessageQueue messages(store());
  const auto other = open_another();
  MessageQueue elsewhere(*other);
  ASSERT_TRUE(Answer(elsewhere.enqueue("orders", "order-7", "charge")));
  const Token foreign = batch_of(elsewhere, "orders").lock_token;

  EXPECT_EQ(Answer(messages.ack(Token{})).error().code, Errc::invalid_token);
  EXPECT_EQ(Answer(messages.ack(foreign)).error().code, Errc::invalid_token);
  EXPECT_EQ(Answer(messages.abandon(foreign)).error().code, Errc::invalid_token);
}

// Whose messages they are is known only where they were leased.
TEST_P(QueueLibrary, A_lease_of_somebody_else_is_not_touched) {
  enqueue("orders", key("order-7"), "charge");
  const Lease lease = lease_one("orders");
  MessageQueue messages(store());
  EXPECT_EQ(Answer(messages.ack(lease.token)).error().code, Errc::invalid_token);
  EXPECT_EQ(Answer(messages.abandon(lease.token)).error().code, Errc::invalid_token);
  EXPECT_EQ(stats("orders").leased, 1U);
  EXPECT_TRUE(ack(lease));
}

// A stalled holder must not finish work that has moved on to another.
TEST_P(QueueLibrary, An_expired_token_is_lease_lost_and_the_messages_are_had_by_others) {
  MessageQueue messages(store());
  ASSERT_TRUE(Answer(messages.enqueue("orders", "order-7", "charge")));
  const Token slow = batch_of(messages, "orders").lock_token;
  clock().advance(31s);
  const MessageBatch fast = batch_of(messages, "orders");
  EXPECT_EQ(fast.messages, Bodies{"charge"});
  EXPECT_EQ(Answer(messages.ack(slow)).error().code, Errc::lease_lost);
  EXPECT_EQ(Answer(messages.abandon(slow)).error().code, Errc::lease_lost);
  EXPECT_TRUE(Answer(messages.ack(fast.lock_token)));
}

// Callers that die leave tokens behind. They are forgotten, and still answered rightly.
TEST_P(QueueLibrary, A_token_that_was_forgotten_is_lease_lost_all_the_same) {
  MessageQueue messages(store());
  configure("orders", {.max_attempts = 0});
  for (int i = 0; i < 200; ++i)
    ASSERT_TRUE(Answer(messages.enqueue("orders", std::nullopt, "work")));
  const Token first = batch_of(messages, "orders").lock_token;
  clock().advance(31s);
  for (int i = 0; i < 150; ++i)
    std::ignore = batch_of(messages, "orders");
  EXPECT_EQ(Answer(messages.ack(first)).error().code, Errc::lease_lost);
}

TEST_P(QueueLibrary, A_message_without_a_key_is_a_batch_of_its_own) {
  MessageQueue messages(store());
  ASSERT_TRUE(Answer(messages.enqueue("mails", std::nullopt, "a")));
  ASSERT_TRUE(Answer(messages.enqueue("mails", std::nullopt, "b")));
  const MessageBatch a = batch_of(messages, "mails");
  const MessageBatch b = batch_of(messages, "mails");
  EXPECT_EQ(a.routing_key, std::nullopt);
  EXPECT_EQ(a.messages, Bodies{"a"});
  EXPECT_EQ(b.messages, Bodies{"b"});
  EXPECT_TRUE(Answer(messages.ack(b.lock_token)));
  EXPECT_TRUE(Answer(messages.abandon(a.lock_token, 0s)));
  EXPECT_EQ(batch_of(messages, "mails").messages, Bodies{"a"});
}

TEST_P(QueueLibrary, A_delayed_message_is_not_seen_before_its_time) {
  MessageQueue messages(store());
  ASSERT_TRUE(Answer(messages.enqueue("orders", "order-7", "later", 5s)));
  ASSERT_TRUE(Answer(messages.enqueue("orders", "order-7", "now")));
  EXPECT_EQ(batch_of(messages, "orders").messages, Bodies{"now"});
  clock().advance(5s);
  EXPECT_FALSE(has_batch(messages, "orders"));  // its key is held
}

TEST_P(QueueLibrary, A_queue_that_does_not_exist_has_nothing) {
  MessageQueue messages(store());
  EXPECT_FALSE(has_batch(messages, "orders"));
  EXPECT_FALSE(has_queue("orders"));
}

TEST_P(QueueLibrary, What_the_store_refuses_is_refused) {
  MessageQueue messages(store());
  EXPECT_EQ(Answer(messages.enqueue("orders", "", "x")).error().code, Errc::invalid_argument);
  EXPECT_EQ(Answer(messages.enqueue("orders", "order-7", "x", -1s)).error().code,
            Errc::invalid_argument);
  EXPECT_EQ(Answer(messages.dequeue_batch("")).error().code, Errc::invalid_argument);
}

// Who holds what, as the callers see it.
struct Floor {
  std::mutex mutex;
  std::map<std::string, bool> held;
  std::map<std::string, Bodies> done;
  bool overlapped = false;
};

TEST_P(QueueLibrary, Many_threads_never_work_on_one_key_at_once_and_keep_its_order) {
  constexpr int keys = 5;
  constexpr int each = 20;
  MessageQueue messages(store());
  std::map<std::string, Bodies> sent;
  for (int i = 0; i < keys * each; ++i) {
    const std::string name = "key-" + std::to_string(i % keys);
    sent[name].push_back(std::to_string(i));
    ASSERT_TRUE(Answer(messages.enqueue("work", name, std::to_string(i))));
    if (i == keys) std::ignore = batch_of(messages, "work");  // left behind by a caller that died
  }
  clock().advance(31s);

  Floor floor;
  std::atomic<int> left = keys * each;
  const auto work = [&] {
    while (left > 0) {
      const auto batch = messages.dequeue_batch("work").value();
      if (!batch) continue;
      {
        const std::lock_guard lock(floor.mutex);
        floor.overlapped |= std::exchange(floor.held[*batch->routing_key], true);
        for (const Bytes& body : batch->messages)
          floor.done[*batch->routing_key].push_back(body);
      }
      std::this_thread::yield();
      {
        const std::lock_guard lock(floor.mutex);
        floor.held[*batch->routing_key] = false;
      }
      messages.ack(batch->lock_token).value();
      left -= static_cast<int>(batch->messages.size());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back(work);
  }
  EXPECT_FALSE(floor.overlapped);
  EXPECT_EQ(floor.done, sent);
}

}  // namespace
}  // namespace strand::queue
