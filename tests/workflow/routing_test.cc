// Which worker an instance goes to, when several could have it.

#include "workflow/routing.h"

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include <gmock/gmock.h>

#include "workflow/records.h"
#include "workflow/worker_fixture.h"

namespace strand::workflow_tests {
namespace {

using workflow::choose_worker;
using workflow::Router;

std::vector<std::string> names(int count) {
  std::vector<std::string> result;
  for (int i = 0; i < count; ++i)
    result.push_back("worker-" + std::to_string(i));
  return result;
}

TEST(Rendezvous, Shares_are_about_equal_and_only_the_share_of_one_who_goes_moves) {
  constexpr int ids = 4000;
  const auto four = names(4);
  auto three = four;
  three.erase(three.begin() + 1);
  std::map<std::string, int> shares;
  int moved = 0;
  for (int i = 0; i < ids; ++i) {
    const std::string id = "order-" + std::to_string(i);
    const std::string before = *choose_worker(four, id);
    const std::string after = *choose_worker(three, id);
    ++shares[before];
    if (before != "worker-1") EXPECT_EQ(after, before);
    moved += before != after ? 1 : 0;
  }
  for (const auto& [name, share] : shares)
    EXPECT_NEAR(share, ids / 4.0, ids / 20.0) << name;
  EXPECT_EQ(moved, shares["worker-1"]);
  EXPECT_EQ(choose_worker({}, "x"), nullptr);
}

class Routers : public Workers {
 protected:
  std::unique_ptr<Router> router(const std::string& owner, RoutingOptions options) {
    auto result =
        std::make_unique<Router>(*hooked_, options, InstanceCacheOptions{}, owner, clock_);
    result->start();
    return result;
  }
  void await_workers(const Router& router, const std::vector<std::string>& expected) {
    EXPECT_TRUE(comes_true([&] {
      auto known = router.workers();
      std::ranges::sort(known);
      return known == expected;
    })) << testing::PrintToString(router.workers());
  }
  // Until none is kept any more.
  void end_leases() {
    ASSERT_TRUE(comes_true([&] {
      clock_->advance(5s);
      return stats("workflow").leases == 0;
    }));
  }
};

TEST_F(Routers, Workers_know_each_other_until_one_falls_silent) {
  const RoutingOptions hashing{.strategy = Routing::consistent_hash, .heartbeat = 3s};
  const auto a = router("a", hashing);
  auto b = router("b", hashing);
  auto c = router("c", hashing);
  clock_->advance(3s);
  await_workers(*a, {"a", "b", "c"});
  await_workers(*b, {"a", "b", "c"});
  b.reset();  // says that it goes
  clock_->advance(3s);
  await_workers(*a, {"a", "c"});
  await_workers(*c, {"a", "c"});
  // One that was killed says nothing.
  Transaction ghost;
  ghost.records.push_back(workflow::put_record(
      workflow::workers_space, "ghost", std::to_string(store_->now().time_since_epoch().count())));
  ASSERT_TRUE(store_->apply(ghost));
  clock_->advance(3s);
  await_workers(*a, {"a", "c", "ghost"});
  // Step by step: the others must have the time to say that they live.
  clock_->advance(3s);
  await_workers(*c, {"a", "c", "ghost"});
  clock_->advance(3s);
  await_workers(*c, {"a", "c"});
}

TEST_F(Routers, The_hint_is_what_the_strategy_says) {
  const auto hint = [&](RoutingOptions options, bool in_memory) {
    return router("me", options)->hint_for("x", in_memory);
  };
  EXPECT_FALSE(hint({.strategy = Routing::none}, true));
  const auto affinity = hint({.strategy = Routing::affinity, .max_age = 7s, .grace = 200ms}, false);
  EXPECT_EQ(affinity->owner, "me");
  EXPECT_EQ(affinity->valid_for, 7s);
  EXPECT_EQ(affinity->grace, 200ms);
  EXPECT_EQ(hint({.strategy = Routing::cache_aware}, true)->valid_for, 5min + 10s);
  EXPECT_EQ(hint({.strategy = Routing::cache_aware}, false)->valid_for, 0s);
  EXPECT_EQ(hint({.strategy = Routing::consistent_hash}, false)->owner, "me");
  const auto automatic = router("me", {});
  EXPECT_FALSE(automatic->hint_for("x", true));
  automatic->note_moved();
  EXPECT_EQ(automatic->hint_for("x", true)->valid_for, 5min + 10s);
  EXPECT_EQ(automatic->hint_for("x", false)->valid_for, 0s);
}

// --- With workers ---

const WorkflowType<int()>& counting() {
  static const WorkflowType<int()> type{"counting", [](Workflow& wf) -> Task<int> {
                                          for (int count = 1;; ++count) {
                                            const int n = co_await wf.event<int>("n");
                                            if (n == 0) co_return count;
                                            wf.set_status(std::to_string(count));
                                          }
                                        }};
  return type;
}

// A clock that jumps must not end leases that are about to be given back, nor make a worker look
// dead that is about to say that it lives.
constexpr Duration long_lease = 24h;
constexpr Duration long_heartbeat = 24h;

class RoutedWorkers : public Routers, public testing::WithParamInterface<Routing> {
 protected:
  std::unique_ptr<WorkflowWorker> routed(const std::string& owner) {
    WorkflowWorkerOptions with = options({counting()}, {});
    with.owner = owner;
    with.routing = {
        .strategy = GetParam(), .max_age = 5min, .grace = 1s, .heartbeat = long_heartbeat};
    with.turn_lease = long_lease;
    return work(std::move(with));
  }
  // They get to know each other.
  void meet() {
    if (GetParam() != Routing::consistent_hash) return;
    clock_->advance(long_heartbeat);
    const std::string now = std::to_string(store_->now().time_since_epoch().count());
    ASSERT_TRUE(comes_true([&] {
      const auto all = store_->records({.space = std::string(workflow::workers_space)}).value();
      return std::ranges::all_of(all.items, [&](const Record& one) { return one.value == now; });
    }));
  }
};

// Messages that come when no lease is kept any more: the worker that has the instance gets them.
TEST_P(RoutedWorkers, An_instance_goes_back_to_the_worker_that_has_it) {
  const auto one = routed("one");
  const auto two = routed("two");
  constexpr int instances = 8;
  constexpr int rounds = 6;
  meet();
  for (int i = 0; i < instances; ++i)
    start(counting(), "i" + std::to_string(i));
  for (int n = 1; n <= rounds; ++n) {
    for (int i = 0; i < instances; ++i) {
      const std::string id = "i" + std::to_string(i);
      ASSERT_TRUE(workflows().send_event(id, "n", 1));
      ASSERT_TRUE(comes_true([&] { return info(id).status == std::to_string(n); })) << id;
    }
    end_leases();
  }
  const double hits = metric(*one, "strand_orchestration_cache_hits_total") +
                      metric(*two, "strand_orchestration_cache_hits_total");
  const double misses = metric(*one, "strand_orchestration_cache_misses_total") +
                        metric(*two, "strand_orchestration_cache_misses_total");
  // The first turns may be anywhere, and one more to find home.
  EXPECT_GE(hits, instances * (rounds - 3)) << misses;
  EXPECT_LE(misses, instances * 2);
}

TEST_P(RoutedWorkers, What_a_worker_leaves_behind_goes_on_elsewhere_within_the_grace) {
  auto one = routed("one");
  start(counting(), "a");
  ASSERT_TRUE(workflows().send_event("a", "n", 1));
  ASSERT_TRUE(comes_true([&] { return info("a").status == "1"; }));
  end_leases();
  one.reset();
  const auto two = routed("two");
  ASSERT_TRUE(workflows().send_event("a", "n", 1));
  // Nobody else asks for it: it waits for the one that is gone, and not longer.
  two->wait_idle();
  clock_->advance(1s);
  ASSERT_TRUE(comes_true([&] { return info("a").status == "2"; }));
}

INSTANTIATE_TEST_SUITE_P(Strategies, RoutedWorkers,
                         testing::Values(Routing::affinity, Routing::cache_aware,
                                         Routing::consistent_hash),
                         [](const auto& info) {
                           switch (info.param) {
                             case Routing::affinity:
                               return "affinity";
                             case Routing::cache_aware:
                               return "cache_aware";
                             default:
                               return "consistent_hash";
                           }
                         });

// Finds nothing while it is deaf.
class DeafStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<std::vector<Lease>> lease(const LeaseRequest& request) override {
    const std::lock_guard lock(mutex_);
    if (deaf_) return failure(Errc::unavailable, "it is deaf");
    return behind().lease(request);
  }
  // Waits for a call that is running.
  void set_deaf(bool deaf) {
    const std::lock_guard lock(mutex_);
    deaf_ = deaf;
  }

