// Ending by force, removing, pruning; listing and paging.

#include "workflow/fixture.h"

namespace strand::workflow_tests {
namespace {

const WorkflowType<int(int)> quick{"quick", [](Workflow& wf, int n) -> Task<int> {
                                     wf.set("n", n);
                                     co_return n;
                                   }};
const WorkflowType<int(int)> slow{"slow", [](Workflow& wf, int n) -> Task<int> {
                                    wf.set("n", n);
                                    co_await wf.sleep(1'000h);
                                    co_return n;
                                  }};
const WorkflowType<int(int)> continuing{"continuing", [](Workflow& wf, int left) -> Task<int> {
                                          wf.set("left", left);
                                          if (left > 0)
                                            co_return co_await wf.continue_as_new(left - 1);
                                          co_await wf.event<int>("go");
                                          co_return 1;
                                        }};

// A tree: "a" with the children "b" and "c", and "d" of "b".
const WorkflowType<int()> family{
    "family", [](Workflow& wf) -> Task<int> {
      const WorkflowType<int()> same{"family"};
      wf.set("k", 1);
      if (wf.id() == "a") {
        auto b = wf.child(same, {.id = "b", .when_parent_ends = WhenParentEnds::keep});
        auto c = wf.child(same, {.id = "c", .when_parent_ends = WhenParentEnds::keep});
        co_await wf.event<int>("go");
      } else if (wf.id() == "b") {
        auto d = wf.child(same, {.id = "d", .when_parent_ends = WhenParentEnds::keep});
        co_await wf.event<int>("go");
      } else {
        co_await wf.event<int>("go");
      }
      co_return 1;
    }};

std::vector<std::string> everything(Store& store) {
  std::vector<std::string> keys;
  for (const std::string space :
       {"workflow/instances", "workflow/children", "workflow/state", "workflow/sagas",
        "workflow/saga-steps", "workflow/progress", "workflow/answers"}) {
    for (const Record& record : Answer(store.records({.space = space})).value().items)
      keys.push_back(space + ":" + record.key);
  }
  return keys;
}

// --- Termination ---

TEST_P(WorkflowFeature, Termination_ends_an_instance_here_and_now) {
  add(never_done);
  const WorkflowType<int()> type{"calling", [](Workflow& wf) -> Task<int> {
                                   auto timer = wf.sleep(1'000h);
                                   co_return co_await wf.call(never_done);
                                 }};
  add(type);
  start(type, "a", {.timeout = 2'000h});
  env().run_for(1h);
  const std::uint64_t turns = env().turns();
  EXPECT_TRUE(Answer(workflows().terminate("a", "by force")).value());
  EXPECT_EQ(ended("a").state, InstanceState::terminated) << "without a turn";
  EXPECT_EQ(ended("a").error, "by force");
  EXPECT_EQ(env().turns(), turns);
  EXPECT_FALSE(Answer(workflows().terminate("a")).value()) << "it has ended";
  EXPECT_EQ(stats("nobody").live(), 0);
  EXPECT_EQ(stats("workflow").live(), 0) << "its timer and its time go with it";
  EXPECT_EQ(Answer(workflows().terminate("nobody")).error().code, Errc::not_found);
}

TEST_P(WorkflowDetail, What_nobody_has_begun_with_can_be_terminated) {
  start(WorkflowType<int(int)>{"unknown"}, "a", 1);
  EXPECT_TRUE(Answer(workflows().terminate("a", "not wanted")).value());
  EXPECT_EQ(ended("a").state, InstanceState::terminated);
  EXPECT_EQ(ended("a").error, "not wanted");
  EXPECT_EQ(stats("workflow").live(), 0);
}

TEST_P(WorkflowDetail, How_an_earlier_run_ended_is_not_how_this_one_did) {
  run(quick, 7);
  start(WorkflowType<int(int)>{"unknown"}, "a", 1, {.if_exists = IfExists::reuse});
  EXPECT_TRUE(Answer(workflows().terminate("a", "not wanted")).value());
  EXPECT_EQ(ended("a").state, InstanceState::terminated);
  EXPECT_EQ(ended("a").error_details, "");
}

// --- Removing ---

// Behaviours: delete_terminal_instances, delete_cleans_queues_and_locks,
// delete_nonexistent_instance, kv_delete_instance_cascades, kv_delta_delete_instance_cascades
TEST_P(WorkflowFeature, Removing_leaves_nothing_of_an_instance) {
  run(quick, 1);
  EXPECT_THAT(everything(store()), Not(IsEmpty()));
  EXPECT_THAT(Answer(workflows().remove("a")).value(), ElementsAre("a"));
  EXPECT_THAT(everything(store()), IsEmpty());
  EXPECT_EQ(Answer(workflows().get("a")).error().code, Errc::not_found);
  EXPECT_EQ(Answer(workflows().history("a")).error().code, Errc::not_found);
  EXPECT_EQ(Answer(workflows().wait("a", 0s)).error().code, Errc::not_found);
  EXPECT_EQ(Answer(workflows().remove("a")).error().code, Errc::not_found);
  // Its id is free, as if it had never been.
  start(quick, "a", 2);
  env().run();
  EXPECT_EQ(ended("a").result, "2");
  EXPECT_EQ(info("a").execution, 1);
}

// Behaviours: delete_running_rejected_force_succeeds, force_delete_prevents_ack_recreation
TEST_P(WorkflowFeature, What_runs_is_removed_by_force_only) {
  add(slow);
  start(slow, "a", 1);
  env().run_for(1h);
  const auto refused = workflows().remove("a");
  EXPECT_EQ(Answer(refused).error().code, Errc::in_use);
  EXPECT_THAT(refused.error().message, HasSubstr("'a'"));
  EXPECT_EQ(state("a"), InstanceState::running);
  EXPECT_THAT(Answer(workflows().remove("a", {.force = true})).value(), ElementsAre("a"));
  EXPECT_THAT(everything(store()), IsEmpty());
  EXPECT_EQ(stats("workflow").live(), 0);
  env().run();
  EXPECT_EQ(Answer(workflows().get("a")).error().code, Errc::not_found) << "it does not come back";
}

// Behaviours: orphan_activity_after_instance_force_deletion, stale_activity_after_delete_recreate
TEST_P(WorkflowDetail, An_answer_for_a_removed_instance_is_nobodys) {
  bool removed = false;
  const Activity<int(int)> work{"work", [&](int n) {
                                  if (!std::exchange(removed, true)) {
                                    EXPECT_TRUE(Answer(workflows().remove("a", {.force = true})));
                                    start(WorkflowType<int(int)>{"calling"}, "a", 2);
                                  }
                                  return n;
                                }};
  const WorkflowType<int(int)> calling{
      "calling", [work](Workflow& wf, int n) -> Task<int> { co_return co_await wf.call(work, n); }};
  add(work, calling);
  start(calling, "a", 1);
  EXPECT_THROW(env().run(), std::runtime_error) << "the answer cannot be committed";
  env().run();
  EXPECT_EQ(ended("a").result, "2");
}

// Behaviours: cascade_delete_hierarchy, delete_instances_atomic, kv_delete_instance_with_children
TEST_P(WorkflowFeature, Children_are_removed_with_their_parents) {
  add(family);
  start(family, "a");
  env().run();
  EXPECT_THAT(Answer(workflows().tree("a")).value(), ElementsAre("a", "b", "c", "d"));
  for (const std::string id : {"a", "b", "c", "d"})
    send_event(id, "go", 1);
  env().run();
  EXPECT_EQ(Answer(workflows().remove("a", {.children = false})).error().code, Errc::in_use);
  EXPECT_THAT(Answer(workflows().remove("a")).value(), UnorderedElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(everything(store()), IsEmpty());
}

TEST_P(WorkflowDetail, One_of_a_tree_that_runs_keeps_all_of_it) {
  add(family);
  start(family, "a");
  env().run();
  for (const std::string id : {"a", "b", "c"})
    send_event(id, "go", 1);
  env().run();
  const auto before = everything(store());
  EXPECT_EQ(Answer(workflows().remove("a")).error().code, Errc::in_use) << "d runs";
  EXPECT_EQ(everything(store()), before);
  // And holds nothing back: the id can be used again at once.
  start(family, "c", {.if_exists = IfExists::reuse});
  env().run();
  EXPECT_EQ(state("c"), InstanceState::running);
}

// Behaviours: delete_instances_atomic_force, delete_instances_atomic_orphan_detection
TEST_P(WorkflowDetail, A_tree_that_runs_is_removed_by_force_with_all_its_messages) {
  add(family);
  start(family, "a");
  env().run();
  EXPECT_THAT(Answer(workflows().remove("a", {.force = true})).value(), SizeIs(4));
  EXPECT_THAT(everything(store()), IsEmpty());
  EXPECT_EQ(stats("workflow").live(), 0) << "nobody is told of the end of who is gone";
  EXPECT_EQ(stats("workflow").dead, 0);
}

TEST_P(WorkflowDetail, A_part_of_a_tree_can_be_removed) {
  add(family);
  start(family, "a");
  env().run();
  send_event("b", "go", 1);
  send_event("d", "go", 1);
  env().run();
  EXPECT_THAT(Answer(workflows().remove("b")).value(), UnorderedElementsAre("b", "d"));
  EXPECT_THAT(Answer(workflows().tree("a")).value(), ElementsAre("a", "c"));
  EXPECT_EQ(state("a"), InstanceState::running);
}

// --- Pruning ---

// Behaviours: prune_bulk, delete_instance_bulk_completed_before_filter,
// delete_instance_bulk_filter_combinations, delete_instance_bulk_safety_and_limits
TEST_P(WorkflowFeature, Pruning_removes_what_ended_long_enough_ago) {
  add(quick, slow);
  const WorkflowType<int()> failing{"failing", [](Workflow&) -> Task<int> {
                                      throw ApplicationError("no", "no");
                                      co_return 1;
                                    }};
  add(failing);
  start(quick, "old", 1);
  start(failing, "old failed");
  start(slow, "running", 1);
  env().run_for(10h);
  start(quick, "new", 1);
  env().run_for(1h);
  const PruneOptions all{.older_than = 5h};

  PruneOptions dry = all;
  dry.dry_run = true;
  EXPECT_THAT(Answer(workflows().prune(dry)).value().ids, ElementsAre("old", "old failed"));
  EXPECT_EQ(state("old"), InstanceState::completed);

  PruneOptions of_state = all;
  of_state.state = InstanceState::failed;
  EXPECT_THAT(Answer(workflows().prune(of_state)).value().ids, ElementsAre("old failed"));
  PruneOptions of_name = all;
  of_name.name = "slow";
  EXPECT_THAT(Answer(workflows().prune(of_name)).value().ids, IsEmpty());

  const PruneReport report = Answer(workflows().prune(all)).value();
  EXPECT_THAT(report.ids, ElementsAre("old"));
  EXPECT_EQ(report.instances, 1);
  EXPECT_EQ(state("new"), InstanceState::completed);
  EXPECT_EQ(state("running"), InstanceState::running);
  EXPECT_THAT(Answer(workflows().prune({})).value().ids, ElementsAre("new"));
}

TEST_P(WorkflowDetail, Pruning_removes_no_more_than_it_is_told) {
  add(quick);
  for (int i = 0; i < 7; ++i)
    start(quick, "i" + std::to_string(i), i);
  env().run();
  EXPECT_THAT(Answer(workflows().prune({.limit = 3})).value().ids, ElementsAre("i0", "i1", "i2"));
  EXPECT_EQ(Answer(workflows().prune({.limit = 100})).value().instances, 4);
}

// Behaviours: prune_safety, delete_instance_bulk_cascades_to_children
TEST_P(WorkflowDetail, Pruning_takes_whole_trees_and_only_if_all_of_it_has_ended) {
  add(family);
  start(family, "a");
  env().run();
  for (const std::string id : {"a", "b", "c"})
    send_event(id, "go", 1);
  env().run();
  EXPECT_EQ(Answer(workflows().prune({})).value().instances, 0) << "d runs";
  EXPECT_EQ(Answer(workflows().prune({.dry_run = true})).value().instances, 0) << "d runs";
  EXPECT_THAT(Answer(workflows().tree("a")).value(), SizeIs(4));
  send_event("d", "go", 1);
  env().run();
  EXPECT_EQ(Answer(workflows().prune({.dry_run = true})).value().instances, 4);
  const PruneReport report = Answer(workflows().prune({})).value();
  EXPECT_EQ(report.instances, 4);
  EXPECT_THAT(report.ids, ElementsAre("a"));
  EXPECT_THAT(everything(store()), IsEmpty());
}

// Behaviours: prune_options_combinations, prune_bulk_includes_running_instances,
// kv_prune_preserves_all_keys, kv_prune_current_execution_protected, kv_prune_preserves_overwritten
TEST_P(WorkflowFeature, Old_executions_can_be_pruned_while_the_last_one_runs) {
  add(continuing);
  start(continuing, "a", 4);
  start(continuing, "b", 0);
  env().run();
  PruneOptions options{.old_executions = true, .dry_run = true};
  EXPECT_THAT(Answer(workflows().prune(options)).value().ids, ElementsAre("a"));
  EXPECT_EQ(history("a", 1).size(), 2);
  EXPECT_EQ(Answer(workflows().prune(options)).value().executions, 4);
  options.dry_run = false;
  const PruneReport report = Answer(workflows().prune(options)).value();
  EXPECT_EQ(report.executions, 4);
  EXPECT_EQ(report.instances, 0);
  for (std::uint64_t execution = 1; execution <= 4; ++execution)
    EXPECT_EQ(Answer(workflows().history("a", execution)).error().code, Errc::not_found);
  EXPECT_EQ(shown("a", "left"), "0");
  EXPECT_EQ(info("a").execution, 5);
  EXPECT_EQ(Answer(workflows().prune(options)).value().executions, 0) << "nothing is left";
  send_event("a", "go", 1);
  env().run();
  EXPECT_EQ(ended("a").result, "1");
}

TEST_P(WorkflowDetail, Pruning_old_executions_leaves_a_parked_instance_parked) {
  const WorkflowType<int(int)> type{"parking", [](Workflow& wf, int left) -> Task<int> {
                                      if (left > 0) co_return co_await wf.continue_as_new(left - 1);
                                      co_await wf.park("for Ann");
                                      co_return 1;
                                    }};
  add(type);
  start(type, "a", 2);
  env().run();
  ASSERT_EQ(info("a").parked, "for Ann");
  EXPECT_EQ(Answer(workflows().prune({.old_executions = true})).value().executions, 2);
  env().run();
  EXPECT_EQ(info("a").parked, "for Ann");
  EXPECT_EQ(state("a"), InstanceState::running);
}

// --- Listing ---

// Behaviours: list_instances, list_instances_by_status, get_instance_info
TEST_P(WorkflowFeature, Instances_can_be_listed_filtered_and_paged) {
  add(quick, slow, family);
  for (int i = 0; i < 5; ++i)
    start(quick, "q" + std::to_string(i), i);
  env().run_for(1h);
  const Time between = env().now();
  start(slow, "s1", 1);
  start(slow, "s2", 2);
  start(family, "a");
  env().run_for(1h);
  const auto list = [&](const InstanceFilter& filter) {
    Names ids;
    for (const InstanceInfo& one : Answer(workflows().list(filter)).value().items)
      ids.push_back(one.id);
    return ids;
  };
  EXPECT_THAT(list({}), ElementsAre("a", "b", "c", "d", "q0", "q1", "q2", "q3", "q4", "s1", "s2"));
  EXPECT_THAT(list({.state = InstanceState::completed}), SizeIs(5));
  EXPECT_THAT(list({.ended = false}), ElementsAre("a", "b", "c", "d", "s1", "s2"));
  EXPECT_THAT(list({.name = "slow"}), ElementsAre("s1", "s2"));
  EXPECT_THAT(list({.parent = "a"}), ElementsAre("b", "c"));
  EXPECT_THAT(list({.created_after = between}), SizeIs(6));
  EXPECT_THAT(list({.created_before = between}), SizeIs(5));
  EXPECT_THAT(list({.prefix = "q"}), SizeIs(5));
  EXPECT_THAT(list({.state = InstanceState::completed, .name = "slow"}), IsEmpty());
  EXPECT_THAT(list({.name = "quick", .after = "q2", .limit = 1}), ElementsAre("q3"));
  const auto page = Answer(workflows().list({.name = "quick", .limit = 4})).value();
  EXPECT_TRUE(page.more);
  EXPECT_FALSE(
      Answer(workflows().list({.name = "quick", .after = page.items.back().id})).value().more);
  const InstanceInfo one = info("q3");
  EXPECT_EQ(one.name, "quick");
  EXPECT_EQ(one.version, 1);
  EXPECT_EQ(one.execution, 1);
  EXPECT_EQ(one.created_at, between - 1h);
}

TEST_P(WorkflowDetail, Many_instances_are_listed_over_pages_of_the_store) {
  const int many = GetParam().store.name == "memory" ? 1'200 : 600;
  start(slow, "zz", 1);
  for (int i = 0; i < many; ++i)
    start(quick, "q" + std::to_string(i), i);
  EXPECT_THAT(Answer(workflows().list({.limit = 10'000})).value().items,
              SizeIs(static_cast<std::size_t>(many) + 1));
  EXPECT_THAT(Answer(workflows().list({.name = "slow"})).value().items, SizeIs(1));
}

TEST_P(WorkflowDetail, A_history_is_read_in_pages) {
  const WorkflowType<void()> type{"long", [](Workflow& wf) -> Task<void> {
                                    for (int i = 0; i < 10; ++i)
                                      co_await wf.sleep(1h);
                                  }};
  run(type);
  const auto all = history("a");
  ASSERT_THAT(all, SizeIs(22));
  std::vector<HistoryEvent> paged;
  while (paged.size() < all.size()) {
    const HistoryPage page = Answer(workflows().history("a", 1, paged.size(), 5)).value();
    EXPECT_EQ(page.first, paged.size());
    EXPECT_EQ(page.length, 22);
    ASSERT_THAT(page.events, Not(IsEmpty()));
    EXPECT_LE(page.events.size(), 5);
    paged.insert(paged.end(), page.events.begin(), page.events.end());
  }
  EXPECT_EQ(paged, all);
  EXPECT_THAT(Answer(workflows().history("a", 0, 22)).value().events, IsEmpty());
  for (const HistoryEvent& event : all)
    EXPECT_EQ(Answer(decode_event(encode_event(event))).value(), event);
}

}  // namespace
}  // namespace strand::workflow_tests
