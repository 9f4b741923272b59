// Retries by the clock, and what becomes of those that fail for good.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <strand/dead_letters.h>

#include "queue/fixture.h"
#include "queue/hooked_store.h"

namespace strand::queue {
namespace {

TEST_P(QueueLibrary, Three_retries_at_the_configured_backoff_and_then_a_dead_letter) {
  DeadLetters dead(store(), "orders");
  const MessageId id = enqueue("orders", key("order-7"), "charge");
  std::vector<Failure> failures;
  for (const Duration wait : {Duration{1min}, Duration{5min}, Duration{30min}}) {
    const std::string reason = "no answer, " + format_duration(wait);
    EXPECT_TRUE(retry(lease_one("orders"), {}, reason));
    failures.push_back({.at = now(), .reason = reason});

    const Page<PeekedMessage> waiting = Answer(dead.in_backoff()).value();
    ASSERT_THAT(waiting.items, SizeIs(1));
    EXPECT_EQ(waiting.items[0].retry_at, now() + wait);
    EXPECT_EQ(waiting.items[0].last_reason, reason);
    EXPECT_EQ(waiting.items[0].attempts, failures.size());
    EXPECT_THAT(Answer(dead.list()).value().items, IsEmpty());

    clock().advance(wait - 1ms);
    EXPECT_THAT(lease_all("orders"), IsEmpty());
    clock().advance(1ms);
  }
  EXPECT_TRUE(retry(lease_one("orders"), {}, "no answer at all"));
  failures.push_back({.at = now(), .reason = "no answer at all"});

  const DeadLetter letter = Answer(dead.get(id)).value();
  EXPECT_EQ(letter.body, "charge");
  EXPECT_EQ(letter.queue, "orders");
  EXPECT_EQ(letter.key, "order-7");
  EXPECT_EQ(letter.attempts, 4U);
  EXPECT_EQ(letter.deliveries, 4U);
  EXPECT_EQ(letter.failures, failures);
  EXPECT_EQ(letter.reason, "no answer at all");
  EXPECT_EQ(letter.dead_at, now());
  EXPECT_THAT(Answer(dead.in_backoff()).value().items, IsEmpty());
}

TEST_P(QueueLibrary, Dead_letters_are_listed_page_by_page_in_the_order_of_ids) {
  const Ids made = kill("orders", {"a", "b", "c"}, "order-7");
  DeadLetters dead(store(), "orders");
  const Page<DeadLetter> first = Answer(dead.list({}, 2)).value();
  EXPECT_EQ(bodies(first.items), (Bodies{"a", "b"}));
  EXPECT_TRUE(first.more);
  const Page<DeadLetter> second = Answer(dead.list(first.items.back().id, 2)).value();
  EXPECT_EQ(bodies(second.items), Bodies{"c"});
  EXPECT_FALSE(second.more);
}

TEST_P(QueueLibrary, Each_visits_all_dead_letters_until_told_to_stop) {
  std::uint64_t count = 0;
  for (int i = 0; i < 25; ++i)
    count += kill("orders", {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}, "k").size();
  DeadLetters dead(store(), "orders");
  std::uint64_t seen = 0;
  std::optional<MessageId> last;
  EXPECT_TRUE(Answer(dead.each([&](const DeadLetter& letter) {
    EXPECT_TRUE(!last || *last < letter.id);
    last = letter.id;
    ++seen;
    return true;
  })));
  EXPECT_EQ(seen, count);
  seen = 0;
  EXPECT_TRUE(Answer(dead.each([&](const DeadLetter&) { return ++seen < 3; })));
  EXPECT_EQ(seen, 3U);
}

TEST_P(QueueLibrary, A_dead_letter_that_does_not_exist_is_not_found) {
  const Ids made = kill("orders", {"a"}, "k");
  DeadLetters dead(store(), "orders");
  EXPECT_EQ(Answer(dead.get(made[0])).value().body, "a");
  EXPECT_EQ(Answer(dead.get(MessageId{0})).error().code, Errc::not_found);
  EXPECT_EQ(Answer(dead.get(MessageId{std::to_underlying(made[0]) + 1})).error().code,
            Errc::not_found);
  EXPECT_EQ(Answer(DeadLetters(store(), "nowhere").list()).error().code, Errc::not_found);
  EXPECT_EQ(Answer(DeadLetters(store(), "nowhere").redrive_all()).error().code, Errc::not_found);
}

// Redriven ones take their old places: in front of what came later, whatever the order they are
// named in.
TEST_P(QueueLibrary, Redriven_messages_are_in_their_old_places_with_no_attempts) {
  const Ids made = kill("orders", {"a", "b"}, "order-7");
  enqueue("orders", key("order-7"), "c");
  DeadLetters dead(store(), "orders");
  EXPECT_EQ(Answer(dead.redrive({made[1], made[0]})).value(), 2U);
  const Lease lease = lease_one("orders");
  EXPECT_EQ(bodies(lease), (Bodies{"a", "b", "c"}));
  EXPECT_EQ(lease.messages.at(0).attempts, 0U);
  EXPECT_THAT(Answer(dead.list()).value().items, IsEmpty());
}

// The order of a lane is not that of ids when messages had delays.
TEST_P(QueueLibrary, Dead_letters_go_to_another_queue_in_the_order_of_their_lane) {
  enqueue("orders", key("order-7"), "second", {.delay = 10s});
  enqueue("orders", key("order-7"), "first");
  clock().advance(10s);
  const Lease lease = lease_one("orders");
  ASSERT_EQ(bodies(lease), (Bodies{"first", "second"}));
  const Ids in_order = ids(lease);
  EXPECT_TRUE(
      settle(lease, {conformance::made_dead(in_order[0]), conformance::made_dead(in_order[1])}));
  DeadLetters dead(store(), "orders");
  EXPECT_EQ(Answer(dead.redrive({in_order[1], in_order[0]}, "again")).value(), 2U);
  EXPECT_EQ(bodies(lease_one("again")), (Bodies{"first", "second"}));
  EXPECT_EQ(stats("orders").moved, 2U);
}

TEST_P(QueueLibrary, All_dead_letters_are_redriven_to_another_queue_in_slices_and_in_order) {
  const Bytes large(700'000, 'x');
  Bodies sent;
  for (char c = 'a'; c < 'a' + 14; ++c) {  // 9.8 MB: more than two slices
    sent.push_back(c + large);
    kill("orders", {sent.back()}, "order-7");
  }
  DeadLetters dead(store(), "orders");
  EXPECT_EQ(Answer(dead.redrive_all("again")).value(), sent.size());
  Bodies moved;
  for (const PeekedMessage& message : peek_lane("again", "order-7"))
    moved.push_back(message.body);
  EXPECT_EQ(moved, sent);
  EXPECT_EQ(stats("orders").dead, 0U);
}

// More bytes than one transaction may have, named one by one.
TEST_P(QueueLibrary, Named_dead_letters_go_to_another_queue_in_slices_too) {
  Limits small;
  small.transaction_bytes_max = std::size_t{5} << 20U;
  reopen(small);
  const Bytes large(1'000'000, 'x');
  Ids made;
  for (int i = 0; i < 6; ++i)
    made.push_back(kill("orders", {large}, "order-7").at(0));
  DeadLetters dead(store(), "orders");
  EXPECT_EQ(Answer(dead.redrive(made, "again")).value(), 6U);
  EXPECT_EQ(stats("again").ready, 6U);
}

TEST_P(QueueLibrary, More_than_a_thousand_dead_letters_are_redriven_and_dropped) {
  constexpr std::size_t count = 1'203;
  Transaction sends;
  for (std::size_t i = 0; i < count; ++i)
    sends.sends.push_back(conformance::send("orders", key("k"), std::to_string(i)));
  std::ignore = apply(sends).value();
  const auto kill_all = [&] {
    const Lease lease = this->lease({.queue = "orders", .messages = 5'000}).at(0);
    std::vector<Outcome> outcomes;
    for (const Message& message : lease.messages)
      outcomes.push_back(conformance::made_dead(message.id));
    std::ignore = settle(lease, std::move(outcomes)).value();
  };
  kill_all();
  DeadLetters dead(store(), "orders");
  EXPECT_EQ(Answer(dead.redrive_all()).value(), count);
  EXPECT_EQ(stats("orders").ready, count);
  kill_all();
  EXPECT_EQ(Answer(dead.drop_all()).value(), count);
  EXPECT_EQ(stats("orders").dropped, count);
  EXPECT_EQ(Answer(dead.drop_all()).value(), 0U);
}

// Somebody drops one after the list was made: the others are redriven.
TEST_P(QueueLibrary, Redriving_all_passes_over_those_that_others_end_meanwhile) {
  const Ids made = kill("orders", {"a", "b", "c"}, "k");
  HookedStore hooked(store());
  bool first = true;
  hooked.before_apply = [&](std::span<const Transaction>) -> std::optional<Error> {
    if (std::exchange(first, false)) {
      EXPECT_TRUE(Answer(DeadLetters(store(), "orders").drop({made[1]})));
    }
    return std::nullopt;
  };
  EXPECT_EQ(Answer(DeadLetters(hooked, "orders").redrive_all()).value(), 2U);
  EXPECT_EQ(bodies(lease_one("orders")), (Bodies{"a", "c"}));
}

// What was done before a failure is done, and the error says so.
TEST_P(QueueLibrary, A_failure_says_how_many_were_redriven_before_it) {
  const Bytes large(1'000'000, 'x');
  for (int i = 0; i < 6; ++i)
    kill("orders", {large}, "k");
  HookedStore hooked(store());
  int calls = 0;
  hooked.before_apply = [&](std::span<const Transaction>) -> std::optional<Error> {
    if (++calls == 1) return std::nullopt;
    return Error{.code = Errc::store_full, .message = "the disk is full"};
  };
  const Error error = Answer(DeadLetters(hooked, "orders").redrive_all("again")).error();
  EXPECT_EQ(error.code, Errc::store_full);
  EXPECT_EQ(error.message, "the disk is full (4 done before it)");
  EXPECT_EQ(stats("again").ready, 4U);
  EXPECT_EQ(stats("orders").dead, 2U);
}

// Two people press the same button: each letter is redriven once, and neither of them is told off.
TEST_P(QueueLibrary, All_are_redriven_by_two_at_once_and_each_only_once) {
  for (int i = 0; i < 30; ++i)
    kill("orders", {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}, "k");
  std::uint64_t mine = 0;
  std::uint64_t yours = 0;
  {
    const auto redrive_all = [&](std::uint64_t& count) {
      count = DeadLetters(store(), "orders").redrive_all("again").value();
    };
    const std::jthread one([&] { redrive_all(mine); });
    const std::jthread other([&] { redrive_all(yours); });
  }
  EXPECT_EQ(mine + yours, 300U);
  EXPECT_EQ(stats("again").ready, 300U);
}

TEST_P(QueueLibrary, An_unknown_id_leaves_all_dead_letters_where_they_are) {
  const Ids made = kill("orders", {"a", "b"}, "k");
  const MessageId unknown{std::to_underlying(made[1]) + 100};
  DeadLetters dead(store(), "orders");
  EXPECT_EQ(Answer(dead.redrive({made[0], unknown})).error().code, Errc::not_found);
  EXPECT_EQ(Answer(dead.redrive({made[0], unknown}, "again")).error().code, Errc::not_found);
  EXPECT_EQ(Answer(dead.drop({made[0], unknown})).error().code, Errc::not_found);
  EXPECT_EQ(stats("orders").dead, 2U);
  EXPECT_FALSE(has_queue("again"));
}

TEST_P(QueueLibrary, Dropped_dead_letters_are_gone_and_the_others_stay) {
  const Ids made = kill("orders", {"a", "b", "c"}, "k");
  DeadLetters dead(store(), "orders");
  EXPECT_EQ(Answer(dead.drop({made[0], made[2]})).value(), 2U);
  EXPECT_EQ(bodies(Answer(dead.list()).value().items), Bodies{"b"});
  EXPECT_EQ(Answer(dead.drop({})).value(), 0U);
  EXPECT_EQ(stats("orders").dropped, 2U);
}

TEST_P(QueueLibrary, Messages_in_backoff_are_listed_page_by_page) {
  for (const char* const lane : {"x", "y", "z"}) {
    enqueue("orders", key(lane), lane);
    EXPECT_TRUE(retry(lease_key("orders", lane), 10s));
  }
  enqueue("orders", key("fine"), "fine");
  DeadLetters dead(store(), "orders");
  const Page<PeekedMessage> first = Answer(dead.in_backoff({}, 2)).value();
  EXPECT_EQ(bodies(first.items), (Bodies{"x", "y"}));
  EXPECT_TRUE(first.more);
  const Page<PeekedMessage> rest = Answer(dead.in_backoff(first.items.back().id, 2)).value();
  EXPECT_EQ(bodies(rest.items), Bodies{"z"});
  EXPECT_EQ(rest.items.at(0).retry_at, now() + 10s);
}

}  // namespace
}  // namespace strand::queue
