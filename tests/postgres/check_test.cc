// The check of a store in PostgreSQL: each kind of damage is planted with SQL, found, and mended
// where that can be done without losing anything.

#include "store/postgres/check.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <ranges>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/store.h>

#include "postgres/fixture.h"
#include "store/postgres/location.h"

namespace strand::postgres {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> kinds(const CheckReport& report) {
  std::vector<std::string> all;
  for (const Finding& finding : report.findings)
    all.push_back(finding.kind);
  return all;
}

std::string words(const CheckReport& report) {
  std::string all;
  for (const Finding& finding : report.findings)
    all += finding.kind + ": " + finding.what + "\n";
  return all;
}

class CheckTest : public PostgresTest {
 protected:
  // On a database with a store in it.
  void connect(const std::string& url) {
    location_ = parse_location(url).value();
    connection_ = connect_to(url);
  }
  CheckReport checked() {
    auto report = check(*connection_, location_);
    EXPECT_TRUE(report) << report.error().message;
    return report ? std::move(*report) : CheckReport{};
  }
  Result<RepairReport> repaired() { return repair(*connection_, location_); }
  void run_in_store(const std::string& sql) {
    script(*connection_, "set search_path = strand, pg_temp; " + sql);
  }
  std::int64_t count_in_store(const std::string& table) {
    return query(*connection_, "select count(*) from strand." + table).int8(0, 0);
  }

 private:
  Location location_;
  std::unique_ptr<Connection> connection_;
};

Lease leased(Store& store, const LeaseRequest& request) {
  auto leases = store.lease(request);
  EXPECT_TRUE(leases && leases->size() == 1) << request.queue;
  return leases->at(0);
}

Receipt applied(Store& store, const Transaction& transaction) {
  auto receipt = store.apply(transaction);
  EXPECT_TRUE(receipt) << receipt.error().message;
  return receipt ? *receipt : Receipt{};
}

Send message(std::string key, std::string body) {
  Send send;
  send.queue = "orders";
  if (!key.empty()) send.key = std::move(key);
  send.body = std::move(body);
  return send;
}

void fill_lanes(Store& store) {
  Transaction sends;
  for (const char* key : {"ready", "ready", "held", "blocked", "blocked", "dies", "history", ""})
    sends.sends.push_back(message(key, "some body"));
  sends.sends[0].headers = {{.name = "a", .value = "1"}};
  sends.sends[0].dedup_id = "once";
  sends.sends.push_back(message("later", "x"));
  sends.sends.back().delay = 1h;
  sends.sends.push_back(message("", "leased alone"));
  sends.sends.back().priority = Priority::urgent;
  sends.sends.back().ttl = 2h;
  sends.id = TransactionId{.client = 7, .number = 3, .time = store.now(), .lowest_unanswered = 2};
  applied(store, sends);

  leased(store, {.queue = "orders", .lease = 5h});  // the urgent one, which stands alone
  leased(store, {.queue = "orders",
                 .key = "held",
                 .request = RequestId{.client = 7, .number = 1},
                 .lease = 5h});
  applied(store, {.sends = {message("held", "behind the lease")}});
  const Lease blocked = leased(store, {.queue = "orders", .key = "blocked", .messages = 1});
  applied(store, {.settles = {{.token = blocked.token,
                               .outcomes = {{.id = blocked.messages.at(0).id,
                                             .kind = strand::Outcome::Kind::retry,
                                             .delay = 1h,
                                             .reason = "busy"}}}}});
  const Lease dies = leased(store, {.queue = "orders", .key = "dies"});
  applied(store, {.settles = {{.token = dies.token,
                               .outcomes = {{.id = dies.messages.at(0).id,
                                             .kind = strand::Outcome::Kind::dead,
                                             .reason = "hopeless"}}}}});
}

// Leases that one request got together.
void fill_bundles(Store& store) {
  for (int i = 0; i < 3; ++i) {
    Send send{.queue = "plain"};
    send.body = "one of three";
    applied(store, {.sends = {send}});
  }
  ASSERT_EQ(store.lease({.queue = "plain", .lanes = 2, .lease = 5h}).value().size(), 2U);
}

void fill_histories(Store& store) {
  const Lease lease = leased(store, {.queue = "orders", .key = "history", .lease = 5h});
  applied(store, {.appends = {{.token = lease.token, .events = {"1", "2"}, .close = "continued"},
                              {.token = lease.token, .execution = 2, .events = {"a", "b", "c"}}},
                  .trim_histories = {{.token = lease.token, .execution = 2, .before = 1}},
                  .records = {{.space = "space", .key = "key", .value = "value"}}});
}

void fill_topics(Store& store) {
  applied(store, {.admin = Subscribe{.queue = "all", .pattern = "orders.#"}});
  applied(store, {.admin = Subscribe{.queue = "some", .pattern = "orders.*"}});
  applied(store, {.admin = ConfigureTopic{.topic = "orders.new", .settings = {.retain = 24h}}});
  Publish publish;
  publish.topic = "orders.new";
  publish.body = "for many";
  applied(store, {.publishes = {publish}});
}

// A database with a store in it that has something of everything; copies of it are quick to make.
const std::string& filled_database() {
  static const std::string name = [] {
    const std::string url = shared_server().fresh_database();
    auto store = open(url);
    EXPECT_TRUE(store) << store.error().message;
    fill_lanes(**store);
    fill_bundles(**store);
    fill_histories(**store);
    fill_topics(**store);
    store->reset();
    return url.substr(url.rfind('/') + 1);
  }();
  return name;
}

std::string copy_of_filled() {
  static int copies = 0;
  const std::string name = "checked_" + std::to_string(++copies);
  const std::string& from = filled_database();
  // A session that has just ended is there for a moment more, and would be in the way.
  shared_server().wait_until(
      "select 1 where not exists (select 1 from pg_stat_activity "
      "where datname = '" +
      from + "')");
  shared_server().sql("create database " + name + " owner strand template " + from);
  return shared_server().url(name);
}

struct Damage {
  std::string name;
  std::string sql;
  std::string kind;
  bool repairable = true;
};
void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.sql; }

