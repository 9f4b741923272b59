// dead_notice_to: whatever ends a message without an ack says so, in the same commit.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conformance/parts.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

// Where all tests here have their notices sent: to the lane of the workflow that waits.
SendOptions noticed() {
  SendOptions options;
  options.dead_notice_to = Address{"workflow", "order-7"};
  return options;
}

std::vector<std::string> header_values(const Message& message, std::string_view name) {
  std::vector<std::string> values;
  for (const Header& header : message.headers) {
    if (header.name == name) values.push_back(header.value);
  }
  return values;
}

std::string header(const Message& message, std::string_view name) {
  const std::vector<std::string> values = header_values(message, name);
  return values.size() == 1 ? values[0] : "(" + std::to_string(values.size()) + " values)";
}

// A workflow that waits for an activity must not hang when that activity is given up.
// Rules: S10 Notices
TEST_P(StoreConformance, A_dead_message_sends_a_notice_that_says_what_ended_and_why) {
  SendOptions options = noticed();
  options.headers = {{"trace", "t-1"}, {"trace", "t-2"}};
  options.name = "charge";
  options.priority = Priority::urgent;
  const MessageId id = enqueue("activities", unkeyed, "charge 7 EUR", options);
  ASSERT_TRUE(dead(lease_one("activities"), "card refused"));

  const Lease lease = lease_key("workflow", "order-7");
  ASSERT_THAT(lease.messages, SizeIs(1));
  const Message& notice = lease.messages[0];
  EXPECT_EQ(notice.body, "");
  EXPECT_EQ(notice.priority, Priority::normal);
  EXPECT_EQ(header(notice, notice_id_header), std::to_string(static_cast<std::uint64_t>(id)));
  EXPECT_EQ(header(notice, notice_queue_header), "activities");
  EXPECT_EQ(header(notice, notice_name_header), "charge");
  EXPECT_EQ(header(notice, notice_end_header), "dead");
  EXPECT_EQ(header(notice, notice_reason_header), "card refused");
  ASSERT_GE(notice.headers.size(), 2U);
  EXPECT_EQ(notice.headers[0], (Header{"trace", "t-1"})) << "the message's own headers come first";
  EXPECT_EQ(notice.headers[1], (Header{"trace", "t-2"}));
}

// It ended well: its worker has told the workflow itself.
// Rules: S10 Notices
// Behaviours: ack_work_item_none_deletes_without_enqueue
TEST_P(StoreConformance, An_acked_message_sends_no_notice) {
  enqueue("activities", unkeyed, "a", noticed());
  ASSERT_EQ(drain("activities"), Bodies{"a"});
  EXPECT_EQ(Answer(store().stats("workflow")).error().code, Errc::not_found);
}

// Giving up after the last retry is an end like any other.
// Rules: S9 Notices
TEST_P(StoreConformance, A_message_that_runs_out_of_attempts_sends_a_notice) {
  SendOptions options = noticed();
  options.max_attempts = 2;
  enqueue("activities", unkeyed, "a", options);
  ASSERT_TRUE(retry(lease_one("activities"), 0s, "first"));
  EXPECT_EQ(Answer(store().stats("workflow")).error().code, Errc::not_found);
  ASSERT_TRUE(retry(lease_one("activities"), 0s, "second"));

  const Lease lease = lease_one("workflow");
  EXPECT_EQ(header(lease.messages.at(0), notice_end_header), "dead");
  EXPECT_EQ(header(lease.messages.at(0), notice_reason_header), "second");
}

// The worker that died for good cannot tell anyone; the store does, by its own timer.
// Rules: S6 S9 Notices
TEST_P(StoreConformance, A_message_that_an_expiry_exhausts_sends_a_notice) {
  SendOptions options = noticed();
  options.max_attempts = 1;
  enqueue("activities", unkeyed, "a", options);
  ASSERT_EQ(bodies(lease_one("activities", 10s)), Bodies{"a"});
  clock().advance(10s);

  const Lease lease = lease_key("workflow", "order-7");
  EXPECT_EQ(header(lease.messages.at(0), notice_end_header), "dead");
  EXPECT_EQ(header(lease.messages.at(0), notice_reason_header), "lease expired");
}

