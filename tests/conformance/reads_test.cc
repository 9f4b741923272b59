// Reads: pages, orders, filters; and that looking changes nothing.

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conformance/parts.h"
#include "conformance/snapshot.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

PeekQuery messages_of(std::string queue, std::size_t limit) {
  return {.queue = std::move(queue), .key = {}, .state = {}, .after = {}, .limit = limit};
}

// `more` is what a pager's "next" button shows: at the exact end there is no next page.
// Rules: S10
TEST_P(StoreConformance, A_page_of_messages_ends_where_the_next_one_begins) {
  const Ids sent = enqueue_all("orders", unkeyed, {"a", "b", "c", "d"});
  PeekQuery query = messages_of("orders", 2);
  const Page<PeekedMessage> first = Answer(store().peek(query)).value();
  EXPECT_EQ(bodies(first.items), (Bodies{"a", "b"}));
  EXPECT_TRUE(first.more);

  query.after = sent[1];
  const Page<PeekedMessage> second = Answer(store().peek(query)).value();
  EXPECT_EQ(bodies(second.items), (Bodies{"c", "d"}));
  EXPECT_FALSE(second.more);

  query.after = sent[3];
  const Page<PeekedMessage> third = Answer(store().peek(query)).value();
  EXPECT_THAT(third.items, IsEmpty());
  EXPECT_FALSE(third.more);
}

// A pager must not stumble when workers ack the message at which it stopped.
// Rules: S10
TEST_P(StoreConformance, A_page_continues_behind_a_message_that_is_gone) {
  const Ids sent = enqueue_all("orders", unkeyed, {"a", "b", "c"});
  PeekQuery query = messages_of("orders", 1);
  query.after = sent[0];
  ASSERT_TRUE(ack(lease_one("orders")));
  EXPECT_EQ(bodies(Answer(store().peek(query)).value().items), Bodies{"b"});
}

// What an operator sees of a lane is the order in which it will be worked off.
// Rules: S3
TEST_P(StoreConformance, A_lane_is_shown_in_its_order_and_a_queue_in_that_of_ids) {
  enqueue("orders", key("7"), "last", {.delay = 1h});
  enqueue("orders", key("8"), "other");
  enqueue("orders", key("7"), "first");
  enqueue("orders", key("7"), "second", {.delay = 1s});

  EXPECT_EQ(bodies(peek_lane("orders", "7")), (Bodies{"first", "second", "last"}));
  EXPECT_EQ(bodies(peek("orders")), (Bodies{"last", "other", "first", "second"}));
}

// A page that continues by id in a list ordered by due time loses or repeats messages.
// Rules: S3
TEST_P(StoreConformance, A_lane_is_paged_in_its_own_order) {
  const MessageId last = enqueue("orders", key("7"), "last", {.delay = 1h});
  const MessageId first = enqueue("orders", key("7"), "first");
  enqueue("orders", key("7"), "second", {.delay = 1s});
  PeekQuery query = messages_of("orders", 1);
  query.key = "7";
  query.after = first;
  const Page<PeekedMessage> page = Answer(store().peek(query)).value();
  EXPECT_EQ(bodies(page.items), Bodies{"second"});
  EXPECT_TRUE(page.more);
  query.after = last;
  EXPECT_THAT(Answer(store().peek(query)).value().items, IsEmpty());
}

// The states are a partition, as the counts are.
// Rules: S10
TEST_P(StoreConformance, A_filter_by_state_shows_each_message_in_exactly_one_state) {
  enqueue("orders", unkeyed, "parked");
  ASSERT_TRUE(park(lease_one("orders")));
  enqueue("orders", key("1"), "ready");
  enqueue("orders", key("2"), "delayed", {.delay = 1h});
  enqueue_all("orders", key("3"), {"backoff", "waiting"});
  ASSERT_TRUE(retry(lease_key("orders", "3"), 1h));
  enqueue("orders", key("4"), "leased");
  ASSERT_EQ(bodies(lease_key("orders", "4")), Bodies{"leased"});

  for (const auto& [state, body] :
       {std::pair{MessageState::ready, "ready"}, std::pair{MessageState::delayed, "delayed"},
        std::pair{MessageState::backoff, "backoff"}, std::pair{MessageState::waiting, "waiting"},
        std::pair{MessageState::leased, "leased"}, std::pair{MessageState::parked, "parked"}}) {
    EXPECT_EQ(bodies(peek("orders", state)), Bodies{body}) << to_string(state);
  }
}

