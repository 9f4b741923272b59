#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strand/workflow_test.h>

namespace strand {
namespace {

using namespace std::chrono_literals;

int twice(const int& number) { return 2 * number; }
const Activity double_it{"double_it", twice};

Task<int> run_five(Workflow& wf, int number) {
  for (int i = 0; i < 5; ++i)
    number = co_await wf.call(double_it, number);
  co_return number;
}
const WorkflowType five{"five", run_five};

TEST(WorkflowBasics, Five_activities_one_after_another) {
  WorkflowTest test;
  test.add(five);
  test.add(double_it);
  auto handle = test.workflows().start(five, "a", 1).value();
  test.run();
  EXPECT_EQ(handle.wait(1s).value().value(), 32);
}

}  // namespace
}  // namespace strand
