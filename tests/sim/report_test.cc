// The simulator must notice when a store breaks its word, and say so in a way that helps.

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "sim/run.h"

namespace strand::sim {
namespace {

// A run on a disk that loses what it has confirmed: no store can keep its promises on it.
Plan betrayed(std::uint64_t seed) {
  Plan plan(seed);
  plan.disk_lies = true;
  plan.rates.at(static_cast<std::size_t>(Fault::power_loss)) = 50;
  return plan;
}

TEST(Simulator, Notices_that_something_confirmed_is_lost) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const sim::Run result = run(betrayed(seed), false);
    ASSERT_TRUE(result.failed) << "seed " << seed;
    EXPECT_EQ(result.failed->invariant, model::Invariant::nothing_lost) << result.failed->what;
  }
}

TEST(Simulator, Makes_a_failing_run_smaller) {
  const Plan plan = betrayed(3);
  const sim::Run whole = run(plan, false);
  ASSERT_TRUE(whole.failed);
  const Plan small = shrink(plan, *whole.failed);
  const sim::Run shrunk = run(small, false);
  ASSERT_TRUE(shrunk.failed);
  EXPECT_EQ(shrunk.failed->invariant, whole.failed->invariant);
  EXPECT_LT(shrunk.calls, whole.calls);
  EXPECT_LT(shrunk.calls, 10);  // one send, one crash, and what it takes to begin
}

TEST(Simulator, Reports_the_rule_the_trace_and_the_command_that_repeats_it) {
  const std::string text = report(betrayed(3));
  EXPECT_NE(text.find("I1: nothing confirmed is lost"), std::string::npos) << text;
  EXPECT_NE(text.find("power is lost"), std::string::npos) << text;
  EXPECT_NE(text.find("./dev sim --seed 3 --trace"), std::string::npos) << text;
  EXPECT_NE(text.find("made smaller"), std::string::npos) << text;
}

TEST(Plan, Names_only_what_differs_from_its_seed) {
  Plan plan(7);
  EXPECT_EQ(plan.arguments(), "--seed 7");
  plan.steps_max = 12;
  plan.faults.at(static_cast<std::size_t>(Fault::crash)) = false;
  plan.actions.at(static_cast<std::size_t>(Action::pull)) = false;
  plan.clients.assign(plan.clients.size(), false);
  plan.clients.at(1) = true;
  EXPECT_EQ(plan.arguments(), "--seed 7 --steps 12 --without crash,pull --clients 1");
}

}  // namespace
}  // namespace strand::sim
