// Many processes on one store in PostgreSQL, and what may befall them and their server. See
// README.md.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model/violation.h"
#include "postgres/server.h"
#include "postgres_faults/crew.h"
#include "pq/connection.h"
#include "sim/random.h"

namespace strand::postgres_faults {
namespace {

using namespace std::chrono_literals;
using postgres::ServerOptions;
using postgres::TestPair;
using postgres::TestServer;

std::uint64_t chosen_seed() {
  const char* given = std::getenv("STRAND_SEED");  // NOLINT(concurrency-mt-unsafe)
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

bool full() {
  return std::getenv("STRAND_TEST_FULL") != nullptr;  // NOLINT(concurrency-mt-unsafe)
}

class PostgresFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = TestServer::missing()) GTEST_SKIP() << *reason;
    std::cout << repeat() << std::endl;
  }

  [[nodiscard]] std::string repeat() const {
    return fmt::format(
        "the same choices (the processes may run otherwise) with STRAND_SEED={} "
        "build/release/postgres_faults_tests --gtest_filter=PostgresFaults.{}",
        seed_, ::testing::UnitTest::GetInstance()->current_test_info()->name());
  }

  // The model's judgement of what all have seen.
  JointRecord::Totals judge(Crew& crew) const {
    crew.wait_for_work({.applied = 100, .repeated = 1, .leased = 50});
    try {
      const JointRecord::Totals totals = crew.finish();
      std::cout << fmt::format(
          "{} transactions applied, {} refused, {} repeated, {} left by the killed; {} leases; {} "
          "attempts of unknown outcome, {} not begun\n",
          totals.applied, totals.refused, totals.repeated, totals.left, totals.leased,
          totals.unknown, totals.unavailable);
      return totals;
    } catch (const model::Violation& violation) {
      ADD_FAILURE() << violation.what() << "\nthe journals are in " << crew.folder().native()
                    << "\n"
                    << repeat();
      return {};
    }
  }

  void nap(std::int64_t ms_max) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random_.between(0, ms_max)));
  }

  const std::uint64_t seed_ = chosen_seed();
  sim::Random random_{seed_};
};

// A server that loses nothing which it has confirmed, as one would use it.
ServerOptions durable() {
  return {.durable = true, .settings = {{"synchronous_commit", "on"}, {"max_connections", "200"}}};
}

TEST_F(PostgresFaults, Many_processes_lose_nothing_and_keep_the_order_of_lanes) {
  TestServer server(durable());
  Crew crew(server.fresh_database(), seed_, {.producers = 2, .consumers = 2, .hands = 3});
  crew.wait_for_progress(full() ? 20'000 : 400);
  judge(crew);
}

TEST_F(PostgresFaults, Processes_that_are_killed_lose_nothing_and_repeat_nothing) {
  TestServer server(durable());
  Crew crew(server.fresh_database(), seed_, {});
  for (int kills = full() ? 200 : 12; kills > 0; --kills) {
    // They work between the kills too, where starting takes longer than the naps.
    if (kills % 4 == 0) crew.wait_for_progress();
    nap(300);
    crew.kill_one();
  }
  crew.wait_for_progress();
  const JointRecord::Totals totals = judge(crew);
  if (full()) EXPECT_GT(totals.left, 0) << "nobody was killed in the middle of a transaction";
}

// Half of the time one that is in the middle of a transaction, its commit perhaps.
void terminate_one(postgres::Connection& admin, std::uint64_t dice) {
  postgres::Statement statement{.sql =
                                    "select pg_terminate_backend(pid) from pg_stat_activity "
                                    "where usename = 'strand' and (state = 'active' or $1) "
                                    "order by hashtextextended(pid::text, $2) limit 1"};
  statement.params.boolean(dice % 2 == 0).int8(static_cast<std::int64_t>(dice >> 1U));
  const auto done = admin.run(postgres::Group{std::move(statement)});
  ASSERT_TRUE(done) << done.error().message;
}

TEST_F(PostgresFaults, Connections_that_the_server_ends_lose_nothing_and_repeat_nothing) {
  TestServer server(durable());
  Crew crew(server.fresh_database(), seed_, {});
  const auto admin = postgres::Connection::open(server.admin_url());
  ASSERT_TRUE(admin) << admin.error().message;
  const int times = full() ? 2000 : 60;
  for (int i = 0; i < times; ++i) {
    nap(40);
    ASSERT_NO_FATAL_FAILURE(terminate_one(**admin, random_.next()));
    if (i % 50 == 49) crew.wait_for_progress();
  }
  crew.wait_for_progress();
  const JointRecord::Totals totals = judge(crew);
  if (full()) EXPECT_GT(totals.unknown, 0) << "no commit was interrupted";
}

TEST_F(PostgresFaults, A_server_that_stops_at_once_and_starts_again_has_all_that_it_confirmed) {
  TestServer server(durable());
  Crew crew(server.fresh_database(), seed_, {});
  for (int stops = full() ? 50 : 3; stops > 0; --stops) {
    crew.wait_for_progress();
    nap(200);
    server.restart(TestServer::Stop::immediate);
  }
  crew.wait_for_progress();
  judge(crew);
}

TEST_F(PostgresFaults, A_standby_that_takes_over_has_all_that_its_primary_confirmed) {
  for (int times = full() ? 10 : 1; times > 0; --times) {
    TestPair pair(durable());
    Crew crew(pair.fresh_database(), random_.next(), {});
    crew.wait_for_progress(50);
    nap(200);
    pair.fail_over();
    crew.wait_for_progress(50);
    judge(crew);
  }
}

}  // namespace
}  // namespace strand::postgres_faults
