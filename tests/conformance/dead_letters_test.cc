// S10: dead letters, and what can be done with them.
#include <algorithm>

#include "conformance/suite.h"

namespace strand::conformance {

namespace {

QueueSettings no_backoff() {
  QueueSettings settings;
  settings.backoff = {};
  return settings;
}

}  // namespace

// Whoever looks at a dead letter a week later has nothing else to go by.
// Rules: S10
TEST_P(StoreConformance, A_dead_letter_keeps_everything_of_the_message_and_its_failures) {
  const Time accepted = now();
  const MessageId id = enqueue("orders", key("cust-7"), "body",
                               {.headers = {{"trace", "42"}},
                                .priority = Priority::urgent,
                                .label = "gpu",
                                .name = "the-name"});
  const Time first = now();
  ASSERT_TRUE(retry(lease_one("orders"), 10s, "timeout"));
  clock().advance(10s);
  std::ignore = lease_one("orders", 30s);
  clock().advance(30s);
  const Time second = now();
  clock().advance(5s);
  ASSERT_TRUE(dead(lease_one("orders"), "bad address"));
  const Time third = now();

  reopen();

  const std::vector<DeadLetter> letters = dead_letters("orders");
  ASSERT_THAT(letters, SizeIs(1));
  const DeadLetter& letter = letters[0];
  EXPECT_EQ(letter.id, id);
  EXPECT_EQ(letter.queue, "orders");
  EXPECT_EQ(letter.key, "cust-7");
  EXPECT_EQ(letter.label, "gpu");
  EXPECT_EQ(letter.body, "body");
  EXPECT_EQ(letter.headers, (Headers{{"trace", "42"}}));
  EXPECT_EQ(letter.priority, Priority::urgent);
  EXPECT_EQ(letter.name, "the-name");
  EXPECT_EQ(letter.enqueued_at, accepted);
  EXPECT_EQ(letter.due, accepted);
  EXPECT_EQ(letter.deliveries, 3U);
  EXPECT_EQ(letter.attempts, 3U);
  EXPECT_EQ(letter.reason, "bad address");
  EXPECT_EQ(letter.dead_at, third);
  EXPECT_EQ(letter.failures, (std::vector<Failure>{{.at = first, .reason = "timeout"},
                                                   {.at = second, .reason = "lease expired"},
                                                   {.at = third, .reason = "bad address"}}));
}

// A hopeless message needs no four tries.
// Rules: S9 S10
TEST_P(StoreConformance, A_message_settled_as_dead_is_charged_and_dead_at_once) {
  enqueue_all("orders", key("cust-7"), {"a", "b"});

  ASSERT_TRUE(dead(lease_one("orders"), "no use"));

  EXPECT_EQ(dead_letter("orders", "a").attempts, 1U);
  EXPECT_EQ(stats("orders").dead, 1U);
  EXPECT_EQ(bodies(lease_one("orders")), Bodies{"b"}) << "the dead hold nobody back";
}

// A million dead letters must be readable a page at a time.
// Rules: S10
TEST_P(StoreConformance, Dead_letters_are_listed_by_id_page_by_page) {
  const Ids sent = enqueue_all("orders", unkeyed, {"0", "1", "2", "3", "4"});
  std::vector<Lease> leases = lease_all("orders");
  std::ranges::reverse(leases);
  for (const Lease& lease : leases)
    ASSERT_TRUE(dead(lease));

  const auto page = [this](std::optional<MessageId> after) {
    return Answer(store().dead_letters({.queue = "orders", .after = after, .limit = 2})).value();
  };

  EXPECT_EQ(bodies(page({}).items), (Bodies{"0", "1"}));
  EXPECT_TRUE(page({}).more);
  EXPECT_EQ(bodies(page(sent[1]).items), (Bodies{"2", "3"}));
  EXPECT_TRUE(page(sent[1]).more);
  EXPECT_EQ(bodies(page(sent[3]).items), Bodies{"4"});
  EXPECT_FALSE(page(sent[3]).more);
  EXPECT_THAT(page(sent[4]).items, IsEmpty());
}

// Dead letters of one queue are no other queue's business.
// Rules: S10
TEST_P(StoreConformance, Each_queue_lists_its_own_dead_letters) {
  enqueue("orders", key("cust-7"), "order");
  enqueue("invoices", key("cust-7"), "invoice");
  ASSERT_TRUE(dead(lease_one("orders")));
  ASSERT_TRUE(dead(lease_one("invoices")));

  EXPECT_EQ(bodies(dead_letters("orders")), Bodies{"order"});
  const DeadLetter invoice = dead_letter("invoices", "invoice");
  EXPECT_EQ(admin(Redrive{.queue = "orders", .ids = {invoice.id}, .to = {}}).error().code,
            Errc::not_found);
}

// Another chance is a whole one.
// Rules: S10
TEST_P(StoreConformance, A_redriven_message_is_the_same_message_with_attempts_at_zero) {
  configure("orders", no_backoff());
  const MessageId id = enqueue("orders", key("cust-7"), "a", {.headers = {{"h", "v"}}});
  for (int failure = 0; failure < 4; ++failure)
    ASSERT_TRUE(retry(lease_one("orders")));
  ASSERT_EQ(stats("orders").dead, 1U);

  redrive("orders", {id});

  EXPECT_THAT(dead_letters("orders"), IsEmpty());
  const Lease lease = lease_one("orders");
  EXPECT_EQ(lease.messages[0].id, id);
  EXPECT_EQ(lease.messages[0].attempts, 0U);
  EXPECT_EQ(lease.messages[0].headers, (Headers{{"h", "v"}}));
  ASSERT_TRUE(release(lease));
  for (int failure = 0; failure < 3; ++failure)
    ASSERT_TRUE(retry(lease_one("orders")));
  EXPECT_EQ(stats("orders").dead, 0U);
  ASSERT_TRUE(retry(lease_one("orders")));
  EXPECT_EQ(stats("orders").dead, 1U);
}

// The order of a lane is that of its places, not that in which someone clicked.
// Rules: S3 S10
TEST_P(StoreConformance, Many_redriven_messages_are_in_lane_order) {
  const Ids sent = enqueue_all("orders", key("cust-7"), {"a", "b", "c", "d"});
  const Lease lease = lease_one("orders");
  ASSERT_TRUE(settle(lease, {made_dead(sent[0]), made_dead(sent[1]), made_dead(sent[3])}));

  redrive("orders", {sent[3], sent[0]});
  redrive("orders", {sent[1]});

  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"a", "b", "c", "d"}));
}

