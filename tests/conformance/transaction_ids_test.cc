// S18: a transaction that carries an id can be repeated.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "conformance/parts.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

constexpr std::uint64_t client = 77;

// An id made now, by a client that has no answer to anything yet.
TransactionId id_at(Time time, std::uint64_t number, std::uint64_t lowest_unanswered = 1) {
  return {.client = client, .number = number, .time = time, .lowest_unanswered = lowest_unanswered};
}

// The reply was lost: the client asks again, and the work must not be done again.
// Rules: S18
TEST_P(StoreConformance, A_repeated_transaction_returns_its_receipt_and_does_nothing) {
  const Transaction transaction =
      together(id_at(now(), 1), send("orders", unkeyed, "a"), write("state", "k", "v"));
  const Receipt first = apply(transaction).value();
  clock().advance(1min);

  const Receipt again = apply(transaction).value();
  EXPECT_EQ(again, first);
  EXPECT_EQ(stats("orders").accepted, 1U);
  EXPECT_EQ(read_record(store(), "state", "k").version, first.versions.at(0));
}

// A client's send buffer may hold the first try and the second.
// Rules: S18
TEST_P(StoreConformance, A_transaction_repeated_in_one_batch_is_applied_once) {
  const Transaction transaction = together(id_at(now(), 1), send("orders", unkeyed, "a"));
  const std::array batch = {transaction, transaction};
  const std::vector<Result<Receipt>> results = store().apply(batch);
  ASSERT_THAT(results, SizeIs(2));
  EXPECT_EQ(Answer<Receipt>(results[0]).value(), Answer<Receipt>(results[1]).value());
  EXPECT_EQ(stats("orders").accepted, 1U);
}

// The id is looked up before anything else: the lease that the first try ended is gone by now,
// and `lease_lost` would make the client believe that its ack had failed.
// Rules: S18 S5
TEST_P(StoreConformance, A_repeated_ack_succeeds_although_its_lease_is_over) {
  enqueue("orders", key("7"), "a");
  const Lease lease = lease_one("orders");
  const Transaction transaction = together(id_at(now(), 1), all_acked(lease));
  const Receipt first = apply(transaction).value();

  EXPECT_EQ(apply(transaction).value(), first);
  EXPECT_EQ(stats("orders").acked, 1U);
}

// The same for a version that is not the expected one any more, because the first try wrote it.
// Rules: S18
TEST_P(StoreConformance, A_repeated_transaction_is_not_judged_by_the_state_that_it_made) {
  configure("orders", {.ttl = {}, .max_length = 1});
  const Transaction transaction =
      together(id_at(now(), 1), send("orders", unkeyed, "a", {.name = "n"}),
               write("state", "k", "v", Version{0}));
  const Receipt first = apply(transaction).value();

  // The name is taken, the queue is full, the record exists: all by the first try.
  EXPECT_EQ(apply(transaction).value(), first);
}

// Two transactions under one id is a bug of the client: better an error than a lost one.
// Rules: S18
TEST_P(StoreConformance, Other_content_under_a_used_id_is_a_conflict_and_does_nothing) {
  ASSERT_TRUE(apply(together(id_at(now(), 1), send("orders", unkeyed, "a"))));

  EXPECT_EQ(apply(together(id_at(now(), 1), send("orders", unkeyed, "b"))).error().code,
            Errc::transaction_conflict);
  EXPECT_EQ(drain("orders"), Bodies{"a"});
}

// One byte anywhere is other content: a header, an expected version, a delay.
// Rules: S18
TEST_P(StoreConformance, A_conflict_is_found_in_every_part) {
  enqueue("work", key("7"), "w", {.name = "other"});
  const Lease lease = lease_one("work");
  const Transaction first =
      together(id_at(now(), 1), append(lease, 1, 0, {"e"}), trim(lease, 1, 0),
               settlement(lease, {}, Then::keep), Cancel{"work", "n"}, send("orders", unkeyed, "a"),
               publication("t", unkeyed, "p"), write("state", "k", "v"));
  ASSERT_TRUE(apply(first));

  std::vector<Transaction> others(9, first);
  others[0].appends[0].events = {"f"};
  others[1].settles[0].then = Then::end;
  others[2].cancels[0].name = "other";
  others[3].sends[0].headers = {{"h", ""}};
  others[4].publishes[0].topic = "u";
  others[5].records[0].expected = Version{0};
  others[6].sends[0].priority = Priority::low;
  others[7].sends.push_back(others[7].sends[0]);
  others[8].trim_histories[0].before = 1;
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_EQ(apply(others[i]).error().code, Errc::transaction_conflict) << "number " << i;
  }
  EXPECT_TRUE(apply(first));
}

// How hard the disk has to work is no part of what the client wants to happen.
// Rules: S18 S1
TEST_P(StoreConformance, A_repeat_with_another_durability_is_a_repeat) {
  Transaction transaction = together(id_at(now(), 1), send("orders", unkeyed, "a"));
  const Receipt first = apply(transaction).value();
  transaction.durability = Durability::async;
  EXPECT_EQ(apply(transaction).value(), first);
}

