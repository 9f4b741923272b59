// S22: a transaction happens as a whole, whichever of its parts fails.
//
// Each test takes a transaction with something of every part, adds one part that must fail, and
// sees that nothing of it happened: not in what the store shows, and not in what it remembers.
// Then it applies the same transaction without that part, and sees that all of it happens.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "conformance/parts.h"
#include "conformance/snapshot.h"
#include "conformance/suite.h"

namespace strand::conformance {
namespace {

const std::string space{state_space};

// A store in which every part of `everything` has something to do.
struct Scene {
  Lease work;       // of an instance with one event
  Lease other;      // of another lane
  Lease stale;      // of a third one: over
  Version known{};  // of the record "known"
};

Receipt must(Store& store, const Transaction& transaction) {
  return Answer(store.apply(transaction)).value();
}

Lease must_lease(Store& store, const std::string& key) {
  return Answer(store.lease({.queue = "work", .key = key})).value().at(0);
}

Scene scene_in(Store& store) {
  must(store, together(Subscribe{"subscriber", "topic", {}}));
  must(store, together(send("work", key("7"), "start"), send("work", key("8"), "other"),
                       send("work", unkeyed, "timer", {.delay = 1h, .name = "timer"}),
                       send("work", key("9"), "stale")));
  Scene scene{.work = must_lease(store, "7"),
              .other = must_lease(store, "8"),
              .stale = must_lease(store, "9")};
  must(store, together(append(scene.work, 1, 0, {"start"}), all_acked(scene.stale)));
  scene.known = must(store, together(write(space, "known", "v"))).versions.at(0);
  return scene;
}

// Not one of its parts is without effect.
Transaction everything(const Scene& scene, Time now) {
  return together(TransactionId{.client = 1, .number = 1, .time = now, .lowest_unanswered = 1},
                  append(scene.work, 1, 1, {"event"}), all_acked(scene.work),
                  settlement(scene.other, {retried(scene.other.messages.at(0).id, 1h)}),
                  Cancel{"work", "timer"}, send("work", key("7"), "sent", {.dedup_id = "sent"}),
                  send("new queue", unkeyed, "sent", {.name = "name"}),
                  publication_once("topic", "published", "published"),
                  write(space, "known", "changed", scene.known), write(space, "new", "v"));
}

void expect_everything(const Snapshot& after) {
  ASSERT_THAT(after.queues, SizeIs(3));
  EXPECT_EQ(after.queues[0].info.name, "new queue");
  EXPECT_EQ(bodies(after.queues[0].messages), Bodies{"sent"});
  EXPECT_EQ(after.queues[1].info.name, "subscriber");
  EXPECT_EQ(bodies(after.queues[1].messages), Bodies{"published"});
  const QueueSnapshot& work = after.queues[2];
  EXPECT_EQ(bodies(work.messages), (Bodies{"other", "sent"}));
  EXPECT_EQ(work.stats.acked, 2U) << "of this transaction, and of the stale lease before";
  EXPECT_EQ(work.stats.backoff, 1U);
  EXPECT_EQ(work.stats.dropped, 1U);
  EXPECT_EQ(work.stats.leases, 0U);
  ASSERT_THAT(work.histories, SizeIs(1));
  EXPECT_EQ(work.histories[0].events, (std::vector<Bytes>{"start", "event"}));
  ASSERT_THAT(after.records, SizeIs(2));
  EXPECT_EQ(after.records[0].value, "changed");
  EXPECT_EQ(after.records[1].value, "v");
}

// `part`, added to everything else, fails with `code` and undoes it all; without it all happens,
// and is new: neither its dedup ids nor its transaction id were remembered.
template <class Part>
void expect_to_fail_everything(Store& store, const Scene& scene, Part part, Errc code) {
  const Transaction good = everything(scene, store.now());
  Transaction bad = good;
  add(bad, std::move(part));
  expect_refused(store, bad, {.code = code});

  const Receipt receipt = must(store, good);
  EXPECT_FALSE(receipt.sent.at(0).duplicate);
  EXPECT_FALSE(receipt.published.at(0).duplicate);
  EXPECT_EQ(receipt.cancelled, std::vector<bool>{true});
  expect_everything(snapshot(store));
}

// The control: what the others take apart does happen as a whole.
// Rules: S22
// Behaviours: multi_operation_atomic_ack, worker_ack_atomicity
TEST_P(StoreConformance, A_transaction_of_all_parts_does_all_of_it) {
  const Scene scene = scene_in(store());
  const Receipt receipt = apply(everything(scene, now())).value();
  EXPECT_EQ(receipt.time, now());
  EXPECT_THAT(receipt.sent, SizeIs(2));
  EXPECT_THAT(receipt.published, SizeIs(1));
  EXPECT_THAT(receipt.cancelled, SizeIs(1));
  EXPECT_THAT(receipt.versions, SizeIs(2));
  expect_everything(snapshot(store()));
}

// Histories come first of all parts, and fail before anything else was done.
// Rules: S22 S20
TEST_P(StoreConformance, A_failing_append_undoes_all_parts) {
  const Scene scene = scene_in(store());
  expect_to_fail_everything(store(), scene, append(scene.work, 1, 99, {"x"}),
                            Errc::history_mismatch);
}

// The very first part to be looked at.
// Rules: S22 S20
TEST_P(StoreConformance, A_failing_removal_of_a_history_undoes_all_parts) {
  const Scene scene = scene_in(store());
  expect_to_fail_everything(store(), scene,
                            RemoveHistory{.token = scene.work.token, .through_execution = 9},
                            Errc::history_mismatch);
}

// Checked against what the appends leave, which must be undone with it.
// Rules: S22 S20
TEST_P(StoreConformance, A_failing_trim_undoes_all_parts) {
  const Scene scene = scene_in(store());
  expect_to_fail_everything(store(), scene, trim(scene.work, 1, 99), Errc::history_mismatch);
}

// The other leases of the transaction are good, and stay so.
// Rules: S22 S5
// Behaviours: atomicity_failure_rollback
TEST_P(StoreConformance, A_stale_token_undoes_all_parts) {
  const Scene scene = scene_in(store());
  expect_to_fail_everything(store(), scene, settlement(scene.stale, {}), Errc::lease_lost);
}

// The same for a token that is none.
// Rules: S22 S5
TEST_P(StoreConformance, A_forged_token_undoes_all_parts) {
  const Scene scene = scene_in(store());
  Settle forged = settlement(scene.stale, {});
  forged.token = Token{forged.token.epoch(), forged.token.place(), ~forged.token.seal()};
  expect_to_fail_everything(store(), scene, forged, Errc::invalid_token);
}

// It is inside a settle of which another outcome was fine.
// Rules: S22 S4
TEST_P(StoreConformance, An_outcome_that_does_not_fit_undoes_all_parts) {
  const Scene scene = scene_in(store());
  Transaction bad = everything(scene, now());
  bad.settles.back().outcomes.push_back(acked(MessageId{999'999}));
  expect_refused(store(), bad, {.code = Errc::message_not_leased});
  ASSERT_TRUE(apply(everything(scene, now())));
  expect_everything(snapshot(store()));
}

// The name was taken by the send before it, in the same transaction.
// Rules: S22
TEST_P(StoreConformance, A_send_whose_name_is_taken_undoes_all_parts) {
  const Scene scene = scene_in(store());
  expect_to_fail_everything(store(), scene, send("new queue", unkeyed, "x", {.name = "name"}),
                            Errc::name_taken);
}

// Room that was taken is given back.
// Rules: S22 S19
TEST_P(StoreConformance, A_send_to_a_full_queue_undoes_all_parts) {
  const Scene scene = scene_in(store());
  configure("subscriber", {.ttl = {}, .max_length = 1});
  // Sends come before publications: the first takes the only place, the second finds none.
  const Transaction bad = [&] {
    Transaction transaction = everything(scene, now());
    add(transaction, send("subscriber", unkeyed, "x"));
    add(transaction, send("subscriber", unkeyed, "y"));
    return transaction;
  }();
  expect_refused(store(), bad, {.code = Errc::queue_full});
  ASSERT_TRUE(apply(everything(scene, now())));
  expect_everything(snapshot(store()));
}

// A limit is checked for every part before any of them lasts.
// Rules: S22 S19
TEST_P(StoreConformance, A_send_that_is_too_large_undoes_all_parts) {
  const Scene scene = scene_in(store());
  expect_to_fail_everything(store(), scene,
                            send("work", unkeyed, Bytes(Limits{}.body_bytes_max + 1, 'x')),
                            Errc::limit_exceeded);
}

// The publication before it had reached its subscribers already.
// Rules: S22 S15
TEST_P(StoreConformance, A_publication_to_no_topic_undoes_all_parts) {
  const Scene scene = scene_in(store());
  expect_to_fail_everything(store(), scene, publication("a..b", unkeyed, "x"),
                            Errc::invalid_argument);
}

// The cancel before it had dropped its message already.
// Rules: S22
TEST_P(StoreConformance, A_cancel_in_no_queue_undoes_all_parts) {
  const Scene scene = scene_in(store());
  expect_to_fail_everything(store(), scene, Cancel{"", "timer"}, Errc::invalid_argument);
}

// Records come last of all parts: by then everything else has been done.
// Rules: S22
TEST_P(StoreConformance, A_version_mismatch_undoes_all_parts) {
  const Scene scene = scene_in(store());
  expect_to_fail_everything(store(), scene, write(space, "known", "x", Version{999'999}),
                            Errc::version_mismatch);
}

// The write before it in the same transaction made the record: absence is expected in vain.
// Rules: S22
TEST_P(StoreConformance, A_version_mismatch_within_the_transaction_undoes_all_parts) {
  const Scene scene = scene_in(store());
  expect_to_fail_everything(store(), scene, write(space, "new", "x", Version{0}),
                            Errc::version_mismatch);
}

// What a failed transaction did to time-dependent things must be undone too: the cancelled
// message is due at its old time, and the leases end at theirs.
// Rules: S22 S17
// Behaviours: lock_released_only_on_successful_ack
TEST_P(StoreConformance, After_a_failed_transaction_everything_still_falls_due_in_its_time) {
  const Scene scene = scene_in(store());
  Transaction bad = everything(scene, now());
  add(bad, write(space, "known", "x", Version{999'999}));
  expect_refused(store(), bad, {.code = Errc::version_mismatch});

  clock().advance(30s);
  EXPECT_EQ(ack(scene.work).error().code, Errc::lease_lost);
  EXPECT_EQ(peek_one("work", "start").attempts, 1U);
  EXPECT_EQ(peek_one("work", "other").state, MessageState::ready);
  clock().advance(1h);
  EXPECT_EQ(peek_one("work", "timer").state, MessageState::ready);
}

// Nothing that was undone may come back from the disk either.
// Rules: S22 S1
TEST_P(StoreConformance, A_failed_transaction_is_still_undone_after_a_reopen) {
  const Scene scene = scene_in(store());
  Transaction bad = everything(scene, now());
  add(bad, write(space, "known", "x", Version{999'999}));
  const Snapshot before = snapshot(store());
  ASSERT_EQ(apply(bad).error().code, Errc::version_mismatch);

  reopen();
  Snapshot after = snapshot(store());
  // Where a lane stands in line may change at an open; nothing else may.
  for (std::size_t i = 0; i < after.queues.size() && i < before.queues.size(); ++i) {
    after.queues[i].stats.oldest_ready = before.queues[i].stats.oldest_ready;
  }
  expect_same(before, after);
  ASSERT_TRUE(apply(everything(scene, now())));
  expect_everything(snapshot(store()));
}

// A failed transaction uses up nothing that a good one would get: ids grow, versions grow, and
// whoever waits was not woken in vain for something that never was.
// Rules: S22
TEST_P(StoreConformance, A_queue_is_not_created_by_a_transaction_that_fails) {
  EXPECT_EQ(apply(together(send("orders", unkeyed, "a"), write("state", "k", "v", Version{99})))
                .error()
                .code,
            Errc::version_mismatch);
  EXPECT_THAT(Answer(store().queues()).value(), IsEmpty());
  EXPECT_EQ(try_lease({.queue = "orders"}).error().code, Errc::not_found);
}

// A label that a failed transaction brought would route the lane to the wrong workers.
// Rules: S22
TEST_P(StoreConformance, A_failed_transaction_labels_and_hints_nothing) {
  enqueue("orders", key("7"), "a");
  const Lease lease = lease_one("orders");
  Settle settle = settlement(lease, {});
  settle.label = "gpu";
  settle.owner_hint = OwnerHint{.owner = "me", .valid_for = 1min, .grace = 1s};
  ASSERT_EQ(apply(together(settle, send("orders", key("8"), "b", {.label = "cpu"}),
                           write("state", "k", "v", Version{99})))
                .error()
                .code,
            Errc::version_mismatch);
  ASSERT_TRUE(release(lease));
  enqueue("orders", key("8"), "b");

  const std::vector<Lease> leases =
      this->lease({.queue = "orders", .labels = {""}, .owner = "other", .lanes = 10});
  EXPECT_EQ(bodies(leases), (Bodies{"a", "b"}));
}

}  // namespace
}  // namespace strand::conformance
