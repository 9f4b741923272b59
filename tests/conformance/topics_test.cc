// S15: a published message goes to the queue of every subscription whose pattern matches.

#include "conformance/parts.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

// Which of these topics a pattern matches, told by what arrives.
// Rules: S15
TEST_P(StoreConformance, A_pattern_without_wildcards_matches_its_own_topic_only) {
  ASSERT_TRUE(admin(Subscribe{"paid", "order.paid", {}}));
  for (const char* topic : {"order.paid", "order", "order.paid.eu", "orders.paid", "Order.paid",
                            "order.pai", "paid", "order.paidx"}) {
    ASSERT_TRUE(apply(together(publication(topic, unkeyed, topic))));
  }
  EXPECT_EQ(drain("paid"), Bodies{"order.paid"});
}

// `LIKE 'a.%.b'` would match "a.x.y.b" as well.
// Rules: S15
// Trap: LIKE 'a.%.b' crosses dots
TEST_P(StoreConformance, A_star_is_exactly_one_segment) {
  ASSERT_TRUE(admin(Subscribe{"middle", "a.*.b", {}}));
  ASSERT_TRUE(admin(Subscribe{"front", "*.b", {}}));
  ASSERT_TRUE(admin(Subscribe{"back", "a.*", {}}));
  for (const char* topic : {"a", "b", "a.b", "a.x.b", "a.x.y.b", "x.b", "a.x", "a.x.c", "xa.x.b"}) {
    ASSERT_TRUE(apply(together(publication(topic, unkeyed, topic))));
  }
  EXPECT_EQ(drain("middle"), Bodies{"a.x.b"});
  EXPECT_EQ(drain("front"), (Bodies{"a.b", "x.b"}));
  EXPECT_EQ(drain("back"), (Bodies{"a.b", "a.x"}));
}

// Zero is the case that is usually forgotten: "order.#" includes "order" itself.
// Rules: S15
TEST_P(StoreConformance, A_hash_is_any_number_of_segments_at_the_end_none_included) {
  ASSERT_TRUE(admin(Subscribe{"tail", "a.#", {}}));
  ASSERT_TRUE(admin(Subscribe{"star", "a.*.#", {}}));
  ASSERT_TRUE(admin(Subscribe{"all", "#", {}}));
  const Bodies topics = {"a", "a.b", "a.b.c", "ab", "ab.c", "b", "b.a"};
  for (const Bytes& topic : topics) {
    ASSERT_TRUE(apply(together(publication(topic, unkeyed, topic))));
  }
  EXPECT_EQ(drain("tail"), (Bodies{"a", "a.b", "a.b.c"}));
  EXPECT_EQ(drain("star"), (Bodies{"a.b", "a.b.c"}));
  EXPECT_EQ(drain("all"), topics);
}

// Topics are user input, in SQL and in regular expressions alike.
// Rules: S15
TEST_P(StoreConformance, Characters_that_other_languages_take_for_wildcards_are_plain) {
  ASSERT_TRUE(admin(Subscribe{"percent", "a.%", {}}));
  ASSERT_TRUE(admin(Subscribe{"underscore", "a._", {}}));
  ASSERT_TRUE(admin(Subscribe{"regex", "a.[b]+?", {}}));
  for (const char* topic : {"a.b", "a.%", "a._", "a.[b]+?", "a.\\"}) {
    ASSERT_TRUE(apply(together(publication(topic, unkeyed, topic))));
  }
  EXPECT_EQ(drain("percent"), Bodies{"a.%"});
  EXPECT_EQ(drain("underscore"), Bodies{"a._"});
  EXPECT_EQ(drain("regex"), Bodies{"a.[b]+?"});
}

