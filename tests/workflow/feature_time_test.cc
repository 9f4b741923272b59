// Time and chance: the same in every replay, and nobody else's.

#include <set>

#include "workflow/fixture.h"

namespace strand::workflow_tests {
namespace {

TEST_P(WorkflowFeature, A_sleep_takes_as_long_as_it_says) {
  const WorkflowType<int()> type{"sleep", [](Workflow& wf) -> Task<int> {
                                   const Time before = wf.now();
                                   co_await wf.sleep(365 * 24h);
                                   co_return static_cast<int>((wf.now() - before) / 24h);
                                 }};
  EXPECT_EQ(run(type), 365);
  EXPECT_EQ(took("a"), 365 * 24h);
}

TEST_P(WorkflowDetail, A_sleep_of_nothing_or_less_ends_at_once) {
  const WorkflowType<void()> type{"sleep", [](Workflow& wf) -> Task<void> {
                                    co_await wf.sleep(0s);
                                    co_await wf.sleep(-5s);
                                    co_await wf.sleep_until(wf.now() - 1h);
                                  }};
  run(type);
  EXPECT_EQ(took("a"), 0s);
}

TEST_P(WorkflowDetail, A_sleep_until_a_time_ends_at_that_time) {
  const Time wanted = env().now() + 36h;
  const WorkflowType<void()> type{"sleep", [wanted](Workflow& wf) -> Task<void> {
                                    co_await wf.sleep(1h);
                                    co_await wf.sleep_until(wanted);
                                    EXPECT_EQ(wf.now(), wanted);
                                  }};
  run(type);
  EXPECT_EQ(env().now(), wanted);
}

TEST_P(WorkflowDetail, Timers_fire_in_the_order_of_their_times) {
  const WorkflowType<std::string()> type{"timers", [](Workflow& wf) -> Task<std::string> {
                                           std::string log;
                                           const auto note = [](Workflow& w, std::string& log,
                                                                int hours) -> Task<void> {
                                             co_await w.sleep(hours * 1h);
                                             log += std::to_string(hours);
                                           };
                                           std::vector<Future<void>> all;
                                           for (const int hours : {3, 1, 2, 5, 4})
                                             all.push_back(wf.spawn(note(wf, log, hours)));
                                           co_await wf.all_of(all);
                                           co_return log;
                                         }};
  EXPECT_EQ(run(type), "12345");
}

TEST_P(WorkflowDetail, Nothing_happens_before_a_timer_is_due) {
  const WorkflowType<void()> type{"sleep",
                                  [](Workflow& wf) -> Task<void> { co_await wf.sleep(10h); }};
  add(type);
  start(type, "a");
  env().run_for(10h - 1ms);
  EXPECT_EQ(state("a"), InstanceState::running);
  EXPECT_EQ(env().turns(), 1);
  EXPECT_FALSE(env().step());
  env().run_for(1ms);
  EXPECT_EQ(state("a"), InstanceState::completed);
}

TEST_P(WorkflowDetail, A_cancelled_timer_never_fires) {
  const WorkflowType<int()> type{"sleep", [](Workflow& wf) -> Task<int> {
                                   auto timer = wf.sleep(1h);
                                   timer.cancel("not wanted");
                                   int caught = 0;
                                   try {
                                     co_await timer;
                                   } catch (const Cancelled& error) {
                                     EXPECT_STREQ(error.what(), "not wanted");
                                     ++caught;
                                   }
                                   co_await wf.sleep(2h);
                                   co_return caught;
                                 }};
  EXPECT_EQ(run(type), 1);
  EXPECT_EQ(count("a", EventKind::timer_fired), 1);
}

TEST_P(WorkflowFeature, Now_random_and_uuid_are_the_same_in_every_replay) {
  struct Seen {
    std::set<std::int64_t> times;
    std::set<std::uint64_t> numbers;
    std::set<std::string> uuids;
  };
  Seen seen;
  const WorkflowType<void()> type{"chance", [&seen](Workflow& wf) -> Task<void> {
                                    for (int i = 0; i < 4; ++i) {
                                      seen.times.insert(wf.now().time_since_epoch().count());
                                      seen.numbers.insert(wf.random());
                                      seen.uuids.insert(wf.uuid());
                                      co_await wf.sleep(1h);
                                    }
                                  }};
  run(type);
  // However often the code ran, it saw four of each.
  EXPECT_THAT(seen.times, SizeIs(4));
  EXPECT_THAT(seen.numbers, SizeIs(4));
  EXPECT_THAT(seen.uuids, SizeIs(4));
  for (const std::string& uuid : seen.uuids) {
    EXPECT_THAT(uuid, ::testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]"
                                              "{3}-[0-9a-f]{12}"));
  }
}

TEST_P(WorkflowDetail, No_two_instances_and_no_two_runs_see_the_same_chance) {
  const WorkflowType<std::string()> type{
      "chance", [](Workflow& wf) -> Task<std::string> { co_return wf.uuid(); }};
  add(type);
  std::set<std::string> seen;
  for (const std::string id : {"a", "b", "c"}) {
    start(type, id);
    env().run();
    seen.insert(ended(id).result);
  }
  start(type, "a", {.if_exists = IfExists::reuse});
  env().run();
  seen.insert(ended("a").result);
  ASSERT_TRUE(Answer(workflows().remove("a")));
  start(type, "a");
  env().run();
  seen.insert(ended("a").result);
  EXPECT_THAT(seen, SizeIs(5));
}

TEST_P(WorkflowDetail, Executions_of_one_instance_see_different_chance) {
  const WorkflowType<Names(Names)> type{"chance", [](Workflow& wf, Names seen) -> Task<Names> {
                                          seen.push_back(wf.uuid());
                                          if (seen.size() < 4) {
                                            co_return co_await wf.continue_as_new(seen);
                                          }
                                          co_return seen;
                                        }};
  const Names seen = run(type, {});
  EXPECT_THAT(std::set<std::string>(seen.begin(), seen.end()), SizeIs(4));
}

// Code may decide by it when to continue as new.
TEST_P(WorkflowFeature, The_length_of_its_history_is_the_same_in_a_replay) {
  const Activity<int(int)> echo{"echo", [](int number) { return number; }};
  add(echo);
  const WorkflowType<std::vector<int>()> type{
      "lengths", [echo](Workflow& wf) -> Task<std::vector<int>> {
        std::vector<int> lengths;
        for (int i = 0; i < 3; ++i)
          lengths.push_back(co_await wf.call(echo, static_cast<int>(wf.history_length())));
        co_return lengths;
      }};
  EXPECT_THAT(run(type), ElementsAre(1, 3, 5));
}

TEST_P(WorkflowDetail, Now_does_not_move_while_the_code_runs_and_never_goes_back) {
  std::vector<Time> times;
  const Activity<void()> slow{"slow", [this] { env().clock()->advance(7s); }};
  add(slow);
  const WorkflowType<int()> type{"now", [slow](Workflow& wf) -> Task<int> {
                                   const Time first = wf.now();
                                   auto call = wf.call(slow);
                                   EXPECT_EQ(wf.now(), first);
                                   co_await call;
                                   co_return static_cast<int>((wf.now() - first) / 1s);
                                 }};
  EXPECT_EQ(run(type), 7);
}

}  // namespace
}  // namespace strand::workflow_tests