// Whether the queue keeps it for people or not, the workflow must hear of it.
// Rules: S11 Notices
TEST_P(StoreConformance, A_message_whose_TTL_ends_sends_a_notice_dropped_or_dead_lettered) {
  configure("dropping", {.ttl = 10s, .on_expired = OnExpired::drop});
  configure("keeping", {.ttl = 10s, .on_expired = OnExpired::dead});
  enqueue("dropping", unkeyed, "a", noticed());
  enqueue("keeping", unkeyed, "b", noticed());
  clock().advance(10s);

  EXPECT_EQ(stats("dropping").expired, 1U);
  EXPECT_EQ(stats("keeping").dead, 1U);
  const Lease lease = lease_one("workflow");
  ASSERT_THAT(lease.messages, SizeIs(2));
  std::vector<std::string> queues;
  for (const Message& notice : lease.messages) {
    queues.push_back(header(notice, notice_queue_header));
    // What its TTL made a dead letter may be called either; then its reason says which.
    const std::string end = header(notice, notice_end_header);
    EXPECT_THAT(end, ::testing::AnyOf("expired", queues.back() == "keeping" ? "dead" : "expired"));
    if (end == "dead") EXPECT_EQ(header(notice, notice_reason_header), "expired");
  }
  EXPECT_THAT(queues, UnorderedElementsAre("dropping", "keeping"));
}

// Whoever takes the message away may not know who waits for it.
// Rules: S22 Notices
// Behaviours: cancelled_activities_deleted_from_worker_queue
TEST_P(StoreConformance, Cancelled_and_purged_messages_send_notices) {
  SendOptions named = noticed();
  named.name = "n";
  enqueue("activities", unkeyed, "cancelled", named);
  ASSERT_TRUE(cancel("activities", "n"));
  enqueue("activities", unkeyed, "purged", noticed());
  purge("activities");

  const Lease lease = lease_one("workflow");
  ASSERT_THAT(lease.messages, SizeIs(2));
  EXPECT_EQ(header(lease.messages[0], notice_end_header), "cancelled");
  EXPECT_EQ(header(lease.messages[0], notice_name_header), "n");
  EXPECT_EQ(header(lease.messages[1], notice_end_header), "purged");
}

// A workflow that calls off its own activity knows of it: a notice would wake it up for nothing.
// Rules: Cancel Notices
// Behaviours: cancelled_activities_deleted_from_worker_queue
TEST_P(StoreConformance, A_quiet_cancel_sends_no_notice) {
  SendOptions named = noticed();
  for (const char* name : {"waiting", "leased", "told"}) {
    named.name = name;
    enqueue("activities", key(name), name, named);
  }
  ASSERT_EQ(bodies(lease_key("activities", "leased")), Bodies{"leased"});
  Transaction transaction;
  transaction.cancels.push_back({.queue = "activities", .name = "waiting", .quiet = true});
  transaction.cancels.push_back({.queue = "activities", .name = "leased", .quiet = true});
  transaction.cancels.push_back({.queue = "activities", .name = "told"});
  ASSERT_TRUE(apply(transaction));

  const Lease lease = lease_one("workflow");
  ASSERT_THAT(lease.messages, SizeIs(1));
  EXPECT_EQ(header(lease.messages[0], notice_name_header), "told");
  EXPECT_EQ(stats("activities").dropped, 3);
}

// The activity's queue is taken away under it, with its worker.
// Rules: S22 Notices
// Behaviours: orphan_queue_messages_dropped
TEST_P(StoreConformance, Messages_removed_with_their_queue_send_notices_leased_ones_too) {
  enqueue("activities", key("1"), "waiting", noticed());
  enqueue("activities", key("2"), "leased", noticed());
  ASSERT_EQ(bodies(lease_key("activities", "2")), Bodies{"leased"});
  ASSERT_TRUE(admin(RemoveQueue{"activities", true}));
  EXPECT_THAT(lease_one("workflow").messages, SizeIs(2));
}

// A notice into the queue that goes away would bring that queue back.
// Rules: S22 Notices
TEST_P(StoreConformance, A_notice_into_the_queue_that_is_being_removed_is_not_sent) {
  SendOptions options;
  options.dead_notice_to = Address{"activities", "7"};
  enqueue("activities", unkeyed, "a", options);
  ASSERT_TRUE(admin(RemoveQueue{"activities"}));
  EXPECT_THAT(Answer(store().queues()).value(), IsEmpty());
}

