// What a store remembers when it is closed and opened again.
//
// After every test of the suite the fixture reopens the store and compares messages and counts;
// here is what only shows when one goes on working.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conformance/parts.h"
#include "conformance/snapshot.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

// --- Ids that must not come back ---

// What was handed out once is in other systems by now.
// Rules: S5
TEST_P(StoreConformance, Message_ids_and_versions_are_never_reused_over_reopens) {
  MessageId last_id{0};
  Version last_version{0};
  for (int i = 0; i < 3; ++i) {
    const Receipt receipt =
        apply(together(send("orders", unkeyed, "a"), write("state", "k", "v"))).value();
    EXPECT_GT(receipt.sent.at(0).id, last_id);
    EXPECT_GT(receipt.versions.at(0), last_version);
    last_id = receipt.sent[0].id;
    last_version = receipt.versions[0];
    // Nothing is left from which the highest ones could be read.
    ASSERT_TRUE(admin(RemoveQueue{"orders"}));
    ASSERT_TRUE(apply(together(write("state", "k", std::nullopt))));
    reopen();
  }
}

// The reply to a lease request was lost together with the server.
// Rules: S5
TEST_P(StoreConformance, A_request_id_is_remembered_over_a_reopen) {
  enqueue("orders", key("1"), "a");
  enqueue("orders", key("2"), "b");
  const LeaseRequest request{.queue = "orders", .request = RequestId{1, 1}};
  const std::vector<Lease> first = lease(request);
  reopen();
  const std::vector<Lease> again = lease(request);
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].token, first.at(0).token);
  EXPECT_EQ(bodies(again), bodies(first));
  EXPECT_EQ(stats("orders").leases, 1U);
}

// --- Messages ---

// The waiting so far counts, and so do the reasons.
// Rules: S8 S10
TEST_P(StoreConformance, A_backoff_goes_on_after_a_reopen_and_its_reasons_are_kept) {
  enqueue_all("orders", key("7"), {"failing", "behind"});
  ASSERT_TRUE(retry(lease_one("orders"), 1min, "first"));
  clock().advance(20s);
  reopen();
  EXPECT_EQ(peek_one("orders", "failing").last_reason, "first");
  EXPECT_EQ(peek_one("orders", "behind").state, MessageState::waiting);
  clock().advance(40s - 1ms);
  EXPECT_THAT(lease({.queue = "orders"}), IsEmpty());
  clock().advance(1ms);
  const Lease again = lease_one("orders");
  EXPECT_EQ(bodies(again), (Bodies{"failing", "behind"}));
  ASSERT_TRUE(dead(again, "second"));
  reopen();
  EXPECT_EQ(reasons(dead_letter("orders", "failing").failures),
            (std::vector<std::string>{"first", "second"}));
}

// A restart is no person who looked at it; an empty parked lane is easily forgotten.
// Rules: S9
TEST_P(StoreConformance, A_parked_lane_stays_parked_with_its_reason_over_a_reopen) {
  enqueue("orders", key("7"), "a");
  ASSERT_TRUE(park(lease_one("orders"), "look at this"));
  enqueue("orders", key("8"), "empty");
  ASSERT_TRUE(park(lease_one("orders"), "and this"));
  purge("orders", "8");
  reopen();

  EXPECT_THAT(lease({.queue = "orders"}), IsEmpty());
  EXPECT_EQ(peek_one("orders", "a").park_reason, "look at this");
  enqueue("orders", key("8"), "arrived for an empty parked lane");
  EXPECT_EQ(stats("orders").parked, 2U);
  resume_lane("orders", "7");
  EXPECT_EQ(drain("orders"), Bodies{"a"});
}

