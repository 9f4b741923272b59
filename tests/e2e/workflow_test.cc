#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/program.h"
#include "e2e/stores.h"

// workflow, saga, and activities that a command of the shell does

namespace strand::e2e {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

Words worker_command(const std::string& url, Words more = {}) {
  more.insert(more.begin(), {STRAND_BINARY_DIR "/strand-e2e-worker", url});
  return more;
}

// A store on disk has one owner, so commands and the worker come in turns.
class WorkflowsOnStores : public ProgramOnStores {
 protected:
  // Until there is nothing to do.
  void work() const {
    const Finished finished = Process(worker_command(url()), {}).finish();
    EXPECT_EQ(finished.exit, 0) << finished.err;
    EXPECT_EQ(finished.err, "");
  }
  [[nodiscard]] std::vector<boost::json::object> lines(Words words) const {
    words.insert(words.end(), {"-o", "json"});
    return json_lines(ok(words));
  }
  static Words members(const std::vector<boost::json::object>& objects, std::string_view name) {
    Words result;
    for (const auto& object : objects)
      result.push_back(text(object, name));
    return result;
  }
  [[nodiscard]] std::string script(const std::string& lines) const {
    const std::string name = folder() + "/script.sh";
    std::ofstream(name) << lines;
    return "sh " + name;
  }
  // Serves the activity charge_card, or another one, until nothing is ready.
  Finished serve(const std::string& command, Words more = {},
                 const std::string& activity = "charge_card") const {
    Words words = {"consume", "activities", "--label",      activity, "--exec",
                   command,   "--reply",    "--until-idle", "-o",     "json"};
    words.insert(words.end(), more.begin(), more.end());
    Finished finished = run(words);
    EXPECT_EQ(finished.exit, 0) << finished.err;
    return finished;
  }
};

TEST_P(WorkflowsOnStores, An_instance_is_started_run_and_asked_for_its_result) {
  EXPECT_EQ(serialize(json({"workflow", "start", "double", "21", "--id", "a"})),
            R"({"id":"a","started":true})");
  EXPECT_THAT(refused(3, {"workflow", "result", "a"}), HasSubstr("it is pending"));
  work();
  EXPECT_EQ(ok({"workflow", "result", "a"}), "42\n");
  EXPECT_EQ(serialize(json({"workflow", "result", "a", "--wait", "1s"})),
            R"({"id":"a","state":"completed","result":"42","error":null,"error_type":null,)"
            R"("error_details":null})");

  const auto shown = json({"workflow", "show", "a"});
  EXPECT_THAT(names_of(shown), ElementsAre("id", "name", "version", "state", "execution", "status",
                                           "parent", "created_at", "ended_at", "error",
                                           "error_type", "parked", "values", "children", "sagas"));
  EXPECT_EQ(text(shown, "state"), "completed");
  EXPECT_EQ(text(shown, "status"), "doubling");
  EXPECT_EQ(serialize(shown.at("values")),
            R"([{"key":"before","value":"21"},{"key":"bytes","value_base64":"/wA="}])");
  EXPECT_THAT(ok({"workflow", "show", "a"}), HasSubstr("before: 21"));
}

TEST_P(WorkflowsOnStores, A_history_has_a_line_for_each_event) {
  ok({"workflow", "start", "double", "21", "--id", "a"});
  EXPECT_THAT(refused(1, {"workflow", "history", "a"}), HasSubstr("no history"));
  work();
  const auto events = lines({"workflow", "history", "a"});
  EXPECT_THAT(members(events, "kind"),
              ElementsAre("started", "activity_scheduled", "activity_completed", "completed"));
  EXPECT_THAT(members(events, "number"), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(members(events, "data"), ElementsAre("21", "21", "42", "42"));
  EXPECT_THAT(names_of(events[1]),
              ElementsAre("number", "kind", "at", "call", "name", "data", "details"));
  EXPECT_EQ(text(events[1], "name"), "double_it");
  EXPECT_EQ(text(events[1], "details"), R"([{"name":"queue","value":"activities"}])");
  const auto some = lines({"workflow", "history", "a", "--from", "1", "--limit", "2"});
  EXPECT_THAT(members(some, "number"), ElementsAre("1", "2"));
  EXPECT_THAT(ok({"workflow", "history", "a"}), HasSubstr("activity_scheduled 1 double_it 21\n"));
  EXPECT_THAT(refused(1, {"workflow", "history", "a", "--execution", "2"}),
              HasSubstr("execution 2"));
}

TEST_P(WorkflowsOnStores, One_that_fails_says_why) {
  ok({"workflow", "start", "broken", "--id", "b"});
  work();
  EXPECT_EQ(refused(1, {"workflow", "result", "b"}),
            "strand: instance 'b' failed: nothing works here\n");
  const Finished finished = run({"workflow", "result", "b", "-o", "json"});
  EXPECT_EQ(finished.exit, 1);
  EXPECT_EQ(finished.out,
            R"({"id":"b","state":"failed","result":null,"error":"nothing works here",)"
            R"("error_type":"out_of_order","error_details":"{\"code\":7}"})"
            "\n");
  EXPECT_THAT(ok({"workflow", "history", "b"}), HasSubstr("nothing works here"));
}

TEST_P(WorkflowsOnStores, Starting_again_joins_rejects_reuses_or_replaces) {
  const auto start = [](Words more) {
    Words words = {"workflow", "start", "double"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  EXPECT_EQ(ok(start({"1", "--id", "a"})), "started a\n");
  EXPECT_EQ(ok(start({"1", "--id", "a"})), "joined a\n");
  EXPECT_THAT(refused(1, start({"2", "--id", "a"})), HasSubstr("--if-exists"));
  EXPECT_THAT(refused(1, start({"1", "--id", "a", "--if-exists", "reject"})), HasSubstr("already"));
  EXPECT_EQ(ok(start({"-", "--id", "a", "--if-exists", "replace"}), "3"), "started a\n");
  work();
  EXPECT_EQ(ok({"workflow", "result", "a"}), "6\n");
  EXPECT_EQ(ok(start({"4", "--id", "a", "--if-exists", "reuse"})), "started a\n");
  work();
  EXPECT_EQ(ok({"workflow", "result", "a"}), "8\n");
  // Nobody knows this version: it waits.
  ok(start({"4", "--id", "b", "--version", "7"}));
  ok(start({"4", "--id", "c", "--delay", "1h", "--timeout", "2h"}));
  work();
  EXPECT_EQ(text(json({"workflow", "show", "b"}), "state"), "pending");
  refused(3, {"workflow", "result", "c", "--wait", "1ms"});
}

TEST_P(WorkflowsOnStores, Events_reach_one_that_waits_or_is_not_there_yet) {
  ok({"workflow", "start", "approval", "--id", "a"});
  work();
  EXPECT_EQ(ok({"workflow", "event", "a", "approved", "ann"}), "sent approved to a\n");
  const Finished early = run({"workflow", "event", "b", "approved", "bob"});
  EXPECT_EQ(early.exit, 0);
  EXPECT_THAT(early.err, HasSubstr("no instance 'b' yet"));
  ok({"workflow", "start", "approval", "--id", "b"});
  work();
  EXPECT_EQ(ok({"workflow", "result", "a"}), "ann\n");
  EXPECT_EQ(ok({"workflow", "result", "b"}), "bob\n");
  EXPECT_THAT(refused(1, {"workflow", "event", "a", "approved"}), HasSubstr("has ended"));
}

TEST_P(WorkflowsOnStores, Instances_are_cancelled_terminated_and_resumed) {
  for (const char* id : {"c", "t"})
    ok({"workflow", "start", "approval", "--id", id});
  ok({"workflow", "start", "stuck", "--id", "s"});
  work();
  EXPECT_EQ(serialize(json({"workflow", "cancel", "c", "--reason", "no longer needed"})),
            R"({"id":"c","cancel_requested":true})");
  EXPECT_EQ(serialize(json({"workflow", "terminate", "t", "--reason", "runs wild"})),
            R"({"id":"t","terminated":true})");
  EXPECT_EQ(ok({"workflow", "terminate", "t"}), "t had ended before\n");
  EXPECT_THAT(refused(3, {"workflow", "result", "s"}), HasSubstr("wants a signature"));
  EXPECT_EQ(text(json({"workflow", "show", "s"}), "parked"), "the bank wants a signature");
  EXPECT_THAT(members(lines({"workflow", "ls"}), "parked"),
              ElementsAre("null", "the bank wants a signature", "null"));
  EXPECT_THAT(ok({"workflow", "ls"}), HasSubstr("  parked "));
  EXPECT_EQ(ok({"workflow", "resume", "s"}), "s goes on\n");
  EXPECT_THAT(refused(1, {"workflow", "resume", "s"}), HasSubstr("not parked"));
  work();
  EXPECT_THAT(refused(1, {"workflow", "result", "c"}),
              StartsWith("strand: instance 'c' was cancelled: no longer needed"));
  EXPECT_THAT(refused(1, {"workflow", "result", "t"}),
              StartsWith("strand: instance 't' was terminated: runs wild"));
  EXPECT_EQ(text(json({"workflow", "result", "s"}), "state"), "completed");
  EXPECT_THAT(refused(1, {"workflow", "cancel", "c"}), HasSubstr("has ended"));
}

TEST_P(WorkflowsOnStores, Lists_are_filtered_and_come_in_pages) {
  ok({"workflow", "start", "double", "1", "--id", "d-1"});
  ok({"workflow", "start", "broken", "--id", "b-1"});
  ok({"workflow", "start", "parent", "5", "--id", "p-1"});
  work();
  ok({"workflow", "start", "double", "2", "--id", "d-2"});
  const auto ids = [&](Words more) {
    more.insert(more.begin(), {"workflow", "ls"});
    return members(lines(more), "id");
  };
  EXPECT_THAT(ids({}), ElementsAre("b-1", "d-1", "d-2", "p-1", "p-1-child"));
  EXPECT_THAT(ids({"--state", "failed"}), ElementsAre("b-1"));
  EXPECT_THAT(ids({"--name", "double"}), ElementsAre("d-1", "d-2", "p-1-child"));
  EXPECT_THAT(ids({"--parent", "p-1"}), ElementsAre("p-1-child"));
  EXPECT_THAT(ids({"--prefix", "d-"}), ElementsAre("d-1", "d-2"));
  EXPECT_THAT(ids({"--after", "d-1", "--limit", "2"}), ElementsAre("d-2", "p-1"));
  EXPECT_THAT(ids({"--until", "1h"}), IsEmpty());
  EXPECT_THAT(ids({"--since", "1h", "--until", "2999-01-01T00:00:00Z", "--state", "pending"}),
              ElementsAre("d-2"));
  EXPECT_THAT(ok({"workflow", "ls"}), HasSubstr("nothing works here"));
  const Finished cut = run({"workflow", "ls", "--limit", "1"});
  EXPECT_EQ(cut.exit, 0);
  EXPECT_THAT(cut.err, HasSubstr("--after"));
  EXPECT_EQ(text(json({"workflow", "show", "p-1"}), "children"), R"(["p-1-child"])");
  EXPECT_EQ(text(json({"workflow", "show", "p-1-child"}), "parent"), "p-1");
}

TEST_P(WorkflowsOnStores, What_is_over_is_removed_and_pruned) {
  ok({"workflow", "start", "parent", "5", "--id", "p"});
  ok({"workflow", "start", "countdown", "2", "--id", "n"});
  work();
  ok({"workflow", "start", "approval", "--id", "a"});
  EXPECT_THAT(members(lines({"workflow", "history", "n", "--execution", "1"}), "kind"),
              ElementsAre("started", "continued"));
  const auto executions = json({"workflow", "prune", "--old-executions"});
  EXPECT_EQ(serialize(executions), R"({"instances":0,"executions":2,"ids":["n"],"dry_run":false})");
  refused(1, {"workflow", "history", "n", "--execution", "1"});
  EXPECT_EQ(ok({"workflow", "result", "n"}), "0\n");

  EXPECT_THAT(refused(1, {"workflow", "rm", "p", "--no-children"}), HasSubstr("children"));
  EXPECT_THAT(refused(1, {"workflow", "rm", "a"}), HasSubstr("--force"));
  EXPECT_EQ(ok({"workflow", "rm", "a", "--force"}), "removed a\n");
  EXPECT_EQ(serialize(json({"workflow", "prune", "--older-than", "0s", "--dry-run"})),
            R"({"instances":3,"executions":0,"ids":["n","p"],"dry_run":true})");
  EXPECT_EQ(ok({"workflow", "prune", "--older-than", "1h"}), "0 instances removed\n");
  EXPECT_EQ(ok({"workflow", "prune", "--older-than", "0s", "--name", "countdown"}),
            "1 instances removed\n");
  EXPECT_EQ(serialize(json({"workflow", "rm", "p"})), R"({"removed":["p","p-child"]})");
  EXPECT_THAT(lines({"workflow", "ls"}), IsEmpty());
  EXPECT_THAT(refused(1, {"workflow", "rm", "p"}), HasSubstr("no instance 'p'"));
}

TEST_P(WorkflowsOnStores, A_saga_that_failed_shows_what_was_undone) {
  ok({"workflow", "start", "trip", "Rome", "--id", "t"});
  ok({"workflow", "start", "double", "1", "--id", "d"});
  work();
  const auto sagas = lines({"saga", "show", "t"});
  ASSERT_EQ(sagas.size(), 1U);
  EXPECT_THAT(names_of(sagas[0]),
              ElementsAre("coordinator", "execution", "number", "name", "data", "status", "reason",
                          "started_at", "ended_at", "steps"));
  EXPECT_THAT(text(sagas[0], "reason"), HasSubstr("no seat to Rome"));
  EXPECT_EQ(text(sagas[0], "coordinator"), "t");
  EXPECT_EQ(text(sagas[0], "data"), "Rome");
  EXPECT_EQ(text(sagas[0], "status"), "failed");
  std::vector<boost::json::object> steps;
  for (const auto& step : sagas[0].at("steps").as_array())
    steps.push_back(step.as_object());
  EXPECT_THAT(members(steps, "name"), ElementsAre("book_hotel", "book_flight", "cancel_hotel"));
  EXPECT_THAT(members(steps, "status"), ElementsAre("compensated", "failed", "completed"));
  EXPECT_THAT(members(steps, "compensates"), ElementsAre("null", "null", "book_hotel"));
  EXPECT_THAT(members(steps, "agent"), ElementsAre("activities", "activities", "activities"));
  EXPECT_THAT(text(steps[1], "error"), HasSubstr("no seat to Rome"));
  EXPECT_THAT(names_of(steps[0]), ElementsAre("name", "agent", "data", "status", "compensates",
                                              "completed_at", "error"));
  EXPECT_THAT(ok({"saga", "show", "t"}), HasSubstr("no seat to Rome"));

  EXPECT_THAT(members(lines({"saga", "ls", "--status", "failed"}), "coordinator"),
              ElementsAre("t"));
  EXPECT_THAT(lines({"saga", "ls", "--status", "completed"}), IsEmpty());
  EXPECT_THAT(lines({"saga", "ls", "--after", "t"}), IsEmpty());
  EXPECT_THAT(ok({"saga", "ls", "--limit", "1"}), HasSubstr("trip"));
  EXPECT_THAT(lines({"saga", "show", "d"}), IsEmpty());
  EXPECT_THAT(run({"saga", "show", "d"}).err, HasSubstr("no saga"));
  EXPECT_THAT(refused(1, {"saga", "show", "x"}), HasSubstr("no instance 'x'"));
}

TEST_P(WorkflowsOnStores, A_page_of_sagas_ends_between_two_instances) {
  ok({"workflow", "start", "nights", "Rome", "--id", "a"});
  ok({"workflow", "start", "nights", "Rome", "--id", "b"});
  work();
  EXPECT_THAT(members(lines({"saga", "ls", "--limit", "1"}), "name"),
              ElementsAre("first", "second"));
  EXPECT_THAT(run({"saga", "ls", "--limit", "1"}).err, HasSubstr("--after"));
  EXPECT_THAT(members(lines({"saga", "ls", "--limit", "1", "--after", "a"}), "coordinator"),
              ElementsAre("b", "b"));
  EXPECT_THAT(members(lines({"saga", "show", "b"}), "number"), ElementsAre("1", "2"));
}

TEST_P(WorkflowsOnStores, A_shell_script_does_an_activity) {
  ok({"workflow", "start", "payment", "4111", "--id", "pay"});
  work();
  const std::string command = script(
      "echo \"$STRAND_ACTIVITY of $STRAND_INSTANCE, attempt $STRAND_ATTEMPT\" >&2\n"
      "sed 's/.*\"body\":\"\\([^\"]*\\)\".*/charged \\1/'\n");
  const Finished finished = serve(command);
  EXPECT_THAT(finished.err, HasSubstr("charge_card of pay, attempt 1"));
  EXPECT_EQ(count(json_lines(finished.out).at(0), "acked"), 1U);
  work();
  EXPECT_EQ(ok({"workflow", "result", "pay"}), "paid: charged 4111\n");
}

TEST_P(WorkflowsOnStores, What_a_shell_script_prints_may_be_any_bytes) {
  ok({"workflow", "start", "payment", "4111", "--id", "pay"});
  work();
  serve("printf '\\377\\n\\n'");
  work();
  // "paid: ", the byte, and one of the two newlines.
  EXPECT_EQ(text(json({"workflow", "result", "pay"}), "result_base64"), "cGFpZDog/wo=");
  const auto events = lines({"workflow", "history", "pay"});
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(text(events[2], "data_base64"), "/wo=");
  EXPECT_EQ(ok({"workflow", "result", "pay"}), "paid: \\xff\\x0a\n");
}

TEST_P(WorkflowsOnStores, A_shell_script_has_the_time_that_the_workflow_gives_it) {
  ok({"workflow", "start", "hurried", "--id", "h"});
  work();
  serve("exec sleep 1000", {}, "look_up");
  work();
  EXPECT_THAT(refused(1, {"workflow", "result", "h"}), HasSubstr("longer than the 50ms"));
}

TEST_P(WorkflowsOnStores, A_shell_script_that_fails_is_tried_as_often_as_the_workflow_says) {
  ok({"workflow", "start", "payment", "4111", "--id", "pay"});
  ok({"workflow", "start", "payment", "4112", "--id", "again"});
  work();
  // The second attempt of one of them succeeds.
  const std::string command = script(
      "[ $STRAND_INSTANCE-$STRAND_ATTEMPT = again-2 ] && echo fine && exit\n"
      "echo the bank is closed >&2; exit 1\n");
  // A wait of a millisecond may be over before the consumer is idle, or not.
  for (int i = 0; i < 3; ++i)
    serve(command);
  work();
  EXPECT_EQ(ok({"workflow", "result", "again"}), "paid: fine\n");
  EXPECT_THAT(refused(1, {"workflow", "result", "pay"}), HasSubstr("the bank is closed"));
  EXPECT_THAT(ok({"dlq", "ls", "activities"}), HasSubstr("the bank is closed"));
}

TEST_P(WorkflowsOnStores, A_shell_script_ends_the_call_with_an_error_of_its_own) {
  ok({"workflow", "start", "payment", "4111", "--id", "pay"});
  work();
  const auto report = json_lines(
      serve("echo '{\"limit\": 50}'; echo thinking >&2; echo card declined >&2; exit 100",
            {"--dead-exit", "100"})
          .out);
  EXPECT_EQ(count(report.at(0), "acked"), 1U);
  work();
  EXPECT_EQ(refused(1, {"workflow", "result", "pay"}),
            "strand: instance 'pay' failed: activity 'charge_card' failed: card declined\n");
  const auto events = lines({"workflow", "history", "pay"});
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(text(events[2], "kind"), "activity_failed");
  EXPECT_EQ(text(events[2], "data"), R"({"limit": 50})");
  EXPECT_THAT(text(events[2], "details"), HasSubstr(R"({"name":"kind","value":"failed"})"));
  EXPECT_EQ(ok({"dlq", "ls", "activities", "-o", "json"}), "");
}

TEST_P(WorkflowsOnStores, A_message_that_wants_no_answer_is_acknowledged_with_a_complaint) {
  ok({"send", "activities", "hello", "--label", "charge_card"});
  const Finished finished = serve("echo ignored");
  EXPECT_THAT(finished.err, HasSubstr("names nobody to answer"));
  EXPECT_EQ(count(json_lines(finished.out).at(0), "acked"), 1U);
  ok({"send", "activities", "hello", "--label", "charge_card"});
  const Finished dead = serve("exit 100", {"--dead-exit", "100"});
  EXPECT_EQ(count(json_lines(dead.out).at(0), "dead"), 1U);
}

TEST_P(WorkflowsOnStores, What_is_not_there_or_makes_no_sense_is_explained) {
  if (!is_always_there()) {
    EXPECT_THAT(refused(1, {"workflow", "ls"}), HasSubstr("there is no store"));
  }
  ok({"send", "orders", "x"});
  EXPECT_EQ(lines({"workflow", "ls"}).size() + lines({"saga", "ls"}).size(), 0U);
  EXPECT_EQ(ok({"workflow", "prune", "--older-than", "1h"}), "0 instances removed\n");
  EXPECT_THAT(refused(1, {"workflow", "show", "a"}), HasSubstr("no workflow was ever started"));
  EXPECT_THAT(ok({"queue", "ls"}), Not(HasSubstr("workflow"))) << "looking has made a queue";
  ok({"workflow", "start", "approval", "--id", "a", "--queue", "mine"});
  EXPECT_EQ(text(json({"workflow", "show", "a", "--queue", "mine"}), "state"), "pending");
  for (const Words& words : std::vector<Words>{
           {"show"}, {"history"}, {"result"}, {"cancel"}, {"terminate"}, {"resume"}, {"rm"}}) {
    EXPECT_THAT(refused(1, {"workflow", words[0], "nobody", "--queue", "mine"}),
                HasSubstr("'nobody'"));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, WorkflowsOnStores,
                         testing::Values("rocksdb", "sqlite", "postgres", "served"),
                         [](const auto& kind) { return kind.param; });

TEST_F(Program, Wrong_usage_of_workflows_is_refused_before_any_store_is_opened) {
  const std::vector<Words> wrong = {
      {"workflow"},
      {"workflow", "start", "checkout"},
      {"workflow", "start", "--id", "a"},
      {"workflow", "start", "checkout", "--id", "a", "--if-exists", "maybe"},
      {"workflow", "start", "checkout", "--id", "a", "--version", "one"},
      {"workflow", "ls", "--state", "asleep"},
      {"workflow", "ls", "--since", "yesterday"},
      {"workflow", "ls", "--limit", "0"},
      {"workflow", "history", "a", "--execution", "0"},
      {"workflow", "event", "a"},
      {"workflow", "query", "a"},
      {"workflow", "prune"},
      {"workflow", "prune", "--older-than", "1h", "--old-executions"},
      {"workflow", "prune", "--older-than", "1h", "--state", "running"},
      {"saga", "ls", "--status", "done"},
      {"saga", "show"},
      {"consume", "q", "--exec", "true", "--dead-exit", "0"},
  };
  for (const Words& words : wrong)
    refused(2, words);
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

// Where nobody owns the store, the worker runs beside the commands.
class WorkflowsBesideAWorker : public WorkflowsOnStores {};

TEST_P(WorkflowsBesideAWorker, Queries_are_answered_and_results_waited_for) {
  ok({"workflow", "start", "approval", "--id", "a"});
  Process worker(worker_command(url(), {"1m"}), {});
  EXPECT_EQ(ok({"workflow", "query", "a", "by", "--wait", "10s"}), "nobody\n");
  EXPECT_EQ(serialize(json({"workflow", "query", "a", "by"})),
            R"({"id":"a","query":"by","answer":"nobody"})");
  EXPECT_THAT(refused(1, {"workflow", "query", "a", "weather"}), HasSubstr("weather"));
  EXPECT_THAT(refused(3, {"workflow", "result", "a", "--wait", "50ms"}),
              HasSubstr("has not ended within 50ms; it is running"));
  Process result(command({"workflow", "result", "a", "--wait", "15s"}), on_store());
  ok({"workflow", "event", "a", "approved", "ann"});
  const Finished finished = result.finish();
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(finished.out, "ann\n");
  EXPECT_THAT(refused(1, {"workflow", "query", "a", "by"}), HasSubstr("has ended"));

  ok({"workflow", "start", "payment", "4111", "--id", "pay"});
  Process shell(command({"consume", "activities", "--label", "charge_card", "--exec", "echo beside",
                         "--reply"}),
                on_store());
  EXPECT_EQ(ok({"workflow", "result", "pay", "--wait", "15s"}), "paid: beside\n");
  shell.signal(SIGTERM);
  EXPECT_EQ(shell.wait().exit, 0);
  EXPECT_EQ(worker.finish().exit, 0);
}

TEST_P(WorkflowsBesideAWorker, A_query_that_nobody_answers_says_so) {
  ok({"workflow", "start", "approval", "--id", "a"});
  EXPECT_THAT(refused(1, {"workflow", "query", "a", "by", "--wait", "50ms"}),
              HasSubstr("no worker has answered"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, WorkflowsBesideAWorker, testing::Values("postgres", "served"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace strand::e2e
