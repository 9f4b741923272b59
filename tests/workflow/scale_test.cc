// Large ones: many parts, long histories, many instances.

#include <cstdlib>

#include "workflow/worker_fixture.h"

namespace strand::workflow_tests {
namespace {

bool full() { return std::getenv("STRAND_TEST_FULL") != nullptr; }  // NOLINT(concurrency-mt-unsafe)

const Activity<int(int)> echo{"echo", [](int n) { return n; }};

class Scale : public Workers {
 protected:
  // A sanitizer makes it ten times as slow.
  std::string result_of(const std::string& id) {
    const auto end = Answer(workflows().wait(id, 10min)).value();
    return end ? end->result : "none";
  }
};

TEST_F(Scale, A_fan_in_of_ten_thousand_activities) {
  const WorkflowType<int()> type{"fan", [](Workflow& wf) -> Task<int> {
                                   std::vector<Future<int>> all;
                                   for (int i = 0; i < 10'000; ++i)
                                     all.push_back(wf.call(echo, i));
                                   int good = 0;
                                   int expected = 0;
                                   for (const int one : co_await wf.all_of(all))
                                     good += one == expected++ ? 1 : 0;
                                   co_return good;
                                 }};
  const auto worker = work({type}, {echo});
  start(type, "a");
  EXPECT_EQ(result_of("a"), "10000");
  EXPECT_EQ(Answer(workflows().history("a", 0, 0, 1)).value().length, 20'002);
}

TEST_F(Scale, A_history_of_fifty_thousand_events) {
  const WorkflowType<int()> type{"rounds", [](Workflow& wf) -> Task<int> {
                                   int sum = 0;
                                   while (wf.history_length() < 50'000) {
                                     std::vector<Future<int>> all;
                                     for (int i = 0; i < 5'000; ++i)
                                       all.push_back(wf.call(echo, 1));
                                     for (const int one : co_await wf.all_of(all))
                                       sum += one;
                                   }
                                   co_return sum;
                                 }};
  const auto worker = work({type}, {echo});
  start(type, "a");
  EXPECT_EQ(result_of("a"), "25000");
  EXPECT_GE(Answer(workflows().history("a", 0, 0, 1)).value().length, 50'000);
}

TEST_F(Scale, Many_instances_sleep_and_none_is_loaded_meanwhile) {
  const int many = full() ? 100'000 : 20'000;
  const WorkflowType<int()> type{"sleeper", [](Workflow& wf) -> Task<int> {
                                   co_await wf.sleep(24h);
                                   co_return 1;
                                 }};
  auto worker = work({type}, {});
  for (int i = 0; i < many; ++i)
    start(type, "i" + std::to_string(i));
  worker->wait_idle();
  const std::string turns = "strand_workflow_turns_total";
  EXPECT_EQ(metric(*worker, turns), many);
  EXPECT_EQ(stats("workflow").delayed, many);
  for (int hour = 0; hour < 23; ++hour)
    clock_->advance(1h);
  worker->wait_idle();
  EXPECT_EQ(metric(*worker, turns), many) << "a turn of an instance that sleeps";
  EXPECT_EQ(stats("workflow").leases, 0);
  clock_->advance(2h);
  worker->wait_idle();
  EXPECT_EQ(stats("workflow").live(), 0);
  EXPECT_EQ(metric(*worker, "strand_workflow_ended_total", "completed"), many);
}

}  // namespace
}  // namespace strand::workflow_tests