// A deadline that has passed once would end the message again before anyone saw it.
// Rules: S10 S11
TEST_P(StoreConformance, A_redriven_message_has_no_TTL_any_more) {
  QueueSettings settings;
  settings.on_expired = OnExpired::dead;
  configure("orders", settings);
  const MessageId id = enqueue("orders", key("cust-7"), "a", {.ttl = 10s});
  clock().advance(10s);
  ASSERT_EQ(stats("orders").dead, 1U);

  redrive("orders", {id});

  clock().advance(24h);
  const Lease lease = lease_one("orders");
  EXPECT_EQ(ids(lease), Ids{id});
  EXPECT_EQ(lease.messages[0].expires_at, std::nullopt);
}

// A redriven message is an arrival like others: the holder's batch is not changed under its hands.
// Rules: S2 S10
TEST_P(StoreConformance, A_message_redriven_into_a_leased_lane_waits) {
  const Ids sent = enqueue_all("orders", key("cust-7"), {"a", "b"});
  const Lease first = lease_one("orders");
  ASSERT_TRUE(settle(first, {made_dead(sent[0])}));
  const Lease holder = lease_one("orders");

  redrive("orders", {sent[0]});

  EXPECT_THAT(lease_all("orders"), IsEmpty());
  EXPECT_EQ(settle(holder, {acked(sent[0])}, Then::keep).error().code, Errc::message_not_leased);
  ASSERT_TRUE(release(holder));
  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"a", "b"}));
}

