// Publishing and subscribing.

#include <string>
#include <vector>

#include <strand/topics.h>

#include "queue/fixture.h"

namespace strand::queue {
namespace {

TEST_P(QueueLibrary, Each_subscription_gets_what_its_pattern_matches) {
  Topics topics(store());
  ASSERT_TRUE(Answer(topics.subscribe("all", "#")));
  ASSERT_TRUE(Answer(topics.subscribe("orders", "orders.#")));
  ASSERT_TRUE(Answer(topics.subscribe("paid", "orders.*.paid")));
  ASSERT_TRUE(Answer(topics.subscribe("eu", "orders.eu.paid")));

  EXPECT_EQ(Answer(topics.publish("orders.eu.paid", "a")).value().matched, 4U);
  EXPECT_EQ(Answer(topics.publish("orders.us.paid", "b")).value().matched, 3U);
  EXPECT_EQ(Answer(topics.publish("orders.eu.west.paid", "c")).value().matched, 2U);
  EXPECT_EQ(Answer(topics.publish("orders", "d")).value().matched, 2U);
  EXPECT_EQ(Answer(topics.publish("bills.eu.paid", "e")).value().matched, 1U);

  EXPECT_EQ(drain("all"), (Bodies{"a", "b", "c", "d", "e"}));
  EXPECT_EQ(drain("orders"), (Bodies{"a", "b", "c", "d"}));
  EXPECT_EQ(drain("paid"), (Bodies{"a", "b"}));
  EXPECT_EQ(drain("eu"), Bodies{"a"});
}

TEST_P(QueueLibrary, A_published_value_arrives_with_all_its_options) {
  Topics topics(store());
  ASSERT_TRUE(Answer(topics.subscribe("s", "t")));
  const PublishOptions options{.key = "k",
                               .headers = {{.name = "trace", .value = "1"}},
                               .priority = Priority::urgent,
                               .delay = 5s,
                               .ttl = 1min,
                               .dedup_id = "d"};
  EXPECT_TRUE(Answer(topics.publish("t", std::vector<int>{1, 2}, options)));
  EXPECT_TRUE(Answer(topics.publish("t", "again", options)).value().duplicate);
  clock().advance(5s);
  const Lease lease = lease_one("s");
  const Message& message = lease.messages.at(0);
  EXPECT_EQ(lease.key, "k");
  EXPECT_EQ(bodies(lease), Bodies{"[1,2]"});
  EXPECT_EQ(message.topic, "t");
  EXPECT_EQ(message.headers, options.headers);
  EXPECT_EQ(message.priority, Priority::urgent);
  EXPECT_EQ(message.expires_at, message.enqueued_at + 1min);
}

TEST_P(QueueLibrary, A_publication_in_a_transaction_happens_with_the_rest_of_it) {
  Topics topics(store());
  ASSERT_TRUE(Answer(topics.subscribe("s", "t")));
  Transaction transaction;
  ASSERT_TRUE(Answer(Topics::add(transaction, "t", 7, {.key = "k"})));
  transaction.records.push_back({.space = "x", .key = "y", .value = "z", .expected = Version{0}});
  EXPECT_TRUE(apply(transaction));
  EXPECT_EQ(apply(transaction).error().code, Errc::version_mismatch);
  EXPECT_EQ(drain("s"), Bodies{"7"});
}

TEST_P(QueueLibrary, A_subscription_may_start_in_the_past) {
  Topics topics(store());
  ASSERT_TRUE(Answer(topics.retain("orders.eu", 1h)));
  ASSERT_TRUE(Answer(topics.publish("orders.eu", "too old")));
  clock().advance(10min);
  const Time from = now();
  ASSERT_TRUE(Answer(topics.publish("orders.eu", "a")));
  ASSERT_TRUE(Answer(topics.publish("orders.us", "not retained")));
  clock().advance(10min);
  ASSERT_TRUE(Answer(topics.publish("orders.eu", "b")));

  EXPECT_EQ(Answer(topics.subscribe("late", "orders.*", from)).value(), 2U);
  EXPECT_EQ(Answer(topics.subscribe("new", "orders.*")).value(), 0U);
  ASSERT_TRUE(Answer(topics.publish("orders.us", "c")));
  EXPECT_EQ(drain("late"), (Bodies{"a", "b", "c"}));
  EXPECT_EQ(drain("new"), Bodies{"c"});

  ASSERT_TRUE(Answer(topics.retain("orders.eu", 0s)));
  EXPECT_EQ(Answer(topics.subscribe("latest", "#", Time{})).value(), 0U);
}

TEST_P(QueueLibrary, An_ended_subscription_gets_no_more_and_keeps_what_it_has) {
  Topics topics(store());
  ASSERT_TRUE(Answer(topics.subscribe("s", "t")));
  ASSERT_TRUE(Answer(topics.publish("t", "a")));
  EXPECT_TRUE(Answer(topics.unsubscribe("s")));
  EXPECT_EQ(Answer(topics.publish("t", "b")).value().matched, 0U);
  EXPECT_EQ(drain("s"), Bodies{"a"});
  EXPECT_EQ(Answer(topics.unsubscribe("s")).error().code, Errc::not_found);
}

TEST_P(QueueLibrary, Subscriptions_are_listed_and_made_once) {
  Topics topics(store());
  EXPECT_THAT(Answer(topics.list()).value(), IsEmpty());
  ASSERT_TRUE(Answer(topics.subscribe("b", "x.#")));
  ASSERT_TRUE(Answer(topics.subscribe("a", "*")));
  EXPECT_TRUE(Answer(topics.subscribe("a", "*")));
  EXPECT_EQ(Answer(topics.subscribe("a", "y")).error().code, Errc::already_exists);
  EXPECT_EQ(Answer(topics.subscribe("c", "#.x")).error().code, Errc::invalid_argument);
  EXPECT_THAT(Answer(topics.list()).value(),
              ElementsAre(Subscription{.queue = "a", .pattern = "*"},
                          Subscription{.queue = "b", .pattern = "x.#"}));
}

// A subscription is a queue like any other.
TEST_P(QueueLibrary, A_subscriber_that_fails_has_retries_and_dead_letters_of_its_own) {
  configure("flaky", {.max_attempts = 2, .backoff = {10s}});
  Topics topics(store());
  ASSERT_TRUE(Answer(topics.subscribe("flaky", "t")));
  ASSERT_TRUE(Answer(topics.subscribe("steady", "t")));
  ASSERT_TRUE(Answer(topics.publish("t", "a", {.key = "k"})));
  EXPECT_EQ(drain("steady"), Bodies{"a"});
  EXPECT_TRUE(retry(lease_one("flaky"), {}, "first"));
  clock().advance(10s);
  EXPECT_TRUE(retry(lease_one("flaky"), {}, "second"));
  const DeadLetter letter = dead_letter("flaky", "a");
  EXPECT_EQ(letter.topic, "t");
  EXPECT_EQ(reasons(letter.failures), (std::vector<std::string>{"first", "second"}));
}

}  // namespace
}  // namespace strand::queue
