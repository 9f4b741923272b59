// Workers and checkpoints: how much is replayed and read, with nothing in memory and with
// everything.

#include <gmock/gmock.h>

#include "workflow/replay_costs.h"
#include "workflow/worker_fixture.h"

namespace strand::workflow_tests {
namespace {

struct Tally {
  std::int64_t count = 0;
  std::int64_t sum = 0;
};
STRAND_JSON(Tally, count, sum)

// Adds up events "n" until one is 0.
const WorkflowType<std::string()> tallying{
    "tallying", [](Workflow& wf) -> Task<std::string> {
      Tally tally = wf.restored<Tally>().value_or(Tally{});
      const auto answering = wf.answer("count", [&] { return tally.count; });
      while (true) {
        co_await wf.checkpoint(tally);
        const auto n = co_await wf.event<std::int64_t>("n");
        if (n == 0) break;
        tally.sum = tally.sum * 31 % 1'000'003 + n;
        ++tally.count;
      }
      co_return std::to_string(tally.count) + ":" + std::to_string(tally.sum);
    }};

class CheckpointWorkers : public Workers {
 protected:
  std::unique_ptr<WorkflowWorker> tally(CheckpointPolicy policy, bool cache) {
    WorkflowWorkerOptions with = options({tallying}, {});
    with.checkpoints = std::move(policy);
    with.cache.enabled = cache;
    with.coalesce.enabled = false;
    return work(std::move(with));
  }
  void trickle(WorkflowWorker& worker, int count) {
    for (int i = 1; i <= count; ++i) {
      ASSERT_TRUE(workflows().send_event("a", "n", std::int64_t{i}));
      worker.wait_idle();
    }
  }
  static std::string sum_of(int count) {
    std::int64_t sum = 0;
    for (int i = 1; i <= count; ++i)
      sum = sum * 31 % 1'000'003 + i;
    return std::to_string(count) + ":" + std::to_string(sum);
  }
  static double replayed(const WorkflowWorker& worker) {
    return metric(worker, "strand_workflow_replayed_events_total");
  }
};

TEST_F(CheckpointWorkers, A_turn_replays_no_more_than_came_since_the_last_one) {
  constexpr int count = 400;
  for (const bool prune : {true, false}) {
    const auto worker = tally({.when = {.every_events = 50}, .prune = prune}, false);
    start(tallying, "a");
    trickle(*worker, count);
    EXPECT_LE(replayed(*worker), count * 50.0);
    const HistoryPage page = Answer(workflows().history("a")).value();
    EXPECT_EQ(page.first > 0, prune);
    if (prune) {
      EXPECT_LE(page.length - page.first, 101);
    }
    EXPECT_EQ(metric(*worker, "strand_workflow_checkpoints_total"), 8);
    EXPECT_EQ(metric(*worker, "strand_workflow_unreadable_checkpoints_total"), 0);
    trickle(*worker, 0);
    ASSERT_TRUE(workflows().send_event("a", "n", std::int64_t{0}));
    EXPECT_EQ(ended("a").result, sum_of(count));
    ASSERT_TRUE(Answer(workflows().remove("a")));
  }
}

TEST_F(CheckpointWorkers, What_lies_before_it_is_not_read) {
  start(tallying, "a");
  {
    const auto worker = tally({.when = {.every_events = 100}, .prune = false}, true);
    trickle(*worker, 950);
  }
  std::vector<std::uint64_t> reads;
  hooked_->before_history = [&reads](const HistoryQuery& query) { reads.push_back(query.from); };
  const auto worker = tally({}, true);
  trickle(*worker, 1);
  ASSERT_THAT(reads, SizeIs(1));
  EXPECT_GE(reads[0], 900);
  EXPECT_LT(replayed(*worker), 100);
}

TEST_F(CheckpointWorkers, An_instance_in_memory_goes_on_behind_its_checkpoints) {
  constexpr int count = 300;
  WorkflowWorkerOptions with = options({tallying}, {});
  with.checkpoints.when.every_events = 10;
  with.cache.max_history_size = 20;  // counts what a replay would take
  with.cache.audit_one_in = 1;
  with.coalesce.enabled = false;
  const auto worker = work(std::move(with));
  start(tallying, "a");
  trickle(*worker, count);
  EXPECT_GE(metric(*worker, "strand_orchestration_cache_hits_total"), count - 2);
  EXPECT_EQ(Answer(workflows().query_for<int>("a", "count")).value(), count);
  ASSERT_TRUE(workflows().send_event("a", "n", std::int64_t{0}));
  EXPECT_EQ(ended("a").result, sum_of(count));
  EXPECT_EQ(metric(*worker, "strand_workflow_nondeterminism_total"), 0);
}

TEST_F(CheckpointWorkers, One_worker_goes_on_where_another_has_begun_again) {
  constexpr int count = 200;
  start(tallying, "a");
  for (int i = 0; i < count; i += 10) {
    const auto worker = tally({.when = {.every_events = 7}}, i % 20 == 0);
    for (int n = i + 1; n <= i + 10; ++n) {
      ASSERT_TRUE(workflows().send_event("a", "n", std::int64_t{n}));
      worker->wait_idle();
    }
  }
  const auto last = tally({}, true);
  ASSERT_TRUE(workflows().send_event("a", "n", std::int64_t{0}));
  EXPECT_EQ(ended("a").result, sum_of(count));
}

TEST(ReplayCosts, What_is_unknown_is_guessed_and_what_was_measured_counts) {
  using namespace std::chrono_literals;
  workflow::ReplayCosts costs;
  EXPECT_EQ(costs.estimate("a@1", 500), 1ms);
  costs.add("a@1", 100, 1ms);
  EXPECT_EQ(costs.estimate("a@1", 500), 5ms);
  EXPECT_EQ(costs.estimate("b@1", 500), 1ms);
  for (int i = 0; i < 200; ++i)
    costs.add("a@1", 100, 2ms);
  EXPECT_NEAR(static_cast<double>(costs.estimate("a@1", 500).count()), 10e6, 1e5);
  costs.add("a@1", 0, 5s);
  EXPECT_LT(costs.estimate("a@1", 500), 11ms);
}

TEST_F(CheckpointWorkers, Where_replays_take_long_there_are_more_of_them) {
  // By what is guessed at first, 500 events take a millisecond.
  const auto worker =
      tally({.when = {.every_events = {}, .every_bytes = {}, .replay_longer_than = 1ms}}, true);
  start(tallying, "a");
  trickle(*worker, 499);
  EXPECT_EQ(metric(*worker, "strand_workflow_checkpoints_total"), 1);
  worker->stop();
}

}  // namespace
}  // namespace strand::workflow_tests