// Some failures are better handled elsewhere.
// Rules: S10 S16
TEST_P(StoreConformance, A_message_redriven_to_another_queue_is_a_new_message_there) {
  const MessageId id =
      enqueue("orders", key("cust-7"), "a",
              {.headers = {{"h", "v"}}, .priority = Priority::high, .ttl = 1h, .name = "the-name"});
  ASSERT_TRUE(dead(lease_one("orders")));
  clock().advance(2h);

  redrive("orders", {id}, "repair");

  EXPECT_EQ(stats("orders").moved, 1U);
  EXPECT_EQ(stats("orders").dead, 0U);
  EXPECT_EQ(stats("repair").accepted, 1U);
  const Lease lease = lease_one("repair");
  EXPECT_EQ(lease.key, "cust-7");
  const Message& moved = lease.messages.at(0);
  EXPECT_GT(moved.id, id);
  EXPECT_EQ(moved.body, "a");
  EXPECT_EQ(moved.headers, (Headers{{"h", "v"}}));
  EXPECT_EQ(moved.priority, Priority::high);
  EXPECT_EQ(moved.due, now());
  EXPECT_EQ(moved.attempts, 0U);
  EXPECT_EQ(moved.deliveries, 1U);
  EXPECT_EQ(moved.name, std::nullopt);
}

// The lane is the same over there, and so is its order.
// Rules: S3 S10
TEST_P(StoreConformance, Messages_redriven_to_another_queue_keep_their_order) {
  const Ids sent = enqueue_all("orders", key("cust-7"), {"a", "b", "c"});
  const Lease lease = lease_one("orders");
  ASSERT_TRUE(settle(lease, {made_dead(sent[2]), made_dead(sent[1]), made_dead(sent[0])}));

  redrive("orders", sent, "repair");

  EXPECT_EQ(bodies(lease_one("repair")), (Bodies{"a", "b", "c"}));
}

// All or nothing: half a redrive would have to be found out message by message.
// Rules: S10
TEST_P(StoreConformance, A_redrive_with_an_unknown_id_redrives_nothing) {
  const MessageId letter = enqueue("orders", key("a"), "letter");
  const MessageId live = enqueue("orders", key("b"), "live");
  ASSERT_TRUE(dead(lease_key("orders", "a")));

  for (const MessageId wrong : {live, MessageId{0}, MessageId{UINT64_MAX}}) {
    EXPECT_EQ(admin(Redrive{.queue = "orders", .ids = {letter, wrong}, .to = {}}).error().code,
              Errc::not_found);
    EXPECT_EQ(
        admin(Redrive{.queue = "orders", .ids = {letter, wrong}, .to = "repair"}).error().code,
        Errc::not_found);
  }
  EXPECT_EQ(bodies(dead_letters("orders")), Bodies{"letter"});
}

// The name comes back with the message, unless someone else has it by now.
// Rules: S10 Names
TEST_P(StoreConformance, A_redriven_message_has_its_name_again_if_it_is_free) {
  const MessageId free = enqueue("orders", key("a"), "free", {.name = "free"});
  const MessageId taken = enqueue("orders", key("b"), "taken", {.name = "taken"});
  for (const Lease& lease : lease_all("orders"))
    ASSERT_TRUE(dead(lease));
  enqueue("orders", key("c"), "usurper", {.name = "taken"});

  redrive("orders", {free, taken});

  EXPECT_EQ(peek_one("orders", "free").name, "free");
  EXPECT_EQ(peek_one("orders", "taken").name, std::nullopt);
  EXPECT_EQ(try_enqueue("orders", unkeyed, "x", {.name = "free"}).error().code, Errc::name_taken);
  EXPECT_TRUE(cancel("orders", "taken"));
  EXPECT_EQ(bodies(peek("orders")), (Bodies{"free", "taken"})) << "the usurper had the name";
}