std::vector<Damage> damages_of_histories() {
  return {
      {"instance", "update instances set first_execution = 0", "bad_instance", false},
      {"instance_trimmed_beyond", "update instances set first_event = 4", "bad_instance", false},
      {"execution_trimmed_beyond", "update executions set first_event = 3", "bad_execution", false},
      {"execution_gone", "delete from executions", "missing_execution", false},
      {"execution_open", "update executions set outcome = null", "bad_execution", false},
      {"execution_of_none", "insert into executions values (0, 1, 0, 0, '', 'x', 0, 0)",
       "orphan_execution"},
      {"event_gone", "delete from events where execution = 2 and number = 1", "missing_event",
       false},
      {"event_not_trimmed", "update instances set first_event = 0", "missing_event", false},
      {"event_trimmed", "insert into events select number, execution, 0, 'x' from instances",
       "orphan_event"},
      {"event_beyond",
       "insert into events select number, execution, length + 3, 'x' from instances",
       "orphan_event"},
  };
}

std::vector<Damage> damages_of_others() {
  static const std::string lane_of = "(select id from lanes where key = 'held')";
  return {
      {"numbers_again", "select setval('numbers', 1)", "number_not_reserved"},
      {"epochs_again", "select setval('epochs', 1)", "number_not_reserved"},
      {"queue_gone", "delete from queues where name = 'orders'", "missing_queue"},
      {"setting", "update queues set max_attempts = -1 where name = 'all'", "bad_queue", false},
      {"pattern", "update queues set pattern = 'a.#.b' where name = 'all'", "bad_subscription"},
      {"tallies_of_none", "insert into tallies (queue, accepted) values (99, 1)",
       "orphan_counters"},
      {"dead_count", "insert into tallies (queue, dead) values (1, 1)", "wrong_dead_count"},
      {"live_count", "insert into tallies (queue, accepted) values (1, 77)", "not_conserved"},
      {"byte_count", "insert into tallies (queue, bytes) values (1, 77)", "wrong_byte_count"},
      {"lane_gone", "delete from lanes where key = 'ready'", "missing_lane"},
      {"due_before_sent", "update messages set due = enqueued_at - 1 where turn is not null",
       "bad_message", false},
      {"dead_attempts", "update dead set attempts = -1", "bad_dead_letter", false},
      {"ttl_forgotten", "update messages set expires_at = due + 1000000 where turn is not null",
       "bad_state"},
      {"woken_in_backoff", "update messages set wakes_at = null where not_before is not null",
       "bad_state"},
      {"asleep_for_ever", "update messages set wakes_at = wakes_at + 1 where wakes_at is not null",
       "bad_state"},
      {"dead_and_alive",
       "update dead d set id = (select min(id) from messages m where m.queue = d.queue)",
       "live_and_dead"},
      {"bodies_gone", "delete from bodies", "missing_body", false},
      {"body_of_none", "insert into bodies values (0, 'x')", "orphan_body"},
      {"size", "update messages set bytes = bytes + 1 where turn is not null", "wrong_body_size",
       false},
      {"retention", "update topics set retain = 0", "bad_topic", false},
      {"topic_gone", "delete from topics", "missing_topic"},
      {"publication", "update retained set priority = 7", "bad_publication", false},
      {"empty_lane", "insert into lanes (id, queue, key) values (0, 1, 'empty')", "orphan_lane"},
      {"half_a_hint", "update lanes set hint_grace = 1 where key = 'ready'", "bad_lane"},
      {"latest_time", "update lanes set last_time = 0 where key = 'ready'", "bad_lane"},
      {"counts", "update lanes set woken_2 = 7 where key = 'ready'", "wrong_lane_counts"},
      {"carried_count", "update lanes set carried = 0 where key = 'held'", "wrong_lane_counts"},
      {"barrier_lost", "update lanes set barrier_due = null, barrier_id = null", "wrong_barrier"},
      {"turn_lost", "update lanes set turn = null, ready_since = null where key = 'ready'",
       "wrong_turn"},
      {"turn_while_held", "update lanes set turn = 1, ready_since = 1 where key = 'held'",
       "wrong_turn"},
      {"turn_priority", "update lanes set priority = 0 where key = 'ready'", "wrong_turn"},
      {"turn_of_message", "update messages set turn = null where lane is null and turn is not null",
       "wrong_turn"},
      {"turn_gone", "delete from ready", "wrong_turn"},
      {"turn_of_none", "insert into ready values (1, 2, 0, 0, 0, null, 0, '')", "wrong_turn"},
      {"turn_of_another_size", "update ready set bytes = bytes + 1", "wrong_turn"},
      {"label", "update lanes set label = 'other' where key = 'history'", "lane_label_differs"},
      {"half_a_lease", "update lanes set lease_until = null where key = 'held'", "bad_lease"},
      {"half_a_lease_alone",
       "update messages set lease_until = null where lane is null and epoch is not null",
       "bad_lease"},
      {"bundle_count", "update bundles set held = 7", "bad_lease"},
      {"bundle_of_others", "update bundles set ids = array[0, 0]", "bad_lease"},
      {"bundled_and_ready",
       "insert into ready select queue, priority, turn, id, 0, null, bytes, '' from messages "
       "where id = (select ids[1] from bundles)",
       "wrong_turn"},
      {"parked_and_bundled",
       "update messages set park_reason = 'x' where id = (select ids[1] from bundles)",
       "lease_of_parked_lane"},
      {"parked_and_leased", "update lanes set park_reason = 'x' where key = 'held'",
       "lease_of_parked_lane"},
      {"parked_and_leased_alone",
       "update messages set park_reason = 'x' where lane is null and epoch is not null",
       "lease_of_parked_lane"},
      {"lease_of_another",
       "update messages set epoch = 1 where epoch is not null and lane = " + lane_of,
       "lease_of_foreign_message"},
      {"epoch_twice",
       "update messages set epoch = (select epoch from lanes where key = 'held') "
       "where lane is null and epoch is not null",
       "epoch_taken"},
      {"request_gone", "delete from requests", "unknown_request"},
      {"request_of_nothing", "update requests set places = '{}'", "bad_request"},
      {"dedup_of_none", "update dedup set queue = 99", "orphan_dedup"},
      {"dedup_without_message", "update dedup set first = 0", "bad_dedup"},
      {"client_gone", "delete from clients", "missing_client"},
      {"client_early", "update clients set forget_at = 1", "client_forgotten_early"},
      {"receipt_answered", "update clients set lowest = 100", "answered_receipt"},
      {"receipt_short", "update receipts set duplicate = '{}'", "bad_receipt", false},
      {"record", "update records set version = 0", "bad_record", false},
  };
}

