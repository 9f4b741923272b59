// S14: a dedup id seen in the window adds nothing.

#include <string>

#include "conformance/parts.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

// A producer that got no answer sends again: the work must be there once.
// Rules: S14
TEST_P(StoreConformance, A_duplicate_returns_the_first_id_and_adds_nothing) {
  const MessageId first = enqueue("orders", key("7"), "a", {.dedup_id = "d"});

  const Sent again = try_enqueue("orders", key("7"), "a", {.dedup_id = "d"}).value();
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(again.id, first);
  EXPECT_EQ(stats("orders").accepted, 1U);
  EXPECT_EQ(drain("orders"), Bodies{"a"});
}

// A producer that is told "duplicate" believes that the work was there before.
// Rules: S14
TEST_P(StoreConformance, The_first_message_of_a_dedup_id_is_not_marked_as_a_duplicate) {
  EXPECT_FALSE(try_enqueue("orders", key("7"), "a", {.dedup_id = "d"}).value().duplicate);
  EXPECT_FALSE(try_enqueue("orders", key("7"), "b", {.dedup_id = "e"}).value().duplicate);
  EXPECT_FALSE(try_enqueue("orders", key("7"), "c").value().duplicate);
  EXPECT_EQ(stats("orders").accepted, 3U);
}

// The id identifies the message; what the second one says besides does not matter.
// Rules: S14
TEST_P(StoreConformance, A_duplicate_is_one_whatever_its_content) {
  const MessageId first = enqueue("orders", key("7"), "a", {.dedup_id = "d"});

  const Sent again =
      try_enqueue("orders", key("8"), "b", {.delay = 1h, .dedup_id = "d", .label = "gpu"}).value();
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(again.id, first);
  EXPECT_EQ(peek_one("orders", "a").label, "") << "a message that adds nothing brings no label";
  EXPECT_THAT(peek_lane("orders", "8"), IsEmpty());
}

// The usual case: the consumer was faster than the producer's retry.
// Rules: S14
TEST_P(StoreConformance, An_acked_message_still_has_duplicates) {
  const MessageId first = enqueue("orders", key("7"), "a", {.dedup_id = "d"});
  ASSERT_EQ(drain("orders"), Bodies{"a"});

  const Sent again = try_enqueue("orders", key("7"), "a", {.dedup_id = "d"}).value();
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(again.id, first);
  EXPECT_EQ(stats("orders").live(), 0U);
}

// However the message ended: dead and dropped, purged, expired, cancelled.
// Rules: S14
TEST_P(StoreConformance, A_message_that_ended_without_an_ack_still_has_duplicates) {
  const MessageId died = enqueue("orders", key("1"), "died", {.dedup_id = "died"});
  ASSERT_TRUE(dead(lease_one("orders")));
  ASSERT_TRUE(admin(DropDead{"orders", {died}}));
  enqueue("orders", unkeyed, "purged", {.dedup_id = "purged"});
  purge("orders");
  enqueue("orders", unkeyed, "expired", {.ttl = 1s, .dedup_id = "expired"});
  clock().advance(1s);
  enqueue("orders", unkeyed, "cancelled", {.dedup_id = "cancelled", .name = "n"});
  ASSERT_TRUE(cancel("orders", "n"));

  for (const char* id : {"died", "purged", "expired", "cancelled"}) {
    EXPECT_TRUE(try_enqueue("orders", unkeyed, "again", {.dedup_id = id}).value().duplicate) << id;
  }
  EXPECT_EQ(stats("orders").live(), 0U);
}

// Ids may come round again, and memory is finite; to the millisecond, so that stores agree.
// Rules: S14 S17
TEST_P(StoreConformance, A_dedup_id_is_forgotten_at_the_end_of_the_window) {
  enqueue("orders", unkeyed, "a", {.dedup_id = "d"});
  clock().advance(5min - 1ms);
  EXPECT_TRUE(try_enqueue("orders", unkeyed, "b", {.dedup_id = "d"}).value().duplicate);

  clock().advance(1ms);
  EXPECT_FALSE(try_enqueue("orders", unkeyed, "c", {.dedup_id = "d"}).value().duplicate);
  EXPECT_EQ(drain("orders"), (Bodies{"a", "c"}));
}

// A producer that repeats itself every minute must not keep its own id alive for ever.
// Rules: S14
TEST_P(StoreConformance, A_duplicate_does_not_lengthen_the_window) {
  enqueue("orders", unkeyed, "a", {.dedup_id = "d"});
  for (int i = 0; i < 4; ++i) {
    clock().advance(1min);
    ASSERT_TRUE(try_enqueue("orders", unkeyed, "b", {.dedup_id = "d"}).value().duplicate);
  }
  clock().advance(1min);
  EXPECT_FALSE(try_enqueue("orders", unkeyed, "c", {.dedup_id = "d"}).value().duplicate);
}