// The message was accepted long ago; the queue cannot refuse it now.
// Rules: S10
TEST_P(StoreConformance, A_redrive_is_not_bound_by_the_length_of_the_queue) {
  QueueSettings settings;
  settings.max_length = 1;
  configure("orders", settings);
  const MessageId letter = enqueue("orders", key("a"), "letter");
  ASSERT_TRUE(dead(lease_one("orders")));
  enqueue("orders", key("b"), "full");

  redrive("orders", {letter});

  EXPECT_EQ(stats("orders").ready, 2U);
}

// What is moved is not a repetition of what was sent: it brings no dedup id along.
// Rules: S10 S14
TEST_P(StoreConformance, A_message_redriven_to_another_queue_brings_no_dedup_id) {
  const MessageId letter = enqueue("orders", key("a"), "letter", {.dedup_id = "once"});
  ASSERT_TRUE(dead(lease_one("orders")));
  redrive("orders", {letter}, "repair");

  EXPECT_FALSE(try_enqueue("repair", key("a"), "new", {.dedup_id = "once"})->duplicate);
}

// Dropping is final, and counted.
// Rules: S10 S16
TEST_P(StoreConformance, A_dropped_dead_letter_is_gone_and_counted) {
  const Ids sent = enqueue_all("orders", unkeyed, {"a", "b"});
  for (const Lease& lease : lease_all("orders"))
    ASSERT_TRUE(dead(lease));

  ASSERT_TRUE(admin(DropDead{.queue = "orders", .ids = {sent[0]}}));

  EXPECT_EQ(bodies(dead_letters("orders")), Bodies{"b"});
  EXPECT_EQ(stats("orders").dropped, 1U);
  EXPECT_EQ(admin(Redrive{.queue = "orders", .ids = {sent[0]}, .to = {}}).error().code,
            Errc::not_found);
}

// Trouble should be visible before it has become a dead letter.
// Rules: S8 S10
TEST_P(StoreConformance, Messages_in_backoff_can_be_listed) {
  enqueue("orders", key("a"), "fine");
  enqueue("orders", key("b"), "failed");
  enqueue("orders", key("c"), "delayed", {.delay = 1h});
  ASSERT_TRUE(retry(lease_key("orders", "b"), 0s, "first"));
  ASSERT_TRUE(retry(lease_key("orders", "b"), 10s, "second"));

  const std::vector<PeekedMessage> listed = peek("orders", MessageState::backoff);

  ASSERT_EQ(bodies(listed), Bodies{"failed"});
  EXPECT_EQ(listed[0].attempts, 2U);
  EXPECT_EQ(listed[0].last_reason, "second");
  EXPECT_EQ(listed[0].retry_at, now() + 10s);
  EXPECT_EQ(listed[0].key, "b");
}

// A lane whose messages are all dead is gone; redriving one must bring it back.
// Rules: S1 S10
TEST_P(StoreConformance, A_redrive_works_after_a_reopen_and_with_the_lane_long_gone) {
  const MessageId keyed = enqueue("orders", key("cust-7"), "keyed");
  const MessageId alone = enqueue("orders", unkeyed, "alone");
  for (const Lease& lease : lease_all("orders"))
    ASSERT_TRUE(dead(lease));
  reopen();

  redrive("orders", {keyed, alone});
  reopen();

  const std::vector<Lease> leases = lease_all("orders");
  EXPECT_EQ(bodies(leases), (Bodies{"keyed", "alone"}));
  EXPECT_EQ(leases.at(0).key, "cust-7");
  EXPECT_EQ(leases.at(1).key, std::nullopt);
}

}  // namespace strand::conformance