// A restart in the middle of an incident must not start the workers.
// Rules: S22
TEST_P(StoreConformance, A_paused_queue_stays_paused_and_settings_stay_set_over_a_reopen) {
  const QueueSettings odd{.max_attempts = 7,
                          .backoff = {1s, 2s},
                          .retry_policy = RetryPolicy::skip,
                          .on_exhausted = OnExhausted::park,
                          .ttl = 3h,
                          .on_expired = OnExpired::dead,
                          .dedup_window = 4s,
                          .lease = 5s,
                          .starvation_after = 6s,
                          .max_length = 7};
  configure("orders", odd);
  enqueue("orders", key("7"), "a");
  pause("orders");
  reopen();
  EXPECT_EQ(settings("orders"), odd);
  EXPECT_THAT(lease({.queue = "orders"}), IsEmpty());
  resume("orders");
  EXPECT_EQ(drain("orders"), Bodies{"a"});
}

// A workflow cancels its timers by name, whenever it wakes up.
// Rules: S3
TEST_P(StoreConformance, A_name_is_taken_and_can_be_cancelled_after_a_reopen) {
  enqueue("orders", key("7"), "a", {.delay = 1h, .name = "timer"});
  reopen();
  EXPECT_EQ(try_enqueue("orders", key("7"), "b", {.name = "timer"}).error().code, Errc::name_taken);
  EXPECT_TRUE(cancel("orders", "timer"));
  EXPECT_TRUE(try_enqueue("orders", key("7"), "c", {.name = "timer"}));
}

// The activity outlives the server that took it; its workflow still waits.
// Rules: S10 Notices
TEST_P(StoreConformance, A_notice_address_and_own_attempts_survive_a_reopen) {
  enqueue("activities", unkeyed, "a",
          {.max_attempts = 1, .dead_notice_to = Address{"workflow", "7"}});
  reopen();
  ASSERT_TRUE(retry(lease_one("activities")));
  EXPECT_EQ(stats("activities").dead, 1U);
  EXPECT_THAT(lease_key("workflow", "7").messages, SizeIs(1));
}

// Whether a store keeps the line or makes it anew from places and priorities.
// Rules: S12
TEST_P(StoreConformance, Ready_lanes_are_served_by_priority_and_first_message_after_a_reopen) {
  enqueue("orders", key("1"), "normal 1");
  enqueue("orders", key("2"), "urgent", {.priority = Priority::urgent});
  enqueue("orders", key("3"), "normal 2");
  reopen();
  EXPECT_EQ(drain("orders"), (Bodies{"urgent", "normal 1", "normal 2"}));
}

// --- Ids ---

// Producers retry just when the server restarts.
// Rules: S14
TEST_P(StoreConformance, A_dedup_id_is_remembered_over_a_reopen_to_the_end_of_its_window) {
  const MessageId first = enqueue("orders", unkeyed, "a", {.dedup_id = "d"});
  ASSERT_EQ(drain("orders"), Bodies{"a"});
  clock().advance(4min);
  reopen();
  const Sent again = try_enqueue("orders", unkeyed, "b", {.dedup_id = "d"}).value();
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(again.id, first);
  clock().advance(1min);
  reopen();
  EXPECT_FALSE(try_enqueue("orders", unkeyed, "c", {.dedup_id = "d"}).value().duplicate);
}

// The same for topics.
// Rules: S14 S15
TEST_P(StoreConformance, The_dedup_id_of_a_publication_is_remembered_over_a_reopen) {
  ASSERT_TRUE(admin(Subscribe{"all", "#", {}}));
  const Transaction publishing = together(publication_once("t", "d", "a"));
  const MessageId first = apply(publishing).value().published.at(0).id;
  reopen();
  const Published again = apply(publishing).value().published.at(0);
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(again.id, first);
  EXPECT_EQ(stats("all").accepted, 1U);
}