 private:
  std::mutex mutex_;
  bool deaf_ = false;
};

class AutomaticRouting : public Routers {
 protected:
  WorkflowWorkerOptions named(const std::string& owner) {
    WorkflowWorkerOptions with = options({counting()}, {});
    with.owner = owner;
    with.routing.grace = 1s;
    with.turn_lease = long_lease;
    return with;
  }
  // An event, and the turn of it.
  void count_to(int number) {
    ASSERT_TRUE(workflows().send_event("a", "n", 1));
    ASSERT_TRUE(comes_true([&] { return info("a").status == std::to_string(number); }));
  }

  DeafStore ear_{*store_};  // of the first
};

// A worker that is alone would only make those wait who come after it.
TEST_F(AutomaticRouting, Hints_begin_when_another_worker_has_run_what_was_in_memory) {
  const auto first = Answer(WorkflowWorker::start(ear_, named("first"))).value();
  start(counting(), "a");
  count_to(1);
  end_leases();
  ear_.set_deaf(true);
  {
    const auto second = work(named("second"));
    count_to(2);  // at once, without a hint that is in its way
  }
  ear_.set_deaf(false);
  count_to(3);
  EXPECT_EQ(metric(*first, "strand_routing_lanes_moved_total"), 1);
  end_leases();

  ear_.set_deaf(true);
  const auto third = work(named("third"));
  ASSERT_TRUE(workflows().send_event("a", "n", 1));
  third->wait_idle();
  EXPECT_EQ(info("a").status, "3") << "the lane waits for the first";
  clock_->advance(1s);
  EXPECT_TRUE(comes_true([&] { return info("a").status == "4"; }));
}

// What it keeps it gives back when it stops, and nobody has to wait for it.
TEST_F(Routers, A_worker_that_stops_leaves_no_hints_on_the_lanes_that_it_kept) {
  WorkflowWorkerOptions with = options({counting()}, {});
  with.routing = {.strategy = Routing::cache_aware, .grace = 1s};
  auto one = work(with);
  start(counting(), "a");
  ASSERT_TRUE(workflows().send_event("a", "n", 1));
  ASSERT_TRUE(comes_true([&] { return info("a").status == "1"; }));
  one->wait_idle();
  one.reset();
  ASSERT_TRUE(workflows().send_event("a", "n", 1));
  const auto two = work(with);
  EXPECT_TRUE(comes_true([&] { return info("a").status == "2"; })) << "without any time passing";
}

// The lease is waited for, and then nobody: the dead were waited for long enough.
TEST_F(Routers, A_lane_whose_holder_dies_does_not_wait_for_the_lease_and_the_grace) {
  std::atomic<bool> dead = false;
  const auto silence = [&]() -> std::optional<Error> {
    if (!dead) return std::nullopt;
    return Error{Errc::unavailable, "it is dead"};
  };
  hooked_->before_apply = [silence](std::span<const Transaction>) { return silence(); };
  hooked_->before_renew = silence;
  hooked_->before_lease = silence;
  WorkflowWorkerOptions with = options({counting()}, {});
  with.routing = {.strategy = Routing::cache_aware, .grace = 1s};
  const auto one = work(with);
  start(counting(), "a");
  // Twice: the first time the hint could be there from nobody.
  for (const char* status : {"1", "2"}) {
    ASSERT_TRUE(workflows().send_event("a", "n", 1));
    ASSERT_TRUE(comes_true([&] { return info("a").status == status; }));
  }
  one->wait_idle();
  ASSERT_EQ(stats("workflow").leases, 1);
  dead = true;
  ASSERT_TRUE(workflows().send_event("a", "n", 1));
  const auto leases = [&] { return store_->lease({.queue = "workflow", .owner = "two"}).value(); };
  EXPECT_TRUE(leases().empty());
  clock_->advance(15s);
  EXPECT_EQ(leases().size(), 1U);
}

TEST_F(Routers, Options_that_make_no_sense_are_refused) {
  const auto refusal = [&](RoutingOptions routing) {
    WorkflowWorkerOptions wrong = options({counting()}, {});
    wrong.routing = routing;
    const auto worker = WorkflowWorker::start(*store_, wrong);
    return worker ? std::string("started") : worker.error().message;
  };
  EXPECT_EQ(refusal({.grace = 2s}),
            "routing has a grace of 2s; a lane waits for its owner for 1s at most");
  EXPECT_EQ(refusal({.heartbeat = 0s}),
            "routing needs a grace, a max_age and a heartbeat of more than nothing");
}

}  // namespace
}  // namespace strand::workflow_tests
