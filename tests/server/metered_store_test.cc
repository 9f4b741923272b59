#include "server/metered_store.h"

#include <array>
#include <chrono>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strand::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

OpenOptions at(std::shared_ptr<Clock> clock) {
  OpenOptions options;
  options.clock = std::move(clock);
  return options;
}

class Metered : public testing::Test {
 protected:
  // The line of a figure, such as `strand_leases_total 1`.
  void expect(const std::string& line) { EXPECT_THAT(metrics_.text(), HasSubstr(line + "\n")); }

  void send(const std::string& body, std::optional<std::string> dedup = std::nullopt) {
    Transaction transaction;
    Send& send = transaction.sends.emplace_back();
    send.queue = "orders";
    send.key = "k";
    send.body = body;
    send.dedup_id = std::move(dedup);
    ASSERT_TRUE(metered_.apply(transaction));
  }
  Lease lease_one() {
    LeaseRequest request;
    request.queue = "orders";
    request.lanes = 1;
    request.lease = 1min;
    auto leases = metered_.lease(request);
    EXPECT_TRUE(leases && leases->size() == 1);
    return leases->front();
  }

  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  std::unique_ptr<Store> store_ = *open("memory:", at(clock_));
  Metrics metrics_;
  MeteredStore metered_{*store_, metrics_};
};

TEST_F(Metered, What_becomes_of_messages_is_counted) {
  send("a", "once");
  send("a", "once");
  send("b");
  send("c");
  send("d");
  const Lease lease = lease_one();
  ASSERT_EQ(lease.messages.size(), 4U);
  Transaction settle;
  settle.settles.push_back(
      {.token = lease.token,
       .outcomes = {{.id = lease.messages[0].id},
                    {.id = lease.messages[1].id, .kind = Outcome::Kind::dead, .reason = "no"},
                    {.id = lease.messages[2].id, .kind = Outcome::Kind::release}}});
  const auto settled = metered_.apply(settle);
  ASSERT_TRUE(settled) << settled.error().message;
  expect("strand_messages_total{outcome=\"sent\"} 4");
  expect("strand_messages_total{outcome=\"duplicate\"} 1");
  expect("strand_messages_total{outcome=\"acked\"} 1");
  expect("strand_messages_total{outcome=\"dead\"} 1");
  expect("strand_messages_total{outcome=\"released\"} 1");
  expect("strand_messages_total{outcome=\"retried\"} 0");
  expect("strand_leases_total 1");
  expect("strand_delivered_total 4");
}

TEST_F(Metered, What_is_published_and_cancelled_is_counted) {
  Transaction transaction;
  transaction.publishes.emplace_back().topic = "t";
  Send& send = transaction.sends.emplace_back();
  send.queue = "orders";
  send.name = "n";
  ASSERT_TRUE(metered_.apply(transaction));
  Transaction cancel;
  cancel.cancels.push_back({.queue = "orders", .name = "n"});
  cancel.cancels.push_back({.queue = "orders", .name = "another"});
  ASSERT_TRUE(metered_.apply(cancel));
  expect("strand_messages_total{outcome=\"published\"} 1");
  expect("strand_messages_total{outcome=\"cancelled\"} 1");
}

TEST_F(Metered, What_was_refused_is_an_error_and_nothing_else) {
  send("a");
  const Lease lease = lease_one();
  clock_->advance(2min);
  static_cast<void>(lease_one());
  Transaction late;
  late.settles.push_back({.token = lease.token, .outcomes = {{.id = lease.messages[0].id}}});
  EXPECT_EQ(metered_.apply(late).error().code, Errc::lease_lost);
  expect("strand_messages_total{outcome=\"acked\"} 0");
  expect("strand_store_errors_total{call=\"apply\",code=\"lease_lost\"} 1");

  EXPECT_FALSE(metered_.stats("nowhere"));
  EXPECT_FALSE(metered_.renew(std::array{lease.token}, 1min).front());
  EXPECT_FALSE(metered_.pull(lease.token, Cursor{}, {}));
  expect("strand_store_errors_total{call=\"stats\",code=\"not_found\"} 1");
  expect("strand_store_errors_total{call=\"renew\",code=\"lease_lost\"} 1");
  expect("strand_store_errors_total{call=\"pull\",code=\"lease_lost\"} 1");
}

TEST_F(Metered, Every_call_is_timed_under_its_name) {
  send("a");
  const Lease lease = lease_one();
  static_cast<void>(metered_.pull(lease.token, lease.cursor, {}));
  static_cast<void>(metered_.renew(std::array{lease.token}, 1min));
  static_cast<void>(metered_.history({.queue = "orders", .key = "k"}));
  static_cast<void>(metered_.instances({.queue = "orders"}));
  static_cast<void>(metered_.record("s", "k"));
  static_cast<void>(metered_.records({.space = "s"}));
  static_cast<void>(metered_.peek({.queue = "orders"}));
  static_cast<void>(metered_.dead_letters({.queue = "orders"}));
  static_cast<void>(metered_.stats("orders"));
  static_cast<void>(metered_.queues());
  static_cast<void>(metered_.subscriptions());
  static_cast<void>(metered_.topics());
  for (const char* call :
       {"apply", "lease", "pull", "renew", "history", "instances", "record", "records", "peek",
        "dead_letters", "stats", "queues", "subscriptions", "topics"}) {
    expect("strand_store_call_seconds_count{call=\"" + std::string(call) + "\"} 1");
  }
}

TEST_F(Metered, The_transactions_of_a_call_are_counted_together) {
  std::vector<Transaction> three(3);
  for (Transaction& transaction : three)
    transaction.sends.emplace_back().queue = "orders";
  EXPECT_EQ(metered_.apply(three).size(), 3U);
  expect("strand_apply_transactions_sum 3");
  expect("strand_apply_transactions_count 1");
  expect("strand_messages_total{outcome=\"sent\"} 3");
}

}  // namespace
}  // namespace strand::server
