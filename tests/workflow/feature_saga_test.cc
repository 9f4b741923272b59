// Sagas: steps that are undone, the last one first.

#include <stdexcept>

#include "workflow/fixture.h"

namespace strand::workflow_tests {
namespace {

struct Hold {
  int id = 0;
};
STRAND_JSON(Hold, id)

// Does and undoes what is asked, and writes it down.
class Agent {
 public:
  Activity<Hold(int)> reserve{"reserve", [this](int n) {
                                note("reserve " + std::to_string(n));
                                return Hold{n * 10};
                              }};
  Activity<void(Hold)> release{
      "release", [this](const Hold& hold) { note("release " + std::to_string(hold.id)); }};
  Activity<int(int)> charge{"charge",
                            [this](int n) {
                              note("charge " + std::to_string(n));
                              return n;
                            },
                            {.queue = "bank"}};
  Activity<void(int)> refund{"refund",
                             [this](int n) {
                               note("refund " + std::to_string(n));
                               if (refunds_failing > 0) {
                                 --refunds_failing;
                                 throw std::runtime_error("the bank is closed");
                               }
                             },
                             {.queue = "bank"}};
  Activity<void(int)> ship{"ship",
                           [this](int n) {
                             note("ship " + std::to_string(n));
                             if (ship_fails) throw ApplicationError("lost", "no ship").final();
                           },
                           {.retry = Retry::never()}};
  Activity<void(int)> unship{"unship", [this](int n) { note("unship " + std::to_string(n)); }};

  bool ship_fails = false;
  int refunds_failing = 0;
  Names notes;

  void add_to(WorkflowTest& env) const {
    for (const AnyActivity& activity :
         {AnyActivity(reserve), AnyActivity(release), AnyActivity(charge), AnyActivity(refund),
          AnyActivity(ship), AnyActivity(unship)}) {
      env.add(activity);
    }
  }

