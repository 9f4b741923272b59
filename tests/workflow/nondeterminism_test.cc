// Code that does not do what its history says: found, told, nothing written; mended and resumed.

#include <cstdlib>

#include "workflow/fixture.h"

namespace strand::workflow_tests {
namespace {

const Activity<int(int)> first_step{"first_step", [](int n) { return n; }};
const Activity<int(int)> other_step{"other_step", [](int n) { return n; }};

using Code = std::function<Task<int>(Workflow&)>;

WorkflowType<int()> as(Code code) { return {"changing", std::move(code)}; }

// The code that was there first: an activity, a timer, a message, an activity; then it waits.
Task<int> original(Workflow& wf) {
  const int n = co_await wf.call(first_step, 1);
  wf.send("out", n);
  co_await wf.sleep(1h);
  co_await wf.call(first_step, 2);
  co_await wf.event<int>("go");
  co_return n;
}

// Starts an instance with the original code, lets it run for half an hour more than `for_time`.
class Nondeterminism : public WorkflowFeature {
 protected:
  void begin(Duration for_time = 1h) {
    add(first_step, other_step, as(original));
    start(as(original), "a");
    env().run_for(for_time + 30min);
    ASSERT_EQ(state("a"), InstanceState::running);
    ASSERT_EQ(info("a").parked, std::nullopt);
  }