// A retry, an expiry with tries left, a park: none of them is the end.
// Rules: S8 S9 Notices
TEST_P(StoreConformance, A_message_that_only_failed_for_now_sends_no_notice) {
  configure("activities", {.max_attempts = 2, .on_exhausted = OnExhausted::park, .ttl = {}});
  enqueue("activities", key("1"), "a", noticed());
  ASSERT_TRUE(retry(lease_one("activities"), 0s));
  ASSERT_TRUE(release(lease_one("activities")));
  ASSERT_TRUE(retry(lease_one("activities"), 0s));
  EXPECT_EQ(stats("activities").parked, 1U);
  EXPECT_EQ(Answer(store().stats("workflow")).error().code, Errc::not_found);
}

// It ended once, when it died; what happens to the dead letter is another story.
// Rules: S10 Notices
TEST_P(StoreConformance, Dropping_a_dead_letter_sends_no_second_notice) {
  const MessageId id = enqueue("activities", unkeyed, "a", noticed());
  ASSERT_TRUE(dead(lease_one("activities")));
  ASSERT_TRUE(admin(DropDead{"activities", {id}}));
  EXPECT_EQ(stats("workflow").accepted, 1U);
}

// It lived again, and ended again.
// Rules: S10 Notices
TEST_P(StoreConformance, A_redriven_message_that_dies_again_says_so_again) {
  const MessageId id = enqueue("activities", unkeyed, "a", noticed());
  ASSERT_TRUE(dead(lease_one("activities"), "first"));
  redrive("activities", {id});
  ASSERT_TRUE(dead(lease_one("activities"), "second"));
  const Lease lease = lease_one("workflow");
  ASSERT_THAT(lease.messages, SizeIs(2));
  EXPECT_EQ(header(lease.messages[1], notice_reason_header), "second");
}

// Without its notice a workflow hangs for ever: the limit of the queue is not worth that.
// Rules: S19 Notices
TEST_P(StoreConformance, A_notice_is_not_bound_by_the_length_of_its_queue) {
  configure("workflow", {.ttl = {}, .max_length = 1});
  enqueue("workflow", key("order-7"), "full");
  enqueue("activities", unkeyed, "a", noticed());
  EXPECT_TRUE(dead(lease_one("activities")));
  EXPECT_EQ(stats("workflow").ready, 2U);
  EXPECT_EQ(stats("workflow").dead, 0U);
}

// The death and its notice are one commit: a transaction that fails has neither.
// Rules: S22 Notices
TEST_P(StoreConformance, A_failed_transaction_sends_no_notice) {
  enqueue("activities", unkeyed, "a", noticed());
  const Lease lease = lease_one("activities");
  ASSERT_EQ(apply(together(settlement(lease, {made_dead(lease.messages.at(0).id)}),
                           write("state", "k", "v", Version{99})))
                .error()
                .code,
            Errc::version_mismatch);
  EXPECT_EQ(Answer(store().stats("workflow")).error().code, Errc::not_found);
}

// The holder of the workflow's lane may be at work: the notice waits like any other arrival.
// Rules: S2 Notices
TEST_P(StoreConformance, A_notice_for_a_leased_lane_waits_behind_the_lease) {
  enqueue("workflow", key("order-7"), "start");
  const Lease turn = lease_one("workflow");
  enqueue("activities", unkeyed, "a", noticed());
  ASSERT_TRUE(dead(lease_one("activities")));
  EXPECT_EQ(stats("workflow").waiting, 1U);
  ASSERT_TRUE(ack(turn));
  EXPECT_EQ(bodies(lease_one("workflow")), Bodies{""});
}

// Not everyone who wants to know has a lane.
// Rules: S10 Notices
TEST_P(StoreConformance, A_notice_without_a_key_stands_alone) {
  SendOptions options;
  options.dead_notice_to = Address{"notices", std::nullopt};
  enqueue("activities", unkeyed, "a", options);
  ASSERT_TRUE(dead(lease_one("activities")));
  EXPECT_EQ(lease_one("notices").key, std::nullopt);
}

// A notice that died and sent a notice that died would be a machine of perpetual motion.
// Rules: S10 Notices
TEST_P(StoreConformance, A_notice_sends_no_notice_itself) {
  SendOptions options;
  options.dead_notice_to = Address{"notices", std::nullopt};
  enqueue("activities", unkeyed, "a", options);
  ASSERT_TRUE(dead(lease_one("activities")));
  ASSERT_TRUE(dead(lease_one("notices")));
  EXPECT_EQ(stats("notices").accepted, 1U);
  EXPECT_EQ(stats("notices").dead, 1U);
}

