// Checkpoints: the code begins again with its state, and nothing that was under way is lost.

#include <set>
#include <type_traits>

#include "workflow/fixture.h"

namespace strand::workflow_tests {
namespace {

// A checkpoint wherever one can be.
const CheckpointPolicy always{.when = {.every_events = 1}};
const CheckpointPolicy never{.when = {.every_events = {}, .every_bytes = {}}};

const Activity<int(int)> twice{"twice", [](int n) { return 2 * n; }};

struct Sum {
  int total = 0;
  int count = 0;
};
STRAND_JSON(Sum, total, count)

// Adds up events until one of them is 0.
Task<Sum> add_up(Workflow& wf) {
  Sum sum = wf.restored<Sum>().value_or(Sum{});
  const auto answering = wf.answer("total", [&] { return sum.total; });
  while (true) {
    co_await wf.checkpoint(sum);
    const int n = co_await wf.event<int>("n");
    if (n == 0) co_return sum;
    sum.total += co_await wf.call(twice, n);
    ++sum.count;
  }
}
const WorkflowType<Sum()> adding{"adding", add_up};

class Checkpoints : public WorkflowFeature {
 protected:
  // Sends 1, 2, … and ends it.
  Sum feed(int events) {
    add(adding, twice);
    const auto handle = start(adding, "a");
    for (int n = 1; n <= events; ++n) {
      send_event("a", "n", n);
      env().run();
    }
    send_event("a", "n", 0);
    env().run();
    return value_of<Sum>(handle);
  }
  std::optional<std::string> record() {
    const auto found = Answer(store().record("workflow/checkpoints", "a")).value();
    if (!found) return std::nullopt;
    return found->value;
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, Checkpoints, ::testing::ValuesIn(ways()),
                         [](const auto& info) { return info.param.name; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Checkpoints);

TEST_P(Checkpoints, The_result_is_the_same_and_old_events_are_gone) {
  env().set_checkpoints(always);
  const Sum sum = feed(20);
  EXPECT_EQ(sum.total, 20 * 21);
  EXPECT_EQ(sum.count, 20);
  const auto page = Answer(workflows().history("a")).value();
  EXPECT_EQ(page.events.front().kind, EventKind::checkpoint);
  EXPECT_EQ(count("a", EventKind::checkpoint), 2);
  EXPECT_EQ(page.first + page.events.size(), page.length);
  EXPECT_GT(page.first, 60);
  EXPECT_EQ(record(), std::nullopt) << "it has ended";
}

TEST_P(Checkpoints, Without_a_policy_that_wants_any_the_points_cost_no_event) {
  env().set_checkpoints(never);
  EXPECT_EQ(feed(20).total, 20 * 21);
  EXPECT_EQ(count("a", EventKind::checkpoint), 0);
  EXPECT_EQ(Answer(workflows().history("a")).value().first, 0);
}

TEST_P(Checkpoints, Old_events_are_kept_if_that_is_wanted) {
  env().set_checkpoints({.when = always.when, .prune = false});
  EXPECT_EQ(feed(5).total, 30);
  EXPECT_EQ(kinds("a").front(), EventKind::started);
  EXPECT_EQ(count("a", EventKind::checkpoint), 6);
}

TEST_P(Checkpoints, Events_that_came_early_wait_on) {
  env().set_checkpoints(always);
  add(adding, twice);
  const auto handle = start(adding, "a");
  for (const int n : {1, 2, 3, 4, 0})
    send_event("a", "n", n);
  env().run();
  EXPECT_EQ(value_of<Sum>(handle).total, 20);
}

TEST_P(Checkpoints, A_timer_goes_on_if_the_code_waits_for_the_same_time_again) {
  env().set_checkpoints(always);
  const WorkflowType<int()> type{
      "deadline", [](Workflow& wf) -> Task<int> {
        std::string state = wf.restored<std::string>().value_or(format_time(wf.now() + 24h) + " 0");
        const std::size_t space = state.find(' ');
        const Time deadline = parse_time(state.substr(0, space)).value();
        int seen = std::stoi(state.substr(space + 1));
        auto over = wf.sleep_until(deadline);
        while (true) {
          co_await wf.checkpoint(state.substr(0, space) + " " + std::to_string(seen));
          const auto first = co_await wf.first_of(Others::keep, wf.event<int>("n"), over);
          if (first.index() == 1) co_return seen;
          ++seen;
        }
      }};
  add(type);
  const auto handle = start(type, "a");
  for (int i = 0; i < 10; ++i) {
    env().run_for(1h);
    send_event("a", "n", 1);
  }
  env().run();
  EXPECT_EQ(value_of<int>(handle), 10);
  EXPECT_EQ(took("a"), 24h) << "the first timer counts";
  EXPECT_EQ(count("a", EventKind::timer_started), 0) << "it was started before the oldest event";
  EXPECT_EQ(count("a", EventKind::call_cancelled), 0);
}

TEST_P(Checkpoints, An_activity_that_is_under_way_is_not_done_twice) {
  env().set_checkpoints(always);
  const WorkflowType<int()> type{"slow", [](Workflow& wf) -> Task<int> {
                                   int ticks = wf.restored<int>().value_or(0);
                                   auto slow = wf.call(twice, 21);
                                   while (ticks < 5) {
                                     co_await wf.checkpoint(ticks);
                                     co_await wf.event<int>("tick");
                                     ++ticks;
                                   }
                                   co_return co_await slow;
                                 }};
  add(type);
  int done = 0;
  env().mock(twice, [&done](int n) {
    if (++done < 3) throw ApplicationError("not_yet", "comes again");
    return n * 2;
  });
  const auto handle = start(type, "a");
  for (int i = 0; i < 5; ++i)
    send_event("a", "tick", i);
  env().run();
  EXPECT_EQ(value_of<int>(handle), 42);
  EXPECT_EQ(done, 3) << "one activity with three attempts, however often the code began again";
}

TEST_P(Checkpoints, What_the_code_does_not_call_again_is_called_off) {
  env().set_checkpoints(always);
  const WorkflowType<int()> type{"forgetful", [](Workflow& wf) -> Task<int> {
                                   if (wf.restored<int>()) {
                                     co_return co_await wf.event<int>("end");
                                   }
                                   auto held = wf.call(never_done);
                                   auto timer = wf.sleep(100h);
                                   co_await wf.event<int>("go");
                                   co_await wf.checkpoint(1);
                                   co_return 0;
                                 }};
  add(type, never_done);
  const auto handle = start(type, "a");
  env().run_for(1min);
  EXPECT_THAT(waiting("nobody"), SizeIs(1));
  send_event("a", "go", 1);
  env().run_for(1min);
  EXPECT_EQ(count("a", EventKind::call_cancelled), 2);
  EXPECT_THAT(waiting("nobody"), IsEmpty());
  send_event("a", "end", 7);
  env().run();
  EXPECT_EQ(value_of<int>(handle), 7);
  EXPECT_LT(took("a"), 1h);
}

TEST_P(Checkpoints, A_call_that_nobody_stands_for_goes_on) {
  env().set_checkpoints(always);
  const WorkflowType<int()> type{"careless", [](Workflow& wf) -> Task<int> {
                                   if (!wf.restored<int>()) {
                                     std::ignore = wf.call(twice, 1);
                                     co_await wf.checkpoint(1);
                                   }
                                   co_return co_await wf.event<int>("end");
                                 }};
  add(type, twice);
  const auto handle = start(type, "a");
  env().run();
  EXPECT_EQ(count("a", EventKind::checkpoint), 1);
  EXPECT_THAT(env().activities_tried(), ElementsAre("twice"));
  send_event("a", "end", 3);
  env().run();
  EXPECT_EQ(value_of<int>(handle), 3);
}

TEST_P(Checkpoints, Children_are_taken_over) {
  env().set_checkpoints(always);
  const WorkflowType<int(int)> child{"child", [](Workflow& wf, int n) -> Task<int> {
                                       co_await wf.sleep(5h);
                                       co_return n + 1;
                                     }};
  const WorkflowType<int()> type{"parent", [child](Workflow& wf) -> Task<int> {
                                   int ticks = wf.restored<int>().value_or(0);
                                   auto named = wf.child(child, 1, {.id = "kid"});
                                   auto unnamed = wf.child(child, 10);
                                   while (ticks < 3) {
                                     co_await wf.checkpoint(ticks);
                                     co_await wf.event<int>("tick");
                                     ++ticks;
                                   }
                                   const auto [a, b] = co_await wf.all_of(named, unnamed);
                                   co_return a + b;
                                 }};
  add(type, child);
  const auto handle = start(type, "a");
  for (int i = 0; i < 3; ++i) {
    env().run_for(1min);
    send_event("a", "tick", i);
  }
  env().run();
  EXPECT_EQ(value_of<int>(handle), 13);
  EXPECT_THAT(Answer(workflows().tree("a")).value(), SizeIs(3)) << "two children, started once";
}

TEST_P(Checkpoints, Not_taken_while_something_would_be_lost) {
  env().set_checkpoints(always);
  using Code = Task<void> (*)(Workflow&);
  const std::vector<std::pair<std::string, Code>> codes = {
      {"a coroutine beside it",
       [](Workflow& wf) -> Task<void> {
         auto beside = wf.spawn([](Workflow& w) -> Task<int> {
           co_await w.sleep(1h);
           co_return 1;
         }(wf));
         co_await wf.event<int>("go");
         co_await wf.checkpoint(1);
         co_await beside;
       }},
      {"a saga",
       [](Workflow& wf) -> Task<void> {
         Saga saga{wf};
         co_await wf.event<int>("go");
         co_await wf.checkpoint(1);
       }},
      {"a result that nobody has looked at",
       [](Workflow& wf) -> Task<void> {
         auto result = wf.call(twice, 1);
         co_await wf.sleep(1h);
         co_await wf.checkpoint(1);
         co_await result;
       }},
      {"an event that was taken and not looked at",
       [](Workflow& wf) -> Task<void> {
         auto event = wf.event<int>("go");
         co_await wf.sleep(1h);
         co_await wf.checkpoint(1);
         co_await event;
       }},
      {"the end of a coroutine that nobody has looked at",
       [](Workflow& wf) -> Task<void> {
         auto beside = wf.spawn([](Workflow& w) -> Task<int> {
           co_await w.event<int>("go");
           co_return 1;
         }(wf));
         co_await wf.sleep(1h);
         co_await wf.checkpoint(1);
         co_await beside;
       }},
  };
  add(twice);
  for (const auto& [what, code] : codes) {
    const WorkflowType<void()> type{what, code};
    add(type);
    start(type, what);
    env().run_for(1min);
    send_event(what, "go", 1);
    env().run();
    EXPECT_EQ(state(what), InstanceState::completed) << what;
    EXPECT_EQ(count(what, EventKind::checkpoint), 0) << what;
  }
}

TEST_P(Checkpoints, A_local_activity_that_is_tried_again_is_in_the_way_too) {
  env().set_checkpoints(always);
  static int tries = 0;
  tries = 0;
  const Activity<int()> shaky{"shaky", [] {
                                if (++tries % 3 != 0) throw ApplicationError("no", "not yet");
                                return 5;
                              }};
  const WorkflowType<int()> type{"local", [shaky](Workflow& wf) -> Task<int> {
                                   if (wf.restored<int>()) co_return -1;
                                   auto result = wf.local(shaky);
                                   co_await wf.checkpoint(1);
                                   co_return co_await result;
                                 }};
  EXPECT_EQ(run(type), 5);
}

TEST_P(Checkpoints, Only_the_workflow_itself_has_a_state_to_declare) {
  env().set_checkpoints(always);
  const WorkflowType<std::string()> type{
      "beside", [](Workflow& wf) -> Task<std::string> {
        std::string said;
        try {
          co_await wf.spawn([](Workflow& w) -> Task<void> { co_await w.checkpoint(1); }(wf));
        } catch (const ApplicationError& error) {
          said = error.type();
        }
        co_return said;
      }};
  EXPECT_EQ(run(type), "not_the_workflow");
}

TEST_P(Checkpoints, Random_numbers_status_state_and_patches_go_on) {
  env().set_checkpoints(always);
  const WorkflowType<std::vector<std::uint64_t>()> type{
      "going_on", [](Workflow& wf) -> Task<std::vector<std::uint64_t>> {
        auto numbers =
            wf.restored<std::vector<std::uint64_t>>().value_or(std::vector<std::uint64_t>{});
        if (numbers.empty()) {
          wf.set_status("begun");
          wf.set("key", "value");
        }
        while (numbers.size() < 6) {
          numbers.push_back(wf.random() >> 8U);
          co_await wf.checkpoint(numbers);
          co_await wf.sleep(1h);
          if (!wf.patched("change")) throw ApplicationError("patch", "an answer has changed");
        }
        if (wf.get<std::string>("key") != "value") throw ApplicationError("state", "is gone");
        co_return numbers;
      }};
  const auto numbers = run(type);
  EXPECT_EQ(std::set<std::uint64_t>(numbers.begin(), numbers.end()).size(), 6);
  EXPECT_EQ(info("a").status, "begun");
  EXPECT_EQ(shown("a", "key"), "value");
}

TEST_P(Checkpoints, A_trimmed_instance_can_be_cancelled_terminated_removed_and_continued) {
  env().set_checkpoints(always);
  const WorkflowType<int(int)> type{"long", [](Workflow& wf, int again) -> Task<int> {
                                      int n = wf.restored<int>().value_or(0);
                                      auto slow = wf.call(never_done);
                                      while (true) {
                                        co_await wf.checkpoint(n);
                                        const int event = co_await wf.event<int>("n");
                                        if (event < 0) co_return n;
                                        if (event == 100)
                                          co_return co_await wf.continue_as_new(again + 1);
                                        ++n;
                                      }
                                    }};
  const WorkflowType<std::string()> parent{"parent", [type](Workflow& wf) -> Task<std::string> {
                                             try {
                                               co_await wf.child(type, 0, {.id = "terminated"});
                                             } catch (const ChildError& error) {
                                               co_return said(error);
                                             }
                                             co_return "";
                                           }};
  add(type, parent, never_done);
  start(parent, "p");
  for (const std::string id : {"cancelled", "continued"})
    start(type, id, 0);
  env().run_for(1min);
  for (int i = 0; i < 5; ++i) {
    for (const std::string id : {"cancelled", "continued", "terminated"})
      send_event(id, "n", i);
    env().run_for(1min);
  }
  for (const std::string id : {"cancelled", "continued", "terminated"})
    EXPECT_EQ(kinds(id).front(), EventKind::checkpoint) << id;
  EXPECT_THAT(waiting("nobody"), SizeIs(3));

  ASSERT_TRUE(Answer(workflows().cancel("cancelled")));
  ASSERT_TRUE(Answer(workflows().terminate("terminated", "enough")));
  send_event("continued", "n", 100);
  env().run_for(1min);
  EXPECT_EQ(state("cancelled"), InstanceState::cancelled);
  EXPECT_EQ(state("terminated"), InstanceState::terminated);
  EXPECT_THAT(ended("p").result, HasSubstr("enough")) << "the parent is told";
  EXPECT_THAT(waiting("nobody"), SizeIs(1)) << "of the one that was continued, and called again";
  EXPECT_EQ(info("continued").execution, 2);
  for (const std::string id : {"cancelled", "terminated"})
    EXPECT_FALSE(Answer(store().record("workflow/checkpoints", id)).value()) << id;
  send_event("continued", "n", -1);
  env().run();
  EXPECT_EQ(ended("continued").result, "0");
  ASSERT_TRUE(Answer(workflows().remove("continued")));
}

// --- Versions ---

// The same workflow, by other programs.
Task<Sum> add_up_version_2(Workflow& wf) {
  Sum sum = wf.restored<Sum>(2).value_or(Sum{});
  while (true) {
    co_await wf.checkpoint(sum, {.version = 2});
    const int n = co_await wf.event<int>("n");
    if (n == 0) co_return sum;
    sum.total += co_await wf.call(twice, n);
    ++sum.count;
  }
}

Task<Sum> add_up_of_both_versions(Workflow& wf) {
  Sum sum;
  if (wf.restored_version() == 1) {
    sum = *wf.restored<Sum>(1);
  } else {
    sum = wf.restored<Sum>(2).value_or(Sum{});
  }
  while (true) {
    co_await wf.checkpoint(sum, {.version = 2});
    const int n = co_await wf.event<int>("n");
    if (n == 0) co_return sum;
    sum.total += co_await wf.call(twice, n);
    ++sum.count;
  }
}

TEST_P(Checkpoints, A_state_that_cannot_be_read_lets_the_code_begin_further_back) {
  // A checkpoint of the older program, then two of the newer one would be too many: the first one
  // is what is left to begin with.
  env().set_checkpoints(always);
  add(adding, twice);
  const auto handle = start(adding, "a");
  send_event("a", "n", 1);
  env().run();
  ASSERT_EQ(count("a", EventKind::checkpoint), 2);
  add(WorkflowType<Sum()>{"adding", add_up_of_both_versions});
  send_event("a", "n", 2);
  env().run();
  EXPECT_EQ(history("a").front().detail("version"), "1");
  EXPECT_EQ(history("a").back().detail("version"), "2");
  // The older program again: it knows nothing of version 2.
  add(adding);
  send_event("a", "n", 3);
  env().run();
  EXPECT_EQ(info("a").parked, std::nullopt);
  EXPECT_EQ(history("a").back().detail("version"), "1");
  send_event("a", "n", 0);
  env().run();
  EXPECT_EQ(value_of<Sum>(handle).total, 12);
}

TEST_P(Checkpoints, With_nothing_left_to_begin_with_the_instance_is_parked_and_nothing_is_lost) {
  env().set_checkpoints(always);
  add(adding, twice);
  const auto handle = start(adding, "a");
  for (int n = 1; n <= 3; ++n) {
    send_event("a", "n", n);
    env().run();
  }
  const auto before = history("a");
  add(WorkflowType<Sum()>{"adding", add_up_version_2});
  send_event("a", "n", 4);
  env().run();
  EXPECT_THAT(info("a").parked.value_or("not parked"),
              AllOf(HasSubstr("adding@1"), HasSubstr("it has version 1, the code reads 2"),
                    HasSubstr("restored_version()")));
  EXPECT_EQ(history("a"), before);
  add(adding);
  ASSERT_TRUE(Answer(workflows().resume("a")));
  send_event("a", "n", 0);
  env().run();
  EXPECT_EQ(value_of<Sum>(handle).total, 20);
}

TEST_P(Checkpoints, A_state_of_another_type_cannot_be_read_either) {
  env().set_checkpoints({.when = always.when, .prune = false});
  const auto with = [](const auto& sample) {
    using State = std::remove_cvref_t<decltype(sample)>;
    return WorkflowType<int()>{"typed", [](Workflow& wf) -> Task<int> {
                                 std::ignore = wf.restored<State>();
                                 co_await wf.checkpoint(State{});
                                 co_return co_await wf.event<int>("n");
                               }};
  };
  add(with(std::string{}));
  const auto handle = start(with(std::string{}), "a");
  env().run();
  ASSERT_EQ(count("a", EventKind::checkpoint), 1);
  add(with(Sum{}));
  send_event("a", "n", 9);
  env().run();
  EXPECT_THAT(info("a").parked.value_or("not parked"), HasSubstr("checkpoint"))
      << "from the start it decides another state of the same version";
  add(with(std::string{}));
  ASSERT_TRUE(Answer(workflows().resume("a")));
  env().run();
  EXPECT_EQ(value_of<int>(handle), 9);
}

TEST_P(Checkpoints, Code_that_cannot_read_what_it_wrote_is_found_at_once) {
  env().set_checkpoints(always);
  const WorkflowType<int()> type{"muddled", [](Workflow& wf) -> Task<int> {
                                   std::ignore = wf.restored<int>(1);
                                   co_await wf.checkpoint(1, {.version = 2});
                                   co_return co_await wf.event<int>("n");
                                 }};
  add(type);
  start(type, "a");
  env().run();
  EXPECT_THAT(info("a").parked.value_or("not parked"), HasSubstr("it has version 2"));
  EXPECT_EQ(Answer(workflows().history("a")).error().code, Errc::not_found) << "nothing is written";
  ASSERT_TRUE(Answer(workflows().terminate("a", "wrong")));
}

TEST_P(Checkpoints, A_damaged_checkpoint_is_passed_by) {
  env().set_checkpoints(never);
  add(adding, twice);
  const auto handle = start(adding, "a");
  send_event("a", "n", 1);
  env().run();
  // As if a checkpoint had been taken there, and was not readable.
  const auto page = Answer(workflows().history("a")).value();
  LeaseRequest request{.queue = "workflow", .key = "a", .seize = true};
  request.lease = 1h;
  const Lease lease = Answer(store().lease(request)).value().at(0);
  Transaction transaction;
  transaction.appends.push_back({.token = lease.token,
                                 .execution = 1,
                                 .expected_length = page.length,
                                 .events = {"no event at all"}});
  transaction.records.push_back(
      {.space = "workflow/checkpoints",
       .key = "a",
       .value = R"({"execution":1,"events":[)" + std::to_string(page.length) + "]}"});
  transaction.settles.push_back({.token = lease.token});
  ASSERT_TRUE(Answer(store().apply(transaction)));
  send_event("a", "n", 2);
  send_event("a", "n", 0);
  env().run();
  EXPECT_EQ(value_of<Sum>(handle).total, 6);
}

// --- When ---

class CheckpointStrategies : public WorkflowDetail {
 protected:
  // How many are taken in ten days with an event each.
  std::uint64_t taken(const CheckpointWhen& when) {
    env().set_checkpoints({.when = when, .prune = false});
    add(adding, twice);
    start(adding, "a");
    for (int i = 0; i < 10; ++i) {
      env().run_for(24h);
      send_event("a", "n", 1);
      env().run();
    }
    return count("a", EventKind::checkpoint);
  }
  static constexpr std::nullopt_t no = std::nullopt;
};

INSTANTIATE_TEST_SUITE_P(Ways, CheckpointStrategies, ::testing::ValuesIn(quick_ways()),
                         [](const auto& info) { return info.param.name; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CheckpointStrategies);

TEST_P(CheckpointStrategies, Every_so_many_events) {
  EXPECT_EQ(taken({.every_events = 10, .every_bytes = no}), 3);
}
TEST_P(CheckpointStrategies, Every_so_many_bytes) {
  EXPECT_EQ(taken({.every_events = no, .every_bytes = 8}), 3);
}
TEST_P(CheckpointStrategies, After_kinds_of_events) {
  EXPECT_EQ(
      taken({.every_events = no, .every_bytes = no, .after = {EventKind::activity_completed}}), 10);
}
TEST_P(CheckpointStrategies, By_time) {
  EXPECT_EQ(taken({.every_events = no, .every_bytes = no, .every = 48h}), 5);
}
TEST_P(CheckpointStrategies, None) { EXPECT_EQ(taken({.every_events = no, .every_bytes = no}), 0); }
TEST_P(CheckpointStrategies, A_point_of_its_own) {
  env().set_checkpoints(never);
  const WorkflowType<int()> type{"own", [](Workflow& wf) -> Task<int> {
                                   if (wf.restored<int>()) co_return 1;
                                   co_await wf.checkpoint(
                                       1, {.when = CheckpointWhen{.every_events = 1}});
                                   co_return 0;
                                 }};
  EXPECT_EQ(run(type), 1);
}

}  // namespace
}  // namespace strand::workflow_tests
