// Every store equals the engine in memory, history by history.

#include "differential/stores.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "differential/history.h"

namespace strand::differential {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

std::uint64_t number_in(const char* name, std::uint64_t otherwise) {
  const std::string value = variable(name);
  return value.empty() ? otherwise : std::stoull(value);
}

// Fails with the report at the first difference.
void expect_equal_on_seeds(const OtherStore& other, std::uint64_t seeds, const std::string& test) {
  const Stage stage = stage_of(other);
  const std::uint64_t one = number_in("STRAND_DIFF_SEED", 0);
  const std::uint64_t first = one == 0 ? 1 : one;
  const std::uint64_t last = one == 0 ? number_in("STRAND_DIFF_SEEDS", seeds) : one;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    Plan plan(seed, other.traits);
    if (const std::string steps = variable("STRAND_DIFF_STEPS"); !steps.empty()) {
      plan.keep_only(steps);
    }
    if (const auto outcome = run(plan, stage, false); outcome.difference) {
      FAIL() << report(plan, stage, {.store = other.store.name, .test = test})
             << "\nfirst seen as: " << ::testing::PrintToString(*outcome.difference);
    }
  }
}

class Stores : public ::testing::TestWithParam<OtherStore> {};

// Whatever is asked of it, a store answers as the reference does.
TEST_P(Stores, Answer_as_the_reference_does) {
  OtherStore other = GetParam();
  other.traits.reopens = false;
  expect_equal_on_seeds(other, other.seeds, "Stores.*");
}

INSTANTIATE_TEST_SUITE_P(, Stores, ::testing::ValuesIn(other_stores()),
                         [](const auto& info) { return info.param.store.name; });

class ReopenedStores : public ::testing::TestWithParam<OtherStore> {};

// And where closing and opening does the same to both, also when that happens in between.
TEST_P(ReopenedStores, Answer_as_the_reference_does) {
  expect_equal_on_seeds(GetParam(), GetParam().seeds / 4, "ReopenedStores.*");
}

std::vector<OtherStore> those_that_reopen() {
  std::vector<OtherStore> all = other_stores();
  std::erase_if(all, [](const OtherStore& other) { return !other.traits.reopens; });
  return all;
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReopenedStores);
INSTANTIATE_TEST_SUITE_P(, ReopenedStores, ::testing::ValuesIn(those_that_reopen()),
                         [](const auto& info) { return info.param.store.name; });

}  // namespace
}  // namespace strand::differential
