#pragma once

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <strand/workflow_worker.h>
#include <strand/workflows.h>

#include "queue/consumer_fixture.h"
#include "queue/hooked_store.h"
#include "workflow/fixture.h"

namespace strand::workflow_tests {

// Longer than anything takes on a machine that has much else to do.
inline constexpr auto patience = std::chrono::seconds{20};

// Opens a gate when a test ends, however it does: what waits behind it must not hold up its worker.
// Declared behind the worker.
class OpenAtEnd {
 public:
  explicit OpenAtEnd(Gate& gate) : gate_(gate) {}
  OpenAtEnd(const OpenAtEnd&) = delete;
  OpenAtEnd& operator=(const OpenAtEnd&) = delete;
  ~OpenAtEnd() { gate_.open(); }

 private:
  Gate& gate_;
};

// False: it took too long.
template <class Condition>
[[nodiscard]] bool comes_true(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// Workers with threads, on a store in memory under a manual clock. What depends on threads waits
// for what they write down, never for a while.
class Workers : public ::testing::Test {
 protected:
  Workers() {
    OpenOptions options;
    options.clock = clock_;
    store_ = open("memory:", options).value();
    hooked_ = std::make_unique<HookedStore>(*store_);
    hooked_->after_renew = [this](Duration length) {
      if (length == std::chrono::seconds{10}) renewals_.add(1);
    };
    workflows_ = std::make_unique<Workflows>(Workflows::open(*store_).value());
  }

  [[nodiscard]] WorkflowWorkerOptions options(std::vector<AnyWorkflow> workflows,
                                              std::vector<AnyActivity> activities) const {
    WorkflowWorkerOptions result;
    result.workflows = std::move(workflows);
    result.activities = std::move(activities);
    result.clock = clock_;
    return result;
  }
  std::unique_ptr<WorkflowWorker> work(std::vector<AnyWorkflow> workflows,
                                       std::vector<AnyActivity> activities) {
    return work(options(std::move(workflows), std::move(activities)));
  }
  std::unique_ptr<WorkflowWorker> work(WorkflowWorkerOptions with) {
    return Answer(WorkflowWorker::start(*hooked_, std::move(with))).value();
  }

  Workflows& workflows() { return *workflows_; }
  template <class R>
  void start(const WorkflowType<R()>& type, const std::string& id, StartOptions with = {}) {
    Answer(workflows_->start(type, id, with)).value();
  }
  // Waits for the end, in real time.
  Ended ended(const std::string& id) {
    const auto end = Answer(workflows_->wait(id, patience)).value();
    if (!end) throw std::runtime_error("instance " + id + " has not ended");
    return *end;
  }
  InstanceInfo info(const std::string& id) { return Answer(workflows_->get(id)).value(); }
  QueueStats stats(const std::string& queue) { return store_->stats(queue).value(); }
  // Lets time pass, step by step and never while the worker is at work, until something is so.
  template <class Condition>
  void advance_until(WorkflowWorker& worker, Duration step, Condition condition) {
    for (int i = 0; i < 1'000; ++i) {
      worker.wait_idle();
      if (condition()) return;
      clock_->advance(step);
    }
    ADD_FAILURE() << "it does not happen";
  }

  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  std::unique_ptr<Store> store_;
  std::unique_ptr<HookedStore> hooked_;  // what workers see of it
  Notes<int> renewals_;                  // of attempts with a heartbeat of ten seconds
  std::unique_ptr<Workflows> workflows_;
};

// The value of a counter, over all its labels or with one of them.
double metric(const WorkflowWorker& worker, const std::string& name,
              const std::string& outcome = {});

}  // namespace strand::workflow_tests
