// Lies that a store could tell its threads: the recorder catches each of them by name.

#include "model/recorder.h"

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "model/violation.h"

namespace strand::model {
namespace {

using namespace std::chrono_literals;
using Kind = Outcome::Kind;

constexpr Time start{std::chrono::hours{24}};

// Writes a record by hand. Each call begins after the one before it has ended, a millisecond later.
class RecorderTest : public ::testing::Test {
 protected:
  Call next() {
    Call call;
    call.begin = std::chrono::steady_clock::time_point{now_ - start + 1us};
    now_ += 1ms;
    call.end = std::chrono::steady_clock::time_point{now_ - start};
    call.store_time = now_;
    return call;
  }
  void pass(Duration time) { now_ += time; }

  static Send message(std::uint64_t id, std::optional<std::string> key = "k") {
    Send send;
    send.queue = "q";
    send.key = std::move(key);
    send.body = "body " + std::to_string(id);
    send.name = "name " + std::to_string(id);
    return send;
  }

  // A confirmed send; the body follows from the id.
  void send(std::uint64_t id) { send(message(id), {.id = MessageId{id}}); }
  void send(const Send& asked, Sent answered, std::optional<TransactionId> transaction_id = {}) {
    Recorder::Applied applied{.call = next()};
    applied.transaction.id = transaction_id;
    applied.transaction.sends.push_back(asked);
    applied.answer->time = applied.call.store_time;
    applied.answer->sent.push_back(answered);
    if (!answered.duplicate) {
      due_.try_emplace(answered.id, applied.call.store_time + asked.delay);
    }
    log_.add(applied);
  }

  Message delivered(std::uint64_t id, std::uint32_t deliveries = 1) {
    Message delivered;
    delivered.id = MessageId{id};
    delivered.body = "body " + std::to_string(id);
    delivered.deliveries = deliveries;
    delivered.due = due_[MessageId{id}];
    return delivered;
  }

  static Token token(std::uint64_t epoch) { return {Epoch{epoch}, 0, 0}; }

  void lease(std::uint64_t epoch, std::vector<Message> messages, Duration duration = 10ms) {
    Recorder::Leased leased{.call = next()};
    leased.lease.token = token(epoch);
    leased.lease.queue = "q";
    leased.lease.key = "k";
    leased.lease.messages = std::move(messages);
    leased.lease.expires_at = leased.call.store_time + duration;
    log_.add(leased);
  }

  void settle(std::uint64_t epoch, const std::vector<std::pair<std::uint64_t, Kind>>& outcomes,
              std::optional<Errc> error = {}, Duration delay = {}) {
    Recorder::Applied applied{.call = next()};
    Settle& settle = applied.transaction.settles.emplace_back();
    settle.token = token(epoch);
    for (const auto& [id, kind] : outcomes) {
      settle.outcomes.push_back({.id = MessageId{id}, .kind = kind, .delay = delay});
    }
    applied.answer->time = applied.call.store_time;
    if (error) applied.answer = failure(*error, "");
    log_.add(applied);
  }

  void cancel(std::uint64_t id) {
    Recorder::Applied applied{.call = next()};
    applied.transaction.cancels.push_back({.queue = "q", .name = "name " + std::to_string(id)});
    applied.answer->cancelled.push_back(true);
    log_.add(applied);
  }

  void redrive(std::uint64_t id) {
    Recorder::Applied applied{.call = next()};
    applied.transaction.admin = Redrive{.queue = "q", .ids = {MessageId{id}}};
    log_.add(applied);
  }

  void count(QueueStats stats) {
    log_.add(Recorder::Counted{.call = next(), .queue = "q", .stats = stats});
  }

  void left(std::uint64_t id) {
    remains_.left.emplace_back().id = MessageId{id};
    ++remains_.stats.ready;
  }
  void dead(std::uint64_t id) {
    remains_.dead.emplace_back().id = MessageId{id};
    ++remains_.stats.dead;
  }
  void ends(std::uint64_t acked, std::uint64_t dropped = 0) {
    QueueStats& stats = remains_.stats;
    stats.acked = acked;
    stats.dropped = dropped;
    stats.accepted = acked + dropped + stats.dead + stats.live();
  }

  // The invariant that the recorder finds broken, if any.
  std::optional<Invariant> verdict() {
    try {
      recorder_.check(std::span(&remains_, 1));
    } catch (const Violation& violation) {
      return violation.invariant();
    }
    return std::nullopt;
  }

