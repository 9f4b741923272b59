// Bad input: each has a clear error, and leaves the store unharmed.
//
// Every test here fills the store with something of everything first, and compares all that the
// store shows of itself before and after each refused request.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conformance/parts.h"
#include "conformance/snapshot.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

const Refusal invalid_argument{.code = Errc::invalid_argument};
const Refusal invalid_token{.code = Errc::invalid_token};
const Refusal lease_lost{.code = Errc::lease_lost};

const Duration longest = Duration::max();
const Duration most_negative = Duration::min();

// Something of everything, so that harm would show.
Transaction furniture() {
  return together(send("orders", key("7"), "ready", {.label = "gpu", .name = "named"}),
                  send("orders", unkeyed, "alone"),
                  send("orders", key("8"), "delayed", {.delay = 1h}),
                  write(std::string(state_space), "k", "v"));
}

// Names of queues, topics, labels and owners are text that people read.
const std::vector<std::string> bad_names = {
    "",
    std::string("a\0b", 3),
    "a\nb",
    "a\x7f",
    "\x1b[31m",
    "\xff",
    "\xc3",              // a cut sequence
    "\xc0\xaf",          // overlong "/"
    "\xed\xa0\x80",      // a surrogate
    "\xf4\x90\x80\x80",  // beyond U+10FFFF
};

// A name with a newline forges log lines; one that is no text breaks every tool.
// Rules: S19 Input
TEST_P(StoreConformance, A_bad_queue_name_is_refused_wherever_it_stands) {
  ASSERT_TRUE(apply(furniture()));
  for (const std::string& bad : bad_names) {
    SCOPED_TRACE(::testing::PrintToString(bad));
    expect_refused(store(), together(send(bad, unkeyed, "a")), invalid_argument);
    expect_refused(store(),
                   together(send("orders", unkeyed, "a", {.dead_notice_to = Address{bad, {}}})),
                   invalid_argument);
    expect_refused(store(), together(ConfigureQueue{bad, {}}), invalid_argument);
    expect_refused(store(), together(Subscribe{bad, "t", {}}), invalid_argument);
    // A name that no queue can have is wrong in itself, and names no queue either.
    EXPECT_THAT(try_lease({.queue = bad}).error().code,
                ::testing::AnyOf(Errc::invalid_argument, Errc::not_found));
  }
}

// A pattern that means nothing would be a subscription that never gets anything.
// Rules: S19 S15 Input
TEST_P(StoreConformance, A_bad_topic_or_pattern_is_refused) {
  ASSERT_TRUE(apply(furniture()));
  std::vector<std::string> bad_topics = bad_names;
  for (const char* bad : {".", "a.", ".a", "a..b"}) {
    bad_topics.emplace_back(bad);
  }
  for (const std::string& bad : bad_topics) {
    SCOPED_TRACE(::testing::PrintToString(bad));
    expect_refused(store(), together(publication(bad, unkeyed, "a")), invalid_argument);
    expect_refused(store(), together(Subscribe{"q", bad, {}}), invalid_argument);
    expect_refused(store(), together(ConfigureTopic{bad, {}}), invalid_argument);
  }
  // Wildcards are whole segments of patterns, the hash at the end only.
  for (const char* bad : {"a.#.b", "#.a", "a*", "*a", "a.b#", "##", "**"}) {
    SCOPED_TRACE(bad);
    expect_refused(store(), together(Subscribe{"q", bad, {}}), invalid_argument);
  }
  for (const char* bad : {"*", "#", "a.*", "a.#", "*.a"}) {
    SCOPED_TRACE(bad);
    expect_refused(store(), together(publication(bad, unkeyed, "a")), invalid_argument);
    expect_refused(store(), together(ConfigureTopic{bad, {}}), invalid_argument);
  }
}