// A filter must not make pages short, or a pager stops at the first page without a hit.
// Rules: S10
TEST_P(StoreConformance, A_page_of_a_filter_is_filled_from_behind_what_it_skips) {
  for (int i = 0; i < 20; ++i) {
    enqueue("orders", unkeyed, "ready");
  }
  enqueue("orders", unkeyed, "delayed", {.delay = 1h});
  PeekQuery query = messages_of("orders", 1);
  query.state = MessageState::delayed;
  const Page<PeekedMessage> page = Answer(store().peek(query)).value();
  EXPECT_EQ(bodies(page.items), Bodies{"delayed"});
  EXPECT_FALSE(page.more) << "what is behind the last item does not match";
}

// Monitoring looks every few seconds: that must cost the messages nothing.
// Rules: S10 S16
TEST_P(StoreConformance, Looking_changes_nothing) {
  enqueue("orders", key("7"), "a");
  enqueue("orders", key("8"), "b");
  ASSERT_TRUE(dead(lease_one("orders")));
  const Snapshot before = snapshot(store());
  for (int i = 0; i < 3; ++i) {
    expect_same(before, snapshot(store()));
  }
  EXPECT_EQ(lease_one("orders").messages.at(0).deliveries, 1U);
}

// Lists that jump around cannot be compared or paged by people.
// Rules: S10
// Behaviours: list_executions, list_instances
TEST_P(StoreConformance, Queues_and_subscriptions_are_listed_by_name) {
  configure("b", {});
  configure("a", {.ttl = 1s});
  ASSERT_TRUE(admin(Subscribe{"c", "z", {}}));
  ASSERT_TRUE(admin(Subscribe{"a", "y.#", {}}));
  ASSERT_TRUE(admin(ConfigureTopic{"t.b", {.retain = 1h}}));
  ASSERT_TRUE(admin(ConfigureTopic{"t.a", {.retain = 2h}}));

  EXPECT_EQ(Answer(store().queues()).value(),
            (std::vector<QueueInfo>{{.name = "a", .settings = {.ttl = 1s}, .paused = false},
                                    {.name = "b", .settings = {}, .paused = false},
                                    {.name = "c", .settings = {}, .paused = false}}));
  EXPECT_EQ(Answer(store().subscriptions()).value(),
            (std::vector<Subscription>{{.queue = "a", .pattern = "y.#"},
                                       {.queue = "c", .pattern = "z"}}));
  EXPECT_EQ(Answer(store().topics()).value(),
            (std::vector<Topic>{{.name = "t.a", .settings = {.retain = 2h}},
                                {.name = "t.b", .settings = {.retain = 1h}}}));
}

// --- Records ---

Bodies keys_of(const Page<Record>& page) {
  Bodies keys;
  for (const Record& record : page.items) {
    keys.push_back(record.key);
  }
  return keys;
}

// The usual way to keep many small things under one parent.
// Rules: Records
// Behaviours: kv_snapshot_in_fetch, kv_snapshot_empty
TEST_P(StoreConformance, Records_are_listed_by_prefix_and_paged_by_key) {
  ASSERT_TRUE(
      apply(together(write("s", "b:1", "v"), write("s", "a:2", "v"), write("s", "a:1", "v"),
                     write("s", "a:3", "v"), write("s", "a", "v"), write("t", "a:0", "v"))));
  RecordsQuery query{.space = "s", .prefix = "a:", .after = {}, .limit = 2};
  const Page<Record> first = Answer(store().records(query)).value();
  EXPECT_EQ(keys_of(first), (Bodies{"a:1", "a:2"}));
  EXPECT_TRUE(first.more);
  query.after = "a:2";
  const Page<Record> second = Answer(store().records(query)).value();
  EXPECT_EQ(keys_of(second), Bodies{"a:3"});
  EXPECT_FALSE(second.more) << "b:1 is behind it, but not of this prefix";
}