const std::vector<Damage>& damages() {
  static const std::vector<Damage> all = [] {
    std::vector<Damage> joined = damages_of_others();
    for (Damage& damage : damages_of_histories())
      joined.push_back(std::move(damage));
    return joined;
  }();
  return all;
}

class CheckedDamage : public CheckTest, public testing::WithParamInterface<Damage> {};

TEST_P(CheckedDamage, Is_found_and_mended_if_that_loses_nothing) {
  connect(copy_of_filled());
  const auto messages = count_in_store("messages");
  const auto events = count_in_store("events");
  run_in_store(GetParam().sql);

  const CheckReport before = checked();
  const auto found = std::ranges::find(before.findings, GetParam().kind, &Finding::kind);
  ASSERT_NE(found, before.findings.end()) << words(before);
  EXPECT_EQ(found->repairable, GetParam().repairable) << words(before);

  const auto done = repaired();
  ASSERT_TRUE(done) << done.error().message;
  const CheckReport after = checked();
  EXPECT_EQ(after.repairable, 0U) << words(after);
  if (GetParam().repairable) {
    EXPECT_EQ(after.found, 0U) << words(after);
    EXPECT_EQ(count_in_store("messages"), messages) << "a repair loses no message";
    EXPECT_LE(count_in_store("events"), events) << "what was planted is gone";
  } else {
    EXPECT_THAT(kinds(after), Contains(GetParam().kind)) << "a person has to see to it";
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, CheckedDamage, testing::ValuesIn(damages()),
                         [](const auto& info) { return info.param.name; });

TEST_F(CheckTest, One_repair_mends_everything_and_the_store_works_again) {
  const std::string url = copy_of_filled();
  connect(url);
  const auto messages = count_in_store("messages");
  const auto events = count_in_store("events");
  for (const Damage& damage : damages()) {
    if (damage.repairable) run_in_store(damage.sql);
  }
  EXPECT_GT(checked().found, 20U);
  const auto done = repaired();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(kinds(checked()), IsEmpty()) << words(checked());
  EXPECT_EQ(count_in_store("messages"), messages);
  EXPECT_EQ(count_in_store("events"), events);

  auto store = open(url);
  ASSERT_TRUE(store) << store.error().message;
  std::uint64_t held = 0;
  for (const QueueInfo& queue : (*store)->queues().value()) {
    const auto leases = (*store)->lease({.queue = queue.name, .lanes = 100});
    ASSERT_TRUE(leases) << queue.name << ": " << leases.error().message;
    for (const Lease& lease : *leases) {
      held += lease.messages.size();
      Settle settle{.token = lease.token};
      for (const Message& one : lease.messages)
        settle.outcomes.push_back({.id = one.id});
      applied(**store, {.settles = {settle}});
    }
  }
  // Two of the lane that was ready, one that stands alone, three of a bundle that was not what it
  // said and of its queue, two publications; the others are leased,
  // parked by what was planted, or wait for their time.
  EXPECT_EQ(held, 8U);
  EXPECT_EQ(count_in_store("messages"), messages - static_cast<std::int64_t>(held));
  EXPECT_THAT(kinds(checked()), IsEmpty()) << words(checked());
}

TEST_F(CheckTest, A_sound_store_is_found_sound_and_counted) {
  connect(copy_of_filled());
  const CheckReport report = checked();
  EXPECT_EQ(report.found, 0U) << words(report);
  EXPECT_EQ(report.messages, 15U);
  EXPECT_EQ(report.dead_letters, 1U);
  EXPECT_EQ(report.queues, 4U);
  EXPECT_GT(report.rows, 30U);
}

TEST_F(CheckTest, Of_many_findings_of_a_kind_some_are_shown_and_all_are_counted) {
  connect(copy_of_filled());
  run_in_store("insert into bodies select -i, 'x' from generate_series(1, 250) i");
  const CheckReport report = checked();
  EXPECT_EQ(report.found, 250U);
  EXPECT_EQ(report.findings.size(), static_cast<std::size_t>(findings_max));
  EXPECT_THAT(report.counts, testing::ElementsAre(testing::Pair("orphan_body", 250U)));
}

// What two leave who go at the same time, as many as one look finds.
TEST_F(CheckTest, Upkeep_drops_the_bodies_that_belong_to_nothing_and_no_others) {
  connect(copy_of_filled());
  run_in_store("insert into bodies select -i, 'x' from generate_series(1, 250) i");
  run_in_store("insert into bodies select 1000000 + i, 'x' from generate_series(1, 200) i");
  run_in_store("select release_left_bodies()");
  const CheckReport report = checked();
  EXPECT_EQ(report.found, 0U) << words(report);
}

TEST_F(CheckTest, A_store_is_checked_while_it_is_in_use_and_repaired_only_when_nobody_uses_it) {
  const std::string url = copy_of_filled();
  connect(url);
  auto store = open(url);
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_EQ(checked().found, 0U);
  const auto refused = repaired();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::in_use) << refused.error().message;
  store->reset();
  EXPECT_TRUE(repaired());
}