// Notices come in an order that does not depend on where the purged messages stood.
// Rules: S10 S22 Notices
TEST_P(StoreConformance, The_notices_of_a_purge_come_in_the_order_of_its_messages) {
  SendOptions options;
  options.dead_notice_to = Address{"notices", "7"};
  options.delay = 1h;
  const MessageId delayed = enqueue("activities", key("k"), "a", options);
  options.delay = Duration{0};
  options.priority = Priority::low;
  const MessageId low = enqueue("activities", key("k"), "b", options);
  options.priority = Priority::urgent;
  const MessageId urgent = enqueue("activities", key("k"), "c", options);
  ASSERT_TRUE(admin(PurgeQueue{"activities", "k"}));
  std::vector<std::string> ended;
  for (const Message& notice : lease_one("notices").messages) {
    for (const Header& header : notice.headers) {
      if (header.name == notice_id_header) ended.push_back(header.value);
    }
  }
  const auto text = [](MessageId id) { return std::to_string(static_cast<std::uint64_t>(id)); };
  EXPECT_EQ(ended, (std::vector{text(delayed), text(low), text(urgent)}));
}

// --- A queue that tells of its dead letters ---

QueueSettings telling(std::string queue, std::optional<std::string> key = {}) {
  QueueSettings settings;
  settings.max_attempts = 1;
  settings.dead_notice_to = Address{std::move(queue), std::move(key)};
  return settings;
}

// Whoever runs the queue wants to know, whatever the senders thought of.
// Rules: S10 Notices
TEST_P(StoreConformance, A_queue_tells_of_each_of_its_dead_letters) {
  configure("orders", telling("alarms", "on-call"));
  SendOptions options;
  options.headers = {{"trace", "t-1"}};
  options.name = "charge";
  const MessageId id = enqueue("orders", key("cust-7"), "a", options);
  EXPECT_FALSE(has_queue("alarms"));
  ASSERT_TRUE(dead(lease_one("orders"), "card refused"));

  const Lease lease = lease_key("alarms", "on-call");
  ASSERT_THAT(lease.messages, SizeIs(1));
  const Message& notice = lease.messages[0];
  EXPECT_EQ(notice.body, "");
  EXPECT_EQ(header(notice, notice_id_header), std::to_string(static_cast<std::uint64_t>(id)));
  EXPECT_EQ(header(notice, notice_queue_header), "orders");
  EXPECT_EQ(header(notice, notice_name_header), "charge");
  EXPECT_EQ(header(notice, notice_end_header), "dead");
  EXPECT_EQ(header(notice, notice_reason_header), "card refused");
  EXPECT_THAT(header_values(notice, "trace"), IsEmpty()) << "they are with the dead letter";
}

// Whatever made it one, the dead letter is there and somebody must look.
// Rules: S6 S9 S11 S15 Notices
TEST_P(StoreConformance, A_queue_tells_of_dead_letters_whatever_made_them) {
  QueueSettings settings = telling("alarms", "on-call");
  settings.on_expired = OnExpired::dead;
  settings.max_length = 2;
  configure("orders", settings);
  ASSERT_TRUE(admin(Subscribe{"orders", "orders.#", std::nullopt}));
  const auto publish = [] {
    Transaction transaction;
    transaction.publishes.emplace_back().topic = "orders.new";
    return transaction;
  };
  enqueue("orders", unkeyed, "retried");
  ASSERT_TRUE(retry(lease_one("orders"), {}, "the only try"));
  enqueue("orders", unkeyed, "held too long");
  lease_one("orders", 1s);
  clock().advance(1s);
  SendOptions options;
  options.ttl = 1s;
  enqueue("orders", unkeyed, "too late", options);
  clock().advance(1s);
  ASSERT_TRUE(apply(publish()));
  ASSERT_TRUE(apply(publish()));
  ASSERT_TRUE(apply(publish()));

  std::vector<std::string> reasons;
  for (const Message& notice : lease_key("alarms", "on-call").messages)
    reasons.push_back(header(notice, notice_reason_header));
  EXPECT_EQ(reasons,
            (std::vector<std::string>{"the only try", "lease expired", "expired", "queue full"}));
  EXPECT_EQ(stats("orders").dead, 4U);
}