// Two clients count for themselves.
// Rules: S18
TEST_P(StoreConformance, The_same_number_of_two_clients_is_two_transactions) {
  TransactionId other = id_at(now(), 1);
  other.client = client + 1;
  ASSERT_TRUE(apply(together(id_at(now(), 1), send("orders", unkeyed, "a"))));
  ASSERT_TRUE(apply(together(other, send("orders", unkeyed, "b"))));
  EXPECT_EQ(drain("orders"), (Bodies{"a", "b"}));
}

// A client sends in parallel; its requests arrive in any order.
// Rules: S18
TEST_P(StoreConformance, Numbers_need_not_arrive_in_order) {
  ASSERT_TRUE(apply(together(id_at(now(), 5), send("orders", unkeyed, "five"))));
  ASSERT_TRUE(apply(together(id_at(now(), 3), send("orders", unkeyed, "three"))));
  EXPECT_EQ(stats("orders").accepted, 2U);
}

// A transaction that failed may be corrected and sent again under its number.
// Rules: S18
TEST_P(StoreConformance, A_failed_transaction_leaves_its_id_free) {
  ASSERT_EQ(apply(together(id_at(now(), 1), write("state", "k", "v", Version{99}))).error().code,
            Errc::version_mismatch);

  ASSERT_TRUE(apply(together(id_at(now(), 1), write("state", "k", "w"))));
  EXPECT_EQ(read_record(store(), "state", "k").value, "w");
}

// A failure is no receipt: it is judged anew, by the state of now.
// Rules: S18
TEST_P(StoreConformance, The_repeat_of_a_failed_transaction_may_succeed) {
  const Transaction transaction =
      together(id_at(now(), 1), send("orders", unkeyed, "a", {.name = "n"}));
  enqueue("orders", unkeyed, "in the way", {.name = "n"});
  ASSERT_EQ(apply(transaction).error().code, Errc::name_taken);
  ASSERT_TRUE(cancel("orders", "n"));

  EXPECT_TRUE(apply(transaction));
  EXPECT_EQ(drain("orders"), Bodies{"a"});
}

// After the window nobody knows whether the id was used: it must never be applied.
// Rules: S18 S17
TEST_P(StoreConformance, An_id_is_refused_from_the_end_of_its_window_on) {
  const Transaction used = together(id_at(now(), 1), send("orders", unkeyed, "used"));
  const Transaction fresh = together(id_at(now(), 2), send("orders", unkeyed, "fresh"));
  const Receipt first = apply(used).value();

  clock().advance(15min - 1ms);
  EXPECT_EQ(apply(used).value(), first);

  clock().advance(1ms);
  EXPECT_EQ(apply(used).error().code, Errc::transaction_expired);
  EXPECT_EQ(apply(fresh).error().code, Errc::transaction_expired);
  EXPECT_EQ(drain("orders"), Bodies{"used"});
}

// The store has forgotten the client with its last receipt, and refuses its old ids all the same.
// Rules: S18 S17
TEST_P(StoreConformance, An_old_id_is_refused_when_its_client_is_forgotten) {
  const Transaction used = together(id_at(now(), 1), send("orders", unkeyed, "used"));
  ASSERT_TRUE(apply(used));
  clock().advance(24h);
  EXPECT_EQ(apply(used).error().code, Errc::transaction_expired);
  reopen();
  EXPECT_EQ(apply(used).error().code, Errc::transaction_expired);
  EXPECT_EQ(drain("orders"), Bodies{"used"});
}

// A request that was stuck somewhere on its way for a while is still good.
// Rules: S18 S17
TEST_P(StoreConformance, An_old_id_inside_the_window_is_applied) {
  const Transaction stuck = together(id_at(now(), 1), send("orders", unkeyed, "a"));
  clock().advance(15min - 1ms);
  EXPECT_TRUE(apply(stuck));
  EXPECT_EQ(drain("orders"), Bodies{"a"});
}

// An id from far ahead would be remembered for ever.
// Rules: S18
TEST_P(StoreConformance, An_id_from_the_far_future_is_refused) {
  EXPECT_EQ(
      apply(together(id_at(now() + 15min + 1ms, 1), send("orders", unkeyed, "a"))).error().code,
      Errc::invalid_argument);
  EXPECT_TRUE(apply(together(id_at(now() + 15min, 1), send("orders", unkeyed, "b"))));
  EXPECT_EQ(drain("orders"), Bodies{"b"});
}

