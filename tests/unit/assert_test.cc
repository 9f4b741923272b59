#include "base/assert.h"

#include <gtest/gtest.h>

namespace strand::base {
namespace {

TEST(Assert, What_holds_costs_one_evaluation_and_nothing_else) {
  int evaluated = 0;
  STRAND_ASSERT(++evaluated == 1, "the condition is evaluated once");
  EXPECT_EQ(evaluated, 1);
}

// Release builds included: that is the point of it.
TEST(AssertDeathTest, What_does_not_hold_ends_the_process_and_says_where_and_why) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int lanes = -1;
  EXPECT_DEATH(STRAND_ASSERT(lanes >= 0, "lanes are counted up from none"),
               "assert_test\\.cc:[0-9]+: .*lanes are counted up from none.*lanes >= 0");
}

}  // namespace
}  // namespace strand::base