// `after` names a position, not a record: it may lie between keys, or before the prefix.
// Rules: Records
TEST_P(StoreConformance, Records_are_listed_behind_a_key_that_does_not_exist) {
  ASSERT_TRUE(apply(together(write("s", "a:1", "v"), write("s", "a:3", "v"))));
  EXPECT_EQ(
      keys_of(Answer(store().records({.space = "s", .prefix = "a:", .after = "a:2"})).value()),
      Bodies{"a:3"});
  EXPECT_EQ(keys_of(Answer(store().records({.space = "s", .prefix = "a:", .after = "Z"})).value()),
            (Bodies{"a:1", "a:3"}));
  EXPECT_THAT(
      keys_of(Answer(store().records({.space = "s", .prefix = "a:", .after = "b"})).value()),
      IsEmpty());
}

// Keys are bytes: a signed comparison sorts é before z, and 0xff has no next byte to stop at.
// Rules: Records S19
TEST_P(StoreConformance, Records_are_ordered_by_unsigned_bytes) {
  const std::string nul("a\0", 2);
  ASSERT_TRUE(apply(together(write("s", "\xff\xff", "v"), write("s", "\xff", "v"),
                             write("s", "\xc3\xa9", "v"), write("s", "z", "v"),
                             write("s", nul, "v"), write("s", "a", "v"))));
  EXPECT_EQ(keys_of(Answer(store().records({.space = "s", .prefix = {}, .after = {}})).value()),
            (Bodies{"a", nul, "z", "\xc3\xa9", "\xff", "\xff\xff"}));
  EXPECT_EQ(keys_of(Answer(store().records({.space = "s", .prefix = "\xff", .after = {}})).value()),
            (Bodies{"\xff", "\xff\xff"}));
}

// --- Histories and instances ---

// Histories may be larger than any answer should be.
// Rules: S20
TEST_P(StoreConformance, A_history_is_read_in_parts) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"0", "1", "2", "3", "4"}))));

  HistoryQuery query{.queue = "workflow", .key = "7", .execution = 1, .from = 1, .limit = 2};
  const History part = Answer(store().history(query)).value();
  EXPECT_EQ(part.first, 1U);
  EXPECT_EQ(part.events, (std::vector<Bytes>{"1", "2"}));
  EXPECT_EQ(part.execution.length, 5U) << "the length of all, not of the part";
  query.from = 5;
  EXPECT_THAT(Answer(store().history(query)).value().events, IsEmpty());
}

// "Which orders are still open?"
// Rules: S20
// Behaviours: list_instances_by_status, list_instances
TEST_P(StoreConformance, Instances_are_listed_by_key_open_or_closed) {
  for (const char* name : {"c", "a", "b", "d"}) {
    enqueue("workflow", key(name), "start");
    const Lease lease = lease_key("workflow", name);
    const bool closed = *name == 'a' || *name == 'c';
    ASSERT_TRUE(apply(together(
        append(lease, 1, 0, {"e"}, closed ? std::optional<std::string>("completed") : std::nullopt),
        all_acked(lease))));
  }
  const auto keys = [&](std::optional<bool> open, std::string after = "") {
    Bodies found;
    for (const Execution& last :
         Answer(store().instances({.queue = "workflow", .open = open, .after = std::move(after)}))
             .value()
             .items) {
      found.push_back(last.key);
    }
    return found;
  };
  EXPECT_EQ(keys({}), (Bodies{"a", "b", "c", "d"}));
  EXPECT_EQ(keys(true), (Bodies{"b", "d"}));
  EXPECT_EQ(keys(false), (Bodies{"a", "c"}));
  EXPECT_EQ(keys({}, "b"), (Bodies{"c", "d"}));

  const Page<Execution> page =
      Answer(store().instances({.queue = "workflow", .open = true, .after = {}, .limit = 1}))
          .value();
  EXPECT_THAT(page.items, SizeIs(1));
  EXPECT_TRUE(page.more);
}

// A read of an instance that was continued shows where it is now.
// Rules: S20
TEST_P(StoreConformance, Instances_are_shown_by_their_last_execution) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(
      apply(together(append(lease, 1, 0, {"a"}, "continued"), append(lease, 2, 0, {"b", "c"}))));
  const std::vector<Execution> found =
      Answer(store().instances({.queue = "workflow", .open = {}, .after = {}})).value().items;
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].number, 2U);
  EXPECT_EQ(found[0].length, 2U);
  EXPECT_EQ(found[0].outcome, std::nullopt);
}

}  // namespace
}  // namespace strand::conformance