 private:
  void note(std::string text) { notes.push_back(std::move(text)); }
};

// Three steps, and what a test wants to happen behind them.
WorkflowType<std::string()> trip(Agent& agent,
                                 std::function<Task<void>(Workflow&, Saga&)> then = {},
                                 const SagaOptions& options = {}) {
  return {"trip", [&agent, then, options](Workflow& wf) -> Task<std::string> {
            Saga saga{wf, options};
            const Hold hold = co_await saga.step(agent.reserve, 1, agent.release);
            const int paid = co_await saga.step(agent.charge, 2, agent.refund);
            co_await saga.step(agent.ship, 3, agent.unship);
            if (then) co_await then(wf, saga);
            co_return std::to_string(hold.id) + " " + std::to_string(paid);
          }};
}

TEST_P(WorkflowFeature, A_saga_whose_steps_all_succeed_is_completed) {
  Agent agent;
  agent.add_to(env());
  EXPECT_EQ(run(trip(agent)), "10 2");
  EXPECT_THAT(agent.notes, ElementsAre("reserve 1", "charge 2", "ship 3"));
  const auto sagas = Answer(workflows().sagas("a")).value();
  ASSERT_THAT(sagas, SizeIs(1));
  EXPECT_EQ(sagas[0].status, SagaStatus::completed);
  ASSERT_THAT(sagas[0].steps, SizeIs(3));
  for (const SagaStep& step : sagas[0].steps)
    EXPECT_EQ(step.status, StepStatus::completed);
}

TEST_P(WorkflowFeature, A_failing_third_step_undoes_the_second_then_the_first) {
  Agent agent;
  agent.add_to(env());
  agent.ship_fails = true;
  const auto type = trip(agent);
  add(type);
  start(type, "a");
  env().run();
  EXPECT_EQ(ended("a").state, InstanceState::failed);
  EXPECT_EQ(ended("a").error_type, "lost");
  EXPECT_THAT(agent.notes,
              ElementsAre("reserve 1", "charge 2", "ship 3", "refund 2", "release 10"));
}

TEST_P(WorkflowFeature, The_records_of_a_saga_tell_everything) {
  Agent agent;
  agent.add_to(env());
  agent.ship_fails = true;
  const auto type = trip(agent, {}, {.name = "trip to Rome", .data = "{\"who\":7}"});
  add(type);
  const Time began = env().now();
  start(type, "a");
  env().run();
  const auto sagas = Answer(workflows().sagas("a")).value();
  ASSERT_THAT(sagas, SizeIs(1));
  const SagaInfo& saga = sagas[0];
  EXPECT_EQ(saga.coordinator, "a");
  EXPECT_EQ(saga.execution, 1);
  EXPECT_EQ(saga.number, 1);
  EXPECT_EQ(saga.name, "trip to Rome");
  EXPECT_EQ(saga.data, "{\"who\":7}");
  EXPECT_EQ(saga.status, SagaStatus::failed);
  EXPECT_EQ(saga.started_at, began);
  EXPECT_TRUE(saga.ended_at);
  ASSERT_THAT(saga.steps, SizeIs(5));
  const auto expect = [&](std::size_t i, const std::string& name, const std::string& agent_queue,
                          const std::string& data, StepStatus status,
                          const std::optional<std::string>& compensates) {
    const SagaStep& step = saga.steps[i];
    EXPECT_EQ(step.name, name);
    EXPECT_EQ(step.agent, agent_queue) << name;
    EXPECT_EQ(step.data, data) << name;
    EXPECT_EQ(step.status, status) << name;
    EXPECT_EQ(step.compensates, compensates) << name;
    EXPECT_EQ(step.completed_at.has_value(), status != StepStatus::failed) << name;
    EXPECT_EQ(step.error.has_value(), status == StepStatus::failed) << name;
  };
  expect(0, "reserve", "activities", "1", StepStatus::compensated, {});
  expect(1, "charge", "bank", "2", StepStatus::compensated, {});
  expect(2, "ship", "activities", "3", StepStatus::failed, {});
  expect(3, "refund", "bank", "2", StepStatus::completed, "charge");
  expect(4, "release", "activities", R"({"id":10})", StepStatus::completed, "reserve");
  EXPECT_THAT(saga.steps[2].error.value_or("none"), HasSubstr("no ship"));
}

TEST_P(WorkflowDetail, An_exception_outside_of_a_step_undoes_them_all) {
  Agent agent;
  agent.add_to(env());
  const auto type = trip(agent, [](Workflow& wf, Saga&) -> Task<void> {
    co_await wf.sleep(1h);
    throw ApplicationError("rain", "no trip");
  });
  add(type);
  start(type, "a");
  env().run();
  EXPECT_EQ(ended("a").error_type, "rain");
  EXPECT_THAT(agent.notes,
              ElementsAre("reserve 1", "charge 2", "ship 3", "unship 3", "refund 2", "release 10"));
  EXPECT_EQ(Answer(workflows().sagas("a")).value()[0].status, SagaStatus::failed);
}

TEST_P(WorkflowFeature, A_cancelled_workflow_undoes_its_saga_and_is_cancelled) {
  Agent agent;
  agent.add_to(env());
  const auto type = trip(agent, [](Workflow& wf, Saga&) -> Task<void> { co_await wf.sleep(100h); });
  add(type);
  start(type, "a");
  env().run_for(1h);
  EXPECT_EQ(Answer(workflows().sagas("a")).value()[0].status, SagaStatus::in_progress);
  ASSERT_TRUE(Answer(workflows().cancel("a")));
  env().run();
  EXPECT_EQ(state("a"), InstanceState::cancelled);
  EXPECT_THAT(agent.notes,
              ElementsAre("reserve 1", "charge 2", "ship 3", "unship 3", "refund 2", "release 10"));
}

TEST_P(WorkflowDetail, A_cancel_during_a_step_undoes_what_was_done) {
  Agent agent;
  agent.add_to(env());
  const Activity<int(int)> slow{"never_done", never_done.options()};
  add(never_done);
  const WorkflowType<void()> type{"trip", [&agent, slow](Workflow& wf) -> Task<void> {
                                    Saga saga{wf};
                                    co_await saga.step(agent.charge, 2, agent.refund);
                                    co_await saga.step(slow, 4, agent.refund);
                                  }};
  add(type);
  start(type, "a");
  env().run_for(1h);
  ASSERT_TRUE(Answer(workflows().cancel("a")));
  env().run();
  EXPECT_EQ(state("a"), InstanceState::cancelled);
  EXPECT_THAT(agent.notes, ElementsAre("charge 2", "refund 2")) << "what is not done is not undone";
  const auto saga = Answer(workflows().sagas("a")).value()[0];
  EXPECT_EQ(saga.status, SagaStatus::failed);
  EXPECT_EQ(saga.steps[1].status, StepStatus::failed);
  EXPECT_EQ(stats("nobody").live(), 0);
}

TEST_P(WorkflowDetail, Undoing_cannot_be_cancelled) {
  Agent agent;
  agent.add_to(env());
  agent.ship_fails = true;
  agent.refunds_failing = 2;
  const auto type = trip(agent, {}, {.undo_retry = {.attempts = 5, .first = 10h, .max = 100h}});
  add(type);
  start(type, "a");
  env().run_for(1h);
  EXPECT_EQ(Answer(workflows().sagas("a")).value()[0].status, SagaStatus::compensating);
  ASSERT_TRUE(Answer(workflows().cancel("a")));
  env().run();
  EXPECT_EQ(agent.notes.back(), "release 10");
  EXPECT_EQ(Answer(workflows().sagas("a")).value()[0].status, SagaStatus::failed);
}

TEST_P(WorkflowDetail, An_exception_that_is_caught_inside_undoes_nothing) {
  Agent agent;
  agent.add_to(env());
  const auto type = trip(agent, [](Workflow& wf, Saga&) -> Task<void> {
    try {
      co_await wf.sleep(1h);
      throw std::runtime_error("caught");
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "caught");
    }
    co_await wf.sleep(1h);
  });
  EXPECT_EQ(run(type), "10 2");
  EXPECT_THAT(agent.notes, SizeIs(3));
  EXPECT_EQ(Answer(workflows().sagas("a")).value()[0].status, SagaStatus::completed);
}

TEST_P(WorkflowDetail, A_failed_saga_that_is_caught_does_not_fail_the_workflow) {
  Agent agent;
  agent.add_to(env());
  agent.ship_fails = true;
  const WorkflowType<int()> type{"plans", [&agent](Workflow& wf) -> Task<int> {
                                   int failed = 0;
                                   for (int i = 0; i < 2; ++i) {
                                     try {
                                       Saga saga{wf};
                                       co_await saga.step(agent.charge, i, agent.refund);
                                       co_await saga.step(agent.ship, i, agent.unship);
                                     } catch (const ActivityError&) {
                                       ++failed;
                                     }
                                     agent.ship_fails = false;
                                   }
                                   co_return failed;
                                 }};
  EXPECT_EQ(run(type), 1);
  EXPECT_THAT(agent.notes, ElementsAre("charge 0", "ship 0", "refund 0", "charge 1", "ship 1"));
  const auto sagas = Answer(workflows().sagas("a")).value();
  ASSERT_THAT(sagas, SizeIs(2));
  EXPECT_EQ(sagas[0].status, SagaStatus::failed);
  EXPECT_EQ(sagas[1].status, SagaStatus::completed);
  EXPECT_EQ(sagas[1].number, 2);
}

TEST_P(WorkflowDetail, A_saga_can_be_undone_by_its_own_will) {
  Agent agent;
  agent.add_to(env());
  const auto type = trip(agent, [&agent](Workflow&, Saga& saga) -> Task<void> {
    co_await saga.undo("a whim");
    co_await saga.undo("once more");
    bool refused = false;
    try {
      co_await saga.step(agent.charge, 9, agent.refund);
    } catch (const ApplicationError& error) {
      refused = error.type() == "saga_ended";
    }
    EXPECT_TRUE(refused);
  });
  EXPECT_EQ(run(type), "10 2");
  EXPECT_THAT(agent.notes,
              ElementsAre("reserve 1", "charge 2", "ship 3", "unship 3", "refund 2", "release 10"));
  EXPECT_EQ(Answer(workflows().sagas("a")).value()[0].status, SagaStatus::failed);
}

TEST_P(WorkflowDetail, A_step_without_an_undo_is_left_as_it_is) {
  Agent agent;
  agent.add_to(env());
  const WorkflowType<void()> type{"trip", [&agent](Workflow& wf) -> Task<void> {
                                    Saga saga{wf};
                                    co_await saga.step(agent.charge, 1, agent.refund);
                                    co_await saga.step(agent.ship, 2);
                                    co_await saga.step(agent.charge, 3);
                                    throw std::runtime_error("no");
                                  }};
  add(type);
  start(type, "a");
  env().run();
  EXPECT_THAT(agent.notes, ElementsAre("charge 1", "ship 2", "charge 3", "refund 1"));
  const auto steps = Answer(workflows().sagas("a")).value()[0].steps;
  EXPECT_EQ(steps[0].status, StepStatus::compensated);
  EXPECT_EQ(steps[1].status, StepStatus::completed);
}

TEST_P(WorkflowFeature, An_undo_that_fails_is_tried_again_then_parked_then_done) {
  Agent agent;
  agent.add_to(env());
  agent.ship_fails = true;
  agent.refunds_failing = 5;
  const auto type = trip(agent, {}, {.undo_retry = {.attempts = 3, .first = 1min}});
  add(type);
  start(type, "a");
  env().run();
  EXPECT_EQ(agent.notes.size(), 6) << "three steps, three attempts to undo";
  ASSERT_TRUE(info("a").parked);
  EXPECT_THAT(*info("a").parked,
              AllOf(HasSubstr("charge"), HasSubstr("refund"), HasSubstr("the bank is closed")));
  auto saga = Answer(workflows().sagas("a")).value()[0];
  EXPECT_EQ(saga.status, SagaStatus::compensating);
  EXPECT_EQ(saga.steps[1].status, StepStatus::completed);
  EXPECT_EQ(saga.steps[3].status, StepStatus::failed);
  EXPECT_THAT(saga.steps[3].error.value_or("none"), HasSubstr("the bank is closed"));
  // A person has helped.
  ASSERT_TRUE(Answer(workflows().resume("a")));
  env().run();
  EXPECT_THAT(agent.notes, SizeIs(10)) << "two more that fail, one that does it, and the last";
  EXPECT_EQ(agent.notes.back(), "release 10");
  saga = Answer(workflows().sagas("a")).value()[0];
  EXPECT_EQ(saga.status, SagaStatus::failed);
  EXPECT_EQ(saga.steps[1].status, StepStatus::compensated);
  EXPECT_EQ(saga.steps[3].status, StepStatus::completed);
  EXPECT_EQ(saga.steps[3].error, std::nullopt);
  EXPECT_EQ(ended("a").error_type, "lost");
}

TEST_P(WorkflowDetail, A_saga_inside_a_saga_is_undone_first) {
  Agent agent;
  agent.add_to(env());
  agent.ship_fails = true;
  const WorkflowType<void()> type{"outer", [&agent](Workflow& wf) -> Task<void> {
                                    Saga outer{wf, {.name = "outer"}};
                                    co_await outer.step(agent.charge, 1, agent.refund);
                                    Saga inner{wf, {.name = "inner"}};
                                    co_await inner.step(agent.reserve, 2, agent.release);
                                    co_await inner.step(agent.ship, 3, agent.unship);
                                  }};
  add(type);
  start(type, "a");
  env().run();
  EXPECT_THAT(agent.notes,
              ElementsAre("charge 1", "reserve 2", "ship 3", "release 20", "refund 1"));
}

// Steps beside each other: one fails while the other is still being done.
TEST_P(WorkflowDetail, A_step_that_is_done_while_others_are_undone_is_undone_too) {
  Agent agent;
  agent.add_to(env());
  agent.ship_fails = true;
  int attempts = 0;
  const Activity<int(int)> slow{"slow",
                                [&](int n) {
                                  if (++attempts == 1) throw std::runtime_error("not yet");
                                  agent.notes.push_back("slow " + std::to_string(n));
                                  return n;
                                },
                                {.retry = {.attempts = 2, .first = 1h}}};
  add(slow);
  const WorkflowType<void()> type{"beside", [&agent, slow](Workflow& wf) -> Task<void> {
                                    Saga saga{wf};
                                    co_await wf.all_of(Others::keep,
                                                       saga.step(slow, 5, agent.refund),
                                                       saga.step(agent.ship, 6, agent.unship));
                                  }};
  add(type);
  start(type, "a");
  env().run();
  EXPECT_EQ(ended("a").state, InstanceState::failed);
  const bool done = std::ranges::count(agent.notes, "slow 5") > 0;
  const bool undone = std::ranges::count(agent.notes, "refund 5") > 0;
  EXPECT_EQ(done, undone) << ::testing::PrintToString(agent.notes);
}

// Steps beside each other: a slow one, done after some hours, and one that fails at once.
WorkflowType<int()> beside(Agent& agent, const Activity<int(int)>& slow) {
  return {"beside", [&agent, slow](Workflow& wf) -> Task<int> {
            Saga saga{wf};
            co_await saga.step(agent.charge, 1, agent.refund);
            try {
              co_await wf.all_of(Others::keep, saga.step(slow, 5, agent.unship),
                                 saga.step(agent.ship, 6, agent.unship));
            } catch (const ActivityError& error) {
              EXPECT_EQ(error.type(), "lost");
            }
            co_await wf.sleep(100h);
            co_return 1;
          }};
}

Activity<int(int)> done_after(Agent& agent, Duration wait) {
  return {"slow",
          [&agent](ActivityContext& context, int n) {
            if (context.attempt() == 1) throw std::runtime_error("not yet");
            agent.notes.push_back("slow " + std::to_string(n));
            return n;
          },
          {.retry = {.attempts = 2, .first = wait, .max = wait, .jitter_percent = 0}}};
}

TEST_P(WorkflowDetail, A_step_that_is_done_while_another_is_being_undone_is_undone) {
  Agent agent;
  agent.add_to(env());
  agent.ship_fails = true;
  agent.refunds_failing = 20;  // for long enough
  const auto slow = done_after(agent, 1min);
  add(slow);
  const auto type = beside(agent, slow);
  add(type);
  start(type, "a");
  env().run_for(5min);
  EXPECT_EQ(std::ranges::count(agent.notes, "slow 5"), 1);
  agent.refunds_failing = 0;
  env().run();
  EXPECT_EQ(std::ranges::count(agent.notes, "unship 5"), 1);
  EXPECT_EQ(std::ranges::count(agent.notes, "unship 6"), 0);
  EXPECT_EQ(Answer(workflows().sagas("a")).value()[0].status, SagaStatus::failed);
}

TEST_P(WorkflowDetail, A_step_that_is_done_when_all_others_are_undone_is_undone) {
  Agent agent;
  agent.add_to(env());
  agent.ship_fails = true;
  const auto slow = done_after(agent, 5h);
  add(slow);
  EXPECT_EQ(run(beside(agent, slow)), 1);
  EXPECT_THAT(agent.notes, ElementsAre("charge 1", "ship 6", "refund 1", "slow 5", "unship 5"));
  const SagaInfo saga = Answer(workflows().sagas("a")).value()[0];
  EXPECT_EQ(saga.status, SagaStatus::failed);
  EXPECT_EQ(saga.steps[1].status, StepStatus::compensated);
}

TEST_P(WorkflowDetail, Sagas_can_be_listed_by_their_status) {
  Agent agent;
  agent.add_to(env());
  const auto type = trip(agent);
  add(type);
  for (int i = 0; i < 3; ++i)
    start(type, "good" + std::to_string(i));
  env().run();
  agent.ship_fails = true;
  for (int i = 0; i < 2; ++i)
    start(type, "bad" + std::to_string(i));
  env().run();
  const auto list = [&](std::optional<SagaStatus> status, const std::string& after = {},
                        std::size_t limit = 100) {
    Names coordinators;
    for (const SagaInfo& saga : Answer(workflows().all_sagas(status, after, limit)).value().items)
      coordinators.push_back(saga.coordinator);
    return coordinators;
  };
  EXPECT_THAT(list({}), ElementsAre("bad0", "bad1", "good0", "good1", "good2"));
  EXPECT_THAT(list(SagaStatus::failed), ElementsAre("bad0", "bad1"));
  EXPECT_THAT(list(SagaStatus::compensating), IsEmpty());
  EXPECT_THAT(list({}, "bad1", 2), ElementsAre("good0", "good1"));
}

}  // namespace
}  // namespace strand::workflow_tests