// Only what needs a person: the rest has ended as somebody wished.
// Rules: S10 S11 S22 Notices
TEST_P(StoreConformance, A_queue_does_not_tell_of_messages_that_leave_no_dead_letter) {
  configure("orders", telling("alarms"));
  SendOptions options;
  options.name = "cancelled";
  enqueue("orders", unkeyed, "a", options);
  ASSERT_TRUE(cancel("orders", "cancelled"));
  options = {};
  options.ttl = 1s;
  enqueue("orders", unkeyed, "b", options);
  clock().advance(1s);
  enqueue("orders", unkeyed, "c");
  purge("orders");
  enqueue("orders", unkeyed, "d");
  ASSERT_EQ(drain("orders"), Bodies{"d"});
  EXPECT_EQ(stats("orders").live(), 0U);
  EXPECT_FALSE(has_queue("alarms"));
}

// One end, one notice: the sender knows better whom it concerns.
// Rules: S10 Notices
TEST_P(StoreConformance, A_message_that_names_whom_to_tell_goes_before_its_queue) {
  configure("activities", telling("alarms"));
  SendOptions options = noticed();
  options.headers = {{"trace", "t-1"}};
  enqueue("activities", unkeyed, "a", options);
  ASSERT_TRUE(dead(lease_one("activities")));
  EXPECT_FALSE(has_queue("alarms"));
  const Lease lease = lease_key("workflow", "order-7");
  EXPECT_EQ(header(lease.messages.at(0), "trace"), "t-1");
}

// Two queues that tell each other, or one that tells itself, would never come to rest.
// Rules: S10 Notices
TEST_P(StoreConformance, No_queue_tells_of_a_notice) {
  configure("a", telling("b"));
  configure("b", telling("a"));
  configure("itself", telling("itself"));
  enqueue("a", unkeyed, "x");
  enqueue("itself", unkeyed, "y");
  ASSERT_TRUE(dead(lease_one("a")));
  ASSERT_TRUE(dead(lease_one("itself")));
  reopen();  // it must be known by then as well
  ASSERT_TRUE(dead(lease_one("b"), "the notice"));
  ASSERT_TRUE(dead(lease_one("itself"), "the notice"));
  EXPECT_EQ(stats("a").accepted, 1U);
  EXPECT_EQ(stats("itself").accepted, 2U);

  // A notice that comes back from the dead letters, or goes elsewhere from there, is still one.
  redrive("itself", {dead_letters("itself").back().id});
  redrive("b", {dead_letters("b").back().id}, "a");
  ASSERT_TRUE(dead(lease_one("itself"), "again"));
  ASSERT_TRUE(dead(lease_one("a"), "again"));
  EXPECT_EQ(stats("itself").accepted, 2U);
  EXPECT_EQ(stats("b").accepted, 1U);
  EXPECT_EQ(stats("b").live(), 0U);
}

// It is the dead letter that may not go unnoticed, and there is no sender to refuse.
// Rules: S10 S19 Notices
TEST_P(StoreConformance, A_full_queue_takes_the_notice_of_a_dead_letter) {
  configure("orders", telling("alarms"));
  configure("alarms", {.ttl = {}, .max_length = 1});
  enqueue("alarms", unkeyed, "full");
  enqueue("orders", unkeyed, "a");
  ASSERT_TRUE(dead(lease_one("orders")));
  EXPECT_EQ(stats("alarms").ready, 2U);
}

// Rules: S22 Notices
TEST_P(StoreConformance, A_queue_that_is_removed_does_not_tell_itself) {
  QueueSettings settings = telling("orders");
  settings.on_expired = OnExpired::dead;
  configure("orders", settings);
  SendOptions options;
  options.ttl = 1s;
  enqueue("orders", unkeyed, "a", options);
  lease_one("orders", 1h);
  clock().advance(1s);
  ASSERT_TRUE(admin(RemoveQueue{"orders", true}));
  EXPECT_FALSE(has_queue("orders"));
}

// A notice that has no place to go to is not sent somewhere else instead.
// Rules: S22 Notices
TEST_P(StoreConformance, A_message_that_tells_the_queue_that_is_removed_does_not_tell_another) {
  QueueSettings settings = telling("alarms");
  settings.on_expired = OnExpired::dead;
  configure("orders", settings);
  SendOptions options;
  options.ttl = 1s;
  options.dead_notice_to = Address{"orders", std::nullopt};
  enqueue("orders", unkeyed, "a", options);
  options.dead_notice_to.reset();
  enqueue("orders", unkeyed, "b", options);
  ASSERT_THAT(lease_all("orders", 1h), SizeIs(2));
  clock().advance(1s);
  ASSERT_TRUE(admin(RemoveQueue{"orders", true}));
  EXPECT_EQ(stats("alarms").accepted, 1U) << "of the second alone";
}

}  // namespace
}  // namespace strand::conformance
