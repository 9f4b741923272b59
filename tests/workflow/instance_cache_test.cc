// Workers with instances in memory: what that saves, when it is given up, and that it never shows
// in a result.

#include <atomic>
#include <random>
#include <thread>

#include <gmock/gmock.h>

#include "workflow/worker_fixture.h"

namespace strand::workflow_tests {
namespace {

// Adds up events "n" until one is 0, and says so far how far it is.
const WorkflowType<std::string()>& adding() {
  static const WorkflowType<std::string()> type{
      "adding", [](Workflow& wf) -> Task<std::string> {
        std::int64_t sum = 0;
        std::int64_t count = 0;
        while (true) {
          const auto n = co_await wf.event<std::int64_t>("n");
          if (n == 0) break;
          sum = sum * 31 % 1'000'003 + n;  // the order counts
          wf.set_status(std::to_string(++count));
        }
        co_return std::to_string(count) + ":" + std::to_string(sum);
      }};
  return type;
}

class InstancesInMemory : public Workers {
 protected:
  [[nodiscard]] WorkflowWorkerOptions adding_options(InstanceCacheOptions cache = {}) const {
    WorkflowWorkerOptions result = options({adding()}, {});
    result.cache = cache;
    result.coalesce.enabled = false;
    return result;
  }
  void send(const std::string& id, std::int64_t n) {
    ASSERT_TRUE(workflows().send_event(id, "n", n));
  }
  // One turn for each.
  void trickle(WorkflowWorker& worker, const std::string& id, int count) {
    for (int i = 1; i <= count; ++i) {
      send(id, i);
      worker.wait_idle();
    }
  }
  // What it should be.
  static std::string sum_of(int count) {
    std::int64_t sum = 0;
    for (int i = 1; i <= count; ++i)
      sum = sum * 31 % 1'000'003 + i;
    return std::to_string(count) + ":" + std::to_string(sum);
  }
  static double evictions(const WorkflowWorker& worker, const std::string& reason) {
    for (const Metric& metric : worker.metrics()) {
      if (metric.name == "strand_orchestration_cache_evictions_total" &&
          metric.labels.front().second == reason) {
        return metric.value;
      }
    }
    ADD_FAILURE() << "no evictions for " << reason;
    return -1;
  }
  static double replayed(const WorkflowWorker& worker) {
    return metric(worker, "strand_workflow_replayed_events_total");
  }
  static double hits(const WorkflowWorker& worker) {
    return metric(worker, "strand_orchestration_cache_hits_total");
  }
  static double misses(const WorkflowWorker& worker) {
    return metric(worker, "strand_orchestration_cache_misses_total");
  }
};

TEST_F(InstancesInMemory, What_trickles_in_is_replayed_never_instead_of_each_time) {
  constexpr int count = 50;
  {
    const auto worker = work(adding_options());
    start(adding(), "a");
    trickle(*worker, "a", count);
    send("a", 0);
    EXPECT_EQ(ended("a").result, sum_of(count));
    EXPECT_EQ(replayed(*worker), 0);
    EXPECT_GE(hits(*worker), count);  // the first event may come with the start
    EXPECT_GT(metric(*worker, "strand_orchestration_replay_events_saved_total"), count * count / 2);
  }
  const auto worker = work(adding_options({.enabled = false}));
  start(adding(), "b");
  trickle(*worker, "b", count);
  send("b", 0);
  EXPECT_EQ(ended("b").result, sum_of(count));
  EXPECT_GT(replayed(*worker), count * count / 2);
  EXPECT_EQ(hits(*worker), 0);
}

TEST_F(InstancesInMemory, A_kept_lease_means_that_nothing_is_leased_or_read) {
  std::atomic<std::size_t> leases = 0;
  hooked_->after_lease = [&](const std::vector<Lease>& granted) { leases += granted.size(); };
  hooked_->before_history = [&](const HistoryQuery&) { ++leases; };
  const auto worker = work(adding_options());
  start(adding(), "a");
  send("a", 1);
  worker->wait_idle();
  EXPECT_EQ(stats("workflow").leases, 1U);
  EXPECT_EQ(metric(*worker, "strand_orchestration_cache_size_current"), 1);
  EXPECT_GT(metric(*worker, "strand_orchestration_cache_bytes_current"), 300);
  const std::size_t before = leases;
  send("a", 2);
  EXPECT_TRUE(comes_true([&] { return info("a").status == "2"; }));
  EXPECT_EQ(leases, before);
}

TEST_F(InstancesInMemory, After_a_normal_end_of_its_lease_an_instance_is_still_of_use) {
  const auto worker = work(adding_options());
  start(adding(), "a");
  trickle(*worker, "a", 3);
  clock_->advance(10s);
  ASSERT_TRUE(comes_true([&] { return stats("workflow").leases == 0; }));
  trickle(*worker, "a", 3);
  EXPECT_EQ(replayed(*worker), 0);
  clock_->advance(5min + 10s);
  ASSERT_TRUE(comes_true([&] { return stats("workflow").leases == 0; }));
  start(adding(), "b");  // somebody comes, so the cache looks around
  worker->wait_idle();
  EXPECT_EQ(evictions(*worker, "idle"), 1);
  send("a", 4);
  worker->wait_idle();
  EXPECT_EQ(misses(*worker), 1);
}

// With the same number of the execution, the same length, at the same time as far as the store can
// tell; and this worker has seen nothing of it.
TEST_F(InstancesInMemory, One_that_was_removed_and_started_again_is_another) {
  std::atomic<bool> away = false;
  hooked_->before_lease = [&]() -> std::optional<Error> {
    if (away) return Error{Errc::unavailable, "away for a while"};
    return std::nullopt;
  };
  const auto worker = work(adding_options());
  start(adding(), "a");
  worker->wait_idle();
  trickle(*worker, "a", 5);
  away = true;
  ASSERT_TRUE(workflows().terminate("a", "to start again"));
  ASSERT_TRUE(Answer(workflows().remove("a")));
  {
    const auto other =
        Answer(WorkflowWorker::start(*store_, adding_options({.enabled = false}))).value();
    start(adding(), "a");
    for (int i = 1; i <= 5; ++i)
      send("a", 7);
    ASSERT_TRUE(comes_true([&] { return info("a").status == "5"; }));
  }
  away = false;
  send("a", 0);
  const std::string result = ended("a").result;
  EXPECT_EQ(result.substr(0, 2), "5:");
  EXPECT_NE(result, sum_of(5));
  EXPECT_EQ(evictions(*worker, "lease"), 1);
}

TEST_F(InstancesInMemory, A_lease_that_is_taken_away_takes_nothing_with_it) {
  const auto worker = work(adding_options());
  start(adding(), "a");
  trickle(*worker, "a", 5);
  const auto mine =
      Answer(store_->lease({.queue = "workflow", .key = "a", .seize = true})).value().front();
  Transaction end;
  end.settles = {Settle{.token = mine.token}};
  ASSERT_TRUE(store_->apply(end));
  for (int i = 6; i <= 10; ++i)
    send("a", i);
  worker->wait_idle();
  send("a", 0);
  EXPECT_EQ(ended("a").result, sum_of(10));
  EXPECT_EQ(replayed(*worker), 0);  // nobody has appended meanwhile
}

TEST_F(InstancesInMemory, A_turn_that_is_not_committed_leaves_nothing_in_memory) {
  std::atomic<bool> lose = false;
  hooked_->before_apply = [&](std::span<const Transaction> given) -> std::optional<Error> {
    const bool turn = std::ranges::any_of(given, [](const auto& t) { return !t.appends.empty(); });
    if (turn && lose.exchange(false)) return Error{Errc::lease_lost, "lost on the way"};
    return std::nullopt;
  };
  const auto worker = work(adding_options());
  start(adding(), "a");
  trickle(*worker, "a", 4);
  lose = true;
  send("a", 5);
  ASSERT_TRUE(comes_true([&] { return evictions(*worker, "lease") == 1; }));
  clock_->advance(15s);  // its lease runs out: nobody has ended it
  ASSERT_TRUE(comes_true([&] { return info("a").status == "5"; }));
  EXPECT_EQ(misses(*worker), 1);
  send("a", 0);
  EXPECT_EQ(ended("a").result, sum_of(5));
}

TEST_F(InstancesInMemory, Beyond_the_limit_the_one_that_was_used_longest_ago_goes) {
  const auto worker = work(adding_options({.max_instances = 2}));
  for (const char* id : {"a", "b", "c"}) {
    start(adding(), id);
    trickle(*worker, id, 2);
  }
  EXPECT_EQ(metric(*worker, "strand_orchestration_cache_size_current"), 2);
  EXPECT_EQ(evictions(*worker, "lru"), 1);
  send("c", 3);
  worker->wait_idle();
  EXPECT_EQ(misses(*worker), 0);
  send("a", 3);
  worker->wait_idle();
  EXPECT_EQ(misses(*worker), 1);
}

TEST_F(InstancesInMemory, Memory_stays_inside_its_limit) {
  constexpr std::size_t limit = 20'000;
  const auto worker = work(adding_options({.max_instances = 1000, .max_memory = limit}));
  for (int i = 0; i < 60; ++i) {
    const std::string id = "i" + std::to_string(i);
    start(adding(), id);
    trickle(*worker, id, 2);
    ASSERT_LE(metric(*worker, "strand_orchestration_cache_bytes_current"), limit);
  }
  EXPECT_GT(metric(*worker, "strand_orchestration_cache_size_current"), 2);
  EXPECT_GT(evictions(*worker, "size"), 10);
  for (int i = 0; i < 60; ++i) {
    const std::string id = "i" + std::to_string(i);
    send(id, 0);
    EXPECT_EQ(ended(id).result, sum_of(2));
  }
}

TEST_F(InstancesInMemory, A_history_that_is_too_long_is_not_kept) {
  const auto worker = work(adding_options({.max_history_size = 10}));
  start(adding(), "a");
  trickle(*worker, "a", 20);
  EXPECT_EQ(metric(*worker, "strand_orchestration_cache_size_current"), 0);
  EXPECT_GT(evictions(*worker, "size"), 5);
  EXPECT_GT(misses(*worker), 5);
  send("a", 0);
  EXPECT_EQ(ended("a").result, sum_of(20));
}

TEST_F(InstancesInMemory, An_instance_that_is_refused_is_not_kept) {
  std::atomic<int> salt = 0;
  const WorkflowType<int()> type{"salty", [&salt](Workflow& wf) -> Task<int> {
                                   while (true) {
                                     co_await wf.event<int>("n");
                                     wf.send("out", ++salt);
                                   }
                                 }};
  WorkflowWorkerOptions with = options({type}, {});
  with.cache.audit_one_in = 2;
  const auto worker = work(std::move(with));
  start(type, "a");
  worker->wait_idle();
  ASSERT_TRUE(workflows().send_event("a", "n", 1));
  worker->wait_idle();
  EXPECT_FALSE(info("a").parked);  // the first hit is not looked at
  ASSERT_TRUE(workflows().send_event("a", "n", 1));
  ASSERT_TRUE(comes_true([&] { return info("a").parked.has_value(); }));
  EXPECT_EQ(evictions(*worker, "error"), 1);
  EXPECT_EQ(metric(*worker, "strand_workflow_nondeterminism_total"), 1);
  worker->wait_idle();
  EXPECT_EQ(metric(*worker, "strand_orchestration_cache_size_current"), 0);
}

TEST_F(InstancesInMemory, Code_that_was_replaced_meanwhile_goes_on_where_the_old_one_stood) {
  const auto version = [](bool is_new) {
    return WorkflowType<std::string()>{"changing", [is_new](Workflow& wf) -> Task<std::string> {
                                         std::string seen;
                                         for (int i = 0; i < 6; ++i) {
                                           seen += co_await wf.event<std::string>("say");
                                           if (is_new && i >= 3 && wf.patched("loud")) seen += "!";
                                         }
                                         co_return seen;
                                       }};
  };
  const auto old_type = version(false);
  const auto new_type = version(true);
  const auto say = [&](WorkflowWorker& worker, const char* what) {
    ASSERT_TRUE(workflows().send_event("a", "say", std::string(what)));
    worker.wait_idle();
  };
  auto old_worker = work(options({old_type}, {}));
  start(old_type, "a");
  for (const char* what : {"a", "b", "c"})
    say(*old_worker, what);
  old_worker->stop();
  const auto new_worker = work(options({new_type}, {}));
  for (const char* what : {"d", "e", "f"})
    say(*new_worker, what);
  EXPECT_EQ(ended("a").result, "abcd!e!f!");
  EXPECT_EQ(misses(*new_worker), 1);
}

// --- Always the same result ---

TEST_F(InstancesInMemory, Eviction_in_the_middle_of_a_burst_does_no_harm) {
  InstanceCacheOptions cache{.max_instances = 2};
  cache.audit_one_in = 3;
  const auto worker = work(adding_options(cache));
  constexpr int instances = 10;
  constexpr int count = 40;
  for (int i = 0; i < instances; ++i)
    start(adding(), "i" + std::to_string(i));
  for (int n = 1; n <= count; ++n) {
    for (int i = 0; i < instances; ++i)
      send("i" + std::to_string((i * n) % instances), 1);
    for (int i = 0; i < instances; ++i)
      send("i" + std::to_string(i), n);
  }
  for (int i = 0; i < instances; ++i) {
    send("i" + std::to_string(i), 0);
    EXPECT_TRUE(ended("i" + std::to_string(i))
                    .result.starts_with(std::to_string(count +
                                                       [&] {
                                                         int more = 0;
                                                         for (int n = 1; n <= count; ++n)
                                                           for (int k = 0; k < instances; ++k)
                                                             more +=
                                                                 (k * n) % instances == i ? 1 : 0;
                                                         return more;
                                                       }()) +
                                        ":"));
  }
  EXPECT_EQ(metric(*worker, "strand_workflow_nondeterminism_total"), 0);
}

// Two workers that let go at once, clocks that jump, leases that are taken away: whoever gets an
// instance goes on where the last commit left it.
TEST_F(InstancesInMemory, Workers_that_fight_for_instances_yield_what_one_would) {
  InstanceCacheOptions cache{
      .idle_timeout = 1s, .extended_lock_timeout = 3s, .unleased_timeout = 1h, .max_instances = 4};
  cache.audit_one_in = 2;
  const auto one = work(adding_options(cache));
  const auto two = work(adding_options(cache));
  constexpr int instances = 5;
  constexpr int count = 120;
  for (int i = 0; i < instances; ++i)
    start(adding(), "i" + std::to_string(i));
  std::mt19937 random(7);
  for (int n = 1; n <= count; ++n) {
    for (int i = 0; i < instances; ++i)
      send("i" + std::to_string(i), n);
    if (n % 3 == 0) clock_->advance(Duration{random() % 3000});
    if (n % 5 == 0) one->wait_idle();
    if (n % 40 == 0) clock_->advance(1min);
    if (n % 7 == 0) {
      // Somebody looks at it, and leaves it as it was.
      const std::string id = "i" + std::to_string(random() % instances);
      auto mine = Answer(store_->lease({.queue = "workflow", .key = id, .seize = true})).value();
      Transaction end;
      end.settles = {Settle{.token = mine.front().token}};
      ASSERT_TRUE(store_->apply(end));
    }
  }
  for (int i = 0; i < instances; ++i)
    send("i" + std::to_string(i), 0);
  for (int i = 0; i < instances; ++i) {
    const std::string id = "i" + std::to_string(i);
    ASSERT_TRUE(comes_true([&] {
      clock_->advance(1s);  // a turn that was lost may have to be tried again
      return has_ended(info(id).state);
    })) << id;
    EXPECT_EQ(ended(id).result, sum_of(count)) << id;
  }
  EXPECT_EQ(metric(*one, "strand_workflow_nondeterminism_total") +
                metric(*two, "strand_workflow_nondeterminism_total"),
            0);
  EXPECT_GT(hits(*one) + hits(*two), 0);
}

// --- Coalescing ---

TEST_F(InstancesInMemory, A_long_history_is_replayed_once_for_what_comes_within_a_moment) {
  {
    const auto worker = work(adding_options());
    start(adding(), "a");
    trickle(*worker, "a", 120);
  }
  WorkflowWorkerOptions with = options({adding()}, {});
  const auto worker = work(std::move(with));
  send("a", 121);
  ASSERT_TRUE(comes_true([&] { return stats("workflow").leased == 1; }));
  send("a", 122);
  send("a", 123);
  clock_->advance(100ms);
  ASSERT_TRUE(comes_true([&] { return info("a").status == "123"; }));
  EXPECT_EQ(misses(*worker), 1);
  EXPECT_EQ(metric(*worker, "strand_workflow_turns_total"), 1);
  EXPECT_EQ(metric(*worker, "strand_orchestration_coalesce_batches_total"), 1);
  EXPECT_EQ(metric(*worker, "strand_orchestration_coalesce_messages_per_batch"), 1);
  EXPECT_EQ(metric(*worker, "strand_orchestration_coalesce_wait_duration_seconds"), 1);
  // Now it is in memory, and nobody waits.
  send("a", 124);
  ASSERT_TRUE(comes_true([&] { return info("a").status == "124"; }));
  EXPECT_EQ(metric(*worker, "strand_orchestration_coalesce_batches_total"), 1);
  send("a", 0);
  EXPECT_EQ(ended("a").result, sum_of(124));
}

TEST_F(InstancesInMemory, A_short_history_waits_for_nobody) {
  {
    const auto worker = work(adding_options());
    start(adding(), "a");
    trickle(*worker, "a", 5);
  }
  const auto worker = work(options({adding()}, {}));
  send("a", 6);
  ASSERT_TRUE(comes_true([&] { return info("a").status == "6"; }));
  EXPECT_EQ(misses(*worker), 1);
  EXPECT_EQ(metric(*worker, "strand_orchestration_coalesce_batches_total"), 0);
}

TEST_F(InstancesInMemory, If_it_is_wanted_those_in_memory_wait_too) {
  WorkflowWorkerOptions with = options({adding()}, {});
  with.coalesce.coalesce_on_hit = true;
  const auto worker = work(std::move(with));
  start(adding(), "a");
  send("a", 1);
  // With the start, or gathered after it.
  ASSERT_TRUE(comes_true([&] {
    clock_->advance(10ms);
    return info("a").status == "1";
  }));
  ASSERT_TRUE(comes_true([&] { return stats("workflow").leased == 0; }));
  const double before = metric(*worker, "strand_orchestration_coalesce_batches_total");
  send("a", 2);
  ASSERT_TRUE(comes_true([&] { return stats("workflow").leased == 1; }));
  send("a", 3);
  clock_->advance(100ms);
  ASSERT_TRUE(comes_true([&] { return info("a").status == "3"; }));
  EXPECT_EQ(metric(*worker, "strand_orchestration_coalesce_batches_total"), before + 1);
}

// --- Options ---

TEST_F(InstancesInMemory, Options_that_make_no_sense_are_refused) {
  const auto refusal = [&](auto change) {
    WorkflowWorkerOptions wrong = options({adding()}, {});
    change(wrong);
    const auto worker = WorkflowWorker::start(*store_, wrong);
    return worker ? std::string("started") : worker.error().message;
  };
  using Options = WorkflowWorkerOptions;
  EXPECT_EQ(refusal([](Options& o) { o.cache.extended_lock_timeout = 9s; }),
            "the instance cache has an extended_lock_timeout of 9s, which must not be below its "
            "idle_timeout of 10s");
  EXPECT_EQ(refusal([](Options& o) { o.cache.idle_timeout = 0s; }),
            "the instance cache needs an idle_timeout of more than nothing");
  EXPECT_EQ(refusal([](Options& o) { o.cache.unleased_timeout = -1s; }),
            "the instance cache has a negative unleased_timeout");
  EXPECT_EQ(refusal([](Options& o) { o.cache.max_instances = 0; }),
            "the instance cache needs max_instances of at least 1; or do not enable it");
  EXPECT_EQ(refusal([](Options& o) { o.coalesce.max_batch_size = 0; }),
            "coalescing needs a coalesce_window and a max_batch_size; or do not enable it");
  EXPECT_EQ(refusal([](Options& o) {
              o.cache.enabled = false;
              o.cache.max_instances = 0;
            }),
            "started");
}

}  // namespace
}  // namespace strand::workflow_tests