// Subscribers know nothing of each other: what one does with its copy is its own affair.
// Rules: S15
TEST_P(StoreConformance, Every_matching_subscription_gets_its_own_copy) {
  ASSERT_TRUE(admin(Subscribe{"billing", "order.*", {}}));
  ASSERT_TRUE(admin(Subscribe{"audit", "#", {}}));
  ASSERT_TRUE(admin(Subscribe{"users", "user.*", {}}));

  const Published published =
      apply(together(publication("order.paid", key("7"), "a"))).value().published.at(0);
  EXPECT_EQ(published.matched, 2U);

  // Each copy is settled by itself.
  ASSERT_TRUE(dead(lease_one("billing")));
  EXPECT_EQ(drain("audit"), Bodies{"a"});
  EXPECT_EQ(stats("billing").dead, 1U);
  EXPECT_EQ(stats("users").accepted, 0U);
}

// The consumer of a subscription sees the message as its publisher made it.
// Rules: S15
// Behaviours: tag_round_trip_preservation
TEST_P(StoreConformance, A_copy_has_the_content_of_the_publication_and_says_its_topic) {
  ASSERT_TRUE(admin(Subscribe{"billing", "order.*", {}}));
  Publish publish = publication("order.paid", key("7"), Bytes("b\0dy", 4));
  publish.headers = {{"h", "1"}, {"h", "2"}};
  publish.priority = Priority::high;
  publish.delay = 10s;
  publish.ttl = 1min;
  const Time accepted = apply(together(publish)).value().time;

  EXPECT_EQ(stats("billing").delayed, 1U);
  clock().advance(10s);
  const Lease lease = lease_key("billing", "7");
  const Message& message = lease.messages.at(0);
  EXPECT_EQ(message.body, publish.body);
  EXPECT_EQ(message.headers, publish.headers);
  EXPECT_EQ(message.priority, Priority::high);
  EXPECT_EQ(message.topic, "order.paid");
  EXPECT_EQ(message.enqueued_at, accepted);
  EXPECT_EQ(message.due, accepted + 10s);
  EXPECT_EQ(message.expires_at, accepted + 1min);
}

// Otherwise two consumers of one topic would see one order's events in different orders.
// Rules: S15 S3
TEST_P(StoreConformance, Publications_of_one_key_keep_their_order_in_every_queue) {
  ASSERT_TRUE(admin(Subscribe{"one", "order.#", {}}));
  ASSERT_TRUE(admin(Subscribe{"two", "#", {}}));
  ASSERT_TRUE(apply(together(publication("order.made", key("7"), "made"),
                             publication("order.paid", key("7"), "paid"))));
  ASSERT_TRUE(apply(together(publication("order.sent", key("7"), "sent"))));

  EXPECT_EQ(bodies(lease_one("one")), (Bodies{"made", "paid", "sent"}));
  EXPECT_EQ(bodies(lease_one("two")), (Bodies{"made", "paid", "sent"}));
}

// Publishers do not know their subscribers; that there are none is no error of theirs.
// Rules: S15 S22
TEST_P(StoreConformance, A_publication_that_nobody_wants_succeeds_and_creates_nothing) {
  const Published published =
      apply(together(publication("order.paid", unkeyed, "a"))).value().published.at(0);
  EXPECT_EQ(published.matched, 0U);
  EXPECT_THAT(Answer(store().queues()).value(), IsEmpty());
}

// All matching subscriptions or none: an event that did not happen reached no one.
// Rules: S15 S22
TEST_P(StoreConformance, A_failed_transaction_publishes_to_nobody) {
  ASSERT_TRUE(admin(Subscribe{"one", "#", {}}));
  ASSERT_TRUE(admin(Subscribe{"two", "#", {}}));
  EXPECT_EQ(apply(together(publication("order.paid", unkeyed, "a"),
                           write("state", "k", "v", Version{99})))
                .error()
                .code,
            Errc::version_mismatch);
  EXPECT_EQ(stats("one").accepted, 0U);
  EXPECT_EQ(stats("two").accepted, 0U);
}