// The window runs from acceptance: a delay neither lengthens nor shifts it.
// Rules: S14
TEST_P(StoreConformance, The_window_of_a_delayed_message_runs_from_its_acceptance) {
  enqueue("orders", unkeyed, "a", {.delay = 1h, .dedup_id = "d"});
  EXPECT_TRUE(try_enqueue("orders", unkeyed, "b", {.dedup_id = "d"}).value().duplicate);
  clock().advance(5min);
  EXPECT_FALSE(try_enqueue("orders", unkeyed, "c", {.dedup_id = "d"}).value().duplicate);
}

// Who does not want dedup must not pay for it, nor lose messages to it.
// Rules: S14
TEST_P(StoreConformance, A_window_of_nothing_turns_dedup_off) {
  configure("orders", {.ttl = {}, .dedup_window = 0s});
  enqueue("orders", unkeyed, "a", {.dedup_id = "d"});
  EXPECT_FALSE(try_enqueue("orders", unkeyed, "b", {.dedup_id = "d"}).value().duplicate);
  EXPECT_EQ(stats("orders").accepted, 2U);
}

// A producer was promised a window when it sent: a setting changed later does not break it.
// Rules: S14
TEST_P(StoreConformance, A_dedup_id_keeps_the_window_that_it_was_accepted_with) {
  configure("orders", {.ttl = {}, .dedup_window = 1h});
  enqueue("orders", unkeyed, "a", {.dedup_id = "long"});
  configure("orders", {.ttl = {}, .dedup_window = 1s});
  enqueue("orders", unkeyed, "b", {.dedup_id = "short"});
  clock().advance(1min);

  EXPECT_TRUE(try_enqueue("orders", unkeyed, "c", {.dedup_id = "long"}).value().duplicate);
  EXPECT_FALSE(try_enqueue("orders", unkeyed, "d", {.dedup_id = "short"}).value().duplicate);
}

// The same event may be work for two queues.
// Rules: S14
TEST_P(StoreConformance, Queues_do_not_share_their_dedup_ids) {
  enqueue("orders", unkeyed, "a", {.dedup_id = "d"});
  EXPECT_FALSE(try_enqueue("invoices", unkeyed, "a", {.dedup_id = "d"}).value().duplicate);
}

// A dedup id is any bytes: comparing it as a C string would merge these.
// Rules: S14 S19
TEST_P(StoreConformance, Dedup_ids_that_differ_behind_a_NUL_byte_are_different) {
  const std::string one{"id\0a", 4};
  const std::string two{"id\0b", 4};
  enqueue("orders", unkeyed, "a", {.dedup_id = one});
  EXPECT_FALSE(try_enqueue("orders", unkeyed, "b", {.dedup_id = two}).value().duplicate);
  EXPECT_FALSE(try_enqueue("orders", unkeyed, "c", {.dedup_id = "id"}).value().duplicate);
  EXPECT_TRUE(try_enqueue("orders", unkeyed, "d", {.dedup_id = one}).value().duplicate);
}

// A batch of a producer may hold the same message twice.
// Rules: S14
TEST_P(StoreConformance, Duplicates_are_recognised_within_one_transaction) {
  const Receipt receipt = apply(together(send("orders", unkeyed, "a", {.dedup_id = "d"}),
                                         send("orders", unkeyed, "b", {.dedup_id = "d"})))
                              .value();
  ASSERT_THAT(receipt.sent, SizeIs(2));
  EXPECT_FALSE(receipt.sent[0].duplicate);
  EXPECT_TRUE(receipt.sent[1].duplicate);
  EXPECT_EQ(receipt.sent[0].id, receipt.sent[1].id);
  EXPECT_EQ(stats("orders").accepted, 1U);
}

// "Ack the input, send the output once": the ack counts even if the output was sent before.
// Rules: S14
TEST_P(StoreConformance, A_duplicate_does_not_fail_its_transaction) {
  enqueue("out", unkeyed, "result", {.dedup_id = "d"});
  enqueue("in", unkeyed, "work");
  const Lease work = lease_one("in");

  const Receipt receipt =
      apply(together(all_acked(work), send("out", unkeyed, "result", {.dedup_id = "d"}),
                     send("log", unkeyed, "line"), write("state", "k", "v")))
          .value();
  EXPECT_TRUE(receipt.sent.at(0).duplicate);
  EXPECT_EQ(stats("in").acked, 1U);
  EXPECT_EQ(stats("out").accepted, 1U);
  EXPECT_EQ(stats("log").accepted, 1U);
}

// Otherwise the retry of a failed transaction would be swallowed: a lost message.
// Rules: S14 S22
TEST_P(StoreConformance, A_failed_transaction_records_no_dedup_id) {
  ASSERT_EQ(apply(together(send("orders", unkeyed, "a", {.dedup_id = "d"}),
                           write("state", "k", "v", Version{99})))
                .error()
                .code,
            Errc::version_mismatch);

  EXPECT_FALSE(try_enqueue("orders", unkeyed, "a", {.dedup_id = "d"}).value().duplicate);
  EXPECT_EQ(drain("orders"), Bodies{"a"});
}

