// S19: every size, count and length has a limit, and nothing is cut.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/parts.h"
#include "conformance/snapshot.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

const std::string longest_name(512, 'n');
const std::string too_long(513, 'n');
const Refusal limit_exceeded{.code = Errc::limit_exceeded};
const Refusal too_large{.code = Errc::transaction_too_large};

// The defaults are promises in the documents: a smaller one breaks users, a larger one memory.
// Rules: S19
TEST_P(StoreConformance, A_body_of_one_mebibyte_is_taken_and_comes_back_whole) {
  Bytes body(std::size_t{1} << 20U, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) {
    body[i] = static_cast<char>(i * 31 % 251);
  }
  enqueue("orders", unkeyed, body);
  EXPECT_TRUE(lease_one("orders").messages.at(0).body == body) << "the body was changed";
}

// Cutting it to fit would be corruption.
// Rules: S19
TEST_P(StoreConformance, A_body_of_one_byte_more_is_refused) {
  enqueue("orders", unkeyed, "a");
  const Bytes body((std::size_t{1} << 20U) + 1, 'x');
  expect_refused(store(), together(send("orders", unkeyed, body)),
                 {.code = Errc::limit_exceeded, .word = "body"});
  expect_refused(store(), together(publication("t", unkeyed, body)),
                 {.code = Errc::limit_exceeded, .word = "body"});
}

// A key that is cut would merge two customers into one lane.
// Rules: S19
TEST_P(StoreConformance, A_key_of_512_bytes_is_taken_and_one_more_refused) {
  enqueue("orders", key(longest_name), "a");
  EXPECT_EQ(lease_one("orders").key, longest_name);
  expect_refused(store(), together(send("orders", key(too_long), "a")),
                 {.code = Errc::limit_exceeded, .word = "key"});
}

// Bytes are counted, not characters: 256 two-byte letters fill a name.
// Rules: S19
TEST_P(StoreConformance, Names_are_measured_in_bytes) {
  std::string letters;
  for (int i = 0; i < 256; ++i) {
    letters += "\xc3\xa9";
  }
  enqueue(letters, key(letters), "a");
  EXPECT_EQ(stats(letters).ready, 1U);
  expect_refused(store(), together(send(letters + "\xc3\xa9", unkeyed, "a")), limit_exceeded);
}

// Names end up in indexes and metrics: a single one without a limit is a way in.
// Rules: S19
TEST_P(StoreConformance, Every_kind_of_name_has_512_bytes_and_no_more) {
  ASSERT_TRUE(apply(
      together(send(longest_name, unkeyed, "a", {.dedup_id = longest_name, .name = longest_name}),
               send(longest_name, key("7"), "b", {.label = longest_name}),
               publication(longest_name, unkeyed, "c"), write(longest_name, longest_name, "v"))));
  ASSERT_TRUE(admin(Subscribe{longest_name, longest_name, {}}));
  ASSERT_TRUE(try_lease({.queue = longest_name, .labels = {longest_name}, .owner = longest_name}));

  for (const Transaction& refused :
       {together(send(too_long, unkeyed, "a")),
        together(send("orders", unkeyed, "a", {.dedup_id = too_long})),
        together(send("orders", unkeyed, "a", {.name = too_long})),
        together(send("orders", key("7"), "a", {.label = too_long})),
        together(send("orders", unkeyed, "a", {.dead_notice_to = Address{too_long, {}}})),
        together(send("orders", unkeyed, "a", {.dead_notice_to = Address{"n", too_long}})),
        together(publication(too_long, unkeyed, "a")), together(write(too_long, "k", "v")),
        together(write("state", too_long, "v")), together(Subscribe{too_long, "t", {}}),
        together(Subscribe{"q", too_long, {}}), together(ConfigureQueue{too_long, {}}),
        together(ConfigureTopic{too_long, {}})}) {
    expect_refused(store(), refused, limit_exceeded);
  }
  expect_refused(store(), LeaseRequest{.queue = longest_name, .labels = {too_long}},
                 limit_exceeded);
  expect_refused(store(), LeaseRequest{.queue = longest_name, .owner = too_long}, limit_exceeded);
}