// One slow consumer must not stop the publisher, nor the other consumers; and nothing is lost.
// Rules: S15 S10 S19
TEST_P(StoreConformance, A_full_subscription_dead_letters_and_its_publisher_goes_on) {
  configure("small", {.ttl = {}, .max_length = 1});
  ASSERT_TRUE(admin(Subscribe{"small", "#", {}}));
  ASSERT_TRUE(admin(Subscribe{"large", "#", {}}));
  ASSERT_TRUE(apply(together(publication("t", key("7"), "a"))));
  ASSERT_TRUE(apply(together(publication("t", key("7"), "b"))));

  EXPECT_EQ(bodies(lease_one("large")), (Bodies{"a", "b"}));
  EXPECT_EQ(bodies(lease_one("small")), Bodies{"a"});
  const DeadLetter letter = dead_letter("small", "b");
  EXPECT_EQ(letter.reason, "queue full");
  EXPECT_EQ(letter.key, "7");
  EXPECT_EQ(letter.topic, "t");
  EXPECT_EQ(stats("small").accepted, 2U);
}

// Two publications of one transaction: the first takes the last place, the second finds it taken.
// Rules: S15 S19
TEST_P(StoreConformance, A_subscription_fills_up_within_one_transaction) {
  configure("small", {.ttl = {}, .max_length = 1});
  ASSERT_TRUE(admin(Subscribe{"small", "#", {}}));
  ASSERT_TRUE(apply(together(publication("t", unkeyed, "a"), publication("t", unkeyed, "b"))));
  EXPECT_EQ(stats("small").ready, 1U);
  EXPECT_EQ(bodies(dead_letters("small")), Bodies{"b"});
}

// The publisher cannot know how long each of its subscribers cares.
// Rules: S15 S11
TEST_P(StoreConformance, A_copy_obeys_the_settings_of_the_queue_that_it_reaches) {
  configure("brief", {.ttl = 5s});
  ASSERT_TRUE(admin(Subscribe{"brief", "#", {}}));
  ASSERT_TRUE(admin(Subscribe{"long", "#", {}}));
  ASSERT_TRUE(apply(together(publication("t", unkeyed, "a"))));
  clock().advance(5s);
  EXPECT_THAT(drain("brief"), IsEmpty());
  EXPECT_EQ(drain("long"), Bodies{"a"});
}

// Deployments subscribe at every start.
// Rules: S15
TEST_P(StoreConformance, Subscribing_again_with_the_same_pattern_changes_nothing) {
  ASSERT_TRUE(admin(Subscribe{"billing", "order.*", {}}));
  EXPECT_TRUE(admin(Subscribe{"billing", "order.*", {}}));
  ASSERT_TRUE(apply(together(publication("order.paid", unkeyed, "a"))));
  EXPECT_EQ(drain("billing"), Bodies{"a"});
}

// A second pattern would silently replace what another service relies on.
// Rules: S15
TEST_P(StoreConformance, Subscribing_a_queue_with_another_pattern_is_refused) {
  ASSERT_TRUE(admin(Subscribe{"billing", "order.*", {}}));
  EXPECT_EQ(admin(Subscribe{"billing", "user.*", {}}).error().code, Errc::already_exists);

  ASSERT_TRUE(apply(together(publication("order.paid", unkeyed, "a"))));
  ASSERT_TRUE(apply(together(publication("user.made", unkeyed, "b"))));
  EXPECT_EQ(drain("billing"), Bodies{"a"});
}

// Unsubscribing ends the stream; it does not throw away work.
// Rules: S15
TEST_P(StoreConformance, An_unsubscribed_queue_keeps_what_it_has_and_gets_no_more) {
  ASSERT_TRUE(admin(Subscribe{"billing", "order.*", {}}));
  ASSERT_TRUE(apply(together(publication("order.paid", unkeyed, "a"))));
  ASSERT_TRUE(admin(Unsubscribe{"billing"}));
  ASSERT_TRUE(apply(together(publication("order.paid", unkeyed, "b"))));

  EXPECT_EQ(drain("billing"), Bodies{"a"});
  EXPECT_TRUE(admin(Subscribe{"billing", "user.*", {}})) << "the queue is free for another pattern";
}