TEST_F(CheckTest, A_repair_keeps_the_tables_as_they_were) {
  connect(copy_of_filled());
  run_in_store("update lanes set woken_2 = 7 where key = 'ready'");
  const auto done = repaired();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(done->copy, testing::MatchesRegex("strand_backup_[0-9]{14}"));
  const std::string lanes = "lanes where key = 'ready' and woken_2 = ";
  EXPECT_EQ(count_in_store(lanes + "2"), 1);
  EXPECT_EQ(count_in_store(lanes + "7"), 0);
  run_in_store("do $$ begin assert (select woken_2 from " + done->copy +
               ".lanes where key = 'ready') = 7; assert (select count(*) from " + done->copy +
               ".messages) = 15; end $$");
}

TEST_F(CheckTest, There_must_be_a_store) {
  const auto connection = connect_to(url());
  const auto report = check(*connection, parse_location(url()).value());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Errc::not_found);
}

// Upkeep adds up tallies while a queue is removed; the next queue of that number must not inherit
// them.
TEST_F(CheckTest, A_queue_that_is_removed_during_upkeep_leaves_nothing) {
  auto store = open(url());
  ASSERT_TRUE(store) << store.error().message;
  for (int i = 0; i < 3; ++i)
    applied(**store, {.sends = {message("", "x")}});
  const auto slow = connect_to(url());
  std::thread upkeep([&] {
    script(*slow, "set search_path = strand, pg_temp; select upkeep(); select pg_sleep(0.4)");
  });
  shared_server().wait_until("select 1 from pg_stat_activity where wait_event = 'PgSleep'");
  applied(**store, {.admin = RemoveQueue{.queue = "orders"}});
  upkeep.join();
  connect(url());
  EXPECT_THAT(kinds(checked()), IsEmpty()) << words(checked());
  applied(**store, {.sends = {message("", "x")}});
  EXPECT_EQ((*store)->stats("orders").value().accepted, 1U);
}

