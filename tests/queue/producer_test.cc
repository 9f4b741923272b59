// Sending values.

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <strand/producer.h>

#include "queue/fixture.h"

namespace strand::queue {
namespace {

struct Order {
  std::uint64_t id = 0;
  std::string customer = {};
  std::optional<double> discount = {};
  friend bool operator==(const Order&, const Order&) = default;
};
STRAND_JSON(Order, id, customer, discount)

TEST_P(QueueLibrary, A_struct_arrives_as_it_was_sent) {
  Producer orders(store(), "orders");
  const Order order{.id = 7, .customer = "Zoë", .discount = 0.1};
  EXPECT_TRUE(Answer(orders.send(order, {.key = "Zoë"})));

  const Lease lease = lease_one("orders");
  EXPECT_EQ(lease.key, "Zoë");
  EXPECT_EQ(Answer(from_body<Order>(lease.messages.at(0).body)).value(), order);
}

TEST_P(QueueLibrary, Text_is_sent_as_it_is) {
  Producer mails(store(), "mails");
  EXPECT_TRUE(Answer(mails.send("hello")));
  EXPECT_TRUE(Answer(mails.send(Bytes("\xff\0", 2))));
  EXPECT_EQ(drain("mails"), (Bodies{"hello", Bytes("\xff\0", 2)}));
}

TEST_P(QueueLibrary, All_options_of_a_message_arrive) {
  Producer orders(store(), "orders");
  const Sent sent = Answer(orders.send("x", {.key = "k",
                                             .headers = {{.name = "trace", .value = "1"}},
                                             .priority = Priority::high,
                                             .delay = 5s,
                                             .ttl = 1min,
                                             .dedup_id = "d",
                                             .label = "gpu",
                                             .name = "n",
                                             .max_attempts = 1,
                                             .dead_notice_to = Address{.queue = "notices"}}))
                        .value();
  EXPECT_FALSE(sent.duplicate);
  const Sent again = Answer(orders.send("y", {.dedup_id = "d"})).value();
  EXPECT_EQ(again, (Sent{.id = sent.id, .duplicate = true}));

  clock().advance(5s);
  const Lease lease = Answer(store().lease({.queue = "orders", .labels = {"gpu"}})).value().at(0);
  const Message& message = lease.messages.at(0);
  EXPECT_EQ(lease.key, "k");
  EXPECT_EQ(message.id, sent.id);
  EXPECT_EQ(message.headers, (Headers{{.name = "trace", .value = "1"}}));
  EXPECT_EQ(message.priority, Priority::high);
  EXPECT_EQ(message.expires_at, message.enqueued_at + 1min);
  EXPECT_EQ(message.due, message.enqueued_at + 5s);
  EXPECT_EQ(message.name, "n");
  EXPECT_TRUE(retry(lease));  // its only attempt
  EXPECT_EQ(stats("orders").dead, 1U);
  EXPECT_EQ(stats("notices").ready, 1U);
}

TEST_P(QueueLibrary, A_value_that_JSON_cannot_say_is_not_sent) {
  Producer orders(store(), "orders");
  const Order bad{.id = 7, .customer = "x", .discount = std::numeric_limits<double>::infinity()};
  const Error error = Answer(orders.send(bad)).error();
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(error.message, "discount: inf cannot be written as JSON");
  Transaction transaction;
  EXPECT_FALSE(Answer(orders.add(transaction, bad)));
  EXPECT_THAT(transaction.sends, IsEmpty());
  EXPECT_FALSE(has_queue("orders"));
}

TEST_P(QueueLibrary, A_batch_is_sent_whole_and_in_order) {
  Producer orders(store(), "orders");
  Producer::Batch batch = orders.batch();
  for (std::uint64_t i = 0; i < 3; ++i)
    ASSERT_TRUE(Answer(batch.add(Order{.id = i}, {.key = "k"})));
  ASSERT_TRUE(Answer(batch.add("text", {.key = "k", .dedup_id = "d"})));
  ASSERT_TRUE(Answer(batch.add("again", {.key = "k", .dedup_id = "d"})));
  EXPECT_EQ(batch.size(), 5U);

  const std::vector<Sent> sent = Answer(batch.send()).value();
  ASSERT_THAT(sent, SizeIs(5));
  EXPECT_EQ(sent[4], (Sent{.id = sent[3].id, .duplicate = true}));
  EXPECT_EQ(batch.size(), 0U);
  const Lease lease = lease_one("orders");
  EXPECT_EQ(ids(lease), (Ids{sent[0].id, sent[1].id, sent[2].id, sent[3].id}));
}

TEST_P(QueueLibrary, A_batch_with_a_bad_message_sends_nothing_and_stays_as_it_was) {
  configure("orders", {.max_length = 2});
  Producer orders(store(), "orders");
  Producer::Batch batch = orders.batch();
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(Answer(batch.add("x")));
  EXPECT_EQ(Answer(batch.send()).error().code, Errc::queue_full);
  EXPECT_EQ(batch.size(), 3U);
  EXPECT_EQ(stats("orders").accepted, 0U);

  configure("orders", {.max_length = 3});
  EXPECT_THAT(Answer(batch.send()).value(), SizeIs(3));
}

TEST_P(QueueLibrary, An_empty_batch_sends_nothing) {
  Producer orders(store(), "orders");
  EXPECT_THAT(Answer(orders.batch().send()).value(), IsEmpty());
  EXPECT_FALSE(has_queue("orders"));
}

TEST_P(QueueLibrary, A_message_sent_for_a_time_is_seen_from_then_on) {
  Producer orders(store(), "orders");
  EXPECT_TRUE(Answer(orders.send_at(now() + 1h, "later")));
  clock().advance(1h - 1ms);
  EXPECT_THAT(drain("orders"), IsEmpty());
  clock().advance(1ms);
  EXPECT_EQ(drain("orders"), Bodies{"later"});
}

TEST_P(QueueLibrary, A_message_sent_for_a_time_that_has_passed_is_seen_at_once) {
  Producer orders(store(), "orders");
  EXPECT_TRUE(Answer(orders.send_at(now() - 1h, "a", {.delay = 1h})));
  EXPECT_TRUE(Answer(orders.send_at(now(), "b")));
  EXPECT_TRUE(Answer(orders.send_at(Time::min(), "c")));
  EXPECT_EQ(drain("orders"), (Bodies{"a", "b", "c"}));
}

TEST_P(QueueLibrary, A_time_beyond_the_limit_is_refused_by_the_store) {
  Producer orders(store(), "orders");
  EXPECT_EQ(Answer(orders.send_at(now() + Limits{}.delay_max + 1ms, "x")).error().code,
            Errc::limit_exceeded);
  EXPECT_EQ(Answer(orders.send_at(Time::max(), "x")).error().code, Errc::limit_exceeded);
}

// What a step sends belongs to its ack: both or neither.
TEST_P(QueueLibrary, A_send_in_a_transaction_happens_with_the_rest_of_it) {
  enqueue("orders", key("order-7"), "charge");
  const Lease lease = lease_one("orders");
  Producer mails(store(), "mails");
  Transaction transaction;
  transaction.settles.push_back(
      conformance::settlement(lease, {conformance::acked(lease.messages.at(0).id)}));
  ASSERT_TRUE(Answer(mails.add(transaction, Order{.id = 7})));
  EXPECT_TRUE(apply(transaction));
  EXPECT_EQ(apply(transaction).error().code, Errc::lease_lost);
  EXPECT_EQ(stats("mails").accepted, 1U);
}

}  // namespace
}  // namespace strand::queue