// A typo in an operator's command must show.
// Rules: S15
TEST_P(StoreConformance, Unsubscribing_what_is_not_subscribed_is_not_found) {
  enqueue("orders", unkeyed, "a");
  EXPECT_EQ(admin(Unsubscribe{"orders"}).error().code, Errc::not_found);
  EXPECT_EQ(admin(Unsubscribe{"unknown"}).error().code, Errc::not_found);
}

// A subscription without its queue would recreate it, and fill it for ever.
// Rules: S15 S22
TEST_P(StoreConformance, Removing_a_queue_removes_its_subscription) {
  ASSERT_TRUE(admin(Subscribe{"billing", "order.*", {}}));
  ASSERT_TRUE(admin(RemoveQueue{"billing"}));
  EXPECT_THAT(Answer(store().subscriptions()).value(), IsEmpty());

  const Published published =
      apply(together(publication("order.paid", unkeyed, "a"))).value().published.at(0);
  EXPECT_EQ(published.matched, 0U);
  EXPECT_THAT(Answer(store().queues()).value(), IsEmpty())
      << "a publication must not bring the queue back";
}

// Pausing stops consumers, not producers.
// Rules: S15 S22
TEST_P(StoreConformance, A_paused_subscription_collects_what_is_published) {
  ASSERT_TRUE(admin(Subscribe{"billing", "order.*", {}}));
  pause("billing");
  ASSERT_TRUE(apply(together(publication("order.paid", unkeyed, "a"))));
  EXPECT_THAT(drain("billing"), IsEmpty());
  resume("billing");
  EXPECT_EQ(drain("billing"), Bodies{"a"});
}

// --- Retained messages ---

// Nobody expects an hour of old events by default.
// Rules: S15
TEST_P(StoreConformance, A_subscription_starts_now_unless_it_asks_for_the_past) {
  ASSERT_TRUE(admin(ConfigureTopic{"order.paid", {.retain = 1h}}));
  ASSERT_TRUE(apply(together(publication("order.paid", unkeyed, "a"))));
  ASSERT_TRUE(admin(Subscribe{"billing", "order.*", {}}));
  EXPECT_EQ(stats("billing").accepted, 0U);
}

// A new service can catch up on what happened before it existed.
// Rules: S15
TEST_P(StoreConformance, A_subscription_from_the_past_gets_what_matching_topics_retained) {
  ASSERT_TRUE(admin(ConfigureTopic{"order.made", {.retain = 1h}}));
  ASSERT_TRUE(admin(ConfigureTopic{"order.paid", {.retain = 1h}}));
  ASSERT_TRUE(admin(ConfigureTopic{"user.made", {.retain = 1h}}));
  const Time start = now();
  ASSERT_TRUE(apply(together(publication("order.made", key("7"), "1"),
                             publication("order.paid", key("7"), "2"))));
  ASSERT_TRUE(apply(together(publication("user.made", key("7"), "not matching"))));
  ASSERT_TRUE(apply(together(publication("order.sent", key("7"), "not retained"))));
  clock().advance(1min);
  ASSERT_TRUE(apply(together(publication("order.made", key("7"), "3"))));

  ASSERT_TRUE(admin(Subscribe{"billing", "order.*", start}));
  ASSERT_TRUE(apply(together(publication("order.paid", key("7"), "4"))));
  EXPECT_EQ(bodies(lease_one("billing")), (Bodies{"1", "2", "3", "4"}));
}