// What the client has answers for it will not repeat: the store may forget, and must refuse.
// Rules: S18
TEST_P(StoreConformance, Numbers_below_the_lowest_unanswered_are_refused_from_then_on) {
  const Transaction first = together(id_at(now(), 1), send("orders", unkeyed, "1"));
  ASSERT_TRUE(apply(first));
  ASSERT_TRUE(apply(together(id_at(now(), 4, 3), send("orders", unkeyed, "4"))));

  EXPECT_EQ(apply(first).error().code, Errc::transaction_expired);
  EXPECT_EQ(apply(together(id_at(now(), 2), send("orders", unkeyed, "2"))).error().code,
            Errc::transaction_expired);
  EXPECT_TRUE(apply(together(id_at(now(), 3), send("orders", unkeyed, "3"))))
      << "3 is the lowest one without an answer";
  EXPECT_EQ(drain("orders"), (Bodies{"1", "4", "3"}));
}

// Its client still waits for the answer, and will ask for it again.
// Rules: S18
TEST_P(StoreConformance, The_receipt_of_the_lowest_unanswered_number_is_kept) {
  const Transaction second = together(id_at(now(), 2, 1), send("orders", unkeyed, "2"));
  const Receipt answer = apply(second).value();
  ASSERT_TRUE(apply(together(id_at(now(), 3, 2), send("orders", unkeyed, "3"))));
  EXPECT_EQ(apply(second).value(), answer);
  EXPECT_EQ(drain("orders"), (Bodies{"2", "3"}));
}

// It is one client's promise about its own numbers.
// Rules: S18
TEST_P(StoreConformance, The_lowest_unanswered_number_of_one_client_binds_no_other) {
  TransactionId other = id_at(now(), 1);
  other.client = client + 1;
  ASSERT_TRUE(apply(together(id_at(now(), 9, 9), send("orders", unkeyed, "a"))));
  EXPECT_TRUE(apply(together(other, send("orders", unkeyed, "b"))));
}

// A late request with an old promise must not bring forgotten numbers back to life.
// Rules: S18
TEST_P(StoreConformance, The_lowest_unanswered_number_never_falls) {
  ASSERT_TRUE(apply(together(id_at(now(), 5, 5), send("orders", unkeyed, "5"))));
  ASSERT_TRUE(apply(together(id_at(now(), 6, 1), send("orders", unkeyed, "6"))));
  EXPECT_EQ(apply(together(id_at(now(), 4, 1), send("orders", unkeyed, "4"))).error().code,
            Errc::transaction_expired);
}

// A failed transaction stores nothing, its client's promise included.
// Rules: S18
TEST_P(StoreConformance, A_failed_transaction_does_not_raise_the_lowest_unanswered_number) {
  const Transaction first = together(id_at(now(), 1), send("orders", unkeyed, "1"));
  const Receipt receipt = apply(first).value();
  ASSERT_EQ(apply(together(id_at(now(), 9, 9), write("state", "k", "v", Version{99}))).error().code,
            Errc::version_mismatch);
  EXPECT_EQ(apply(first).value(), receipt);
}

// The client got other answers between its first try and the repeat, and says so in the id.
// Rules: S18
TEST_P(StoreConformance, A_repeat_may_bring_a_higher_lowest_unanswered_number) {
  Transaction transaction = together(id_at(now(), 3, 1), send("orders", unkeyed, "a"));
  const Receipt first = apply(transaction).value();
  transaction.id->lowest_unanswered = 3;
  EXPECT_EQ(apply(transaction).value(), first);
  EXPECT_EQ(stats("orders").accepted, 1U);
}

// It contradicts itself: it says that it has its own answer already.
// Rules: S18
TEST_P(StoreConformance, An_id_below_its_own_lowest_unanswered_number_is_refused) {
  EXPECT_EQ(apply(together(id_at(now(), 1, 2), send("orders", unkeyed, "a"))).error().code,
            Errc::invalid_argument);
  EXPECT_THAT(Answer(store().queues()).value(), IsEmpty());
}

// Administration is repeated by impatient operators and by scripts: a second redrive of what has
// died again since would be another decision.
// Rules: S18 S10
TEST_P(StoreConformance, A_repeated_administration_is_applied_once) {
  const MessageId id = enqueue("orders", unkeyed, "a");
  ASSERT_TRUE(dead(lease_one("orders")));
  const Transaction redriving = together(id_at(now(), 1), Redrive{"orders", {id}, {}});
  const Receipt first = apply(redriving).value();
  EXPECT_EQ(first.affected, 1U);
  ASSERT_TRUE(dead(lease_one("orders")));

  EXPECT_EQ(apply(redriving).value(), first);
  EXPECT_EQ(stats("orders").dead, 1U) << "the second death stands";
}

// The receipt is the first one, to the letter.
// Rules: S18 S14
TEST_P(StoreConformance, A_repeat_returns_duplicates_as_they_were_reported_first) {
  const Transaction transaction =
      together(id_at(now(), 1), send("orders", unkeyed, "a", {.dedup_id = "d"}));
  EXPECT_FALSE(apply(transaction).value().sent.at(0).duplicate);
  EXPECT_FALSE(apply(transaction).value().sent.at(0).duplicate)
      << "it is this transaction's own message, not a duplicate of it";
}

}  // namespace
}  // namespace strand::conformance
