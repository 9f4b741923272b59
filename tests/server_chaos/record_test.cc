// The judge of the clients' records: a true record passes, and each thing that must never happen,
// written into it, is found.

#include "server_chaos/record.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/store.h>

#include "model/violation.h"
#include "server_chaos/client.h"
#include "threads/recorded_client.h"

namespace strand::server_chaos {
namespace {

using model::Invariant;
using model::Recorder;
using namespace std::chrono_literals;

Send message(const std::string& queue, const std::string& body) {
  Send send;
  send.queue = queue;
  send.key = "k";
  send.body = body;
  return send;
}

Transaction sending(const std::vector<Send>& sends) {
  Transaction transaction;
  transaction.sends = sends;
  return transaction;
}

Transaction acking(const Lease& lease) {
  Transaction transaction;
  Settle& settle = transaction.settles.emplace_back();
  settle.token = lease.token;
  for (const Message& one : lease.messages)
    settle.outcomes.push_back({.id = one.id});
  return transaction;
}

class ChaosJudge : public ::testing::Test {
 protected:
  ChaosJudge() {
    for (const char* queue : {"in", "out"}) {
      Transaction transaction;
      transaction.admin =
          ConfigureQueue{.queue = queue, .settings = {.max_attempts = 0, .backoff = {}}};
      store_->apply(transaction).value();
    }
  }

  // Five messages were sent, of which two have gone on to the next queue, and one from there.
  void work() {
    alice_.apply({sending({message("in", "a")}), sending({message("in", "b")})});
    alice_.apply(sending({message("in", "c"), message("in", "d")}));
    const auto first = tom_.lease({.queue = "in", .messages = 2});
    Transaction onward = acking(first.at(0));
    onward.sends = {message("out", "from a"), message("out", "from b")};
    tom_.apply(onward);
    const auto second = tom_.lease({.queue = "out", .messages = 1});
    tom_.apply(acking(second.at(0)));
    alice_.apply(sending({message("in", "e")}));
  }

  // A transaction whose answer alice never got.
  void doubt(const Transaction& transaction, bool applied) {
    const auto now = std::chrono::steady_clock::now();
    const model::Call call{.begin = now, .end = now, .store_time = Time{}};
    if (applied) store_->apply(transaction).value();
    doubtful_.push_back({.call = call, .transaction = transaction});
  }

  // All records, and what is left.
  void collect() {
    records_ = {alice_.take_record(), tom_.take_record()};
    records_[0].doubtful = doubtful_;
    remains_ = {remains_of(*store_, "in"), remains_of(*store_, "out")};
  }

  [[nodiscard]] std::optional<Invariant> found() {
    try {
      judge(records_, remains_);
      return std::nullopt;
    } catch (const model::Violation& violation) {
      what_ = violation.what();
      return violation.invariant();
    }
  }

  // The leases that tom was given.
  Recorder::Leased& lease(std::size_t number) {
    for (Recorder::Entry& entry : records_[1].entries) {
      auto* leased = std::get_if<Recorder::Leased>(&entry);
      if (leased != nullptr && number-- == 0) return *leased;
    }
    throw std::out_of_range("no such lease");
  }