// It is their sum that counts, names included, or a thousand small ones pass.
// Rules: S19
TEST_P(StoreConformance, Headers_have_64_KiB_together_and_no_more) {
  const std::size_t limit = std::size_t{64} << 10U;
  // A quarter each, so that it is the sum that counts, names included.
  const Headers fitting = {{"a", std::string(limit / 2 - 1, 'x')},
                           {"b", std::string(limit / 2 - 1, 'y')}};
  enqueue("orders", unkeyed, "body", {.headers = fitting});
  EXPECT_TRUE(lease_one("orders").messages.at(0).headers == fitting);

  Headers larger = fitting;
  larger[1].value += "y";
  expect_refused(store(), together(send("orders", unkeyed, "a", {.headers = larger})),
                 {.code = Errc::limit_exceeded, .word = "header"});
}

// Records are for state, not for files.
// Rules: S19
TEST_P(StoreConformance, A_record_has_256_KiB_and_no_more) {
  const std::size_t limit = std::size_t{256} << 10U;
  ASSERT_TRUE(apply(together(write("state", "k", Bytes(limit, 'v')))));
  EXPECT_EQ(read_record(store(), "state", "k").value.size(), limit);
  expect_refused(store(), together(write("state", "k", Bytes(limit + 1, 'v'))),
                 {.code = Errc::limit_exceeded, .word = "record"});
}

// A stack trace is a fine reason; a core dump is not.
// Rules: S19
TEST_P(StoreConformance, A_reason_has_4_KiB_and_no_more) {
  const std::string longest(std::size_t{4} << 10U, 'r');
  enqueue("orders", key("7"), "a");
  const Lease lease = lease_one("orders");
  const MessageId id = lease.messages.at(0).id;
  expect_refused(store(), together(settlement(lease, {made_dead(id, longest + "r")})),
                 {.code = Errc::limit_exceeded, .word = "reason"});
  expect_refused(store(), together(settlement(lease, {retried(id, {}, longest + "r")})),
                 {.code = Errc::limit_exceeded, .word = "reason"});
  Settle parking = settlement(lease, {}, Then::park);
  parking.park_reason = longest + "r";
  expect_refused(store(), together(parking), {.code = Errc::limit_exceeded, .word = "reason"});

  ASSERT_TRUE(dead(lease, longest));
  EXPECT_EQ(dead_letter("orders", "a").reason, longest);
}

// --- One transaction ---

// One transaction is applied in one go: all others wait for it.
// Rules: S19
TEST_P(StoreConformance, A_transaction_has_its_number_of_operations_and_no_more) {
  Limits limits;
  limits.transaction_operations_max = 4;
  reopen(limits);
  enqueue_all("orders", key("7"), {"a", "b"});
  const Lease lease = lease_one("orders");

  // A settle, its two outcomes and a send are four.
  expect_refused(store(),
                 together(all_acked(lease), send("x", unkeyed, "1"), send("x", unkeyed, "2")),
                 too_large);
  EXPECT_TRUE(apply(together(all_acked(lease), send("x", unkeyed, "1"))));
}

// Every kind of part costs one, or a limit could be walked around.
// Rules: S19
TEST_P(StoreConformance, Every_kind_of_part_counts_as_an_operation) {
  Limits limits;
  limits.transaction_operations_max = 6;
  reopen(limits);
  enqueue("work", key("7"), "w");
  enqueue("work", key("7"), "named", {.name = "n"});
  const Lease lease = lease_one("work");
  const Transaction six =
      together(append(lease, 1, 0, {"e"}), trim(lease, 1, 0), Cancel{"work", "none"},
               send("x", unkeyed, "a"), publication("t", unkeyed, "b"), write("state", "k", "v"));
  ASSERT_TRUE(apply(six));

  Transaction seven = six;
  seven.appends[0].expected_length = 1;
  seven.records.push_back(write("state", "l", "v"));
  expect_refused(store(), seven, too_large);
  const Ids many(7, MessageId{1});
  expect_refused(store(), together(Redrive{"work", many, {}}), too_large);
  expect_refused(store(), together(DropDead{"work", many}), too_large);
}

