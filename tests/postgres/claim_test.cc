// Claims of several processes and their bounds, on the database's own clock: what the conformance
// suite, with its clock by hand and its one process, does not reach.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/strand.h>

#include "postgres/fixture.h"

namespace strand::postgres {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Stamp = Clock::time_point;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ClaimTest : public PostgresTest {
 protected:
  std::unique_ptr<Store> opened() {
    auto store = open(url());
    EXPECT_TRUE(store) << store.error().message;
    return store ? std::move(*store) : nullptr;
  }

  static void send(Store& store, const std::string& body, std::optional<std::string> key = {}) {
    Transaction transaction;
    Send& send = transaction.sends.emplace_back();
    send.queue = "q";
    send.body = body;
    send.key = std::move(key);
    const auto receipt = store.apply(transaction);
    ASSERT_TRUE(receipt) << receipt.error().message;
  }

  static std::vector<Lease> leased(Store& store, std::uint32_t lanes = 1) {
    auto leases = store.lease({.queue = "q", .lanes = lanes, .lease = 1min});
    EXPECT_TRUE(leases) << leases.error().message;
    return leases ? std::move(*leases) : std::vector<Lease>();
  }

  static Result<Receipt> settled(Store& store, const Lease& lease,
                                 Outcome::Kind kind = Outcome::Kind::ack) {
    Transaction transaction;
    Settle& settle = transaction.settles.emplace_back();
    settle.token = lease.token;
    for (const Message& message : lease.messages)
      settle.outcomes.push_back({.id = message.id, .kind = kind});
    return store.apply(transaction);
  }

