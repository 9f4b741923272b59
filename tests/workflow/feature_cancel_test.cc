// Cancellation: asked for, cleaned up after, refused; and the other ends that are not it.

#include <stdexcept>

#include "workflow/fixture.h"

namespace strand::workflow_tests {
namespace {

void nothing() {}
const Activity clean_up{"clean_up", nothing};

void ask_to_end(Workflows& workflows, const std::string& id) {
  ASSERT_TRUE(Answer(workflows.cancel(id, "enough")));
}

const WorkflowType<int()> waiting_for_ever{
    "waiting", [](Workflow& wf) -> Task<int> { co_return co_await wf.call(never_done); }};

TEST_P(WorkflowFeature, A_cancelled_instance_ends_as_cancelled_with_the_reason) {
  add(waiting_for_ever, never_done);
  start(waiting_for_ever, "a");
  env().run_for(1h);
  ask_to_end(workflows(), "a");
  env().run();
  EXPECT_EQ(ended("a").state, InstanceState::cancelled);
  EXPECT_EQ(ended("a").error, "enough");
  EXPECT_EQ(info("a").error, "enough");
  EXPECT_EQ(kinds("a").back(), EventKind::cancelled);
}

// Behaviours: cancelled_activities_deleted_from_worker_queue,
// batch_cancellation_deletes_multiple_activities
TEST_P(WorkflowDetail, Activities_of_a_cancelled_instance_leave_their_queue) {
  const WorkflowType<void()> type{"many", [](Workflow& wf) -> Task<void> {
                                    std::vector<Future<int>> calls;
                                    for (int i = 0; i < 20; ++i)
                                      calls.push_back(wf.call(never_done));
                                    co_await wf.all_of(calls);
                                  }};
  add(type);
  start(type, "a");
  while (state("a") == InstanceState::pending)
    env().step();
  EXPECT_EQ(stats("nobody").live(), 20);
  ask_to_end(workflows(), "a");
  env().run();
  EXPECT_EQ(state("a"), InstanceState::cancelled);
  EXPECT_EQ(stats("nobody").live(), 0);
  EXPECT_EQ(stats("workflow").live(), 0);
  EXPECT_EQ(stats("workflow").dead, 0);
}

TEST_P(WorkflowFeature, A_cancelled_workflow_cleans_up_under_a_shield) {
  int cleaned = 0;
  const Activity<void()> count{"clean_up", [&] { ++cleaned; }};
  add(count);
  const WorkflowType<int()> type{
      "clean", [count](Workflow& wf) -> Task<int> {
        bool cancelled = false;
        try {
          co_await wf.sleep(100h);
        } catch (const Cancelled&) {
          cancelled = true;
        }
        EXPECT_TRUE(cancelled);
        EXPECT_TRUE(wf.cancel_requested());
        co_await wf.shield([](Workflow& w, Activity<void()> undo) -> Task<void> {
          co_await w.sleep(2h);
          co_await w.call(undo);
        }(wf, count));
        throw Cancelled("cleaned up");
      }};
  add(type);
  start(type, "a");
  env().run_for(1h);
  ask_to_end(workflows(), "a");
  env().run();
  EXPECT_EQ(cleaned, 1);
  EXPECT_EQ(ended("a").state, InstanceState::cancelled);
  EXPECT_EQ(took("a"), 3h);
}

TEST_P(WorkflowDetail, What_a_cancelled_workflow_calls_without_a_shield_is_cancelled_at_once) {
  const WorkflowType<std::string()> type{"again", [](Workflow& wf) -> Task<std::string> {
                                           int times = 0;
                                           for (int i = 0; i < 3; ++i) {
                                             try {
                                               co_await wf.call(never_done);
                                             } catch (const Cancelled&) {
                                               ++times;
                                             }
                                           }
                                           co_return std::to_string(times);
                                         }};
  add(type, never_done);
  start(type, "a");
  env().run_for(1h);
  ask_to_end(workflows(), "a");
  env().run();
  EXPECT_EQ(ended("a").result, "3");
  EXPECT_EQ(count("a", EventKind::activity_scheduled), 1);
}

TEST_P(WorkflowDetail, A_workflow_may_refuse_to_be_cancelled) {
  const WorkflowType<std::string()> type{
      "stubborn", [](Workflow& wf) -> Task<std::string> {
        co_return co_await wf.shield([](Workflow& w) -> Task<std::string> {
          co_await w.sleep(10h);
          co_return w.cancel_requested() ? "finished all the same" : "not asked";
        }(wf));
      }};
  add(type);
  start(type, "a");
  env().run_for(1h);
  ask_to_end(workflows(), "a");
  ask_to_end(workflows(), "a");
  env().run();
  EXPECT_EQ(ended("a").state, InstanceState::completed);
  EXPECT_EQ(ended("a").result, "finished all the same");
  EXPECT_EQ(count("a", EventKind::cancel_requested), 1);
}

TEST_P(WorkflowDetail, A_cancel_reaches_what_was_spawned_and_what_that_called) {
  const WorkflowType<void()> type{"tree", [](Workflow& wf) -> Task<void> {
                                    const auto inner = [](Workflow& w) -> Task<void> {
                                      try {
                                        co_await w.call(never_done);
                                      } catch (const Cancelled&) {
                                        w.set("inner", 1);
                                        throw;
                                      }
                                    };
                                    const auto outer = [inner](Workflow& w) -> Task<void> {
                                      auto spawned = w.spawn(inner(w));
                                      try {
                                        co_await w.sleep(1000h);
                                      } catch (const Cancelled&) {
                                        w.set("outer", 1);
                                        throw;
                                      }
                                    };
                                    co_await wf.all_of(outer(wf), inner(wf));
                                  }};
  add(type, never_done);
  start(type, "a");
  env().run_for(1h);
  ask_to_end(workflows(), "a");
  env().run();
  EXPECT_EQ(state("a"), InstanceState::cancelled);
  EXPECT_EQ(shown("a", "inner"), "1");
  EXPECT_EQ(shown("a", "outer"), "1");
  EXPECT_EQ(stats("nobody").live(), 0);
}

TEST_P(WorkflowDetail, An_error_after_a_cancel_is_a_failure) {
  const WorkflowType<void()> type{"fails", [](Workflow& wf) -> Task<void> {
                                    bool cancelled = false;
                                    try {
                                      co_await wf.sleep(1000h);
                                    } catch (const Cancelled&) {
                                      cancelled = true;
                                    }
                                    if (cancelled) throw ApplicationError("dirty", "not clean");
                                  }};
  add(type);
  start(type, "a");
  env().run_for(1h);
  ask_to_end(workflows(), "a");
  env().run();
  EXPECT_EQ(ended("a").state, InstanceState::failed);
  EXPECT_EQ(ended("a").error_type, "dirty");
}

TEST_P(WorkflowDetail, A_cancelled_call_does_not_make_a_cancelled_workflow) {
  const WorkflowType<void()> type{"calls_off", [](Workflow& wf) -> Task<void> {
                                    auto call = wf.call(never_done);
                                    call.cancel("not wanted");
                                    co_await call;
                                  }};
  add(type);
  start(type, "a");
  env().run();
  EXPECT_EQ(ended("a").state, InstanceState::failed);
  EXPECT_EQ(ended("a").error, "not wanted");
}

TEST_P(WorkflowDetail, A_cancel_before_the_first_turn_is_not_lost) {
  add(waiting_for_ever);
  start(waiting_for_ever, "a");
  ask_to_end(workflows(), "a");
  env().run();
  EXPECT_EQ(state("a"), InstanceState::cancelled);
  EXPECT_EQ(Answer(store().stats("nobody")).error().code, Errc::not_found) << "nothing was called";
}

TEST_P(WorkflowDetail, A_cancel_of_a_delayed_start_ends_it_when_it_begins) {
  add(waiting_for_ever);
  start(waiting_for_ever, "a", {.delay = 5h});
  env().run_for(1h);
  ask_to_end(workflows(), "a");
  env().run();
  EXPECT_EQ(state("a"), InstanceState::cancelled);
}

TEST_P(WorkflowDetail, Only_what_runs_can_be_cancelled) {
  EXPECT_EQ(Answer(workflows().cancel("nobody")).error().code, Errc::not_found);
  const WorkflowType<int()> type{"quick", [](Workflow&) -> Task<int> { co_return 1; }};
  run(type);
  EXPECT_EQ(Answer(workflows().cancel("a")).error().code, Errc::not_found);
}

// --- One call ---

TEST_P(WorkflowFeature, A_cancelled_activity_leaves_its_queue_and_throws) {
  const WorkflowType<std::string()> type{"off", [](Workflow& wf) -> Task<std::string> {
                                           auto call = wf.call(never_done);
                                           co_await wf.sleep(1h);
                                           call.cancel("too slow");
                                           call.cancel("once more");
                                           try {
                                             co_await call;
                                           } catch (const Cancelled& error) {
                                             co_return said(error);
                                           }
                                           co_return "done";
                                         }};
  add(never_done);
  EXPECT_EQ(run(type), "cancelled: too slow");
  EXPECT_EQ(stats("nobody").live(), 0);
  EXPECT_EQ(stats("nobody").dropped, 1);
  EXPECT_EQ(count("a", EventKind::call_cancelled), 1);
}

// Behaviours: cancelling_nonexistent_activities_is_idempotent,
// same_activity_in_worker_items_and_cancelled_is_noop
TEST_P(WorkflowDetail, A_call_that_is_cancelled_in_the_turn_that_makes_it_is_never_done) {
  add(clean_up);
  const WorkflowType<int()> type{"off", [](Workflow& wf) -> Task<int> {
                                   auto call = wf.call(clean_up);
                                   call.cancel();
                                   co_await wf.sleep(1h);
                                   co_return call.done() ? 1 : 0;
                                 }};
  EXPECT_EQ(run(type), 1);
  EXPECT_EQ(env().attempts(), 0);
  EXPECT_EQ(stats("workflow").live(), 0);
}

TEST_P(WorkflowDetail, A_call_that_is_done_cannot_be_cancelled) {
  add(clean_up);
  const WorkflowType<int()> type{"done", [](Workflow& wf) -> Task<int> {
                                   auto call = wf.call(clean_up);
                                   co_await call;
                                   call.cancel();
                                   co_await call;
                                   co_return 1;
                                 }};
  EXPECT_EQ(run(type), 1);
  EXPECT_EQ(count("a", EventKind::call_cancelled), 0);
}

// An answer that was on its way when its call was cancelled.
TEST_P(WorkflowDetail, An_answer_to_a_cancelled_call_is_ignored) {
  const Activity<int()> racing{"racing", [this] {
                                 // The workflow calls it off while it runs.
                                 send_event("a", "off", 1);
                                 return 5;
                               }};
  add(racing);
  const WorkflowType<int()> type{"race", [racing](Workflow& wf) -> Task<int> {
                                   auto call = wf.call(racing);
                                   co_await wf.event<int>("off");
                                   call.cancel();
                                   co_await wf.sleep(1h);
                                   try {
                                     co_return co_await call;
                                   } catch (const Cancelled&) {
                                     co_return -1;
                                   }
                                 }};
  EXPECT_EQ(run(type), -1);
  EXPECT_EQ(count("a", EventKind::activity_completed), 0);
}

TEST_P(WorkflowDetail, What_was_spawned_cleans_up_when_it_is_cancelled) {
  const WorkflowType<std::string()> type{
      "spawned", [](Workflow& wf) -> Task<std::string> {
        auto spawned = wf.spawn([](Workflow& w) -> Task<int> {
          bool cancelled = false;
          try {
            co_await w.sleep(100h);
          } catch (const Cancelled&) {
            cancelled = true;
          }
          if (!cancelled) co_return 0;
          co_await w.shield([](Workflow& x) -> Task<void> { co_await x.sleep(3h); }(w));
          throw Cancelled("with care");
        }(wf));
        co_await wf.sleep(1h);
        spawned.cancel();
        EXPECT_FALSE(spawned.done());
        const Time before = wf.now();
        try {
          co_await spawned;
        } catch (const Cancelled& error) {
          EXPECT_EQ(wf.now() - before, 3h);
          co_return error.what();
        }
        co_return "done";
      }};
  EXPECT_EQ(run(type), "with care");
}

// --- Distinct ends ---

TEST_P(WorkflowFeature, Failure_cancellation_termination_and_timeout_are_distinct) {
  const WorkflowType<int()> failing{"failing", [](Workflow&) -> Task<int> {
                                      throw std::runtime_error("bad");
                                      co_return 1;
                                    }};
  add(failing, waiting_for_ever, never_done);
  start(failing, "failed");
  start(waiting_for_ever, "cancelled");
  start(waiting_for_ever, "terminated");
  start(waiting_for_ever, "timed_out", {.timeout = 1h});
  env().run_for(1min);
  ask_to_end(workflows(), "cancelled");
  EXPECT_TRUE(Answer(workflows().terminate("terminated", "by force")).value());
  env().run();
  for (const InstanceState expected : {InstanceState::failed, InstanceState::cancelled,
                                       InstanceState::terminated, InstanceState::timed_out}) {
    const std::string id(to_string(expected));
    EXPECT_EQ(ended(id).state, expected);
    EXPECT_FALSE(ended(id).error.empty());
    EXPECT_TRUE(info(id).ended_at);
    EXPECT_EQ(to_string(kinds(id).back()), id);
  }
  EXPECT_EQ(stats("nobody").live(), 0);
  EXPECT_EQ(stats("workflow").live(), 0);
}

}  // namespace
}  // namespace strand::workflow_tests