// Labels and owners are shown and compared like names.
// Rules: S19 Input
TEST_P(StoreConformance, A_bad_label_or_owner_is_refused) {
  ASSERT_TRUE(apply(furniture()));
  const Lease lease = lease_key("orders", "7");
  for (const std::string& bad : bad_names) {
    if (bad.empty()) continue;  // "" stands for no label, and for nobody in particular
    SCOPED_TRACE(::testing::PrintToString(bad));
    expect_refused(store(), together(send("orders", key("9"), "a", {.label = bad})),
                   invalid_argument);
    expect_refused(store(), LeaseRequest{.queue = "orders", .labels = {bad}}, invalid_argument);
    expect_refused(store(), LeaseRequest{.queue = "orders", .owner = bad}, invalid_argument);
    Settle labelling = settlement(lease, {}, Then::keep);
    labelling.label = bad;
    expect_refused(store(), together(labelling), invalid_argument);
    Settle hinting = settlement(lease, {}, Then::keep);
    hinting.owner_hint = OwnerHint{.owner = bad, .valid_for = 1min, .grace = 1s};
    expect_refused(store(), together(hinting), invalid_argument);
  }
}

// An empty key is a bug of the sender: all its orders would share one lane.
// Rules: S19 Input
TEST_P(StoreConformance, Empty_keys_names_and_ids_are_refused) {
  ASSERT_TRUE(apply(furniture()));
  expect_refused(store(), together(send("orders", key(""), "a")), invalid_argument);
  expect_refused(store(), together(publication("t", key(""), "a")), invalid_argument);
  expect_refused(store(), together(send("orders", unkeyed, "a", {.name = ""})), invalid_argument);
  expect_refused(store(), together(send("orders", unkeyed, "a", {.dedup_id = ""})),
                 invalid_argument);
  expect_refused(store(),
                 together(send("orders", unkeyed, "a", {.dead_notice_to = Address{"q", ""}})),
                 invalid_argument);
  for (const Address& nowhere : {Address{"", std::nullopt}, Address{"q", ""}}) {
    QueueSettings settings;
    settings.dead_notice_to = nowhere;
    expect_refused(store(), together(ConfigureQueue{"orders", settings}), invalid_argument);
  }
  expect_refused(store(), together(send("orders", unkeyed, "a", {.headers = {{"", "v"}}})),
                 invalid_argument);
  expect_refused(store(), together(write("", "k", "v")), invalid_argument);
  expect_refused(store(), together(write("state", "", "v")), invalid_argument);
  expect_refused(store(), LeaseRequest{.queue = "orders", .key = ""}, invalid_argument);
}

// Keys come from other systems: bytes are bytes, and no two of them are the same lane.
// Rules: S19 Input
TEST_P(StoreConformance, Keys_of_any_bytes_are_lanes_of_their_own) {
  const std::vector<std::string> keys = {"a",
                                         std::string("a\0", 2),
                                         std::string("a\0b", 3),
                                         std::string("\0", 1),
                                         std::string("\0\0", 2),
                                         "\xff\xfe",
                                         "\xc3\xa9",
                                         "e\xcc\x81",
                                         "'; DROP TABLE lanes; --",
                                         "%",
                                         "A",
                                         " a",
                                         "a\n"};
  for (const std::string& one : keys) {
    enqueue("orders", key(one), one);
  }
  EXPECT_EQ(stats("orders").lanes_ready, keys.size());
  for (const std::string& one : keys) {
    const Lease lease = lease_key("orders", one);
    EXPECT_EQ(lease.key, one);
    EXPECT_EQ(bodies(lease), Bodies{one});
  }
}

// Names of queues in any language, as long as they are text.
// Rules: S19 Input
TEST_P(StoreConformance, Queue_names_are_any_text) {
  for (const char* name : {"bestellungen/\xc3\xbc\x62\x65r", "\xe6\xb3\xa8\xe6\x96\x87",
                           "\xf0\x9f\x9a\x9a", "a b", "A", "a", "%", "'", "..", "#"}) {
    enqueue(name, unkeyed, name);
    EXPECT_EQ(drain(name), Bodies{name});
  }
}

// --- Durations ---