  Recorder recorder_{3};
  Recorder::Log& log_ = recorder_.log();
  Remains remains_{.queue = "q"};
  Time now_ = start;
  std::map<MessageId, Time> due_;
};

TEST_F(RecorderTest, An_honest_record_is_accepted) {
  send(1);
  send(2);
  send(3);
  send(4);
  count({.accepted = 4, .ready = 4});
  lease(1, {delivered(1), delivered(2)});
  settle(1, {{1, Kind::ack}, {2, Kind::retry}}, {}, 2ms);
  pass(2ms);
  lease(2, {delivered(2, 2)}, 5ms);
  pass(5ms);
  lease(3, {delivered(2, 3)});
  settle(2, {{2, Kind::ack}}, Errc::lease_lost);
  settle(3, {{2, Kind::dead}});
  lease(4, {delivered(3)});
  redrive(2);
  cancel(3);
  settle(4, {{3, Kind::ack}}, Errc::lease_lost);
  lease(5, {delivered(2, 4)});
  settle(5, {{2, Kind::ack}});
  left(4);
  ends(2, 1);
  EXPECT_EQ(verdict(), std::nullopt);
}

// --- I1 and I4 ---

TEST_F(RecorderTest, A_confirmed_message_that_is_nowhere_is_lost) {
  send(1);
  EXPECT_EQ(verdict(), Invariant::nothing_lost);
}

TEST_F(RecorderTest, A_message_with_another_body_is_lost) {
  send(1);
  Message changed = delivered(1);
  changed.body = "else";
  lease(1, {changed});
  EXPECT_EQ(verdict(), Invariant::nothing_lost);
}

TEST_F(RecorderTest, Only_duplicates_of_a_message_are_a_loss) {
  Send twice = message(1);
  twice.dedup_id = "d";
  send(twice, {.id = MessageId{1}, .duplicate = true});
  EXPECT_EQ(verdict(), Invariant::nothing_lost);
}

TEST_F(RecorderTest, A_message_does_not_come_back_after_its_ack) {
  send(1);
  lease(1, {delivered(1)});
  settle(1, {{1, Kind::ack}});
  lease(2, {delivered(1, 2)});
  EXPECT_EQ(verdict(), Invariant::one_end);
}

TEST_F(RecorderTest, An_acked_message_is_no_dead_letter) {
  send(1);
  lease(1, {delivered(1)});
  settle(1, {{1, Kind::ack}});
  dead(1);
  ends(1);
  EXPECT_EQ(verdict(), Invariant::one_end);
}

TEST_F(RecorderTest, A_cancelled_message_is_not_acked) {
  send(1);
  lease(1, {delivered(1)});
  cancel(1);
  settle(1, {{1, Kind::ack}});
  EXPECT_EQ(verdict(), Invariant::one_end);
}

// --- I2 ---

TEST_F(RecorderTest, A_lease_carries_messages_in_the_order_of_their_places) {
  send(1);
  send(2);
  lease(1, {delivered(2), delivered(1)});
  EXPECT_EQ(verdict(), Invariant::lane_order);
}

TEST_F(RecorderTest, A_message_does_not_overtake_an_older_one) {
  send(1);
  send(2);
  lease(1, {delivered(2)});
  EXPECT_EQ(verdict(), Invariant::lane_order);
}

TEST_F(RecorderTest, A_retried_message_blocks_those_behind_it) {
  send(1);
  send(2);
  lease(1, {delivered(1)});
  settle(1, {{1, Kind::retry}}, {}, 1s);
  lease(2, {delivered(2)});
  EXPECT_EQ(verdict(), Invariant::lane_order);
}

TEST_F(RecorderTest, A_redriven_message_has_its_old_place) {
  send(1);
  send(2);
  lease(1, {delivered(1)});
  settle(1, {{1, Kind::dead}});
  redrive(1);
  lease(2, {delivered(2)});
  EXPECT_EQ(verdict(), Invariant::lane_order);
}

TEST_F(RecorderTest, A_lane_has_one_holder_until_its_lease_ends) {
  send(1);
  lease(1, {delivered(1)}, 1h);
  lease(2, {delivered(1, 2)});
  EXPECT_EQ(verdict(), Invariant::lane_order);
}

TEST_F(RecorderTest, A_lost_lease_is_not_renewed) {
  send(1);
  lease(1, {delivered(1)}, 0ms);
  lease(2, {delivered(1, 2)});
  log_.add(Recorder::Renewed{.call = next(), .token = token(1), .expires_at = now_});
  EXPECT_EQ(verdict(), Invariant::lane_order);
}

TEST_F(RecorderTest, Ids_grow_in_the_order_of_sends) {
  send(2);
  send(1);
  left(1);
  left(2);
  ends(0);
  EXPECT_EQ(verdict(), Invariant::lane_order);
}

// --- I3 ---

TEST_F(RecorderTest, A_settle_after_the_next_epoch_was_granted_must_fail) {
  send(1);
  lease(1, {delivered(1)}, 0ms);
  lease(2, {delivered(1, 2)});
  settle(1, {{1, Kind::ack}});
  EXPECT_EQ(verdict(), Invariant::current_epoch);
}

TEST_F(RecorderTest, A_token_ends_its_lease_once) {
  send(1);
  lease(1, {delivered(1)});
  settle(1, {{1, Kind::release}});
  settle(1, {});
  EXPECT_EQ(verdict(), Invariant::current_epoch);
}

TEST_F(RecorderTest, A_stale_settle_fails_with_lease_lost) {
  send(1);
  lease(1, {delivered(1)}, 0ms);
  settle(1, {{1, Kind::ack}}, Errc::message_not_leased);
  EXPECT_EQ(verdict(), Invariant::current_epoch);
}

TEST_F(RecorderTest, The_current_holder_is_not_refused) {
  send(1);
  lease(1, {delivered(1)}, 1h);
  settle(1, {{1, Kind::ack}}, Errc::lease_lost);
  EXPECT_EQ(verdict(), Invariant::current_epoch);
}

TEST_F(RecorderTest, Epochs_grow) {
  send(1);
  lease(2, {delivered(1)});
  settle(2, {{1, Kind::release}});
  lease(1, {delivered(1, 2)});
  EXPECT_EQ(verdict(), Invariant::current_epoch);
}

// --- I5 ---

TEST_F(RecorderTest, Counts_add_up_whenever_they_are_read) {
  send(1);
  count({.accepted = 1});
  left(1);
  ends(0);
  EXPECT_EQ(verdict(), Invariant::conservation);
}

TEST_F(RecorderTest, Counts_include_what_was_confirmed_before) {
  send(1);
  count({});
  left(1);
  ends(0);
  EXPECT_EQ(verdict(), Invariant::conservation);
}

TEST_F(RecorderTest, The_last_counts_are_those_of_the_calls) {
  send(1);
  left(1);
  ends(1);
  EXPECT_EQ(verdict(), Invariant::conservation);
}

// --- I6 ---

TEST_F(RecorderTest, The_repeat_of_a_transaction_gets_the_first_receipt) {
  const TransactionId id{.client = 1, .number = 1};
  send(message(1), {.id = MessageId{1}}, id);
  send(message(1), {.id = MessageId{2}}, id);
  EXPECT_EQ(verdict(), Invariant::exactly_once_id);
}

TEST_F(RecorderTest, A_dedup_id_is_accepted_once) {
  Send twice = message(1);
  twice.dedup_id = "d";
  send(twice, {.id = MessageId{1}});
  send(twice, {.id = MessageId{2}});
  EXPECT_EQ(verdict(), Invariant::exactly_once_id);
}

TEST_F(RecorderTest, Two_messages_do_not_share_an_id) {
  send(message(1), {.id = MessageId{1}});
  send(message(2), {.id = MessageId{1}});
  EXPECT_EQ(verdict(), Invariant::exactly_once_id);
}

// --- I8 ---

TEST_F(RecorderTest, A_delayed_message_is_not_delivered_early) {
  Send later = message(1);
  later.delay = 1h;
  send(later, {.id = MessageId{1}});
  lease(1, {delivered(1)});
  EXPECT_EQ(verdict(), Invariant::not_early);
}

TEST_F(RecorderTest, A_retry_is_not_delivered_before_its_delay_is_over) {
  send(1);
  lease(1, {delivered(1)});
  settle(1, {{1, Kind::retry}}, {}, 1s);
  lease(2, {delivered(1, 2)});
  EXPECT_EQ(verdict(), Invariant::not_early);
}

// --- The contract ---

TEST_F(RecorderTest, Nobody_gets_a_message_that_nobody_sent) {
  lease(1, {delivered(1)});
  EXPECT_EQ(verdict(), Invariant::contract);
}

TEST_F(RecorderTest, A_lease_carries_something) {
  lease(1, {});
  EXPECT_EQ(verdict(), Invariant::contract);
}

}  // namespace
}  // namespace strand::model