// The one case that ids are for: the server died between the commit and the answer.
// Rules: S18
TEST_P(StoreConformance, A_transaction_repeated_after_a_reopen_returns_its_receipt) {
  ASSERT_TRUE(admin(Subscribe{"all", "#", {}}));
  enqueue("work", key("7"), "w", {.name = "n"});
  const Lease lease = lease_one("work");
  const TransactionId id{.client = 1, .number = 1, .time = now(), .lowest_unanswered = 1};
  const Transaction transaction =
      together(id, append(lease, 1, 0, {"e"}), all_acked(lease), Cancel{"work", "n"},
               send("out", key("7"), Bytes("\0body", 5), {.headers = {{"h", "v"}}}),
               publication("t", unkeyed, "p"), write("state", "k", "v", Version{0}));
  const Receipt first = apply(transaction).value();
  reopen();

  EXPECT_EQ(apply(transaction).value(), first);
  EXPECT_EQ(stats("out").accepted, 1U);
  EXPECT_EQ(stats("all").accepted, 1U);
  Transaction other = transaction;
  other.sends[0].body += "x";
  EXPECT_EQ(apply(other).error().code, Errc::transaction_conflict);
}

// Forgotten receipts must not turn into fresh ids by a restart.
// Rules: S18
TEST_P(StoreConformance, Answered_and_expired_transaction_ids_are_refused_after_a_reopen) {
  const Time made = now();
  const auto numbered = [&](std::uint64_t number, std::uint64_t lowest) {
    return together(
        TransactionId{.client = 1, .number = number, .time = made, .lowest_unanswered = lowest},
        send("orders", unkeyed, "a"));
  };
  ASSERT_TRUE(apply(numbered(5, 5)));
  reopen();
  EXPECT_EQ(apply(numbered(4, 1)).error().code, Errc::transaction_expired);
  clock().advance(15min);
  reopen();
  EXPECT_EQ(apply(numbered(5, 5)).error().code, Errc::transaction_expired);
  EXPECT_EQ(stats("orders").accepted, 1U);
}

// --- Topics, records, histories ---

// A subscriber's stream has no gap at a restart.
// Rules: S15
TEST_P(StoreConformance, Subscriptions_topics_and_retained_messages_survive_a_reopen) {
  ASSERT_TRUE(admin(ConfigureTopic{"t", {.retain = 1h}}));
  ASSERT_TRUE(admin(Subscribe{"early", "t", {}}));
  const Time start = now();
  Publish publish = publication("t", key("7"), "a");
  publish.headers = {{"h", "v"}};
  ASSERT_TRUE(apply(together(publish)));
  reopen();

  ASSERT_TRUE(apply(together(publication("t", key("7"), "b"))));
  EXPECT_EQ(bodies(lease_one("early")), (Bodies{"a", "b"}));
  ASSERT_TRUE(admin(Subscribe{"late", "t", start}));
  const Lease lease = lease_one("late");
  EXPECT_EQ(bodies(lease), (Bodies{"a", "b"}));
  EXPECT_EQ(lease.messages.at(0).headers, publish.headers);
}

// The time that the store was closed counts.
// Rules: S15 S17
TEST_P(StoreConformance, Retention_ends_on_time_although_the_store_was_closed) {
  ASSERT_TRUE(admin(ConfigureTopic{"t", {.retain = 1h}}));
  const Time start = now();
  ASSERT_TRUE(apply(together(publication("t", unkeyed, "old"))));
  clock().advance(30min);
  ASSERT_TRUE(apply(together(publication("t", unkeyed, "young"))));
  close();
  clock().advance(30min);
  reopen();
  ASSERT_TRUE(admin(Subscribe{"late", "t", start}));
  EXPECT_EQ(drain("late"), Bodies{"young"});
}

// A compare-and-set that began before the restart is decided by the same versions.
// Rules: S1 Records
TEST_P(StoreConformance, Records_keep_their_versions_over_a_reopen) {
  const Version version = apply(together(write("state", "k", "1"))).value().versions.at(0);
  ASSERT_TRUE(apply(together(write("state", "gone", "1"))));
  ASSERT_TRUE(apply(together(write("state", "gone", std::nullopt))));
  reopen();
  EXPECT_EQ(Answer(store().record("state", "gone")).value(), std::nullopt);
  EXPECT_EQ(read_record(store(), "state", "k").version, version);
  EXPECT_TRUE(apply(together(write("state", "k", "2", version))));
}