// now + delay must not wrap around: a message from the year -292 million is due at once.
// Rules: S19 Input
TEST_P(StoreConformance, A_negative_or_huge_delay_or_TTL_is_refused) {
  ASSERT_TRUE(apply(furniture()));
  for (const Duration bad : {Duration{-1}, most_negative, longest, Limits{}.delay_max + 1ms}) {
    SCOPED_TRACE(bad.count());
    expect_refused(store(), together(send("orders", unkeyed, "a", {.delay = bad})), out_of_range());
    expect_refused(store(), together(send("orders", unkeyed, "a", {.ttl = bad})), out_of_range());
    Publish delayed = publication("t", unkeyed, "a");
    delayed.delay = bad;
    expect_refused(store(), together(delayed), out_of_range());
    Publish brief = publication("t", unkeyed, "a");
    brief.ttl = bad;
    expect_refused(store(), together(brief), out_of_range());
  }
  EXPECT_TRUE(try_enqueue("orders", unkeyed, "in ten years", {.delay = Limits{}.delay_max}));
}

// A lease without an end locks its lane for good; one without a length gives it to two.
// Rules: S19 Input
TEST_P(StoreConformance, A_negative_or_huge_lease_is_refused) {
  ASSERT_TRUE(apply(furniture()));
  const Lease lease = lease_key("orders", "7");
  for (const Duration bad : {Duration{0}, Duration{-1}, most_negative, longest, 24h + 1ms}) {
    SCOPED_TRACE(bad.count());
    expect_refused(store(), LeaseRequest{.queue = "orders", .lease = bad}, out_of_range());
    expect_renew_refused(store(), lease.token, bad, out_of_range());
  }
  EXPECT_TRUE(renew(lease, 24h));
  EXPECT_TRUE(renew(lease, 1ms));
}

// A retry that is never due is a lost message.
// Rules: S19 Input
TEST_P(StoreConformance, A_negative_or_huge_retry_delay_is_refused) {
  ASSERT_TRUE(apply(furniture()));
  const Lease lease = lease_key("orders", "7");
  const MessageId id = lease.messages.at(0).id;
  for (const Duration bad : {Duration{-1}, most_negative, longest}) {
    SCOPED_TRACE(bad.count());
    expect_refused(store(), together(settlement(lease, {retried(id, bad)})), out_of_range());
  }
}

// A hint for ever would starve all others.
// Rules: S19 Input
TEST_P(StoreConformance, A_negative_or_huge_owner_hint_is_refused) {
  ASSERT_TRUE(apply(furniture()));
  const Lease lease = lease_key("orders", "7");
  for (const auto& [valid_for, grace] : {std::pair<Duration, Duration>{Duration{-1}, 0ms},
                                         {longest, 0ms},
                                         {1min, Duration{-1}},
                                         {1min, 1s + 1ms},
                                         {1min, longest}}) {
    SCOPED_TRACE(std::to_string(valid_for.count()) + ", " + std::to_string(grace.count()));
    Settle hinting = settlement(lease, {}, Then::keep);
    hinting.owner_hint = OwnerHint{.owner = "me", .valid_for = valid_for, .grace = grace};
    expect_refused(store(), together(hinting), out_of_range());
  }
}

// Settings are durable: a wrong one would be wrong for ever.
// Rules: S19 Input
TEST_P(StoreConformance, Settings_out_of_range_are_refused) {
  ASSERT_TRUE(apply(furniture()));
  std::vector<QueueSettings> wrong;
  for (const Duration bad : {Duration{-1}, most_negative, longest}) {
    wrong.resize(wrong.size() + 5);
    QueueSettings* settings = &wrong[wrong.size() - 5];
    settings[0].backoff = {1s, bad};
    settings[1].ttl = bad;
    settings[2].dedup_window = bad;
    settings[3].lease = bad;
    settings[4].starvation_after = bad;
  }
  wrong.resize(wrong.size() + 6);
  QueueSettings* settings = &wrong[wrong.size() - 6];
  settings[5].backoff_jitter_percent = 101;
  settings[0].backoff = std::vector<Duration>(Limits{}.backoff_steps_max + 1, 1s);
  settings[1].lease = Duration{0};
  settings[2].retry_policy = static_cast<RetryPolicy>(2);
  settings[3].on_exhausted = static_cast<OnExhausted>(255);
  settings[4].on_expired = static_cast<OnExpired>(2);
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    SCOPED_TRACE("settings number " + std::to_string(i));
    expect_refused(store(), together(ConfigureQueue{"orders", wrong[i]}), out_of_range());
  }
  for (const Duration bad : {Duration{-1}, longest}) {
    expect_refused(store(), together(ConfigureTopic{"t", {.retain = bad}}), out_of_range());
  }
}

