// What can be seen of an instance from outside: status, state; parked and resumed.

#include "workflow/fixture.h"

namespace strand::workflow_tests {
namespace {

// --- Status ---

// Behaviours: custom_status_*
TEST_P(WorkflowFeature, The_status_is_what_the_workflow_last_said) {
  const WorkflowType<void()> type{"status", [](Workflow& wf) -> Task<void> {
                                    co_await wf.sleep(1h);
                                    wf.set_status("not this");
                                    wf.set_status("half way");
                                    co_await wf.sleep(1h);
                                    co_await wf.sleep(1h);
                                    wf.set_status("");
                                    co_await wf.sleep(1h);
                                    wf.set_status("done");
                                  }};
  add(type);
  start(type, "a");
  EXPECT_EQ(info("a").status, "");
  env().run_for(30min);
  EXPECT_EQ(info("a").status, "");
  env().run_for(1h);
  EXPECT_EQ(info("a").status, "half way");
  env().run_for(1h);
  EXPECT_EQ(info("a").status, "half way") << "kept by a turn that says nothing";
  env().run_for(1h);
  EXPECT_EQ(info("a").status, "") << "cleared";
  env().run();
  EXPECT_EQ(info("a").status, "done");
  EXPECT_EQ(Answer(workflows().get("nobody")).error().code, Errc::not_found);
}

TEST_P(WorkflowDetail, The_status_is_kept_when_an_instance_is_ended_by_force) {
  const WorkflowType<void()> type{"status", [](Workflow& wf) -> Task<void> {
                                    wf.set_status("half way");
                                    co_await wf.sleep(100h);
                                  }};
  add(type);
  start(type, "terminated");
  start(type, "timed_out", {.timeout = 2h});
  start(type, "cancelled");
  env().run_for(1h);
  EXPECT_TRUE(Answer(workflows().terminate("terminated")).value());
  ASSERT_TRUE(Answer(workflows().cancel("cancelled")));
  env().run();
  for (const std::string id : {"terminated", "timed_out", "cancelled"}) {
    EXPECT_EQ(to_string(state(id)), id);
    EXPECT_EQ(info(id).status, "half way") << id;
  }
}

// --- State ---

// Behaviours: kv_set_and_get, kv_overwrite, kv_clear_single, kv_clear_all, kv_get_nonexistent,
// kv_clear_nonexistent_key, kv_set_after_clear, kv_snapshot_*, kv_get_unknown_instance
TEST_P(WorkflowFeature, State_is_set_read_overwritten_and_erased) {
  const WorkflowType<int()> type{"state", [](Workflow& wf) -> Task<int> {
                                   EXPECT_FALSE(wf.get<int>("a"));
                                   wf.erase("a");
                                   wf.set("a", 1);
                                   wf.set("b", std::string("two"));
                                   wf.set("c", std::vector<int>{1, 2});
                                   EXPECT_EQ(wf.get<int>("a"), 1);
                                   co_await wf.sleep(1h);
                                   wf.set("a", 3);
                                   wf.erase("b");
                                   EXPECT_FALSE(wf.get<Bytes>("b"));
                                   co_await wf.sleep(1h);
                                   wf.erase_all();
                                   EXPECT_FALSE(wf.get<int>("a"));
                                   wf.set("c", 4);
                                   co_await wf.sleep(1h);
                                   co_return *wf.get<int>("c");
                                 }};
  using State = std::map<std::string, Bytes>;
  const auto all = [&] { return Answer(workflows().state("a")).value(); };
  add(type);
  start(type, "a");
  EXPECT_EQ(all(), State{});
  env().run_for(30min);
  EXPECT_EQ(all(), (State{{"a", "1"}, {"b", "two"}, {"c", "[1,2]"}}));
  env().run_for(1h);
  EXPECT_EQ(all(), (State{{"a", "3"}, {"c", "[1,2]"}}));
  env().run_for(1h);
  EXPECT_EQ(all(), (State{{"c", "4"}}));
  env().run();
  EXPECT_EQ(ended("a").result, "4");
  EXPECT_EQ(all(), (State{{"c", "4"}})) << "and stays when it has ended";
  EXPECT_EQ(shown("nobody", "c"), "none");
}

// Behaviours: read-modify-write of instance state poisoned by replay (a later bug)
TEST_P(WorkflowFeature, Reading_and_writing_state_counts_once_however_often_it_is_replayed) {
  const WorkflowType<int()> type{"counter", [](Workflow& wf) -> Task<int> {
                                   for (int i = 0; i < 10; ++i) {
                                     wf.set("count", wf.get<int>("count").value_or(0) + 1);
                                     co_await wf.sleep(1min);
                                     wf.set("count", wf.get<int>("count").value_or(0) + 1);
                                   }
                                   co_return *wf.get<int>("count");
                                 }};
  EXPECT_EQ(run(type), 20);
  EXPECT_EQ(shown("a", "count"), "20");
}

TEST_P(WorkflowDetail, Decisions_may_depend_on_state) {
  const Activity<int(int)> echo{"echo", [](int n) { return n; }};
  add(echo);
  const WorkflowType<int()> type{"depends", [echo](Workflow& wf) -> Task<int> {
                                   wf.set("n", 5);
                                   for (int i = 0; i < 5; ++i) {
                                     const int n = co_await wf.call(echo, *wf.get<int>("n"));
                                     wf.set("n", n * 2);
                                   }
                                   co_return *wf.get<int>("n");
                                 }};
  EXPECT_EQ(run(type), 160);
}

// Behaviours: kv_instance_isolation, kv_clear_isolation
TEST_P(WorkflowDetail, Instances_do_not_see_the_state_of_each_other) {
  const WorkflowType<void(int)> type{"state", [](Workflow& wf, int number) -> Task<void> {
                                       wf.set("k", number);
                                       co_await wf.sleep(1h);
                                       if (number == 1) wf.erase_all();
                                     }};
  add(type);
  const Names ids{"a", "ab", "a b", "a/b"};
  for (int i = 0; i < 4; ++i)
    start(type, ids[static_cast<std::size_t>(i)], i + 1);
  env().run();
  EXPECT_EQ(shown("a", "k"), "none");
  EXPECT_EQ(shown("ab", "k"), "2");
  EXPECT_EQ(shown("a b", "k"), "3");
  EXPECT_EQ(shown("a/b", "k"), "4");
  EXPECT_THAT(Answer(workflows().state("a")).value(), IsEmpty());
}

// Behaviours: kv_empty_value, kv_large_value, kv_special_chars_in_key
TEST_P(WorkflowDetail, Keys_and_values_may_be_anything) {
  const Bytes large(200'000, '\xfe');
  const Names keys{" ", "käse/✓", std::string("nul\0l", 5), "a\u001fb", std::string(200, 'k')};
  const WorkflowType<void()> type{"odd", [=](Workflow& wf) -> Task<void> {
                                    for (const std::string& key : keys)
                                      wf.set(key, std::string{});
                                    wf.set("large", large);
                                    co_await wf.sleep(1h);
                                    for (const std::string& key : keys)
                                      EXPECT_EQ(wf.get<Bytes>(key), "");
                                    EXPECT_EQ(wf.get<Bytes>("large"), large);
                                    bool refused = false;
                                    try {
                                      wf.set("", 1);
                                    } catch (const ApplicationError&) {
                                      refused = true;
                                    }
                                    EXPECT_TRUE(refused);
                                  }};
  run(type);
  EXPECT_EQ(state("a"), InstanceState::completed);
  const auto all = Answer(workflows().state("a")).value();
  EXPECT_THAT(all, SizeIs(keys.size() + 1));
  for (const std::string& key : keys)
    EXPECT_EQ(shown("a", key), "");
  EXPECT_EQ(shown("a", "large"), large);
}

TEST_P(WorkflowDetail, State_is_written_with_its_turn_or_not_at_all) {
  // The turn cannot be committed: the value is larger than any record may be.
  const WorkflowType<void()> type{"large", [](Workflow& wf) -> Task<void> {
                                    wf.set("small", 1);
                                    wf.set("large", std::string(300'000, 'x'));
                                    wf.send("out", 1);
                                    co_await wf.sleep(1h);
                                  }};
  add(type);
  start(type, "a");
  EXPECT_THROW(env().run(), std::runtime_error);
  EXPECT_THAT(Answer(workflows().state("a")).value(), IsEmpty());
  EXPECT_EQ(Answer(store().stats("out")).error().code, Errc::not_found);
  EXPECT_EQ(state("a"), InstanceState::pending);
}

// --- Parked ---

const WorkflowType<std::string()> asking{"asking", [](Workflow& wf) -> Task<std::string> {
                                           co_await wf.sleep(1h);
                                           co_await wf.park("the price is odd: ask Ann");
                                           co_await wf.sleep(1h);
                                           co_return co_await wf.event<Bytes>("e");
                                         }};

TEST_P(WorkflowFeature, A_workflow_can_stop_for_a_person_and_be_resumed) {
  add(asking);
  start(asking, "a");
  env().run();
  EXPECT_EQ(info("a").parked, "the price is odd: ask Ann");
  EXPECT_EQ(state("a"), InstanceState::running);
  const std::size_t length = history("a").size();
  send_event("a", "e", std::string("meanwhile"));
  env().run_for(24h);
  EXPECT_EQ(history("a").size(), length) << "nothing goes on";
  ASSERT_TRUE(Answer(workflows().resume("a")));
  EXPECT_EQ(info("a").parked, std::nullopt);
  env().run();
  EXPECT_EQ(ended("a").result, "meanwhile");
}

TEST_P(WorkflowDetail, Only_what_is_parked_can_be_resumed) {
  add(asking);
  start(asking, "a");
  env().run_for(1min);
  const auto resumed = workflows().resume("a");
  EXPECT_EQ(Answer(resumed).error().code, Errc::not_found);
  EXPECT_THAT(resumed.error().message, HasSubstr("not parked"));
  EXPECT_EQ(Answer(workflows().resume("nobody")).error().code, Errc::not_found);
}

TEST_P(WorkflowDetail, A_parked_instance_can_be_terminated) {
  add(asking);
  start(asking, "a");
  env().run();
  EXPECT_TRUE(Answer(workflows().terminate("a")).value());
  env().run();
  EXPECT_EQ(state("a"), InstanceState::terminated);
  EXPECT_EQ(info("a").parked, std::nullopt);
  EXPECT_EQ(stats("workflow").live(), 0);
  start(asking, "a", {.if_exists = IfExists::reuse});
  env().run();
  EXPECT_TRUE(info("a").parked) << "the next run is as any other";
}

TEST_P(WorkflowDetail, A_cancel_of_a_parked_instance_is_found_when_it_is_resumed) {
  add(asking);
  start(asking, "a");
  env().run();
  ASSERT_TRUE(Answer(workflows().cancel("a")));
  env().run_for(24h);
  EXPECT_EQ(state("a"), InstanceState::running);
  ASSERT_TRUE(Answer(workflows().resume("a")));
  env().run();
  EXPECT_EQ(state("a"), InstanceState::cancelled);
  EXPECT_EQ(stats("workflow").live(), 0);
}

}  // namespace
}  // namespace strand::workflow_tests
