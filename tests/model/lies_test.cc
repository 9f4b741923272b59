// A judge that never convicts is no judge: each invariant is broken here by a hand-made lie, and
// the model must name it.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "model/model.h"

namespace strand::model {
namespace {

using namespace std::chrono_literals;

constexpr Time start{std::chrono::seconds{1'000'000}};

// Tells the model what a store did, call by call.
class Lies : public ::testing::Test {
 protected:
  Lies() { model_.reloaded({true, 0, 0, start, 0}); }

  Receipt receipt() const {
    Receipt out;
    out.time = now_;
    return out;
  }

  void apply(const Transaction& transaction, const Result<Receipt>& answer) {
    model_.apply(transaction, now_, answer, ++commit_);
  }

  // An honest send; the id is the next number.
  MessageId send(const std::string& queue, std::optional<std::string> key, Duration delay = 0ms,
                 Priority priority = Priority::normal) {
    Transaction transaction;
    Send& send = transaction.sends.emplace_back();
    send.queue = queue;
    send.key = std::move(key);
    send.body = "body " + std::to_string(next_id_);
    send.delay = delay;
    send.priority = priority;
    Receipt answer = receipt();
    answer.sent.push_back({MessageId{next_id_++}, false});
    apply(transaction, answer);
    return answer.sent.front().id;
  }

  // A lease as a store would answer it now.
  Lease lease_of(const std::string& queue, std::optional<std::string> key,
                 const std::vector<MessageId>& ids, std::uint32_t deliveries = 1) {
    Lease lease;
    lease.token = Token(Epoch{next_epoch_++}, 1, 1);
    lease.queue = queue;
    lease.key = std::move(key);
    for (const MessageId id : ids) {
      Message& message = lease.messages.emplace_back();
      message.id = id;
      message.deliveries = deliveries;
    }
    lease.expires_at = now_ + 30s;
    lease.cursor = Cursor{1};
    return lease;
  }

  void lend(const std::string& queue, const std::vector<Lease>& answer) {
    LeaseRequest request;
    request.queue = queue;
    request.lanes = static_cast<std::uint32_t>(std::max<std::size_t>(answer.size(), 1));
    model_.lease(request, now_, answer, ++commit_);
  }

  static Transaction acking(const Lease& lease) {
    Transaction transaction;
    Settle& settle = transaction.settles.emplace_back();
    settle.token = lease.token;
    for (const Message& message : lease.messages) {
      Outcome& outcome = settle.outcomes.emplace_back();
      outcome.id = message.id;
    }
    return transaction;
  }

  // All watches were called, so that this is not what the model complains of.
  static Told told_all() {
    Told told;
    told.everyone = true;
    return told;
  }

  template <class Lie>
  static void expect_caught(Invariant invariant, const std::string& number, const Lie& lie) {
    try {
      lie();
    } catch (const Violation& violation) {
      EXPECT_EQ(violation.invariant(), invariant) << violation.what();
      EXPECT_EQ(std::string(violation.what()).substr(0, number.size() + 1), number + ":");
      return;
    }
    FAIL() << "nobody has noticed";
  }

