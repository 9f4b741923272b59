// What workers do: threads, leases, timeouts, heartbeats, versions, queries.

#include <atomic>
#include <stdexcept>
#include <thread>

#include "workflow/worker_fixture.h"

namespace strand::workflow_tests {

double metric(const WorkflowWorker& worker, const std::string& name, const std::string& outcome) {
  double sum = 0;
  for (const Metric& metric : worker.metrics()) {
    if (metric.name != name) continue;
    const bool wanted =
        outcome.empty() ||
        std::ranges::find(metric.labels, std::pair<std::string, std::string>{"outcome", outcome}) !=
            metric.labels.end();
    if (wanted)
      sum += metric.kind == Metric::Kind::distribution
                 ? static_cast<double>(metric.distribution.count)
                 : metric.value;
  }
  return sum;
}

namespace {

Retry quick(std::uint32_t attempts) {
  return {
      .attempts = attempts, .backoff = Retry::Backoff::fixed, .first = 1ms, .jitter_percent = 0};
}

// Calls an activity, and says how that failed.
WorkflowType<std::string()> telling(const Activity<int()>& activity) {
  return {"telling", [activity](Workflow& wf) -> Task<std::string> {
            try {
              co_return std::to_string(co_await wf.call(activity));
            } catch (const WorkflowError& error) {
              co_return said(error);
            }
          }};
}

TEST_F(Workers, A_worker_runs_turns_and_activities) {
  const Activity<int(int)> add_one{"add_one", [](int n) { return n + 1; }};
  const WorkflowType<int()> type{"counting", [add_one](Workflow& wf) -> Task<int> {
                                   int n = 0;
                                   for (int i = 0; i < 20; ++i)
                                     n = co_await wf.call(add_one, n);
                                   co_return n;
                                 }};
  const auto worker = work({type}, {add_one});
  for (int i = 0; i < 20; ++i)
    start(type, "a" + std::to_string(i));
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(ended("a" + std::to_string(i)).result, "20");
  worker->wait_idle();
  EXPECT_EQ(stats("workflow").live(), 0);
  EXPECT_EQ(stats("activities").live(), 0);
}

TEST_F(Workers, A_worker_that_replays_every_turn_finds_what_differs) {
  std::atomic<int> runs = 0;
  const WorkflowType<int()> type{"counting", [&runs](Workflow& wf) -> Task<int> {
                                   wf.send("out", ++runs);
                                   co_return 1;
                                 }};
  WorkflowWorkerOptions with = options({type}, {});
  with.verify = true;
  const auto worker = work(std::move(with));
  start(type, "a");
  worker->wait_idle();
  EXPECT_TRUE(info("a").parked);
  EXPECT_EQ(metric(*worker, "strand_workflow_nondeterminism_total"), 1);
  EXPECT_EQ(metric(*worker, "strand_workflow_parked_total"), 1);
}

TEST_F(Workers, A_sleeping_instance_is_woken_by_the_clock) {
  const WorkflowType<int()> type{"sleep", [](Workflow& wf) -> Task<int> {
                                   co_await wf.sleep(24h);
                                   co_return 1;
                                 }};
  const auto worker = work({type}, {});
  start(type, "a");
  worker->wait_idle();
  EXPECT_EQ(info("a").state, InstanceState::running);
  clock_->advance(24h);
  EXPECT_EQ(ended("a").result, "1");
}

// --- Activities that take too long, or fall silent ---

TEST_F(Workers, An_attempt_that_takes_too_long_is_settled_although_its_function_hangs) {
  Gate running;
  Gate go_on;
  const Activity<int()> hanging{"hanging",
                                [&](ActivityContext& context) -> int {
                                  running.open();
                                  go_on.wait();
                                  EXPECT_TRUE(context.stop_token().stop_requested());
                                  return 1;
                                },
                                {.retry = Retry::never(), .timeout = 10s}};
  const auto type = telling(hanging);
  const auto worker = work({type}, {hanging});
  const OpenAtEnd open_at_end(go_on);
  start(type, "a");
  running.wait();
  clock_->advance(9s);
  EXPECT_EQ(info("a").state, InstanceState::running);
  clock_->advance(1s);
  EXPECT_THAT(ended("a").result, AllOf(HasSubstr("timed_out: "), HasSubstr("longer")));
  go_on.open();
  worker->wait_idle();
  EXPECT_EQ(metric(*worker, "strand_activity_attempts_total", "timed_out"), 1);
  EXPECT_EQ(stats("activities").live(), 0);
}

TEST_F(Workers, An_attempt_that_is_silent_for_too_long_is_tried_again_elsewhere) {
  Notes<int> attempts;
  Gate go_on;
  const Activity<int()> silent{"silent",
                               [&](ActivityContext& context) -> int {
                                 attempts.add(static_cast<int>(context.attempt()));
                                 if (context.attempt() == 1) go_on.wait();
                                 return 7;
                               },
                               {.retry = quick(3), .heartbeat = 10s}};
  const auto type = telling(silent);
  const auto worker = work({type}, {silent});
  const OpenAtEnd open_at_end(go_on);
  start(type, "a");
  attempts.wait_for(1);
  // Its worker lives, and holds its lease: for ten seconds from the beginning, and renewed.
  clock_->advance(6s);
  renewals_.wait_for(2);
  clock_->advance(4s);
  ASSERT_TRUE(comes_true([&] { return stats("activities").backoff == 1; }));
  clock_->advance(1ms);
  EXPECT_EQ(ended("a").result, "7");
  go_on.open();
  worker->wait_idle();
  EXPECT_THAT(attempts.all(), ElementsAre(1, 2));
}

TEST_F(Workers, Heartbeats_keep_an_attempt_alive) {
  Notes<int> beats;
  std::atomic<int> allowed = 0;
  const Activity<int()> beating{"beating",
                                [&](ActivityContext& context) -> int {
                                  for (int i = 1; i <= 5; ++i) {
                                    while (allowed < i)
                                      std::this_thread::yield();
                                    if (!context.heartbeat()) return -1;
                                    beats.add(i);
                                  }
                                  return 5;
                                },
                                {.retry = Retry::never(), .heartbeat = 10s}};
  const auto type = telling(beating);
  const auto worker = work({type}, {beating});
  start(type, "a");
  for (int i = 1; i <= 5; ++i) {
    allowed = i;
    beats.wait_for(static_cast<std::size_t>(i));
    if (i == 5) break;
    clock_->advance(6s);
    renewals_.wait_for(static_cast<std::size_t>(i) + 1);
  }
  EXPECT_EQ(ended("a").result, "5") << "24 seconds in all, and never ten without a word";
}

TEST_F(Workers, Progress_is_kept_across_attempts_and_goes_with_the_call) {
  Notes<int> seen;
  const Activity<int()> counting{"counting",
                                 [&](ActivityContext& context) -> int {
                                   const int done = context.progress<int>().value_or(0);
                                   seen.add(done);
                                   if (done == 30) return done;
                                   context.heartbeat(done + 10);
                                   throw std::runtime_error("interrupted");
                                 },
                                 {.retry = quick(10), .heartbeat = 1h}};
  const auto type = telling(counting);
  const auto worker = work({type}, {counting});
  start(type, "a");
  advance_until(*worker, 1ms, [&] { return info("a").state == InstanceState::completed; });
  EXPECT_EQ(ended("a").result, "30");
  EXPECT_THAT(seen.all(), ElementsAre(0, 10, 20, 30));
  EXPECT_THAT(store_->records({.space = "workflow/progress"}).value().items, IsEmpty());
}

TEST_F(Workers, An_activity_is_told_when_its_result_is_not_wanted_any_more) {
  Gate running;
  Notes<std::string> notes;
  const Activity<int()> waiting{
      "waiting", [&](ActivityContext& context) -> int {
        running.open();
        // Until told, which also its heartbeat says.
        EXPECT_TRUE(comes_true([&] { return context.stop_token().stop_requested(); }));
        notes.add(context.heartbeat() ? "go on" : "stop");
        return 1;
      }};
  const WorkflowType<std::string()> type = telling(waiting);
  const auto worker = work({type}, {waiting});
  start(type, "a");
  running.wait();
  Answer(workflows().cancel("a", "enough")).value();
  EXPECT_THAT(ended("a").result, HasSubstr("enough"));
  // The lease of the activity is revoked; its next renewal finds out.
  clock_->advance(10s);
  notes.wait_for(1);
  EXPECT_THAT(notes.all(), ElementsAre("stop"));
  worker->wait_idle();
  EXPECT_EQ(stats("activities").live(), 0);
}

TEST_F(Workers, An_activity_whose_worker_dies_is_done_by_another_and_then_given_up) {
  // Leased by hand: this worker dies each time.
  const Activity<int()> doomed{"doomed", {.retry = quick(3)}};
  const auto type = telling(doomed);
  const auto worker = work({type}, {});
  start(type, "a");
  worker->wait_idle();
  for (int i = 0; i < 3; ++i) {
    std::vector<Lease> leases;
    for (int tries = 0; leases.empty() && tries < 1'000; ++tries) {
      leases = store_->lease({.queue = "activities", .lease = 10s}).value();
      if (leases.empty()) clock_->advance(1min);
    }
    ASSERT_THAT(leases, SizeIs(1));
    clock_->advance(11s);
  }
  EXPECT_THAT(ended("a").result, HasSubstr("crashed: "));
}

// --- Who does what ---

// Behaviours: tags_fetches_only_matching, default_only_fetches_untagged,
// multi_runtime_tag_isolation, tag_round_trip_preservation
TEST_F(Workers, Special_work_is_done_by_special_workers) {
  Notes<std::string> notes;
  const auto by = [&](const std::string& who) {
    return Activity<int()>{"render", [&notes, who](ActivityContext&) {
                             notes.add(who);
                             return 1;
                           }};
  };
  const Activity<int()> render{"render"};
  const WorkflowType<int()> type{"film", [render](Workflow& wf) -> Task<int> {
                                   co_await wf.call(render, ActivityOptions{});
                                   co_await wf.call(render, ActivityOptions{.label = "gpu"});
                                   co_await wf.call(render, ActivityOptions{.queue = "far"});
                                   co_await wf.call(
                                       render, ActivityOptions{.queue = "far", .label = "gpu"});
                                   co_return 1;
                                 }};
  const auto turns = work({type}, {});
  const auto plain = work({}, {by("plain")});
  WorkflowWorkerOptions gpu = options({}, {by("gpu")});
  gpu.activity_labels = {"gpu"};
  const auto special = work(std::move(gpu));
  WorkflowWorkerOptions far = options({}, {by("far")});
  far.activity_queues = {"far"};
  far.activity_labels = {"", "gpu"};
  // It also serves the queue that the activity names itself; so it comes last.
  start(type, "a");
  notes.wait_for(2);
  plain->wait_idle();
  EXPECT_THAT(notes.all(), ElementsAre("plain", "gpu"));
  EXPECT_EQ(info("a").state, InstanceState::running) << "nobody serves that queue";
  const auto last = work(std::move(far));
  EXPECT_EQ(ended("a").result, "1");
  EXPECT_THAT(notes.all(), ElementsAre("plain", "gpu", "far", "far"));
}

// Behaviours: fetch_with_compatible_filter_returns_item, fetch_with_incompatible_filter_skips_item,
// filter_with_empty_supported_versions_returns_nothing, concurrent_filtered_fetch_no_double_lock
TEST_F(Workers, Two_versions_run_on_two_workers) {
  const auto say = [](int version) {
    return WorkflowType<int()>{"say",
                               [version](Workflow& wf) -> Task<int> {
                                 co_await wf.event<int>("go");
                                 co_return version;
                               },
                               static_cast<std::uint32_t>(version)};
  };
  const auto one = work({say(1)}, {});
  start(say(1), "a");
  start(say(2), "b");
  one->wait_idle();
  EXPECT_EQ(info("a").state, InstanceState::running);
  EXPECT_EQ(info("b").state, InstanceState::pending);
  const auto two = work({say(2)}, {});
  Answer(workflows().send_event("a", "go", 1)).value();
  Answer(workflows().send_event("b", "go", 1)).value();
  EXPECT_EQ(ended("a").result, "1");
  EXPECT_EQ(ended("b").result, "2");
  EXPECT_EQ(metric(*one, "strand_workflow_started_total"), 1);
  EXPECT_EQ(metric(*two, "strand_workflow_started_total"), 1);
}

TEST_F(Workers, Activities_that_a_worker_does_not_know_are_left_to_others) {
  const Activity<int()> known{"known", [] { return 1; }};
  const Activity<int()> unknown{"unknown"};
  const WorkflowType<int()> type{"both", [=](Workflow& wf) -> Task<int> {
                                   const auto [a, b] =
                                       co_await wf.all_of(wf.call(unknown), wf.call(known));
                                   co_return a + b;
                                 }};
  const auto worker = work({type}, {known});
  start(type, "a");
  worker->wait_idle();
  EXPECT_EQ(stats("activities").ready, 1);
  EXPECT_EQ(stats("activities").dead, 0);
  const auto other = work({}, {Activity<int()>{"unknown", [] { return 2; }}});
  EXPECT_EQ(ended("a").result, "3");
}

// --- Turns that fail ---

// Behaviours: orchestration_attempt_count_increments_on_refetch,
// max_attempt_count_across_message_batch
TEST_F(Workers, A_turn_that_kills_its_worker_again_and_again_parks_its_instance) {
  const WorkflowType<int()> type{"deadly", [](Workflow&) -> Task<int> { co_return 1; }};
  start(type, "a");
  int deaths = 0;
  for (int tries = 0; tries < 200 && !info("a").parked; ++tries) {
    const auto leases = store_->lease({.queue = "workflow", .lease = 15s}).value();
    deaths += static_cast<int>(leases.size());
    clock_->advance(1min);
  }
  ASSERT_TRUE(info("a").parked);
  EXPECT_EQ(deaths, 10);
  EXPECT_EQ(stats("workflow").dead, 0);
  // After a fix it goes on.
  const auto worker = work({type}, {});
  worker->wait_idle();
  EXPECT_EQ(info("a").state, InstanceState::pending);
  Answer(workflows().resume("a")).value();
  EXPECT_EQ(ended("a").result, "1");
}

TEST_F(Workers, A_turn_that_the_store_refuses_parks_its_instance_at_last) {
  const WorkflowType<void()> type{"large", [](Workflow& wf) -> Task<void> {
                                    wf.set("large", std::string(300'000, 'x'));
                                    co_await wf.sleep(1h);
                                  }};
  std::atomic<int> refused = 0;
  WorkflowWorkerOptions with = options({type}, {});
  with.on_trouble = [&](const ConsumerTrouble& trouble) {
    refused += trouble.kind == ConsumerTrouble::Kind::commit_refused ? 1 : 0;
  };
  const auto worker = work(std::move(with));
  start(type, "a");
  advance_until(*worker, 10s, [&] { return info("a").parked.has_value(); });
  EXPECT_GE(refused, 1);
  EXPECT_THAT(Answer(workflows().state("a")).value(), IsEmpty());
}

TEST_F(Workers, Messages_that_mean_nothing_become_dead_letters) {
  const WorkflowType<int()> type{
      "waiting", [](Workflow& wf) -> Task<int> { co_return co_await wf.event<int>("go"); }};
  const auto worker = work({type}, {});
  start(type, "a");
  worker->wait_idle();
  Transaction junk;
  junk.sends.push_back(conformance::send("workflow", conformance::key("a"), "junk"));
  junk.sends.push_back(conformance::send("workflow", conformance::key("a"), "junk",
                                         {.headers = {{"strand-kind", "gossip"}}}));
  store_->apply(junk).value();
  worker->wait_idle();
  EXPECT_EQ(stats("workflow").dead, 2);
  Answer(workflows().send_event("a", "go", 3)).value();
  EXPECT_EQ(ended("a").result, "3");
}

// --- Queries ---

TEST_F(Workers, A_query_is_answered_from_the_state_of_the_code_and_leaves_no_trace) {
  const WorkflowType<int()> type{"asked", [](Workflow& wf) -> Task<int> {
                                   int count = 0;
                                   const auto how_many = wf.answer("count", [&] { return count; });
                                   const auto times = wf.answer<int>(
                                       "times", [&](const int& n) { return n * count; });
                                   while (count < 3)
                                     count += co_await wf.event<int>("more");
                                   co_return count;
                                 }};
  const auto worker = work({type}, {});
  start(type, "a");
  EXPECT_EQ(Answer(workflows().query_for<int>("a", "count")).value(), 0);
  Answer(workflows().send_event("a", "more", 2)).value();
  worker->wait_idle();
  const auto before = Answer(workflows().history("a")).value().events;
  EXPECT_EQ(Answer(workflows().query_for<int>("a", "count")).value(), 2);
  EXPECT_EQ(Answer(workflows().query_for<int>("a", "times", "21")).value(), 42);
  worker->wait_idle();
  EXPECT_EQ(Answer(workflows().history("a")).value().events, before);
  EXPECT_THAT(store_->records({.space = "workflow/answers"}).value().items, IsEmpty());

  const auto unknown = workflows().query("a", "nonsense");
  EXPECT_EQ(Answer(unknown).error().code, Errc::invalid_argument);
  EXPECT_THAT(unknown.error().message, AllOf(HasSubstr("nonsense"), HasSubstr("count, times")));
  EXPECT_EQ(Answer(workflows().query("a", "times", "no number")).error().code,
            Errc::invalid_argument);

  Answer(workflows().send_event("a", "more", 2)).value();
  EXPECT_EQ(ended("a").result, "4");
  EXPECT_EQ(Answer(workflows().query("a", "count")).error().code, Errc::not_found);
}

TEST_F(Workers, A_query_that_nobody_answers_says_so) {
  const WorkflowType<int()> type{"asked"};
  start(type, "a");
  const auto asked = workflows().query("a", "count", {}, 20ms);
  EXPECT_EQ(Answer(asked).error().code, Errc::unavailable);
  EXPECT_THAT(asked.error().message, HasSubstr("asked@1"));
}

// --- Options, figures, stopping ---

TEST_F(Workers, Options_that_make_no_sense_are_refused) {
  const WorkflowType<int()> type{"a", [](Workflow&) -> Task<int> { co_return 1; }};
  const Activity<int()> activity{"b", [] { return 1; }};
  const auto refused = [&](const WorkflowWorkerOptions& with) {
    const auto worker = WorkflowWorker::start(*store_, with);
    if (worker) return std::string("it was started");
    EXPECT_EQ(worker.error().code, Errc::invalid_argument);
    return worker.error().message;
  };
  EXPECT_THAT(refused(options({}, {})), HasSubstr("workflow or an activity"));
  EXPECT_THAT(refused(options({type, type}, {})), HasSubstr("a@1"));
  EXPECT_THAT(refused(options({}, {activity, activity})), HasSubstr("'b'"));
  EXPECT_THAT(refused(options({WorkflowType<int()>{"c"}}, {})), HasSubstr("c@1"));
  EXPECT_THAT(refused(options({}, {Activity<int()>{"d"}})), HasSubstr("'d'"));
  EXPECT_THAT(refused(options({}, {Activity<int()>{"", [] { return 1; }}})), HasSubstr("name"));
  WorkflowWorkerOptions none = options({type}, {});
  none.turn_workers = 0;
  EXPECT_THAT(refused(none), Not(HasSubstr("started")));
  WorkflowWorkerOptions idle = options({}, {activity});
  idle.activity_workers = 0;
  EXPECT_THAT(refused(idle), Not(HasSubstr("started")));
}

TEST_F(Workers, Figures_say_what_was_done) {
  const Activity<int()> good{"good", [] { return 1; }};
  const Activity<int()> bad{"bad", []() -> int { throw ApplicationError("no", "no").final(); }};
  const WorkflowType<int()> type{"both", [=](Workflow& wf) -> Task<int> {
                                   co_await wf.call(good);
                                   co_return co_await wf.call(bad);
                                 }};
  const WorkflowType<int(int)> twice{"twice", [](Workflow& wf, int left) -> Task<int> {
                                       if (left > 0)
                                         co_return co_await wf.continue_as_new(left - 1);
                                       co_return 1;
                                     }};
  const auto worker = work({type, twice}, {good, bad});
  start(type, "a");
  Answer(workflows().start(twice, "b", 1)).value();
  EXPECT_EQ(ended("a").state, InstanceState::failed);
  EXPECT_EQ(ended("b").state, InstanceState::completed);
  worker->wait_idle();
  const std::string ends = "strand_workflow_ended_total";
  EXPECT_EQ(metric(*worker, "strand_workflow_started_total"), 2);
  EXPECT_EQ(metric(*worker, ends, "failed"), 1);
  EXPECT_EQ(metric(*worker, ends, "completed"), 1);
  EXPECT_EQ(metric(*worker, ends, "continued"), 1);
  EXPECT_EQ(metric(*worker, "strand_activity_attempts_total", "completed"), 1);
  EXPECT_EQ(metric(*worker, "strand_activity_attempts_total", "failed"), 1);
  EXPECT_EQ(metric(*worker, "strand_workflow_turns_total"), 5);
  EXPECT_EQ(metric(*worker, "strand_workflow_turn_duration_seconds"), 5);
  EXPECT_EQ(metric(*worker, "strand_activity_duration_seconds"), 2);
  EXPECT_EQ(metric(*worker, "strand_workflow_history_events"), 5);
  EXPECT_GT(metric(*worker, "strand_workflow_replayed_events_total"), 0);
  EXPECT_GT(metric(*worker, "strand_workflow_events_total"), 8);
}

TEST_F(Workers, A_worker_that_stops_lets_activities_finish) {
  Gate running;
  Gate go_on;
  const Activity<int()> slow{"slow", [&] {
                               running.open();
                               go_on.wait();
                               return 4;
                             }};
  const auto type = telling(slow);
  auto worker = work({type}, {slow});
  start(type, "a");
  running.wait();
  std::thread stopping([&] { worker->stop(); });
  go_on.open();
  stopping.join();
  EXPECT_EQ(stats("activities").live(), 0);
  EXPECT_EQ(stats("activities").acked, 1);
  EXPECT_EQ(stats("activities").leases, 0);
  worker = work({type}, {slow});  // for the answer, if the first one has not taken it any more
  EXPECT_EQ(ended("a").result, "4");
}

TEST_F(Workers, A_worker_in_a_hurry_tells_activities_to_stop_and_gives_them_back) {
  Gate running;
  const Activity<int()> slow{"slow",
                             [&](ActivityContext& context) -> int {
                               running.open();
                               while (!context.stop_token().stop_requested())
                                 std::this_thread::yield();
                               throw std::runtime_error("stopped");
                             },
                             {.retry = quick(2)}};
  const auto type = telling(slow);
  const auto worker = work({type}, {slow});
  start(type, "a");
  running.wait();
  EXPECT_FALSE(worker->stop(1ms));
  EXPECT_EQ(stats("activities").live(), 1);
  EXPECT_EQ(stats("activities").leases, 0);
}

// Many workers at once: every instance ends once, every activity is counted once.
TEST_F(Workers, Several_workers_share_the_work) {
  std::atomic<int> done = 0;
  const Activity<int(int)> count{"count", [&](int n) {
                                   ++done;
                                   return n;
                                 }};
  const WorkflowType<int()> type{"fan", [count](Workflow& wf) -> Task<int> {
                                   std::vector<Future<int>> all;
                                   for (int i = 0; i < 10; ++i)
                                     all.push_back(wf.call(count, 1));
                                   int sum = 0;
                                   for (const int one : co_await wf.all_of(all))
                                     sum += one;
                                   co_return sum;
                                 }};
  std::vector<std::unique_ptr<WorkflowWorker>> workers;
  for (int i = 0; i < 3; ++i)
    workers.push_back(work({type}, {count}));
  for (int i = 0; i < 50; ++i)
    start(type, "i" + std::to_string(i));
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(ended("i" + std::to_string(i)).result, "10");
  EXPECT_EQ(done, 500);
}

}  // namespace
}  // namespace strand::workflow_tests