// A long turn of a workflow writes many events: they are bounded by bytes alone.
// Rules: S19 S20
TEST_P(StoreConformance, History_events_are_not_counted_as_operations) {
  Limits limits;
  limits.transaction_operations_max = 4;
  reopen(limits);
  enqueue("work", key("7"), "w");
  const Lease lease = lease_one("work");
  EXPECT_TRUE(apply(together(append(lease, 1, 0, std::vector<Bytes>(100, "event")))));
}

// Bytes are bytes, whichever part brings them.
// Rules: S19
TEST_P(StoreConformance, A_transaction_has_its_number_of_bytes_and_no_more) {
  Limits limits;
  limits.transaction_bytes_max = 1'000;
  reopen(limits);
  enqueue("work", key("7"), "w");
  const Lease lease = lease_one("work");
  const Bytes half(600, 'x');
  Send with_header = send("orders", unkeyed, "");
  with_header.headers = {{"h", half}};

  for (const Transaction& refused :
       {together(send("orders", unkeyed, half), send("orders", unkeyed, half)),
        together(with_header, with_header),
        together(send("orders", unkeyed, half), publication("t", unkeyed, half)),
        together(send("orders", unkeyed, half), write("state", "k", half)),
        together(append(lease, 1, 0, {half, half}))}) {
    expect_refused(store(), refused, too_large);
  }
  EXPECT_TRUE(apply(together(send("orders", unkeyed, half))));
}

// The default that the documents name.
// Rules: S19
TEST_P(StoreConformance, A_transaction_of_16_MiB_is_refused_by_default) {
  Transaction transaction;
  for (int i = 0; i < 17; ++i) {
    transaction.sends.push_back(send("orders", unkeyed, Bytes(std::size_t{1} << 20U, 'x')));
  }
  expect_refused(store(), transaction, too_large);
}

// --- One request ---

// A client that asked for a million would believe that it got all there is.
// Rules: S19
TEST_P(StoreConformance, A_lease_request_beyond_its_limits_is_refused_not_cut) {
  enqueue("orders", key("7"), "a");
  const Limits limits;
  expect_refused(store(), LeaseRequest{.queue = "orders", .lanes = limits.lease_lanes_max + 1},
                 limit_exceeded);
  expect_refused(store(),
                 LeaseRequest{.queue = "orders", .messages = limits.lease_messages_max + 1},
                 limit_exceeded);
  expect_refused(store(), LeaseRequest{.queue = "orders", .bytes = limits.lease_bytes_max + 1},
                 limit_exceeded);
  expect_refused(store(),
                 LeaseRequest{.queue = "orders",
                              .labels = std::vector<std::string>(limits.labels_max + 1, "l")},
                 limit_exceeded);
  EXPECT_THAT(lease({.queue = "orders",
                     .lanes = limits.lease_lanes_max,
                     .messages = limits.lease_messages_max,
                     .bytes = limits.lease_bytes_max}),
              SizeIs(1));
}