// A workflow goes on where it stopped: the third promise of this project.
// Rules: S20
// Behaviours: execution_history_persistence
TEST_P(StoreConformance, A_history_goes_on_after_a_reopen_where_it_stopped) {
  enqueue("workflow", key("7"), "start");
  const Lease first = lease_one("workflow");
  ASSERT_TRUE(
      apply(together(append(first, 1, 0, {"a"}, "continued"), append(first, 2, 0, {"b", "c"}))));
  reopen();
  EXPECT_EQ(apply(together(append(first, 2, 0, {"x"}))).error().code, Errc::history_mismatch);
  EXPECT_TRUE(apply(together(append(first, 2, 2, {"d"}), settlement(first, {}))));
  reopen();

  const std::vector<Lease> leases = lease({.queue = "workflow", .history_from = 0});
  ASSERT_THAT(leases, SizeIs(1));
  ASSERT_TRUE(leases[0].history.has_value());
  EXPECT_EQ(leases[0].history->execution.number, 2U);
  EXPECT_EQ(leases[0].history->events, (std::vector<Bytes>{"b", "c", "d"}));
  EXPECT_EQ(
      Answer(store().history({.queue = "workflow", .key = "7", .execution = 1})).value().events,
      std::vector<Bytes>{"a"});
}

// What was removed must not come back from the disk.
// Rules: S20 S22
// Behaviours: delete_cleans_queues_and_locks
TEST_P(StoreConformance, Removed_queues_and_histories_stay_removed_over_a_reopen) {
  enqueue("workflow", key("7"), "start");
  const Lease lease = lease_one("workflow");
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a"}))));
  ASSERT_TRUE(apply(together(RemoveHistory{.token = lease.token, .through_execution = 0})));
  enqueue("gone", key("7"), "a", {.dedup_id = "d"});
  ASSERT_TRUE(dead(lease_one("gone")));
  ASSERT_TRUE(admin(Subscribe{"gone", "#", {}}));
  ASSERT_TRUE(admin(RemoveQueue{"gone"}));
  reopen();

  EXPECT_EQ(Answer(store().history({.queue = "workflow", .key = "7"})).error().code,
            Errc::not_found);
  EXPECT_EQ(Answer(store().stats("gone")).error().code, Errc::not_found);
  EXPECT_THAT(Answer(store().subscriptions()).value(), IsEmpty());
  EXPECT_FALSE(try_enqueue("gone", key("7"), "b", {.dedup_id = "d"}).value().duplicate);
  EXPECT_THAT(dead_letters("gone"), IsEmpty());
}

// All counters at once, those of what has ended included.
// Rules: S16 S1
TEST_P(StoreConformance, Everything_that_a_store_shows_is_the_same_after_three_reopens) {
  configure("orders", {.max_attempts = 2, .ttl = {}, .on_expired = OnExpired::dead});
  ASSERT_TRUE(admin(Subscribe{"orders", "t.*", {}}));
  ASSERT_TRUE(admin(ConfigureTopic{"t.a", {.retain = 1h}}));
  enqueue("orders", key("1"), "acked");
  ASSERT_TRUE(ack(lease_one("orders")));
  enqueue("orders", key("2"), "expired", {.ttl = 1s});
  clock().advance(1s);
  enqueue_all("orders", key("3"), {"backoff", "waiting"});
  ASSERT_TRUE(retry(lease_key("orders", "3"), 1h));
  enqueue("orders", key("4"), "parked");
  ASSERT_TRUE(park(lease_key("orders", "4")));
  ASSERT_TRUE(apply(together(publication("t.a", key("5"), "published"), write("state", "k", "v"))));
  const Lease lease = lease_key("orders", "5", 1h);
  ASSERT_TRUE(apply(together(append(lease, 1, 0, {"a", "b"}))));
  enqueue("orders", unkeyed, "delayed", {.delay = 1h, .name = "n"});
  enqueue("orders", unkeyed, "cancelled", {.name = "m"});
  ASSERT_TRUE(cancel("orders", "m"));

  const Snapshot before = snapshot(store());
  for (int i = 0; i < 3; ++i) {
    reopen();
    expect_same(before, snapshot(store()));
  }
}

}  // namespace
}  // namespace strand::conformance
