// Starts: by id and only once, later, with a time; versions, and names that nobody knows.

#include "workflow/fixture.h"

namespace strand::workflow_tests {
namespace {

const WorkflowType<int(int)> slow{"slow", [](Workflow& wf, int number) -> Task<int> {
                                    wf.set("number", number);
                                    co_await wf.sleep(10h);
                                    co_return number;
                                  }};

// --- One id, one run ---

TEST_P(WorkflowFeature, The_same_start_again_joins_the_first) {
  add(slow);
  EXPECT_TRUE(start(slow, "a", 1).started_now());
  EXPECT_FALSE(start(slow, "a", 1).started_now());
  env().run_for(1h);
  EXPECT_FALSE(start(slow, "a", 1).started_now());
  env().run();
  const auto late = start(slow, "a", 1);
  EXPECT_FALSE(late.started_now());
  EXPECT_EQ(value_of(late), 1);
  env().run();
  EXPECT_EQ(info("a").execution, 1);
  EXPECT_EQ(stats("workflow").accepted, 2) << "one start, one timer";
}

// Behaviours: a duplicate start overriding version and input (a later bug);
// pinned_version_immutable_across_ack_cycles
TEST_P(WorkflowFeature, Another_start_never_overrides_version_or_input) {
  const WorkflowType<int(int)> newer{"slow", 2};
  const WorkflowType<int(int)> other{"other"};
  add(slow);
  start(slow, "a", 1);
  for (const Duration wait : {0h, 1h, 20h}) {
    env().run_for(wait);
    const auto changed = workflows().start(slow, "a", 2);
    EXPECT_EQ(Answer(changed).error().code, Errc::already_exists);
    EXPECT_THAT(changed.error().message, HasSubstr("another input"));
    EXPECT_EQ(Answer(workflows().start(newer, "a", 1)).error().code, Errc::already_exists);
    EXPECT_EQ(Answer(workflows().start(other, "a", 1)).error().code, Errc::already_exists);
    EXPECT_EQ(info("a").version, 1);
    EXPECT_EQ(info("a").name, "slow");
  }
  EXPECT_EQ(ended("a").result, "1");
  EXPECT_EQ(history("a").front().data, "1");
}

TEST_P(WorkflowDetail, A_start_may_insist_on_being_the_first) {
  add(slow);
  start(slow, "a", 1, {.if_exists = IfExists::reject});
  EXPECT_EQ(Answer(workflows().start(slow, "a", 1, {.if_exists = IfExists::reject})).error().code,
            Errc::already_exists);
  env().run();
  EXPECT_EQ(Answer(workflows().start(slow, "a", 1, {.if_exists = IfExists::reject})).error().code,
            Errc::already_exists);
}

TEST_P(WorkflowFeature, An_id_may_be_used_again_when_its_instance_has_ended) {
  add(slow);
  start(slow, "a", 1);
  const StartOptions reuse{.if_exists = IfExists::reuse};
  EXPECT_FALSE(start(slow, "a", 1, reuse).started_now()) << "it runs: as join";
  EXPECT_EQ(Answer(workflows().start(slow, "a", 2, reuse)).error().code, Errc::already_exists);
  env().run();
  EXPECT_TRUE(start(slow, "a", 2, reuse).started_now());
  EXPECT_EQ(state("a"), InstanceState::pending);
  env().run();
  EXPECT_EQ(ended("a").result, "2");
  EXPECT_EQ(info("a").execution, 2);
  EXPECT_EQ(history("a", 1).front().data, "1") << "the first run can still be read";
}

TEST_P(WorkflowDetail, Another_run_under_an_id_begins_with_nothing) {
  const WorkflowType<int(int)> type{"fresh", [](Workflow& wf, int number) -> Task<int> {
                                      EXPECT_FALSE(wf.get<int>("left"));
                                      if (number == 1) {
                                        wf.set_status("first");
                                        wf.set("left", 1);
                                      }
                                      wf.set("kept", number);
                                      co_await wf.sleep(1h);
                                      co_return number;
                                    }};
  add(type);
  start(type, "a", 1);
  env().run();
  start(type, "a", 2, {.if_exists = IfExists::reuse});
  EXPECT_EQ(info("a").status, "");
  EXPECT_EQ(info("a").error, std::nullopt);
  env().run_for(1min);
  EXPECT_EQ(shown("a", "left"), "none") << "the state of the run before";
  EXPECT_EQ(shown("a", "kept"), "2");
  env().run();
  EXPECT_THAT(Answer(workflows().state("a")).value(), SizeIs(1));
}

TEST_P(WorkflowFeature, A_start_may_replace_what_runs) {
  add(slow, never_done);
  const WorkflowType<int(int)> calling{
      "calling", [](Workflow& wf, int) -> Task<int> { co_return co_await wf.call(never_done); }};
  add(calling);
  start(calling, "a", 1);
  env().run_for(1h);
  EXPECT_EQ(stats("nobody").live(), 1);
  EXPECT_TRUE(start(slow, "a", 2, {.if_exists = IfExists::replace}).started_now());
  env().run();
  EXPECT_EQ(ended("a").result, "2");
  EXPECT_EQ(kinds("a", 1).back(), EventKind::terminated);
  EXPECT_EQ(stats("nobody").live(), 0);
  EXPECT_EQ(stats("workflow").live(), 0);
}

TEST_P(WorkflowDetail, What_nobody_has_begun_with_can_be_replaced) {
  add(slow);
  start(WorkflowType<int(int)>{"unknown"}, "a", 1);
  start(slow, "a", 2, {.if_exists = IfExists::replace});
  env().run();
  EXPECT_EQ(ended("a").result, "2");
  EXPECT_EQ(info("a").execution, 1);
}

// The answers to calls of the run before are nobody's.
TEST_P(WorkflowDetail, A_late_answer_to_a_replaced_run_is_ignored) {
  const Activity<int(int)> work{"work", [this](int n) {
                                  if (n == 1) {
                                    // Meanwhile somebody replaces the instance.
                                    start(WorkflowType<int(int)>{"calling"}, "a", 2,
                                          {.if_exists = IfExists::replace});
                                  }
                                  return n;
                                }};
  const WorkflowType<int(int)> calling{
      "calling", [work](Workflow& wf, int n) -> Task<int> { co_return co_await wf.call(work, n); }};
  add(work, calling);
  start(calling, "a", 1);
  // The answer to a cancelled call cannot be committed any more.
  EXPECT_THROW(env().run(), std::runtime_error);
  env().run();
  EXPECT_EQ(ended("a").result, "2");
  EXPECT_EQ(info("a").execution, 2);
}

TEST_P(WorkflowDetail, Ids_and_names_that_are_none_are_refused) {
  for (const std::string& id : {std::string{}, std::string("line\nfeed")}) {
    EXPECT_EQ(Answer(workflows().start(slow, id, 1)).error().code, Errc::invalid_argument) << id;
    EXPECT_FALSE(Answer(workflows().get(id)));
  }
  EXPECT_EQ(Answer(workflows().start(slow, std::string(201, 'x'), 1)).error().code,
            Errc::limit_exceeded);
  EXPECT_TRUE(Answer(workflows().start(slow, std::string(200, 'x'), 1)));
  for (const std::string& name : {std::string{}, std::string("a@b"), std::string(300, 'x')}) {
    StartRequest request;
    request.name = name;
    request.id = "a";
    EXPECT_EQ(Answer(workflows().start(request)).error().code, Errc::invalid_argument) << name;
  }
  EXPECT_EQ(Answer(workflows().start(slow, "a", 1, {.delay = -1s})).error().code,
            Errc::invalid_argument);
  EXPECT_EQ(Answer(workflows().start(slow, "a", 1, {.timeout = 0s})).error().code,
            Errc::invalid_argument);
}

// --- Later, and for how long ---

TEST_P(WorkflowFeature, A_delayed_start_begins_when_it_is_due) {
  const WorkflowType<Bytes()> type{
      "later", [](Workflow& wf) -> Task<Bytes> { co_return co_await wf.event<Bytes>("e"); }};
  add(type);
  start(type, "a", {.delay = 5h});
  env().run_for(4h);
  EXPECT_NE(state("a"), InstanceState::completed);
  EXPECT_FALSE(start(type, "a", {.delay = 5h}).started_now());
  send_event("a", "e", std::string("early"));
  env().run_for(59min);
  EXPECT_NE(state("a"), InstanceState::completed) << "an event does not begin it";
  env().run();
  EXPECT_EQ(ended("a").result, "early");
  EXPECT_EQ(took("a"), 5h);
}

TEST_P(WorkflowFeature, A_run_that_takes_too_long_is_timed_out) {
  add(slow);
  start(slow, "late", 1, {.timeout = 3h});
  start(slow, "in time", 1, {.timeout = 10h + 1ms});
  start(slow, "delayed", 1, {.delay = 1h, .timeout = 3h});
  env().run();
  EXPECT_EQ(ended("late").state, InstanceState::timed_out);
  EXPECT_EQ(took("late"), 3h);
  EXPECT_EQ(ended("in time").state, InstanceState::completed);
  EXPECT_EQ(ended("delayed").state, InstanceState::timed_out);
  EXPECT_EQ(took("delayed"), 4h) << "from its beginning";
  EXPECT_EQ(stats("workflow").live(), 0);
}

TEST_P(WorkflowDetail, The_time_of_an_earlier_run_is_not_that_of_the_next) {
  add(slow);
  start(slow, "a", 1, {.timeout = 11h});
  env().run_for(10h + 30min);
  EXPECT_EQ(state("a"), InstanceState::completed);
  start(slow, "a", 2, {.if_exists = IfExists::reuse});
  env().run();
  EXPECT_EQ(ended("a").result, "2");
}

// --- Versions ---

// Behaviours: fetch_filter_skips_incompatible_selects_compatible, fetch_filter_boundary_versions,
// pinned_version_stored_via_ack_metadata, fetch_filter_does_not_lock_skipped_instances
TEST_P(WorkflowFeature, An_instance_keeps_the_version_that_it_was_started_with) {
  const auto say = [](int version) {
    return [version](Workflow& wf) -> Task<int> {
      co_await wf.sleep(1h);
      EXPECT_EQ(wf.version(), version);
      EXPECT_EQ(wf.name(), "say");
      co_return version;
    };
  };
  const WorkflowType<int()> one{"say", say(1), 1};
  const WorkflowType<int()> two{"say", say(2), 2};
  const WorkflowType<int()> ten{"say", say(10), 10};
  add(one);
  start(one, "a");
  env().run_for(30min);
  add(two);
  start(two, "b");
  start(ten, "c");
  env().run();
  EXPECT_EQ(ended("a").result, "1");
  EXPECT_EQ(ended("b").result, "2");
  EXPECT_EQ(state("c"), InstanceState::pending) << "nobody has version 10";
  EXPECT_EQ(info("c").version, 10);
  add(ten);
  env().run();
  EXPECT_EQ(ended("c").result, "10");
}

TEST_P(WorkflowDetail, A_name_that_nobody_knows_waits) {
  const WorkflowType<Bytes()> unknown{"unknown"};
  start(unknown, "a");
  send_event("a", "e", std::string("x"));
  env().run_for(24h);
  EXPECT_EQ(state("a"), InstanceState::pending);
  EXPECT_EQ(info("a").execution, 0);
  EXPECT_EQ(Answer(workflows().history("a")).error().code, Errc::not_found);
  EXPECT_EQ(stats("workflow").dead, 0);
  for (const PeekedMessage& message : waiting("workflow"))
    EXPECT_EQ(message.deliveries, 0);
  add(WorkflowType<Bytes()>{
      "unknown", [](Workflow& wf) -> Task<Bytes> { co_return co_await wf.event<Bytes>("e"); }});
  env().run();
  EXPECT_EQ(ended("a").result, "x");
}

// --- Changes in place ---

// A workflow before a change, and after it.
WorkflowType<std::string()> changing(bool changed) {
  return {"changing", [changed](Workflow& wf) -> Task<std::string> {
            std::string all;
            for (int i = 0; i < 3; ++i) {
              if (changed && wf.patched("mark")) {
                wf.send("marks", i);
                all += "new ";
              } else {
                all += "old ";
              }
              co_await wf.sleep(1h);
            }
            co_return all;
          }};
}

TEST_P(WorkflowFeature, A_patch_is_for_those_who_had_not_passed_it) {
  add(changing(false));
  start(changing(false), "old");
  env().run_for(30min);
  add(changing(true));
  start(changing(true), "new");
  env().run();
  EXPECT_EQ(ended("old").result, "old old old ");
  EXPECT_EQ(ended("new").result, "new new new ");
  EXPECT_EQ(count("new", EventKind::patched), 1);
  EXPECT_EQ(count("old", EventKind::patched), 0);
  EXPECT_THAT(bodies_in("marks"), SizeIs(3));
}

TEST_P(WorkflowDetail, A_patch_behind_what_was_done_is_new_for_old_instances_too) {
  const auto type = [](bool changed) {
    return WorkflowType<std::string()>{"late", [changed](Workflow& wf) -> Task<std::string> {
                                         co_await wf.sleep(1h);
                                         co_await wf.sleep(1h);
                                         co_return changed&& wf.patched("end") ? "new" : "old";
                                       }};
  };
  add(type(false));
  start(type(false), "a");
  env().run_for(90min);
  add(type(true));
  env().run();
  EXPECT_EQ(ended("a").result, "new");
}

TEST_P(WorkflowDetail, Patches_have_answers_of_their_own) {
  const auto type = [](int changes) {
    return WorkflowType<std::string()>{"patches", [changes](Workflow& wf) -> Task<std::string> {
                                         std::string all;
                                         if (changes > 0 && wf.patched("one")) all += "1";
                                         if (changes > 1 && wf.patched("two")) all += "2";
                                         co_await wf.sleep(1h);
                                         if (changes > 0 && wf.patched("one")) all += "a";
                                         if (changes > 1 && wf.patched("two")) all += "b";
                                         co_return all;
                                       }};
  };
  add(type(0));
  start(type(0), "zero");
  env().run_for(1min);
  add(type(1));
  start(type(1), "one");
  env().run_for(1min);
  add(type(2));
  start(type(2), "two");
  env().run();
  EXPECT_EQ(ended("zero").result, "");
  EXPECT_EQ(ended("one").result, "1a");
  EXPECT_EQ(ended("two").result, "12ab");
}

TEST_P(WorkflowDetail, Options_of_an_activity_may_change_while_instances_run) {
  const auto type = [](const ActivityOptions& options) {
    return WorkflowType<int()>{"options", [options](Workflow& wf) -> Task<int> {
                                 const Activity<int()> work{"work", options};
                                 const int first = co_await wf.call(work);
                                 co_await wf.sleep(1h);
                                 co_return first + co_await wf.call(work);
                               }};
  };
  add(Activity<int()>{"work", [] { return 1; }});
  add(type({}));
  start(type({}), "a");
  env().run_for(1min);
  add(type({.queue = "elsewhere", .retry = Retry::never(), .timeout = 3h}));
  env().run();
  EXPECT_EQ(ended("a").result, "2");
}

}  // namespace
}  // namespace strand::workflow_tests