// The same for readers.
// Rules: S19
TEST_P(StoreConformance, A_page_beyond_its_limit_is_refused_not_cut) {
  enqueue("orders", key("7"), "a");
  const std::size_t limit = Limits{}.page_max + 1;
  EXPECT_EQ(
      Answer(store().peek({.queue = "orders", .key = {}, .state = {}, .after = {}, .limit = limit}))
          .error()
          .code,
      Errc::limit_exceeded);
  EXPECT_EQ(
      Answer(store().dead_letters({.queue = "orders", .after = {}, .limit = limit})).error().code,
      Errc::limit_exceeded);
  EXPECT_EQ(Answer(store().records({.space = "s", .prefix = {}, .after = {}, .limit = limit}))
                .error()
                .code,
            Errc::limit_exceeded);
  EXPECT_EQ(Answer(store().instances({.queue = "orders", .open = {}, .after = {}, .limit = limit}))
                .error()
                .code,
            Errc::limit_exceeded);
}

// --- One queue ---

// Backpressure: delayed messages take room like ready ones.
// Rules: S19
TEST_P(StoreConformance, A_full_queue_refuses_sends_until_there_is_room) {
  configure("orders", {.ttl = {}, .max_length = 2});
  enqueue("orders", unkeyed, "ready");
  enqueue("orders", key("7"), "delayed", {.delay = 1h});
  expect_refused(store(), together(send("orders", unkeyed, "third")), {.code = Errc::queue_full});

  ASSERT_EQ(drain("orders"), Bodies{"ready"});
  EXPECT_TRUE(try_enqueue("orders", unkeyed, "third"));
}

// A batch is taken or refused as a whole.
// Rules: S19
TEST_P(StoreConformance, A_batch_that_does_not_fit_a_queue_is_refused_whole) {
  configure("orders", {.ttl = {}, .max_length = 2});
  enqueue("orders", unkeyed, "a");
  expect_refused(store(), together(send("orders", unkeyed, "b"), send("orders", unkeyed, "c")),
                 {.code = Errc::queue_full});
}

// A worker that acks one message and sends the next must not deadlock on its own queue: settles
// come before sends.
// Rules: S19 S22
TEST_P(StoreConformance, An_ack_makes_room_for_a_send_of_the_same_transaction) {
  configure("orders", {.ttl = {}, .max_length = 1});
  enqueue("orders", unkeyed, "a");
  EXPECT_TRUE(apply(together(all_acked(lease_one("orders")), send("orders", unkeyed, "b"))));
  EXPECT_EQ(drain("orders"), Bodies{"b"});
}

// A poisoned queue must go on working.
// Rules: S19 S10
TEST_P(StoreConformance, Dead_letters_take_no_room_in_a_queue) {
  configure("orders", {.ttl = {}, .max_length = 1});
  const MessageId id = enqueue("orders", unkeyed, "a");
  ASSERT_TRUE(dead(lease_one("orders")));
  EXPECT_TRUE(try_enqueue("orders", unkeyed, "b"));
  // An operator's redrive is not bound by the length, or a full queue could not be repaired.
  redrive("orders", {id});
  EXPECT_EQ(stats("orders").ready, 2U);
}

// --- One store ---

// A key used as a queue name by mistake makes millions of queues.
// Rules: S19
TEST_P(StoreConformance, Queues_and_subscriptions_have_a_number_and_no_more) {
  Limits limits;
  limits.queues_max = 3;
  limits.subscriptions_max = 1;
  reopen(limits);
  ASSERT_TRUE(admin(Subscribe{"one", "t", {}}));
  enqueue("two", unkeyed, "a");
  const Refusal full{.code = ::testing::AnyOf(Errc::limit_exceeded, Errc::store_full)};
  expect_refused(store(), together(Subscribe{"two", "t", {}}), full);

  enqueue("three", unkeyed, "a");
  expect_refused(store(), together(send("four", unkeyed, "a")), full);
  expect_refused(store(), together(ConfigureQueue{"four", {}}), full);
  EXPECT_TRUE(try_enqueue("three", unkeyed, "b")) << "queues that exist are not concerned";
  ASSERT_TRUE(admin(RemoveQueue{"three"}));
  EXPECT_TRUE(try_enqueue("four", unkeyed, "a"));
}