// A load of everything at once, from several processes' worth of stores.
void storm(const std::string& url, unsigned seed, const std::atomic<bool>& stop) {
  auto store = open(url);
  ASSERT_TRUE(store) << store.error().message;
  std::mt19937 random(seed);
  const auto roll = [&](unsigned sides) { return static_cast<unsigned>(random() % sides); };
  const auto key = [&] { return roll(3) == 0 ? std::string() : "k" + std::to_string(roll(5)); };
  const auto any_of = [&](const std::vector<Message>& messages) {
    std::vector<strand::Outcome> outcomes;
    for (const Message& one : messages) {
      const auto kind = static_cast<strand::Outcome::Kind>(roll(10) < 7 ? 0 : roll(4));
      if (roll(8) == 0) continue;
      outcomes.push_back({.id = one.id, .kind = kind});
      if (kind == strand::Outcome::Kind::retry) outcomes.back().delay = Duration{roll(30)};
    }
    return outcomes;
  };
  while (!stop) {
    if (roll(5) < 2) {
      Transaction sends;
      for (unsigned i = roll(6) + 1; i > 0; --i) {
        sends.sends.push_back(message(key(), "body"));
        sends.sends.back().priority = static_cast<Priority>(roll(4));
        if (roll(4) == 0) sends.sends.back().delay = Duration{roll(50)};
        if (roll(4) == 0) sends.sends.back().ttl = Duration{roll(80) + 1};
        if (roll(9) == 0) sends.sends.back().dedup_id = std::to_string(roll(20));
      }
      std::ignore = store->get()->apply(sends);
    } else if (roll(8) == 0) {
      Publish publish;
      publish.topic = "t.x";
      publish.key = "k" + std::to_string(roll(3));
      publish.body = "shared";
      std::ignore = store->get()->apply(Transaction{.publishes = {publish}});
    } else if (roll(40) == 0) {
      const char* const queue = roll(2) == 0 ? "orders" : "two";
      const auto dead = store->get()->dead_letters({.queue = queue});
      if (dead && !dead->items.empty()) {
        std::ignore = store->get()->apply(
            Transaction{.admin = Redrive{.queue = queue, .ids = {dead->items.front().id}}});
      }
      if (roll(3) == 0) {
        std::ignore = store->get()->apply(Transaction{.admin = PurgeQueue{.queue = queue}});
      }
      if (roll(3) == 0) {
        std::ignore = store->get()->apply(
            Transaction{.admin = RemoveQueue{.queue = "orders", .force = true}});
      }
    } else {
      const char* const queues[] = {"orders", "one", "two"};
      const auto leases = store->get()->lease(
          {.queue = queues[roll(3)], .lanes = roll(3) + 1, .lease = Duration{roll(60) + 1}});
      if (!leases || leases->empty()) continue;
      for (const Lease& lease : *leases) {
        Settle settle{.token = lease.token, .outcomes = any_of(lease.messages)};
        if (roll(5) == 0) settle.then = Settle::Then::keep;
        if (lease.key && roll(30) == 0) settle.then = Settle::Then::park;
        if (roll(6) != 0) std::ignore = store->get()->apply(Transaction{.settles = {settle}});
        if (settle.then == Settle::Then::park) {
          std::ignore = store->get()->apply(
              Transaction{.admin = ResumeLane{.queue = lease.queue, .key = lease.key}});
        }
      }
    }
  }
}

TEST_F(CheckTest, A_store_is_whole_at_every_commit_while_many_use_it) {
  {
    auto store = open(url());
    ASSERT_TRUE(store) << store.error().message;
    applied(**store, {.admin = Subscribe{.queue = "one", .pattern = "t.#"}});
    applied(**store, {.admin = Subscribe{.queue = "two", .pattern = "t.*"}});
  }
  std::atomic<bool> stop = false;
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i)
    threads.emplace_back([&, i] { storm(url(), seed + i, stop); });
  const auto end = std::chrono::steady_clock::now() + 3s;
  // Two who leave a body at the same time leave it to the upkeep.
  const auto worth_saying = [](const CheckReport& report) {
    return std::ranges::any_of(report.findings,
                               [](const Finding& one) { return one.kind != "orphan_body"; });
  };
  connect(url());
  CheckReport report;
  while (std::chrono::steady_clock::now() < end && !worth_saying(report))
    report = checked();
  stop = true;
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_FALSE(worth_saying(report)) << words(report);
  report = checked();
  EXPECT_FALSE(worth_saying(report)) << words(report);
}

}  // namespace
}  // namespace strand::postgres