// Who caught up until noon asks from noon on, noon included.
// Rules: S15
TEST_P(StoreConformance, A_subscription_from_the_past_starts_at_the_time_it_names) {
  ASSERT_TRUE(admin(ConfigureTopic{"t", {.retain = 1h}}));
  ASSERT_TRUE(apply(together(publication("t", unkeyed, "before"))));
  clock().advance(1ms);
  const Time from = now();
  ASSERT_TRUE(apply(together(publication("t", unkeyed, "at"))));
  clock().advance(1ms);
  ASSERT_TRUE(apply(together(publication("t", unkeyed, "after"))));

  ASSERT_TRUE(admin(Subscribe{"late", "t", from}));
  EXPECT_EQ(drain("late"), (Bodies{"at", "after"}));
}

// They are new messages of this queue: old times would let them expire or overtake.
// Rules: S15
TEST_P(StoreConformance, Retained_messages_are_accepted_when_they_are_copied) {
  ASSERT_TRUE(admin(ConfigureTopic{"t", {.retain = 1h}}));
  const Time start = now();
  Publish delayed = publication("t", key("7"), "a");
  delayed.delay = 30min;
  delayed.headers = {{"h", "1"}};
  ASSERT_TRUE(apply(together(delayed)));
  clock().advance(1min);

  ASSERT_TRUE(admin(Subscribe{"late", "t", start}));
  const Lease lease = lease_one("late");
  ASSERT_EQ(bodies(lease), Bodies{"a"}) << "the delay of its publication is over for it";
  EXPECT_EQ(lease.key, "7");
  EXPECT_EQ(lease.messages[0].enqueued_at, now());
  EXPECT_EQ(lease.messages[0].due, now());
  EXPECT_EQ(lease.messages[0].headers, delayed.headers);
  EXPECT_EQ(lease.messages[0].topic, "t");
  EXPECT_EQ(stats("late").accepted, 1U);
}

// Retention is also a promise to forget.
// Rules: S15 S17
TEST_P(StoreConformance, What_is_older_than_the_retention_is_gone) {
  ASSERT_TRUE(admin(ConfigureTopic{"t", {.retain = 1h}}));
  const Time start = now();
  ASSERT_TRUE(apply(together(publication("t", unkeyed, "old"))));
  clock().advance(1ms);
  ASSERT_TRUE(apply(together(publication("t", unkeyed, "young"))));
  clock().advance(1h - 1ms);

  ASSERT_TRUE(admin(Subscribe{"late", "t", start}));
  EXPECT_EQ(drain("late"), Bodies{"young"});
}

// Retention is for subscriptions to come: whoever got a message already must not get it twice.
// Rules: S15
TEST_P(StoreConformance, Subscribing_again_from_the_past_copies_nothing_again) {
  ASSERT_TRUE(admin(ConfigureTopic{"t", {.retain = 1h}}));
  const Time start = now();
  ASSERT_TRUE(apply(together(publication("t", unkeyed, "a"))));
  ASSERT_TRUE(admin(Subscribe{"late", "t", start}));
  ASSERT_TRUE(admin(Subscribe{"late", "t", start}));
  EXPECT_EQ(stats("late").accepted, 1U);
}

// Acking a copy is one subscriber's business.
// Rules: S15
TEST_P(StoreConformance, A_retained_message_stays_when_a_subscriber_has_acked_it) {
  ASSERT_TRUE(admin(ConfigureTopic{"t", {.retain = 1h}}));
  const Time start = now();
  ASSERT_TRUE(admin(Subscribe{"early", "t", {}}));
  ASSERT_TRUE(apply(together(publication("t", unkeyed, "a"))));
  ASSERT_EQ(drain("early"), Bodies{"a"});
  ASSERT_TRUE(admin(RemoveQueue{"early"}));

  ASSERT_TRUE(admin(Subscribe{"late", "t", start}));
  EXPECT_EQ(drain("late"), Bodies{"a"});
}

}  // namespace
}  // namespace strand::conformance