// Ids are remembered exactly or not taken at all: forgetting one early would apply work twice.
// Rules: S19 S14
TEST_P(StoreConformance, Too_many_dedup_ids_fill_the_store_until_their_windows_end) {
  Limits limits;
  limits.dedup_ids_max = 2;
  reopen(limits);
  enqueue("orders", unkeyed, "a", {.dedup_id = "1"});
  enqueue("orders", unkeyed, "b", {.dedup_id = "2"});
  expect_refused(store(), together(send("orders", unkeyed, "c", {.dedup_id = "3"})),
                 {.code = Errc::store_full});
  EXPECT_TRUE(try_enqueue("orders", unkeyed, "a", {.dedup_id = "1"}).value().duplicate);
  EXPECT_TRUE(try_enqueue("orders", unkeyed, "d")) << "without an id there is nothing to remember";

  clock().advance(5min);
  EXPECT_FALSE(try_enqueue("orders", unkeyed, "c", {.dedup_id = "3"}).value().duplicate);
}

// The same for receipts.
// Rules: S19 S18
TEST_P(StoreConformance, Too_many_transaction_ids_fill_the_store_until_their_windows_end) {
  Limits limits;
  limits.transaction_ids_max = 2;
  reopen(limits);
  const auto numbered = [&](std::uint64_t number) {
    return together(
        TransactionId{.client = 1, .number = number, .time = now(), .lowest_unanswered = 1},
        send("orders", unkeyed, "a"));
  };
  const Transaction first = numbered(1);
  ASSERT_TRUE(apply(first));
  ASSERT_TRUE(apply(numbered(2)));
  expect_refused(store(), numbered(3), {.code = Errc::store_full});
  EXPECT_TRUE(apply(first)) << "a repeat needs no place";

  clock().advance(15min);
  EXPECT_TRUE(apply(numbered(3)));
}

// Sends bodies of 1000 bytes with what `more` adds, until they are refused.
template <class More>
Errc fill(Store& store, More more) {
  for (int i = 0; i < 20'000; ++i) {
    Transaction transaction = together(send("orders", key("full"), Bytes(1'000, 'x')));
    more(transaction);
    const Result<Receipt> receipt = store.apply(transaction);
    if (!receipt) return receipt.error().code;
  }
  return Errc::corrupt;  // took 20 MB with a limit of 64 KiB
}

// A full store must be able to drain: sends are refused, settles are not.
// Rules: S19
TEST_P(StoreConformance, A_store_full_of_messages_refuses_sends_and_takes_acks) {
  Limits limits;
  limits.memory_bytes_max = std::size_t{64} << 10U;
  reopen(limits);
  ASSERT_EQ(fill(store(), [](Transaction&) {}), Errc::store_full);
  EXPECT_TRUE(Error({.code = Errc::store_full, .message = {}}).retryable());

  EXPECT_TRUE(ack(lease_one("orders")));
  EXPECT_TRUE(try_enqueue("orders", key("7"), Bytes(1'000, 'x')));
}

// Workers that send on what they have settled are how a full store drains; but even they cannot
// fill it for ever.
// Rules: S19
TEST_P(StoreConformance, In_a_full_store_what_settles_may_send_up_to_a_second_limit) {
  Limits limits;
  limits.memory_bytes_max = std::size_t{64} << 10U;
  reopen(limits);
  enqueue("work", key("7"), "w");
  const Lease lease = lease_one("work");
  ASSERT_EQ(fill(store(), [](Transaction&) {}), Errc::store_full);

  ASSERT_TRUE(apply(together(settlement(lease, {}, Then::keep), send("work", key("7"), "next"))));
  EXPECT_EQ(
      fill(store(),
           [&](Transaction& transaction) { add(transaction, settlement(lease, {}, Then::keep)); }),
      Errc::store_full);
  EXPECT_TRUE(ack(lease)) << "what only settles is never refused";
}

}  // namespace
}  // namespace strand::conformance