// --- Values that their type allows and the contract does not ---

// A priority is an index somewhere: beyond the table is beyond memory.
// Rules: S19 S12 Input
TEST_P(StoreConformance, A_priority_out_of_range_is_refused) {
  ASSERT_TRUE(apply(furniture()));
  for (const int bad : {4, 5, 127, 255}) {
    const auto priority = static_cast<Priority>(bad);
    expect_refused(store(), together(send("orders", unkeyed, "a", {.priority = priority})),
                   invalid_argument);
    Publish publish = publication("t", unkeyed, "a");
    publish.priority = priority;
    expect_refused(store(), together(publish), invalid_argument);
  }
}

// Enumerations come from the network as numbers.
// Rules: S19 Input
TEST_P(StoreConformance, Unknown_kinds_of_outcomes_and_endings_are_refused) {
  ASSERT_TRUE(apply(furniture()));
  const Lease lease = lease_key("orders", "7");
  Outcome outcome = acked(lease.messages.at(0).id);
  outcome.kind = static_cast<Outcome::Kind>(4);
  expect_refused(store(), together(settlement(lease, {outcome})), invalid_argument);
  expect_refused(store(), together(settlement(lease, {}, static_cast<Then>(3))), invalid_argument);
  Transaction odd = together(send("orders", unkeyed, "a"));
  odd.durability = static_cast<Durability>(2);
  expect_refused(store(), odd, invalid_argument);
}

// --- Tokens ---

// All that can be asked for with a token.
void expect_token_refused(Store& store, const Token& token, const Refusal& refusal) {
  SCOPED_TRACE(token.to_string());
  Lease forged;
  forged.token = token;
  expect_refused(store, together(settlement(forged, {})), refusal);
  expect_refused(store, together(settlement(forged, {acked(MessageId{1})}, Then::keep)), refusal);
  expect_refused(store, together(append(forged, 1, 0, {"e"})), refusal);
  expect_refused(store, together(RemoveHistory{.token = token, .through_execution = 0}), refusal);
  expect_refused(store, together(trim(forged, 1, 0)), refusal);
  expect_pull_refused(store, token, Cursor{0}, {}, refusal);
  expect_renew_refused(store, token, 1min, refusal);
}

// A token is a proof; without its seal it proves nothing.
// Rules: S5 Input
// Behaviours: invalid_lock_token_on_ack, invalid_lock_token_rejection,
// worker_lock_renewal_invalid_token
TEST_P(StoreConformance, A_forged_token_is_invalid) {
  ASSERT_TRUE(apply(furniture()));
  const Token real = lease_key("orders", "7").token;
  const auto next = static_cast<Epoch>(static_cast<std::uint64_t>(real.epoch()) + 1);
  expect_token_refused(store(), Token{}, invalid_token);
  expect_token_refused(store(), Token{real.epoch(), real.place(), real.seal() ^ 1U}, invalid_token);
  expect_token_refused(store(), Token{next, real.place(), real.seal()}, invalid_token);
  expect_token_refused(store(), Token{real.epoch(), real.place() + 1, real.seal()}, invalid_token);
  expect_token_refused(store(), Token{real.epoch(), real.place(), 0}, invalid_token);
}