// The retry of a send with a name finds its own first try under that name: a duplicate, no error.
// Rules: S14
TEST_P(StoreConformance, A_duplicate_is_recognised_before_its_name_is_looked_at) {
  const MessageId first = enqueue("orders", unkeyed, "a", {.dedup_id = "d", .name = "n"});
  const Sent again = try_enqueue("orders", unkeyed, "a", {.dedup_id = "d", .name = "n"}).value();
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(again.id, first);
}

// It adds nothing, so it has nothing that could be called by the name that it brought.
// Rules: S14
TEST_P(StoreConformance, A_duplicate_takes_no_name) {
  enqueue("orders", unkeyed, "a", {.dedup_id = "d", .name = "first"});
  ASSERT_TRUE(
      try_enqueue("orders", unkeyed, "a", {.dedup_id = "d", .name = "second"}).value().duplicate);
  EXPECT_FALSE(cancel("orders", "second"));
  EXPECT_TRUE(try_enqueue("orders", unkeyed, "b", {.name = "second"}));
}

// The same for the message that filled the queue.
// Rules: S14 S19
TEST_P(StoreConformance, A_duplicate_is_recognised_before_a_full_queue_refuses_it) {
  configure("orders", {.ttl = {}, .max_length = 1});
  enqueue("orders", unkeyed, "a", {.dedup_id = "d"});

  EXPECT_TRUE(try_enqueue("orders", unkeyed, "a", {.dedup_id = "d"}).value().duplicate);
  EXPECT_EQ(try_enqueue("orders", unkeyed, "b", {.dedup_id = "e"}).error().code, Errc::queue_full);
}

// A queue of the same name is another queue: its first message is no duplicate.
// Rules: S14 S22
TEST_P(StoreConformance, Removing_a_queue_forgets_its_dedup_ids) {
  enqueue("orders", unkeyed, "a", {.dedup_id = "d"});
  ASSERT_TRUE(admin(RemoveQueue{"orders"}));
  EXPECT_FALSE(try_enqueue("orders", unkeyed, "b", {.dedup_id = "d"}).value().duplicate);
}

// An operator who redrives means it: the dead letter's own dedup id is not in its way.
// Rules: S14 S10
TEST_P(StoreConformance, A_redriven_message_is_no_duplicate_of_itself) {
  const MessageId id = enqueue("orders", unkeyed, "a", {.dedup_id = "d"});
  ASSERT_TRUE(dead(lease_one("orders")));
  redrive("orders", {id});
  ASSERT_TRUE(dead(lease_one("orders")));
  redrive("orders", {id}, "other");

  EXPECT_EQ(drain("other"), Bodies{"a"});
  EXPECT_FALSE(try_enqueue("other", unkeyed, "b", {.dedup_id = "d"}).value().duplicate)
      << "it brought no dedup id along";
}

// Publishers repeat themselves like senders, and know their topic only.
// Rules: S14 S15
TEST_P(StoreConformance, A_publication_is_deduplicated_in_its_topic) {
  ASSERT_TRUE(admin(Subscribe{"all", "#", {}}));
  const Published first =
      apply(together(publication_once("order.paid", "d", "a"))).value().published.at(0);
  const Published again =
      apply(together(publication_once("order.paid", "d", "a"))).value().published.at(0);
  const Published other =
      apply(together(publication_once("order.sent", "d", "b"))).value().published.at(0);

  EXPECT_FALSE(first.duplicate);
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(again.id, first.id);
  EXPECT_FALSE(other.duplicate);
  EXPECT_EQ(drain("all"), (Bodies{"a", "b"}));
}

// The topic's scope is not that of the queues which its messages reach.
// Rules: S14 S15
TEST_P(StoreConformance, A_publication_takes_no_dedup_id_of_its_subscribers) {
  ASSERT_TRUE(admin(Subscribe{"all", "#", {}}));
  enqueue("all", unkeyed, "sent", {.dedup_id = "d"});
  EXPECT_FALSE(
      apply(together(publication_once("all", "d", "published"))).value().published.at(0).duplicate);
  EXPECT_TRUE(try_enqueue("all", unkeyed, "again", {.dedup_id = "d"}).value().duplicate);
  EXPECT_FALSE(try_enqueue("other", unkeyed, "sent", {.dedup_id = "d"}).value().duplicate);

  EXPECT_EQ(drain("all"), (Bodies{"sent", "published"}));
}

// What was published to nobody was published: its retry must not reach those who came later.
// Rules: S14 S15
TEST_P(StoreConformance, A_duplicate_publication_reaches_no_subscriber_that_came_in_between) {
  ASSERT_TRUE(apply(together(publication_once("order.paid", "d", "a"))));
  ASSERT_TRUE(admin(Subscribe{"late", "order.*", {}}));
  EXPECT_TRUE(
      apply(together(publication_once("order.paid", "d", "a"))).value().published.at(0).duplicate);
  EXPECT_EQ(stats("late").accepted, 0U);

  clock().advance(5min);
  EXPECT_FALSE(
      apply(together(publication_once("order.paid", "d", "b"))).value().published.at(0).duplicate);
  EXPECT_EQ(drain("late"), Bodies{"b"});
}

}  // namespace
}  // namespace strand::conformance
