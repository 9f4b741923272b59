// Continue-as-new: the next execution of an instance, with an empty history.

#include "workflow/fixture.h"

namespace strand::workflow_tests {
namespace {

const WorkflowType<int(int)> counting{"counting", [](Workflow& wf, int left) -> Task<int> {
                                        if (left > 0)
                                          co_return co_await wf.continue_as_new(left - 1);
                                        co_return static_cast<int>(wf.execution());
                                      }};

// Behaviours: continue_as_new_creates_new_execution, execution_id_sequencing,
// latest_execution_detection, execution_history_persistence, execution_isolation, list_executions,
// get_execution_info
TEST_P(WorkflowFeature, Each_continuation_is_an_execution_with_a_history_of_its_own) {
  EXPECT_EQ(run(counting, 3), 4);
  EXPECT_EQ(info("a").execution, 4);
  for (std::uint64_t execution = 1; execution <= 4; ++execution) {
    const auto page = Answer(workflows().history("a", execution)).value();
    EXPECT_EQ(page.execution, execution);
    EXPECT_EQ(page.events.front().kind, EventKind::started);
    EXPECT_EQ(page.events.front().data, std::to_string(4 - execution));
    EXPECT_EQ(page.events.back().kind, execution < 4 ? EventKind::continued : EventKind::completed);
  }
  EXPECT_EQ(Answer(workflows().history("a")).value().execution, 4);
  EXPECT_EQ(Answer(workflows().history("a", 5)).error().code, Errc::not_found);
  EXPECT_EQ(stats("workflow").live(), 0);
}

TEST_P(WorkflowDetail, A_thousand_continuations_are_nothing_special) {
  const int many = GetParam().store.name == "memory" ? 1'000 : 50;
  EXPECT_EQ(run(counting, many), many + 1);
  EXPECT_EQ(kinds("a").size(), 3) << "started, begun, completed";
}

TEST_P(WorkflowFeature, An_execution_that_is_continued_is_still_the_same_instance) {
  const WorkflowType<void(int)> type{"slow", [](Workflow& wf, int left) -> Task<void> {
                                       wf.set_status("left " + std::to_string(left));
                                       co_await wf.sleep(1h);
                                       if (left > 0) co_await wf.continue_as_new(left - 1);
                                     }};
  add(type);
  start(type, "a", 2);
  env().run_for(90min);
  const InstanceInfo running = info("a");
  EXPECT_EQ(running.state, InstanceState::running);
  EXPECT_EQ(running.execution, 2);
  EXPECT_EQ(running.status, "left 1");
  EXPECT_EQ(running.created_at, env().now() - 90min) << "it was created once";
  // It is the one that was started with that input.
  EXPECT_FALSE(start(type, "a", 2).started_now());
  env().run();
  EXPECT_EQ(took("a"), 3h);
}

TEST_P(WorkflowFeature, Status_and_state_are_kept) {
  const WorkflowType<int(int)> type{"keep", [](Workflow& wf, int left) -> Task<int> {
                                      if (left == 2) {
                                        wf.set_status("begun");
                                        wf.set("sum", 1);
                                        wf.set("gone", 1);
                                      }
                                      wf.set("sum", *wf.get<int>("sum") * 10 + left);
                                      wf.erase("gone");
                                      if (left > 0) co_return co_await wf.continue_as_new(left - 1);
                                      EXPECT_FALSE(wf.get<int>("gone"));
                                      co_return *wf.get<int>("sum");
                                    }};
  EXPECT_EQ(run(type, 2), 1210);
  EXPECT_EQ(info("a").status, "begun");
  EXPECT_EQ(shown("a", "sum"), "1210");
  EXPECT_EQ(shown("a", "gone"), "none");
}

TEST_P(WorkflowDetail, What_was_called_is_cancelled_by_continuing) {
  add(never_done);
  const WorkflowType<int(int)> type{"calls", [](Workflow& wf, int left) -> Task<int> {
                                      auto call = wf.call(never_done);
                                      auto timer = wf.sleep(100h);
                                      co_await wf.sleep(1h);
                                      if (left > 0) co_return co_await wf.continue_as_new(left - 1);
                                      co_return 1;
                                    }};
  EXPECT_EQ(run(type, 1), 1);
  EXPECT_EQ(took("a"), 2h);
  EXPECT_EQ(stats("nobody").live(), 0);
  EXPECT_EQ(stats("workflow").live(), 0);
}

TEST_P(WorkflowDetail, A_timer_of_an_earlier_execution_does_not_fire_in_the_next) {
  // Both have a timer under the same call number.
  const WorkflowType<int(int)> type{"timers", [](Workflow& wf, int left) -> Task<int> {
                                      const Time before = wf.now();
                                      auto timer = wf.sleep(10h);
                                      if (left > 0) {
                                        co_await wf.sleep(6h);
                                        co_return co_await wf.continue_as_new(left - 1);
                                      }
                                      co_await timer;
                                      co_return static_cast<int>((wf.now() - before) / 1h);
                                    }};
  EXPECT_EQ(run(type, 1), 10);
}

// Behaviours: continue_as_new_execution_gets_own_pinned_version
TEST_P(WorkflowFeature, A_continuation_may_be_of_another_version) {
  const WorkflowType<std::string(int)> two{"upgrade",
                                           [](Workflow& wf, int n) -> Task<std::string> {
                                             co_await wf.sleep(1h);
                                             co_return "two has " + std::to_string(n);
                                           },
                                           2};
  const WorkflowType<std::string(int)> one{"upgrade", [](Workflow& wf, int n) -> Task<std::string> {
                                             co_await wf.sleep(1h);
                                             co_return co_await wf.continue_as_new(n + 1, 2);
                                           }};
  add(two);
  EXPECT_EQ(run(one, 1), "two has 2");
  EXPECT_EQ(info("a").version, 2);
  EXPECT_EQ(history("a", 1).front().name, "upgrade@1");
  EXPECT_EQ(history("a", 2).front().name, "upgrade@2");
}

TEST_P(WorkflowDetail, A_continuation_of_a_version_that_nobody_has_waits_for_it) {
  const WorkflowType<int(int)> one{"upgrade", [](Workflow& wf, int n) -> Task<int> {
                                     co_return co_await wf.continue_as_new(n + 1, 2);
                                   }};
  add(one);
  const auto handle = start(one, "a", 1);
  env().run();
  EXPECT_EQ(state("a"), InstanceState::running);
  EXPECT_EQ(info("a").version, 2);
  add(WorkflowType<int(int)>{"upgrade", [](Workflow&, int n) -> Task<int> { co_return n; }, 2});
  env().run();
  EXPECT_EQ(value_of(handle), 2);
}

TEST_P(WorkflowDetail, Without_an_input_a_workflow_continues_without_one) {
  const WorkflowType<int()> type{"none", [](Workflow& wf) -> Task<int> {
                                   const int count = wf.get<int>("count").value_or(0) + 1;
                                   wf.set("count", count);
                                   if (count < 3) co_return co_await wf.continue_as_new();
                                   co_return count;
                                 }};
  EXPECT_EQ(run(type), 3);
}

TEST_P(WorkflowDetail, The_time_of_the_run_goes_on_over_continuations) {
  const WorkflowType<void()> type{"for_ever", [](Workflow& wf) -> Task<void> {
                                    co_await wf.sleep(1h);
                                    co_await wf.continue_as_new();
                                  }};
  add(type);
  start(type, "a", {.timeout = 210min});
  env().run();
  EXPECT_EQ(ended("a").state, InstanceState::timed_out);
  EXPECT_EQ(took("a"), 210min);
  EXPECT_EQ(info("a").execution, 4);
  EXPECT_EQ(stats("workflow").live(), 0);
}

TEST_P(WorkflowDetail, A_cancel_between_two_executions_is_not_lost) {
  const WorkflowType<int(int)> type{"slow", [](Workflow& wf, int left) -> Task<int> {
                                      if (left > 0) co_return co_await wf.continue_as_new(left - 1);
                                      co_await wf.sleep(100h);
                                      co_return 1;
                                    }};
  add(type);
  start(type, "a", 1);
  ASSERT_TRUE(Answer(workflows().cancel("a")));
  env().run();
  EXPECT_EQ(ended("a").state, InstanceState::cancelled);
}

TEST_P(WorkflowDetail, A_deep_coroutine_may_continue_as_new) {
  const WorkflowType<int(int)> type{"deep", [](Workflow& wf, int left) -> Task<int> {
                                      const auto deep = [](Workflow& w, int left) -> Task<int> {
                                        co_await w.sleep(1h);
                                        if (left > 0)
                                          co_return co_await w.continue_as_new(left - 1);
                                        co_return static_cast<int>(w.execution());
                                      };
                                      const auto [a, b] =
                                          co_await wf.all_of(deep(wf, left), wf.sleep(5h));
                                      static_cast<void>(b);
                                      co_return a;
                                    }};
  EXPECT_EQ(run(type, 2), 3);
  EXPECT_EQ(took("a"), 7h);
}

TEST_P(WorkflowFeature, Much_state_is_taken_along) {
  const WorkflowType<int(int)> type{
      "much", [](Workflow& wf, int left) -> Task<int> {
        if (left > 0) {
          for (int i = 0; i < 100; ++i) {
            wf.set("key " + std::to_string(i), std::string(1'000, static_cast<char>(i)));
          }
          co_return co_await wf.continue_as_new(left - 1);
        }
        int good = 0;
        for (int i = 0; i < 100; ++i) {
          const auto value = wf.get<Bytes>("key " + std::to_string(i));
          good += value == std::string(1'000, static_cast<char>(i));
        }
        co_return good;
      }};
  EXPECT_EQ(run(type, 1), 100);
}

}  // namespace
}  // namespace strand::workflow_tests