  Model model_{Limits{}};
  Time now_ = start;
  Commit commit_ = 0;
  std::uint64_t next_id_ = 1;
  std::uint64_t next_epoch_ = 1;
};

// --- I1 ---

TEST_F(Lies, I1_A_confirmed_commit_is_not_there_after_a_crash) {
  send("jobs", "a");
  model_.written(commit_, true, told_all());
  expect_caught(Invariant::nothing_lost, "I1",
                [&] { model_.reloaded({true, commit_ - 1, commit_, now_, commit_ + 1}); });
}

TEST_F(Lies, I1_A_message_is_not_among_those_that_are_shown) {
  send("jobs", "a");
  PeekQuery query;
  query.queue = "jobs";
  expect_caught(Invariant::nothing_lost, "I1", [&] { model_.peek(query, Page<PeekedMessage>{}); });
}

// --- I2 ---

TEST_F(Lies, I2_A_leased_lane_is_leased_again) {
  const MessageId first = send("jobs", "a");
  lend("jobs", {lease_of("jobs", "a", {first})});
  const MessageId second = send("jobs", "a");
  LeaseRequest request;
  request.queue = "jobs";
  request.key = "a";
  expect_caught(Invariant::lane_order, "I2", [&] {
    model_.lease(request, now_, std::vector{lease_of("jobs", "a", {second})}, ++commit_);
  });
}

TEST_F(Lies, I2_A_later_message_of_the_lane_comes_first) {
  const MessageId first = send("jobs", "a");
  const MessageId second = send("jobs", "a");
  expect_caught(Invariant::lane_order, "I2",
                [&] { lend("jobs", {lease_of("jobs", "a", {second, first})}); });
}

TEST_F(Lies, I2_A_message_of_the_lane_is_passed_over) {
  send("jobs", "a");
  const MessageId second = send("jobs", "a");
  expect_caught(Invariant::lane_order, "I2",
                [&] { lend("jobs", {lease_of("jobs", "a", {second})}); });
}

TEST_F(Lies, I2_Ids_do_not_grow) {
  send("jobs", "a");
  next_id_ = 1;
  expect_caught(Invariant::lane_order, "I2", [&] { send("jobs", "b"); });
}

// --- I3 ---

TEST_F(Lies, I3_A_lease_that_ran_out_settles) {
  const Lease stale = lease_of("jobs", "a", {send("jobs", "a")});
  lend("jobs", {stale});
  now_ += 31s;
  expect_caught(Invariant::current_epoch, "I3", [&] { apply(acking(stale), receipt()); });
}

TEST_F(Lies, I3_An_epoch_is_not_higher_than_those_before) {
  lend("jobs", {lease_of("jobs", "a", {send("jobs", "a")})});
  const MessageId other = send("jobs", "b");
  next_epoch_ = 1;
  expect_caught(Invariant::current_epoch, "I3",
                [&] { lend("jobs", {lease_of("jobs", "b", {other})}); });
}

TEST_F(Lies, I3_A_current_lease_is_refused) {
  const Lease lease = lease_of("jobs", "a", {send("jobs", "a")});
  lend("jobs", {lease});
  expect_caught(Invariant::current_epoch, "I3",
                [&] { apply(acking(lease), failure(Errc::lease_lost, "so it says")); });
}

// --- I4 ---

TEST_F(Lies, I4_An_acked_message_is_handed_out_again) {
  const Lease lease = lease_of("jobs", "a", {send("jobs", "a")});
  lend("jobs", {lease});
  apply(acking(lease), receipt());
  send("jobs", "a");
  expect_caught(Invariant::one_end, "I4",
                [&] { lend("jobs", {lease_of("jobs", "a", {lease.messages.front().id})}); });
}

TEST_F(Lies, I4_A_dead_letter_nobody_has_made) {
  send("jobs", "a");
  model_.written(commit_, true, told_all());
  DeadLettersQuery query;
  query.queue = "jobs";
  Page<DeadLetter> page;
  page.items.emplace_back().id = MessageId{1};
  expect_caught(Invariant::one_end, "I4", [&] { model_.dead_letters(query, page); });
}

// --- I5 ---

TEST_F(Lies, I5_The_counts_do_not_add_up) {
  send("jobs", "a");
  QueueStats stats;
  stats.accepted = 2;
  stats.ready = 1;
  stats.lanes_ready = 1;
  stats.oldest_ready = now_;
  expect_caught(Invariant::conservation, "I5", [&] { model_.stats("jobs", stats); });
}

TEST_F(Lies, I5_The_counts_add_up_but_are_wrong) {
  send("jobs", "a");
  QueueStats stats;
  stats.accepted = 1;
  stats.acked = 1;
  expect_caught(Invariant::conservation, "I5", [&] { model_.stats("jobs", stats); });
}

// --- I6 ---

TEST_F(Lies, I6_A_duplicate_is_accepted) {
  Transaction transaction;
  Send& send = transaction.sends.emplace_back();
  send.queue = "jobs";
  send.body = "once";
  send.dedup_id = "d";
  Receipt first = receipt();
  first.sent.push_back({MessageId{1}, false});
  apply(transaction, first);
  Receipt second = receipt();
  second.sent.push_back({MessageId{2}, false});
  expect_caught(Invariant::exactly_once_id, "I6", [&] { apply(transaction, second); });
}

TEST_F(Lies, I6_A_repeated_transaction_is_applied_again) {
  Transaction transaction;
  transaction.id = TransactionId{1, 1, now_, 1};
  Send& send = transaction.sends.emplace_back();
  send.queue = "jobs";
  send.body = "once";
  Receipt first = receipt();
  first.sent.push_back({MessageId{1}, false});
  apply(transaction, first);
  Receipt second = receipt();
  second.sent.push_back({MessageId{2}, false});
  expect_caught(Invariant::exactly_once_id, "I6", [&] { apply(transaction, second); });
}

TEST_F(Lies, I6_An_id_older_than_the_window_is_applied) {
  Transaction transaction;
  transaction.id = TransactionId{1, 1, now_, 1};
  transaction.cancels.push_back({"jobs", "name"});
  now_ += Limits{}.transaction_window;
  Receipt answer = receipt();
  answer.cancelled.push_back(false);
  expect_caught(Invariant::exactly_once_id, "I6", [&] { apply(transaction, answer); });
}

// --- I7 ---

TEST_F(Lies, I7_An_append_at_the_wrong_length_is_accepted) {
  const Lease lease = lease_of("wf", "order", {send("wf", "order")});
  lend("wf", {lease});
  Transaction transaction;
  Append& append = transaction.appends.emplace_back();
  append.token = lease.token;
  append.events = {"started"};
  apply(transaction, receipt());
  expect_caught(Invariant::one_chain, "I7", [&] { apply(transaction, receipt()); });
}

TEST_F(Lies, I7_A_history_shows_an_event_that_nobody_appended) {
  const Lease lease = lease_of("wf", "order", {send("wf", "order")});
  lend("wf", {lease});
  Transaction transaction;
  Append& append = transaction.appends.emplace_back();
  append.token = lease.token;
  append.events = {"started"};
  apply(transaction, receipt());
  model_.written(commit_, true, told_all());
  HistoryQuery query;
  query.queue = "wf";
  query.key = "order";
  History forked;
  forked.execution = {"wf", "order", 1, 1, 0, "", {}, now_, now_};
  forked.events = {"started otherwise"};
  expect_caught(Invariant::one_chain, "I7", [&] { model_.history(query, forked); });
}

TEST_F(Lies, I7_A_trim_beyond_the_end_is_accepted) {
  const Lease lease = lease_of("wf", "order", {send("wf", "order")});
  lend("wf", {lease});
  Transaction transaction;
  Append& append = transaction.appends.emplace_back();
  append.token = lease.token;
  append.events = {"started"};
  transaction.trim_histories.push_back({lease.token, 1, 2});
  expect_caught(Invariant::one_chain, "I7", [&] { apply(transaction, receipt()); });
}

TEST_F(Lies, I7_A_trimmed_event_comes_back) {
  const Lease lease = lease_of("wf", "order", {send("wf", "order")});
  lend("wf", {lease});
  Transaction transaction;
  Append& append = transaction.appends.emplace_back();
  append.token = lease.token;
  append.events = {"started", "went on"};
  transaction.trim_histories.push_back({lease.token, 1, 1});
  apply(transaction, receipt());
  model_.written(commit_, true, told_all());
  HistoryQuery query;
  query.queue = "wf";
  query.key = "order";
  History whole;
  whole.execution = {"wf", "order", 1, 2, 1, "", {}, now_, now_};
  whole.events = {"started", "went on"};
  expect_caught(Invariant::one_chain, "I7", [&] { model_.history(query, whole); });
}

// --- I8 ---

TEST_F(Lies, I8_A_delayed_message_is_handed_out_before_its_time) {
  const MessageId now = send("jobs", "a");
  const MessageId later = send("jobs", "a", 10s);
  expect_caught(Invariant::not_early, "I8",
                [&] { lend("jobs", {lease_of("jobs", "a", {now, later})}); });
}

TEST_F(Lies, I8_Time_goes_back_at_an_open) {
  now_ += 10s;
  send("jobs", "a");
  model_.written(commit_, true, told_all());
  expect_caught(Invariant::not_early, "I8",
                [&] { model_.reloaded({true, commit_, commit_, start, commit_ + 1}); });
}

// --- I9 ---

TEST_F(Lies, I9_A_less_urgent_lane_is_served_first) {
  const MessageId normal = send("jobs", "a");
  send("jobs", "b", 0ms, Priority::urgent);
  expect_caught(Invariant::fair_order, "I9",
                [&] { lend("jobs", {lease_of("jobs", "a", {normal})}); });
}

TEST_F(Lies, I9_A_lane_that_became_ready_later_is_served_first) {
  send("jobs", "a");
  const MessageId later = send("jobs", "b");
  expect_caught(Invariant::fair_order, "I9",
                [&] { lend("jobs", {lease_of("jobs", "b", {later})}); });
}

TEST_F(Lies, I9_The_eighth_lease_passes_over_the_lane_that_starves) {
  send("jobs", "slow", 0ms, Priority::low);
  now_ += 30s;
  for (int i = 0; i < 7; ++i) {
    const std::string key = "k" + std::to_string(i);
    lend("jobs", {lease_of("jobs", key, {send("jobs", key)})});
  }
  const MessageId normal = send("jobs", "k7");
  expect_caught(Invariant::fair_order, "I9",
                [&] { lend("jobs", {lease_of("jobs", "k7", {normal})}); });
}

TEST_F(Lies, I9_A_ready_lane_is_not_served_at_all) {
  send("jobs", "a");
  expect_caught(Invariant::fair_order, "I9", [&] { lend("jobs", {}); });
}

// --- I10 ---

TEST_F(Lies, I10_A_record_changes_under_another_version) {
  Transaction transaction;
  transaction.records.push_back({"space", "key", "value", Version{0}});
  Receipt first = receipt();
  first.versions = {Version{1}};
  apply(transaction, first);
  Receipt second = receipt();
  second.versions = {Version{2}};
  expect_caught(Invariant::record_versions, "I10", [&] { apply(transaction, second); });
}

TEST_F(Lies, I10_A_version_is_used_twice) {
  Transaction transaction;
  transaction.records.push_back({"space", "key", "value", {}});
  Receipt answer = receipt();
  answer.versions = {Version{1}};
  apply(transaction, answer);
  expect_caught(Invariant::record_versions, "I10", [&] { apply(transaction, answer); });
}

TEST_F(Lies, I10_A_record_is_read_that_was_never_written) {
  expect_caught(Invariant::record_versions, "I10", [&] {
    model_.record("space", "key", Record{"space", "key", Version{1}, "value"});
  });
}

// --- I11 ---

TEST_F(Lies, I11_A_message_is_left_over) {
  send("jobs", "a");
  expect_caught(Invariant::drains, "I11", [&] { model_.drained(); });
}

TEST_F(Lies, I11_Nobody_is_told_that_a_lane_is_ready) {
  send("jobs", "a");
  expect_caught(Invariant::drains, "I11", [&] { model_.written(commit_, true, {}); });
}

TEST_F(Lies, I11_The_timer_is_set_too_late) {
  send("jobs", "a", 10s);
  expect_caught(Invariant::drains, "I11", [&] { model_.next_due(now_ + 11s); });
}

// The prefix of every lie is the truth: it must pass.
TEST_F(Lies, An_honest_store_is_believed) {
  const MessageId first = send("jobs", "a");
  const MessageId second = send("jobs", "a");
  const Lease lease = lease_of("jobs", "a", {first, second});
  lend("jobs", {lease});
  apply(acking(lease), receipt());
  Told told;
  told.queues = {"jobs"};
  told.holds = {lease.token.epoch()};
  model_.written(commit_, true, told);
  QueueStats stats;
  stats.accepted = 2;
  stats.acked = 2;
  model_.stats("jobs", stats);
  model_.next_due(std::nullopt);
  model_.drained();
}

}  // namespace
}  // namespace strand::model
