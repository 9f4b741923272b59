// Seeds of the simulator as tests; `./dev sim` runs more of them.

#include <cstdint>

#include <gtest/gtest.h>

#include "sim/run.h"

namespace strand::sim {
namespace {

constexpr std::uint64_t seeds_a_test = 50;

class Seeds : public ::testing::TestWithParam<std::uint64_t> {};

// Whatever fails, crashes or misbehaves: what the store shows is what the model says.
TEST_P(Seeds, Nothing_that_the_store_shows_contradicts_the_model) {
  const std::uint64_t first = (GetParam() * seeds_a_test) + 1;
  for (std::uint64_t seed = first; seed < first + seeds_a_test; ++seed) {
    const Plan plan(seed);
    if (run(plan, false).failed) FAIL() << report(plan);
  }
}

INSTANTIATE_TEST_SUITE_P(Slices, Seeds, ::testing::Range<std::uint64_t>(0, 10));

// A failure that cannot be repeated cannot be mended.
TEST(Simulator, A_seed_always_gives_the_same_run) {
  for (const std::uint64_t seed : {1U, 7U, 23U, 42U}) {
    const sim::Run once = run(Plan(seed), true);
    const sim::Run again = run(Plan(seed), true);
    EXPECT_EQ(once.trace, again.trace) << "seed " << seed;
    EXPECT_EQ(once.fingerprint, again.fingerprint) << "seed " << seed;
  }
}

// Seeds that are all alike would prove one thing many times.
TEST(Simulator, Different_seeds_give_different_runs) {
  EXPECT_NE(run(Plan(1), false).fingerprint, run(Plan(2), false).fingerprint);
}

}  // namespace
}  // namespace strand::sim