  // A sender that has its turn and does not commit: a script, and the function that senders call.
  std::unique_ptr<Connection> slow_sender(const std::string& key) {
    auto connection = connect_to(url());
    script(*connection,
           fmt::format(
               "set search_path = strand, pg_temp; begin; select send('{{q}}', {}, '{{slow}}', "
               "null, '{{4}}', '{{2}}', null, null, null, null, null, null, null, null, "
               "1000, 1000000, null)",
               key.empty() ? "null" : "'{" + key + "}'"));
    return connection;
  }
};

class SlowSender : public ClaimTest, public ::testing::WithParamInterface<std::string> {};

// Others are served meanwhile, more than once, so that the bound could move past it.
TEST_P(SlowSender, Is_served_as_soon_as_it_commits) {
  const auto store = opened();
  const std::string& key = GetParam();
  const auto others = [&](int i) {
    return key.empty() ? std::nullopt : std::optional("other-" + std::to_string(i));
  };
  send(*store, "first", others(0));
  ASSERT_THAT(leased(*store), SizeIs(1));
  const Stamp begin = Clock::now();
  const auto slow = slow_sender(key);
  for (int i = 1; i <= 5; ++i) {
    send(*store, "quick", others(i));
    ASSERT_THAT(leased(*store), SizeIs(1));
  }
  ASSERT_THAT(leased(*store), IsEmpty());
  script(*slow, "commit");
  auto late = leased(*store);
  // One that takes longer than a second is found when everything is looked at.
  if (Clock::now() - begin > 900ms) {
    while (late.empty() && Clock::now() - begin < 30s)
      late = leased(*store);
  }
  ASSERT_THAT(late, SizeIs(1));
  EXPECT_EQ(late[0].messages.at(0).body, "slow");
}

INSTANTIATE_TEST_SUITE_P(Kinds, SlowSender, ::testing::Values("", "k"),
                         [](const auto& info) { return info.param.empty() ? "unkeyed" : "keyed"; });

// How many of six messages have a key.
class TogetherTest : public ClaimTest, public ::testing::WithParamInterface<int> {};

TEST_P(TogetherTest, Several_get_different_messages_and_all_of_them) {
  constexpr int messages = 300;
  const auto first = opened();
  const auto second = opened();
  for (int i = 0; i < messages; ++i)
    send(*first, "m", i % 6 >= GetParam() ? std::nullopt : std::optional(fmt::format("key-{}", i)));
  std::atomic<int> got = 0;
  std::atomic<int> refused = 0;
  const auto work = [&](Store& store) {
    // What the other has locked and leaves is hidden for a moment.
    for (int in_vain = 0; in_vain < 50;) {
      const auto leases = leased(store, 7);
      in_vain = leases.empty() ? in_vain + 1 : 0;
      for (const Lease& lease : leases) {
        got += static_cast<int>(lease.messages.size());
        refused += settled(store, lease) ? 0 : 1;
      }
    }
  };
  {
    const std::jthread one([&] { work(*first); });
    const std::jthread two([&] { work(*second); });
    const std::jthread three([&] { work(*second); });
  }
  EXPECT_EQ(got, messages);
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(first->stats("q").value().acked, static_cast<std::uint64_t>(messages));
}

INSTANTIATE_TEST_SUITE_P(Keyed, TogetherTest, ::testing::Values(0, 3, 6));

// Of leases that one request got together, each goes its own way.
TEST_F(ClaimTest, Leases_of_one_request_are_settled_from_many_threads) {
  const auto store = opened();
  const auto other = opened();
  constexpr int messages = 60;
  for (int i = 0; i < messages; ++i)
    send(*store, "m");
  const auto leases = leased(*store, messages);
  ASSERT_THAT(leases, SizeIs(messages));
  std::atomic<std::size_t> next = 0;
  std::atomic<int> failed = 0;
  const auto work = [&](Store& handle) {
    for (std::size_t i = next++; i < leases.size(); i = next++) {
      const auto kind = i % 5 == 0 ? Outcome::Kind::release : Outcome::Kind::ack;
      failed += settled(handle, leases[i], kind) ? 0 : 1;
      failed += settled(handle, leases[i]) ? 1 : 0;  // it is over
    }
  };
  {
    const std::jthread one([&] { work(*store); });
    const std::jthread two([&] { work(*other); });
    const std::jthread three([&] { work(*other); });
  }
  EXPECT_EQ(failed, 0);
  EXPECT_THAT(leased(*other, messages), SizeIs(messages / 5));
  const QueueStats stats = store->stats("q").value();
  EXPECT_EQ(stats.acked, static_cast<std::uint64_t>(messages - messages / 5));
  EXPECT_EQ(stats.leased, static_cast<std::uint64_t>(messages / 5));
}

// Whoever applies what is due may be slow: a lease is over when its time is.
TEST_F(ClaimTest, A_lease_that_ran_out_is_lost_before_anybody_has_noticed) {
  const auto store = opened();
  send(*store, "in a bundle");
  const auto bundled = leased(*store, 10);
  for (int i = 0; i < 2; ++i)
    send(*store, "leased together, then renewed alone");
  const auto alone = leased(*store, 10);
  send(*store, "in a lane", "key");
  const auto lane = leased(*store);
  ASSERT_EQ(bundled.size() + alone.size() + lane.size(), 4U);
  ASSERT_TRUE(store->renew(std::span(&alone[0].token, 1), 1min)[0]);

  const auto connection = connect_to(url());
  script(*connection,
         "set search_path = strand, pg_temp;"
         "select pg_advisory_lock(hashtextextended('strand due strand', 0));"
         "update bundles set lease_until = 1; update lanes set lease_until = 1;"
         "update messages set lease_until = 1 where lease_until is not null");
  for (const Lease& lease : {bundled[0], alone[0], alone[1], lane[0]}) {
    const auto late = settled(*store, lease);
    ASSERT_FALSE(late) << lease.messages.at(0).body;
    EXPECT_EQ(late.error().code, Errc::lease_lost) << late.error().message;
    EXPECT_FALSE(store->renew(std::span(&lease.token, 1), 1min)[0]);
  }
}

TEST_F(ClaimTest, A_request_is_remembered_as_long_as_its_leases_of_unkeyed_messages_live) {
  const auto store = opened();
  send(*store, "m");
  send(*store, "m");
  const LeaseRequest request{
      .queue = "q", .request = RequestId{.client = 1, .number = 1}, .lanes = 2, .lease = 1min};
  const auto leases = store->lease(request).value();
  ASSERT_THAT(leases, SizeIs(2));
  const auto connection = connect_to(url());
  script(*connection,
         "set search_path = strand, pg_temp; update requests set forget_at = 1; select upkeep()");
  const auto again = store->lease(request).value();
  ASSERT_THAT(again, SizeIs(2));
  EXPECT_EQ(again[1].token, leases[1].token);
  for (const Lease& lease : leases)
    EXPECT_TRUE(settled(*store, lease));
  script(*connection, "select upkeep()");
  EXPECT_EQ(query(*connection, "select count(*) from requests").int8(0, 0), 0);
}

// A lane that its hint hides from this process has a turn below the bound; when its time has come
// it is served like any other.
TEST_F(ClaimTest, A_lane_that_was_hidden_is_served_when_its_grace_is_over) {
  const auto store = opened();
  send(*store, "for its owner", "hinted");
  const auto first = leased(*store);
  ASSERT_THAT(first, SizeIs(1));
  Transaction transaction;
  Settle& settle = transaction.settles.emplace_back();
  settle.token = first[0].token;
  settle.outcomes = {{.id = first[0].messages.at(0).id, .kind = Outcome::Kind::release}};
  settle.owner_hint = OwnerHint{.owner = "somebody", .valid_for = 1h, .grace = 900ms};
  const auto released = store->apply(transaction);
  ASSERT_TRUE(released) << released.error().message;
  const Stamp begin = Clock::now();
  std::vector<Lease> late;
  for (int i = 0; i < 5 && late.empty(); ++i) {
    send(*store, "another", fmt::format("key-{}", i));
    const auto leases = leased(*store);
    ASSERT_THAT(leases, SizeIs(1));
    if (leases[0].key != "hinted") continue;
    late = leases;
    EXPECT_GT(Clock::now() - begin, 800ms);
  }
  while (late.empty() && Clock::now() - begin < 8s)
    late = leased(*store);
  ASSERT_THAT(late, SizeIs(1));
  EXPECT_EQ(late[0].key, "hinted");
}

}  // namespace
}  // namespace strand::postgres