// Epochs and places of two stores look alike: only the seal tells them apart.
// Rules: S5 Input
TEST_P(StoreConformance, A_token_of_another_store_is_good_for_nothing) {
  ASSERT_TRUE(apply(furniture()));
  const Lease own = lease_key("orders", "7");
  const std::unique_ptr<Store> other = open_another();
  ASSERT_TRUE(Answer(other->apply(furniture())));
  const std::vector<Lease> foreign = Answer(other->lease({.queue = "orders", .key = "7"})).value();
  ASSERT_THAT(foreign, SizeIs(1));

  expect_token_refused(store(), foreign[0].token, invalid_token);
  EXPECT_TRUE(ack(own));
}

// Genuine, but over: the holder has to know that its work may be done by another now.
// Rules: S5 Input
// Behaviours: lost_lock_token_handling, worker_lock_renewal_after_ack
TEST_P(StoreConformance, A_stale_token_is_lost_for_everything) {
  ASSERT_TRUE(apply(furniture()));
  const Lease settled = lease_key("orders", "7");
  ASSERT_TRUE(release(settled));
  expect_token_refused(store(), settled.token, lease_lost);

  const Lease expired = lease_key("orders", "7", 1s);
  clock().advance(1s);
  expect_token_refused(store(), expired.token, lease_lost);

  const Lease seized = lease_key("orders", "7");
  ASSERT_THAT(lease({.queue = "orders", .key = "7", .seize = true}), SizeIs(1));
  expect_token_refused(store(), seized.token, lease_lost);
}

// --- Settles that do not fit their lease ---

