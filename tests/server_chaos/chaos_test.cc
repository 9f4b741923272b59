// A server that is killed, paused and drained under load, behind connections that break. See
// README.md.

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "relay_chaos/slices.h"
#include "server_chaos/round.h"
#include "sim/random.h"

namespace strand::server_chaos {
namespace {

using relay_chaos::Slices;

std::uint64_t chosen_seed() {
  const char* given = std::getenv("STRAND_CHAOS_SEED");  // NOLINT(concurrency-mt-unsafe)
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

bool full() {
  return std::getenv("STRAND_TEST_FULL") != nullptr;  // NOLINT(concurrency-mt-unsafe)
}

class ServerChaos : public ::testing::TestWithParam<Mix> {
 protected:
  [[nodiscard]] std::string repeat() const {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    return fmt::format(
        "the same choices (the threads may run otherwise) with STRAND_CHAOS_SEED={} "
        "build/release/server_chaos_tests --gtest_filter={}.{}",
        seed_, test->test_suite_name(), test->name());
  }

  void run_round(std::size_t times) {
    try {
      expect_enough(Round(GetParam(), random_.next()).run(times), times);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << "\n" << repeat();
    }
  }

  const std::uint64_t seed_ = chosen_seed();

 private:
  // Otherwise nothing would be proven.
  static void expect_enough(const RoundOutcome& outcome, std::size_t times) {
    const Totals& totals = outcome.totals;
    std::cout << fmt::format(
                     "{} kills, {} pauses, {} drains, {} faults of connections; {} transactions "
                     "confirmed with {} messages sent and {} settled, {} refused, {} doubtful; {} "
                     "leases, {} pulls, {} renewals; {} calls repeated, {} woken; {} messages left",
                     outcome.kills, outcome.pauses, outcome.drains, outcome.faults, totals.applied,
                     totals.sent, totals.settled, totals.refused, totals.doubtful, totals.leased,
                     totals.pulled, totals.renewed, totals.repeated, totals.woken, outcome.left)
              << std::endl;
    const std::string& befalls = GetParam().befalls;
    EXPECT_GE(outcome.kills + outcome.pauses + outcome.drains, befalls.size() * times);
    if (GetParam().name != "kills_alone") EXPECT_GE(outcome.faults, 3U);
    EXPECT_GE(totals.applied, 300U);
    EXPECT_GE(totals.sent, 300U);
    EXPECT_GE(totals.settled, 100U);
    EXPECT_GE(totals.leased, 100U);
  }

  sim::Random random_{seed_};
};

TEST_P(ServerChaos, Clients_lose_nothing_and_repeat_nothing_whatever_befalls_the_server) {
  std::cout << repeat() << std::endl;
  if (!full()) {
    run_round(1);
    return;
  }
  // A run that was interrupted goes on with the next slice.
  Slices slices(fmt::format("server_chaos_{}", GetParam().name), 10);
  while (const auto slice = slices.next()) {
    run_round(4);
    if (HasFailure()) return;
    slices.done(*slice);
  }
}

// One in so many pieces of a conversation: a client's call is one or a few.
std::vector<Mix> mixes() {
  return {
      {.name = "kills_alone", .faults = {}, .befalls = "kkkkkkkk"},
      {.name = "lost_answers", .faults = {.lose_answer = 60}, .befalls = "kkkk"},
      {.name = "cuts", .faults = {.cut = 80}, .befalls = "kkkk"},
      {.name = "half_closed", .faults = {.half_close = 60}, .befalls = "kkdk"},
      // Bytes that come twice can leave a connection on which the two sides do not agree any more
      // what a compressed header means, and every call fails: TCP does not do that, and gRPC stays
      // on it. So it does not last.
      {.name = "duplicates", .faults = {.cut = 80, .duplicate = 80}, .befalls = "kkkk"},
      {.name = "delays", .faults = {.delay = 20, .delay_ms = 60}, .befalls = "kkkk"},
      {.name = "throttled", .faults = {.throttle = 40}, .befalls = "kkkk"},
      {.name = "pauses",
       .faults = {.lose_answer = 100},
       .befalls = "pppp",
       .forgotten_permille = 30},
      {.name = "drains", .faults = {.cut = 150}, .befalls = "dddk"},
      {.name = "everything",
       .faults = {.lose_answer = 300,
                  .cut = 150,
                  .duplicate = 300,
                  .delay = 100,
                  .throttle = 300,
                  .half_close = 300},
       .befalls = "kpdk"},
  };
}

INSTANTIATE_TEST_SUITE_P(Mixes, ServerChaos, ::testing::ValuesIn(mixes()),
                         [](const auto& mix) { return mix.param.name; });

}  // namespace
}  // namespace strand::server_chaos