  // With other code the instance parks when it is touched, and nothing else happens; with the old
  // code it goes on. Returns the reason.
  std::string park_with(Code code) {
    const auto before = history("a");
    const auto record = Answer(store().record("workflow/instances", "a")).value();
    const auto out = bodies_in("out");
    add(as(std::move(code)));
    send_event("a", "go", 1);
    env().run_for(24h);
    EXPECT_EQ(history("a"), before);
    EXPECT_EQ(Answer(store().record("workflow/instances", "a")).value(), record);
    EXPECT_EQ(bodies_in("out"), out);
    std::string reason = info("a").parked.value_or("it is not parked");

    EXPECT_TRUE(Answer(workflows().resume("a")));
    env().run_for(1h);
    EXPECT_EQ(info("a").parked, reason) << "resumed without being mended, it parks again";

    add(as(original));
    EXPECT_TRUE(Answer(workflows().resume("a")));
    env().run();
    EXPECT_EQ(ended("a").result, "1");
    return reason;
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, Nondeterminism, ::testing::ValuesIn(quick_ways()),
                         [](const auto& info) { return info.param.name; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Nondeterminism);

// What every reason has to say.
void expect_told(const std::string& reason, int event, const std::string& expected,
                 const std::string& did) {
  EXPECT_THAT(reason, HasSubstr("event " + std::to_string(event) + " of the history of 'a'"));
  EXPECT_THAT(reason, HasSubstr(expected));
  EXPECT_THAT(reason, HasSubstr(did));
  EXPECT_THAT(reason, HasSubstr("changing@1"));
}

TEST_P(Nondeterminism, Another_activity_is_found) {
  begin();
  const std::string reason = park_with([](Workflow& wf) -> Task<int> {
    co_await wf.call(other_step, 1);
    co_return 0;
  });
  expect_told(reason, 1, "activity_scheduled 1 first_step 1", "activity_scheduled 1 other_step 1");
  EXPECT_THAT(reason, ::testing::ContainsRegex("nondeterminism_test\\.cc:[0-9]+"));
}

TEST_P(Nondeterminism, Another_argument_is_found) {
  begin();
  const std::string reason = park_with([](Workflow& wf) -> Task<int> {
    co_await wf.call(first_step, 7);
    co_return 0;
  });
  expect_told(reason, 1, "first_step 1", "first_step 7");
  EXPECT_THAT(reason, HasSubstr("nondeterminism_test.cc:"));
}

TEST_P(Nondeterminism, Fewer_decisions_are_found) {
  begin();
  const std::string reason = park_with([](Workflow& wf) -> Task<int> {
    co_await wf.call(first_step, 1);
    co_await wf.event<int>("never");
    co_return 0;
  });
  expect_told(reason, 3, "message_sent", "decides nothing more");
}

TEST_P(Nondeterminism, More_decisions_are_found) {
  begin();
  const std::string reason = park_with([](Workflow& wf) -> Task<int> {
    const int n = co_await wf.call(first_step, 1);
    wf.send("out", n);
    auto timer = wf.sleep(1h);
    wf.send("out", 99);
    co_await timer;
    co_return 0;
  });
  expect_told(reason, 5, "nothing was decided here", "message_sent");
  EXPECT_THAT(reason, HasSubstr("nondeterminism_test.cc:"));
}

TEST_P(Nondeterminism, More_decisions_at_the_end_of_the_history_are_found) {
  begin();
  const std::string reason = park_with([](Workflow& wf) -> Task<int> {
    const int n = co_await wf.call(first_step, 1);
    wf.send("out", n);
    co_await wf.sleep(1h);
    co_await wf.call(first_step, 2);
    wf.send("out", 99);
    co_await wf.event<int>("go");
    co_return n;
  });
  expect_told(reason, 8, "ends here", "message_sent");
}

TEST_P(Nondeterminism, Another_order_is_found) {
  begin();
  const std::string reason = park_with([](Workflow& wf) -> Task<int> {
    const int n = co_await wf.call(first_step, 1);
    auto timer = wf.sleep(1h);
    wf.send("out", n);
    co_await timer;
    co_return n;
  });
  expect_told(reason, 3, "message_sent", "timer_started");
}

TEST_P(Nondeterminism, Another_timer_is_found) {
  begin();
  const std::string reason = park_with([](Workflow& wf) -> Task<int> {
    const int n = co_await wf.call(first_step, 1);
    wf.send("out", n);
    co_await wf.sleep(2h);
    co_return n;
  });
  expect_told(reason, 4, "timer_started", "timer_started");
}

TEST_P(Nondeterminism, Another_message_is_found) {
  begin();
  const std::string reason = park_with([](Workflow& wf) -> Task<int> {
    const int n = co_await wf.call(first_step, 1);
    wf.send("out", n + 1);
    co_await wf.sleep(1h);
    co_return n;
  });
  expect_told(reason, 3, "message_sent", "message_sent");
}

TEST_P(Nondeterminism, An_end_that_comes_too_early_is_found) {
  begin();
  const std::string reason =
      park_with([](Workflow& wf) -> Task<int> { co_return co_await wf.call(first_step, 1); });
  expect_told(reason, 3, "message_sent", "completed");
}

TEST_P(Nondeterminism, A_patch_lets_old_instances_go_on_with_new_code) {
  begin();
  add(as([](Workflow& wf) -> Task<int> {
    const int n = co_await wf.call(first_step, 1);
    if (wf.patched("other")) {
      co_await wf.call(other_step, 5);
    } else {
      wf.send("out", n);
    }
    co_await wf.sleep(1h);
    co_await wf.call(first_step, 2);
    co_await wf.event<int>("go");
    co_return n;
  }));
  send_event("a", "go", 1);
  env().run();
  EXPECT_EQ(ended("a").result, "1");
}

TEST_P(Nondeterminism, A_change_behind_what_was_done_is_no_difference) {
  begin();
  add(as([](Workflow& wf) -> Task<int> {
    const int n = co_await wf.call(first_step, 1);
    wf.send("out", n);
    co_await wf.sleep(1h);
    co_await wf.call(first_step, 2);
    co_await wf.event<int>("go");
    co_return 100 + co_await wf.call(other_step, n);
  }));
  send_event("a", "go", 1);
  env().run();
  EXPECT_EQ(ended("a").result, "101");
}

// --- Found in the first turn, by the environment for tests ---

TEST(AlwaysReplay, Code_that_counts_its_runs_is_caught_in_its_first_turn) {
  WorkflowTest env(Mode::always_replay);
  int runs = 0;
  env.add(first_step);
  const WorkflowType<int()> type{"counting", [&runs](Workflow& wf) -> Task<int> {
                                   co_return co_await wf.call(first_step, ++runs);
                                 }};
  env.add(type);
  Answer(env.workflows().start(type, "a")).value();
  env.run();
  const InstanceInfo info = Answer(env.workflows().get("a")).value();
  ASSERT_TRUE(info.parked);
  EXPECT_THAT(*info.parked, AllOf(HasSubstr("first_step 1"), HasSubstr("first_step 2")));
  EXPECT_EQ(env.attempts(), 0) << "nothing was done";
  EXPECT_EQ(info.state, InstanceState::pending);
}

TEST(AlwaysReplay, Code_that_asks_the_clock_or_throws_dice_is_caught) {
  for (const bool clock : {true, false}) {
    WorkflowTest env(Mode::always_replay);
    env.add(first_step);
    std::uint64_t dice = 1;
    const WorkflowType<int()> type{
        "chance", [&dice, clock](Workflow& wf) -> Task<int> {
          const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
          dice = dice * 6364136223846793005U + 1442695040888963407U;
          wf.send("out", clock ? std::to_string(now) : std::to_string(dice >> 33U));
          co_return 1;
        }};
    env.add(type);
    Answer(env.workflows().start(type, "a")).value();
    env.run();
    EXPECT_TRUE(Answer(env.workflows().get("a")).value().parked) << clock;
  }
}

TEST(AlwaysReplay, State_that_depends_on_how_often_the_code_ran_is_caught) {
  WorkflowTest env(Mode::always_replay);
  int runs = 0;
  const WorkflowType<int()> type{"counting", [&runs](Workflow& wf) -> Task<int> {
                                   wf.set("runs", ++runs);
                                   co_await wf.sleep(1h);
                                   co_return 1;
                                 }};
  env.add(type);
  Answer(env.workflows().start(type, "a")).value();
  env.run();
  EXPECT_TRUE(Answer(env.workflows().get("a")).value().parked);
}

// Without it, the difference is found by the first replay that there is.
TEST(AlwaysReplay, Without_it_the_difference_is_found_in_the_second_turn) {
  WorkflowTest env(Mode::normal);
  int runs = 0;
  env.add(first_step);
  const WorkflowType<int()> type{"counting", [&runs](Workflow& wf) -> Task<int> {
                                   co_return co_await wf.call(first_step, ++runs);
                                 }};
  env.add(type);
  Answer(env.workflows().start(type, "a")).value();
  env.run();
  EXPECT_TRUE(Answer(env.workflows().get("a")).value().parked);
  EXPECT_EQ(env.attempts(), 1);
}

}  // namespace
}  // namespace strand::workflow_tests
