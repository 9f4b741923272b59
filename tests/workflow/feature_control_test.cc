// Control: all of them, the first of them, beside each other, one inside the other.

#include <stdexcept>

#include "workflow/fixture.h"

namespace strand::workflow_tests {
namespace {

int twice(const int& number) { return 2 * number; }
const Activity double_it{"double_it", twice};

int refuse() { throw ApplicationError("refused", "no").final(); }
const Activity refuse_it{"refuse_it", refuse};

Task<int> sum_of(Workflow& wf, int from, int to) {
  int sum = 0;
  for (int i = from; i < to; ++i)
    sum += co_await wf.call(double_it, i);
  co_return sum;
}

Task<int> after(Workflow& wf, Duration wait, int value) {
  co_await wf.sleep(wait);
  co_return value;
}

// --- All of them ---

TEST_P(WorkflowFeature, All_of_waits_for_everything_and_gives_a_tuple) {
  add(double_it);
  const WorkflowType<std::string()> type{
      "all", [](Workflow& wf) -> Task<std::string> {
        const auto [a, nothing, b, c] = co_await wf.all_of(wf.call(double_it, 4), wf.sleep(2h),
                                                           sum_of(wf, 0, 3), after(wf, 1h, 7));
        static_cast<void>(nothing);
        co_return std::to_string(a) + " " + std::to_string(b) + " " + std::to_string(c);
      }};
  EXPECT_EQ(run(type), "8 6 7");
  EXPECT_EQ(took("a"), 2h);
}

TEST_P(WorkflowDetail, All_of_a_vector_keeps_the_order_of_the_calls) {
  const WorkflowType<std::vector<int>()> type{
      "all", [](Workflow& wf) -> Task<std::vector<int>> {
        std::vector<Future<int>> futures;
        for (int i = 0; i < 5; ++i)
          futures.push_back(wf.spawn(after(wf, (5 - i) * 1min, i)));
        co_return co_await wf.all_of(futures);
      }};
  EXPECT_THAT(run(type), ElementsAre(0, 1, 2, 3, 4));
}

TEST_P(WorkflowDetail, All_of_nothing_is_there_at_once) {
  const WorkflowType<int()> type{"none", [](Workflow& wf) -> Task<int> {
                                   co_await wf.all_of(std::vector<Future<void>>{});
                                   const auto none = co_await wf.all_of(std::vector<Future<int>>{});
                                   co_return static_cast<int>(none.size());
                                 }};
  EXPECT_EQ(run(type), 0);
}

TEST_P(WorkflowFeature, One_failure_ends_all_of_them_and_cancels_the_others) {
  add(refuse_it);
  const WorkflowType<std::string()> type{"all", [](Workflow& wf) -> Task<std::string> {
                                           auto other = wf.call(never_done);
                                           auto timer = wf.sleep(24h);
                                           try {
                                             co_await wf.all_of(other, wf.call(refuse_it), timer);
                                           } catch (const ActivityError& error) {
                                             EXPECT_TRUE(other.done());
                                             EXPECT_TRUE(timer.done());
                                             co_return error.type();
                                           }
                                           co_return "no error";
                                         }};
  EXPECT_EQ(run(type), "refused");
  EXPECT_EQ(took("a"), 0s);
  EXPECT_EQ(count("a", EventKind::call_cancelled), 2);
  EXPECT_EQ(stats("nobody").live(), 0);
  EXPECT_EQ(stats("workflow").live(), 0);
}

TEST_P(WorkflowDetail, One_failure_may_leave_the_others_alone) {
  add(refuse_it);
  const WorkflowType<int()> type{"all", [](Workflow& wf) -> Task<int> {
                                   auto other = wf.spawn(after(wf, 24h, 5));
                                   try {
                                     co_await wf.all_of(Others::keep, other, wf.call(refuse_it));
                                   } catch (const ActivityError&) {
                                     EXPECT_FALSE(other.done());
                                   }
                                   co_return co_await other;
                                 }};
  EXPECT_EQ(run(type), 5);
  EXPECT_EQ(took("a"), 24h);
}

// --- The first of them ---

TEST_P(WorkflowFeature, The_first_of_them_says_which_it_is_and_the_loser_is_cancelled) {
  add(never_done);
  const WorkflowType<std::string()> type{"first", [](Workflow& wf) -> Task<std::string> {
                                           auto loser = wf.call(never_done);
                                           const auto winner = co_await wf.first_of(
                                               loser, wf.sleep(1h), after(wf, 2h, 1));
                                           EXPECT_TRUE(loser.done());
                                           co_return std::to_string(winner.index());
                                         }};
  EXPECT_EQ(run(type), "1");
  EXPECT_EQ(took("a"), 1h);
  EXPECT_EQ(stats("nobody").live(), 0);
  EXPECT_EQ(stats("workflow").live(), 0) << "the timer of the loser goes with it";
}

TEST_P(WorkflowDetail, The_first_of_them_has_a_value) {
  add(double_it);
  const WorkflowType<int()> type{"first", [](Workflow& wf) -> Task<int> {
                                   const auto first =
                                       co_await wf.first_of(wf.sleep(1h), wf.call(double_it, 21));
                                   co_return std::get<1>(first);
                                 }};
  EXPECT_EQ(run(type), 42);
  EXPECT_EQ(took("a"), 0s);
}

TEST_P(WorkflowDetail, The_loser_can_be_kept_and_awaited_later) {
  const WorkflowType<int()> type{"first", [](Workflow& wf) -> Task<int> {
                                   auto slow = wf.spawn(after(wf, 3h, 3));
                                   const auto first = co_await wf.first_of(
                                       Others::keep, slow, wf.spawn(after(wf, 1h, 1)));
                                   EXPECT_EQ(std::get<1>(first), 1);
                                   EXPECT_FALSE(slow.done());
                                   co_return co_await slow;
                                 }};
  EXPECT_EQ(run(type), 3);
  EXPECT_EQ(took("a"), 3h);
}

// It would wait for ever.
TEST_P(WorkflowDetail, The_first_of_none_is_an_error) {
  const WorkflowType<std::string()> type{"none", [](Workflow& wf) -> Task<std::string> {
                                           try {
                                             co_await wf.first_of(std::vector<Future<int>>{});
                                           } catch (const ApplicationError& error) {
                                             co_return error.type();
                                           }
                                           co_return "it came";
                                         }};
  EXPECT_EQ(run(type), "nothing_to_await");
}

TEST_P(WorkflowDetail, The_first_of_a_vector_is_an_index) {
  const WorkflowType<int()> type{"first", [](Workflow& wf) -> Task<int> {
                                   std::vector<Future<int>> futures;
                                   for (const int hours : {5, 2, 9})
                                     futures.push_back(wf.spawn(after(wf, hours * 1h, hours)));
                                   const std::size_t index = co_await wf.first_of(futures);
                                   EXPECT_EQ(index, 1);
                                   co_return co_await futures[index];
                                 }};
  EXPECT_EQ(run(type), 2);
}

TEST_P(WorkflowDetail, A_failure_can_be_the_first) {
  add(refuse_it);
  const WorkflowType<std::string()> type{"first", [](Workflow& wf) -> Task<std::string> {
                                           try {
                                             co_await wf.first_of(wf.sleep(1h), wf.call(refuse_it));
                                           } catch (const ActivityError& error) {
                                             co_return error.type();
                                           }
                                           co_return "no error";
                                         }};
  EXPECT_EQ(run(type), "refused");
}

TEST_P(WorkflowDetail, What_is_done_already_is_the_first) {
  const WorkflowType<std::string()> type{"first", [](Workflow& wf) -> Task<std::string> {
                                           auto a = wf.sleep(1h);
                                           auto b = wf.sleep(1h);
                                           co_await wf.sleep(2h);
                                           EXPECT_TRUE(a.done() && b.done());
                                           const auto first =
                                               co_await wf.first_of(wf.sleep(1h), b, a);
                                           co_return std::to_string(first.index());
                                         }};
  EXPECT_EQ(run(type), "1");
  EXPECT_EQ(took("a"), 2h);
}

TEST_P(WorkflowDetail, Combinations_can_be_combined) {
  const WorkflowType<int()> type{
      "both", [](Workflow& wf) -> Task<int> {
        const auto all = co_await wf.all_of(
            wf.first_of(after(wf, 1h, 1), after(wf, 2h, 2)),
            wf.first_of(wf.all_of(after(wf, 1h, 3), after(wf, 4h, 4)), wf.sleep(3h)));
        EXPECT_EQ(std::get<0>(all).index(), 0);
        EXPECT_EQ(std::get<1>(all).index(), 1);
        co_return std::get<0>(std::get<0>(all));
      }};
  EXPECT_EQ(run(type), 1);
  EXPECT_EQ(took("a"), 3h);
  EXPECT_EQ(stats("workflow").live(), 0);
}

// --- A limit of time ---

TEST_P(WorkflowDetail, What_is_done_within_its_time_has_its_value) {
  add(double_it);
  const WorkflowType<int()> type{"within", [](Workflow& wf) -> Task<int> {
                                   const int a = co_await wf.within(1h, wf.call(double_it, 1));
                                   const int b = co_await wf.within(1h, after(wf, 30min, 4));
                                   co_await wf.within(1h, wf.sleep(1min));
                                   co_return a + b;
                                 }};
  EXPECT_EQ(run(type), 6);
  EXPECT_EQ(took("a"), 31min);
  EXPECT_EQ(stats("workflow").live(), 0);
}

TEST_P(WorkflowFeature, What_takes_longer_is_cancelled_and_its_deadline_has_passed) {
  add(never_done);
  const WorkflowType<std::string()> type{"within", [](Workflow& wf) -> Task<std::string> {
                                           auto slow = wf.call(never_done);
                                           try {
                                             co_await wf.within(90min, slow);
                                           } catch (const DeadlinePassed& error) {
                                             EXPECT_TRUE(slow.done());
                                             co_return said(error);
                                           }
                                           co_return "in time";
                                         }};
  EXPECT_EQ(run(type), "timed_out: not done within 1h30m");
  EXPECT_EQ(stats("nobody").live(), 0);
}

TEST_P(WorkflowDetail, What_fails_within_its_time_fails_as_it_did) {
  add(refuse_it);
  const WorkflowType<std::string()> type{"within", [](Workflow& wf) -> Task<std::string> {
                                           try {
                                             co_await wf.within(1h, wf.call(refuse_it));
                                           } catch (const ActivityError& error) {
                                             co_return error.type();
                                           }
                                           co_return "no error";
                                         }};
  EXPECT_EQ(run(type), "refused");
}

// --- Beside each other, inside each other ---

TEST_P(WorkflowFeature, What_is_spawned_runs_beside_who_spawned_it) {
  const WorkflowType<std::string()> type{"spawn", [](Workflow& wf) -> Task<std::string> {
                                           std::string log;
                                           const auto note = [](Workflow& wf, std::string& log,
                                                                std::string name,
                                                                Duration each) -> Task<void> {
                                             for (int i = 0; i < 2; ++i) {
                                               co_await wf.sleep(each);
                                               log += name;
                                             }
                                           };
                                           auto x = wf.spawn(note(wf, log, "x", 2h));
                                           auto y = wf.spawn(note(wf, log, "y", 3h));
                                           co_await wf.sleep(1h);
                                           log += "-";
                                           co_await x;
                                           co_await y;
                                           co_return log;
                                         }};
  EXPECT_EQ(run(type), "-xyxy");
}

TEST_P(WorkflowDetail, What_is_spawned_and_not_awaited_ends_with_the_workflow) {
  const WorkflowType<int()> type{"spawn", [](Workflow& wf) -> Task<int> {
                                   auto left = wf.spawn(after(wf, 100h, 1));
                                   static_cast<void>(left);
                                   co_await wf.sleep(1h);
                                   co_return 1;
                                 }};
  EXPECT_EQ(run(type), 1);
  EXPECT_EQ(took("a"), 1h);
  EXPECT_EQ(stats("workflow").live(), 0) << "its timer goes with it";
}

TEST_P(WorkflowDetail, An_error_of_what_nobody_awaits_harms_nobody) {
  add(refuse_it);
  const WorkflowType<int()> type{"spawn", [](Workflow& wf) -> Task<int> {
                                   auto lost = wf.call(refuse_it);
                                   auto also = wf.spawn([](Workflow& w) -> Task<void> {
                                     co_await w.sleep(1min);
                                     throw std::runtime_error("nobody listens");
                                   }(wf));
                                   static_cast<void>(lost);
                                   static_cast<void>(also);
                                   co_await wf.sleep(1h);
                                   co_return 1;
                                 }};
  EXPECT_EQ(run(type), 1);
}

TEST_P(WorkflowDetail, A_future_can_be_awaited_by_many_and_again) {
  add(double_it);
  const WorkflowType<int()> type{"many", [](Workflow& wf) -> Task<int> {
                                   auto one = wf.call(double_it, 1);
                                   const auto wait = [](Future<int> future) -> Task<int> {
                                     co_return co_await future;
                                   };
                                   const auto [a, b] = co_await wf.all_of(wait(one), wait(one));
                                   co_return a + b + co_await one;
                                 }};
  EXPECT_EQ(run(type), 6);
  EXPECT_EQ(env().attempts(), 1);
}

Task<int> deep(Workflow& wf, int depth) {
  if (depth == 0) {
    co_await wf.sleep(1s);
    throw std::out_of_range("the bottom");
  }
  co_return 1 + co_await deep(wf, depth - 1);
}

TEST_P(WorkflowDetail, An_exception_passes_through_coroutines_as_through_functions) {
  const WorkflowType<std::string()> type{"deep", [](Workflow& wf) -> Task<std::string> {
                                           try {
                                             co_await deep(wf, 500);
                                           } catch (const std::out_of_range& error) {
                                             co_return error.what();
                                           }
                                           co_return "none";
                                         }};
  EXPECT_EQ(run(type), "the bottom");
}

TEST_P(WorkflowDetail, An_exception_that_leaves_the_workflow_is_its_failure) {
  const WorkflowType<int()> type{"deep",
                                 [](Workflow& wf) -> Task<int> { co_return co_await deep(wf, 3); }};
  add(type);
  start(type, "a");
  env().run();
  EXPECT_EQ(ended("a").state, InstanceState::failed);
  EXPECT_EQ(ended("a").error, "the bottom");
  EXPECT_EQ(ended("a").error_type, "exception");
  EXPECT_THROW(run(type), WorkflowError);
}

TEST_P(WorkflowDetail, A_workflow_that_throws_before_it_waits_fails) {
  const WorkflowType<void()> type{"early", [](Workflow&) -> Task<void> {
                                    throw ApplicationError("bad", "at once", "why");
                                    co_return;
                                  }};
  add(type);
  start(type, "a");
  env().run();
  EXPECT_EQ(ended("a").error, "at once");
  EXPECT_EQ(ended("a").error_type, "bad");
  EXPECT_EQ(ended("a").error_details, "why");
}

TEST_P(WorkflowDetail, A_loop_may_await_thousands_of_times) {
  // In one turn: what is there already needs none.
  const bool small = GetParam().store.name != "memory" || mode() == Mode::crash_every_turn;
  const int rounds = small ? 1'000 : 5'000;
  const Activity<int(int)> local{"local", [](int n) { return n + 1; }};
  const WorkflowType<int(int)> type{"loop", [local](Workflow& wf, int rounds) -> Task<int> {
                                      int number = 0;
                                      for (int i = 0; i < rounds; ++i)
                                        number = co_await wf.local(local, number);
                                      co_return number;
                                    }};
  EXPECT_EQ(run(type, rounds), rounds);
  EXPECT_EQ(env().turns(), 1);
}

TEST_P(WorkflowFeature, A_loop_may_wait_hundreds_of_times) {
  add(double_it);
  const int rounds = GetParam().store.name == "memory" ? 300 : 30;
  const WorkflowType<int(int)> type{"loop", [](Workflow& wf, int rounds) -> Task<int> {
                                      int number = 0;
                                      for (int i = 0; i < rounds; ++i) {
                                        number += co_await wf.call(double_it, i % 3);
                                        if (i % 7 == 0) co_await wf.sleep(1min);
                                      }
                                      co_return number;
                                    }};
  int expected = 0;
  for (int i = 0; i < rounds; ++i)
    expected += 2 * (i % 3);
  EXPECT_EQ(run(type, rounds), expected);
}

// Behaviours: a fan-in of 1024 and more hangs on replay (a later bug).
TEST_P(WorkflowDetail, A_fan_in_of_two_thousand_comes_together) {
  const WorkflowType<int()> type{"fan", [](Workflow& wf) -> Task<int> {
                                   std::vector<Future<int>> parts;
                                   for (int i = 0; i < 2'000; ++i)
                                     parts.push_back(wf.spawn(after(wf, 1h, i)));
                                   int sum = 0;
                                   for (const int part : co_await wf.all_of(parts))
                                     sum += part;
                                   co_return sum;
                                 }};
  EXPECT_EQ(run(type), 1'999'000);
}

}  // namespace
}  // namespace strand::workflow_tests