  std::unique_ptr<Store> store_ = open("memory:").value();
  std::atomic<std::uint64_t> confirmed_ = 0;
  Client alice_{*store_, "alice", Manner::trusting, 1, confirmed_};
  Client tom_{*store_, "tom", Manner::repeating, 2, confirmed_};
  std::vector<Doubtful> doubtful_;
  std::vector<ClientRecord> records_;
  std::vector<model::Remains> remains_;
  std::string what_;
};

TEST_F(ChaosJudge, Accepts_what_is_true) {
  work();
  collect();
  EXPECT_EQ(found(), std::nullopt) << what_;
}

TEST_F(ChaosJudge, Accepts_doubtful_transactions_that_were_applied_and_that_were_not) {
  work();
  doubt(sending({message("in", "f"), message("out", "g")}), true);
  doubt(sending({message("in", "h")}), false);
  const auto leases = tom_.lease({.queue = "in", .messages = 1});
  Transaction onward = acking(leases.at(0));
  onward.sends.push_back(message("out", "a sign"));
  doubt(onward, true);
  collect();
  EXPECT_EQ(found(), std::nullopt) << what_;
}

TEST_F(ChaosJudge, Finds_a_confirmed_message_that_is_lost) {
  work();
  collect();
  remains_[0].left.erase(remains_[0].left.begin());
  EXPECT_EQ(found(), Invariant::nothing_lost);
  EXPECT_THAT(what_, ::testing::HasSubstr("'c'"));
}

TEST_F(ChaosJudge, Finds_a_transaction_that_was_applied_twice) {
  work();
  store_->apply(sending({message("in", "e")})).value();
  collect();
  EXPECT_EQ(found(), Invariant::exactly_once_id);
  EXPECT_THAT(what_, ::testing::HasSubstr("'e' was sent once and is there twice"));
}

TEST_F(ChaosJudge, Finds_a_doubtful_transaction_that_was_applied_twice) {
  work();
  doubt(sending({message("in", "f")}), true);
  store_->apply(sending({message("in", "f")})).value();
  collect();
  EXPECT_EQ(found(), Invariant::exactly_once_id);
}

TEST_F(ChaosJudge, Finds_half_a_transaction) {
  work();
  doubt(sending({message("in", "f"), message("out", "g")}), false);
  store_->apply(sending({message("in", "f")})).value();
  collect();
  EXPECT_EQ(found(), Invariant::one_end);
  EXPECT_THAT(what_, ::testing::HasSubstr("half a transaction"));
}

TEST_F(ChaosJudge, Finds_that_an_ack_went_without_what_it_sends) {
  work();
  const auto leases = tom_.lease({.queue = "in", .messages = 1});
  Transaction onward = acking(leases.at(0));
  store_->apply(onward).value();
  onward.sends.push_back(message("out", "a sign"));
  doubt(onward, false);
  collect();
  EXPECT_EQ(found(), Invariant::nothing_lost);
}

TEST_F(ChaosJudge, Finds_what_was_applied_though_it_was_said_that_it_was_not) {
  work();
  store_->apply(sending({message("in", "unavailable")})).value();
  collect();
  EXPECT_EQ(found(), Invariant::contract);
}

TEST_F(ChaosJudge, Finds_messages_in_another_order_than_they_were_sent) {
  work();
  collect();
  std::ranges::reverse(lease(0).lease.messages);
  EXPECT_EQ(found(), Invariant::lane_order);
}

TEST_F(ChaosJudge, Finds_transactions_of_one_call_in_another_order) {
  work();
  collect();
  ASSERT_EQ(records_[0].together.size(), 1U);
  std::ranges::reverse(records_[0].together[0].sent);
  EXPECT_EQ(found(), Invariant::lane_order);
}

TEST_F(ChaosJudge, Finds_a_message_in_front_of_which_an_older_one_waits) {
  work();
  collect();
  auto& messages = lease(0).lease.messages;
  messages.erase(messages.begin());
  EXPECT_EQ(found(), Invariant::lane_order);
}

TEST_F(ChaosJudge, Finds_two_holders_of_one_lane) {
  work();
  tom_.lease({.queue = "in", .messages = 1});
  // The other one got the same, though the lease of the first runs on.
  const auto other = store_->lease({.queue = "in", .key = "k", .seize = true}).value();
  collect();
  Recorder::Leased second = lease(2);
  second.lease = other.at(0);
  second.call.begin = second.call.end;
  records_[0].entries.emplace_back(second);
  EXPECT_EQ(found(), Invariant::lane_order);
  EXPECT_THAT(what_, ::testing::HasSubstr("runs until"));
}

TEST_F(ChaosJudge, Finds_an_epoch_that_comes_again) {
  work();
  collect();
  lease(1).lease.token = lease(0).lease.token;
  EXPECT_EQ(found(), Invariant::current_epoch);
}

TEST_F(ChaosJudge, Finds_an_ack_by_one_whose_lease_was_over) {
  work();
  const auto old = tom_.lease({.queue = "in", .messages = 1, .lease = 1ms});
  std::this_thread::sleep_for(10ms);
  tom_.apply(acking(tom_.lease({.queue = "in", .messages = 1}).at(0)));
  tom_.apply(acking(old.at(0)));
  collect();
  auto& late = std::get<Recorder::Applied>(records_[1].entries.back());
  ASSERT_EQ(late.answer.error().code, Errc::lease_lost);
  late.answer = Receipt{.time = late.call.store_time};
  EXPECT_EQ(found(), Invariant::current_epoch);
}

TEST_F(ChaosJudge, Finds_counts_that_do_not_add_up) {
  work();
  collect();
  ++remains_[0].stats.acked;
  EXPECT_EQ(found(), Invariant::conservation);
}

TEST_F(ChaosJudge, Finds_an_answer_that_no_client_may_get) {
  work();
  Transaction nonsense = sending({message("in", "f")});
  nonsense.settles.push_back({.token = Token(Epoch{7}, 8, 9)});
  alice_.apply(nonsense);
  collect();
  EXPECT_EQ(found(), Invariant::contract);
  EXPECT_THAT(what_, ::testing::HasSubstr("alice"));
}

}  // namespace
}  // namespace strand::server_chaos