// A settle names its messages: what arrived later, or belongs to others, is not the holder's.
// Rules: S4 Input
// Behaviours: ack_only_affects_locked_messages, message_tagging_during_lock
TEST_P(StoreConformance, An_outcome_for_a_message_that_the_lease_does_not_carry_is_refused) {
  ASSERT_TRUE(apply(furniture()));
  const Lease lease = lease_key("orders", "7");
  const Lease other = lease_one("orders");
  const MessageId late = enqueue("orders", key("7"), "late arrival");
  for (const MessageId bad : {late, other.messages.at(0).id, MessageId{0}, MessageId{999'999}}) {
    expect_refused(store(),
                   together(settlement(lease, {acked(lease.messages.at(0).id), acked(bad)})),
                   {.code = Errc::message_not_leased});
  }
}

// Acked and released at once has no meaning that anyone could rely on.
// Rules: S4 Input
TEST_P(StoreConformance, A_message_settled_twice_is_refused) {
  ASSERT_TRUE(apply(furniture()));
  const Lease lease = lease_key("orders", "7");
  const MessageId id = lease.messages.at(0).id;
  expect_refused(store(), together(settlement(lease, {acked(id), acked(id)})), invalid_argument);
  expect_refused(store(), together(settlement(lease, {acked(id), released(id)})), invalid_argument);
  expect_refused(store(), together(settlement(lease, {acked(id)}), settlement(lease, {})),
                 invalid_argument);

  ASSERT_TRUE(settle(lease, {acked(id)}, Then::keep));
  expect_refused(store(), together(settlement(lease, {acked(id)})),
                 {.code = Errc::message_not_leased});
}

// --- Requests that contradict themselves ---

// It may be large, and has no order among the parts.
// Rules: S22 Input
TEST_P(StoreConformance, Administration_beside_other_parts_is_refused) {
  ASSERT_TRUE(apply(furniture()));
  const Lease lease = lease_key("orders", "7");
  expect_refused(store(), together(PauseQueue{"orders"}, send("orders", unkeyed, "a")),
                 invalid_argument);
  expect_refused(store(), together(PauseQueue{"orders"}, all_acked(lease)), invalid_argument);
  expect_refused(store(), together(PauseQueue{"orders"}, write("state", "k", "w")),
                 invalid_argument);
  expect_refused(store(), together(PauseQueue{"orders"}, Cancel{"orders", "named"}),
                 invalid_argument);
}

// What is left out must not be guessed by an operation of administrators.
// Rules: S22 Input
TEST_P(StoreConformance, Requests_without_what_they_need_are_refused) {
  ASSERT_TRUE(apply(furniture()));
  expect_refused(store(), LeaseRequest{.queue = "orders", .seize = true}, invalid_argument);
  expect_refused(store(), together(ResumeLane{"orders", {}, {}}), invalid_argument);
  expect_refused(store(), together(ResumeLane{"orders", "7", MessageId{1}}), invalid_argument);
}

// Refused before anything else is looked at, and without a trace.
// Rules: S18 Input
TEST_P(StoreConformance, A_conflicting_transaction_id_harms_nothing) {
  ASSERT_TRUE(apply(furniture()));
  const TransactionId id{.client = 1, .number = 1, .time = now(), .lowest_unanswered = 1};
  ASSERT_TRUE(apply(together(id, send("orders", unkeyed, "first"))));
  expect_refused(store(), together(id, send("orders", unkeyed, "second")),
                 {.code = Errc::transaction_conflict});
  expect_refused(store(), together(id, PurgeQueue{"orders", {}}),
                 {.code = Errc::transaction_conflict});
}

// Lengths and numbers at the ends of their type must not wrap around into right ones.
// Rules: S20 Input
TEST_P(StoreConformance, An_append_of_the_wrong_length_harms_nothing) {
  ASSERT_TRUE(apply(furniture()));
  const Lease lease = lease_key("orders", "7");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a", "b"}))));
  const std::uint64_t huge = ~std::uint64_t{0};
  for (const auto& [execution, length] : {std::pair<std::uint64_t, std::uint64_t>{1, 0},
                                          {1, 1},
                                          {1, 3},
                                          {1, huge},
                                          {2, 0},
                                          {3, 0},
                                          {huge, 0},
                                          {huge, huge}}) {
    SCOPED_TRACE(std::to_string(execution) + " at " + std::to_string(length));
    expect_refused(store(), together(append(lease, execution, length, {"x"})),
                   {.code = Errc::history_mismatch});
  }
}

// The same for a trim: the largest numbers are no small ones.
// Rules: S20 Input
TEST_P(StoreConformance, A_trim_to_an_event_that_cannot_be_harms_nothing) {
  ASSERT_TRUE(apply(furniture()));
  const Lease lease = lease_key("orders", "7");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a", "b"}))));
  const std::uint64_t huge = ~std::uint64_t{0};
  for (const auto& [execution, before] : {std::pair<std::uint64_t, std::uint64_t>{1, 3},
                                          {1, huge},
                                          {1, huge / 2 + 1},
                                          {2, 0},
                                          {huge, 0},
                                          {huge, huge}}) {
    SCOPED_TRACE(std::to_string(execution) + " before " + std::to_string(before));
    expect_refused(store(), together(trim(lease, execution, before)),
                   {.code = Errc::history_mismatch});
  }
  expect_refused(store(), together(trim(lease, 0, 1)), invalid_argument);
}

// An operator marks a hundred dead letters; one of them was dropped by a colleague meanwhile.
// Rules: S10 Input
TEST_P(StoreConformance, A_redrive_or_drop_with_one_unknown_id_does_nothing) {
  ASSERT_TRUE(apply(furniture()));
  const Lease lease = lease_key("orders", "7");
  const MessageId died = lease.messages.at(0).id;
  ASSERT_TRUE(dead(lease));
  const MessageId live = enqueue("orders", key("7"), "live");
  for (const MessageId bad : {live, MessageId{0}, MessageId{999'999}}) {
    expect_refused(store(), together(Redrive{"orders", {died, bad}, {}}),
                   {.code = Errc::not_found});
    expect_refused(store(), together(Redrive{"orders", {died, bad}, "other"}),
                   {.code = Errc::not_found});
    expect_refused(store(), together(DropDead{"orders", {died, bad}}), {.code = Errc::not_found});
  }
}

}  // namespace
}  // namespace strand::conformance
