#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <strand/activity.h>
#include <strand/checkpoint.h>
#include <strand/consumer.h>
#include <strand/instance_cache.h>
#include <strand/metrics.h>
#include <strand/routing.h>
#include <strand/store.h>
#include <strand/workflow.h>

namespace strand {

// A kind of workflow, or an activity, without its types: made of them by itself.
struct AnyWorkflow {
  template <class Signature>  // NOLINTNEXTLINE(google-explicit-constructor)
  AnyWorkflow(const WorkflowType<Signature>& type) : definition(type.definition()) {}
  std::shared_ptr<const workflow::WorkflowDefinition> definition;
};
struct AnyActivity {
  template <class Signature>  // NOLINTNEXTLINE(google-explicit-constructor)
  AnyActivity(const Activity<Signature>& activity) : definition(activity.definition()) {}
  std::shared_ptr<const workflow::ActivityDefinition> definition;
};

struct WorkflowWorkerOptions {
  std::vector<AnyWorkflow> workflows = {};
  std::vector<AnyActivity> activities = {};

  std::string queue = "workflow";  // of the instances
  // Where activities wait that this worker shall do, besides the queues that they name themselves.
  std::vector<std::string> activity_queues = {};
  // Only what is labelled so; "" stands for what has no label.
  std::vector<std::string> activity_labels = {""};

  std::uint32_t turn_workers = 2;      // turns at the same time
  std::uint32_t activity_workers = 4;  // activities at the same time
  // A worker that died is noticed after so long. Renewed while it lives.
  Duration turn_lease = std::chrono::seconds{15};
  Duration activity_lease = std::chrono::seconds{15};

  InstanceCacheOptions cache = {};
  CoalesceOptions coalesce = {};
  RoutingOptions routing = {};
  CheckpointPolicy checkpoints = {};

  // Replays every turn once more and compares all decisions: a test of the code, at twice the
  // price.
  bool verify = false;
  std::string owner = {};  // its name among all workers; none: one is made up

  std::function<void(const ConsumerTrouble&)> on_trouble = {};
  std::shared_ptr<Clock> clock = {};  // none: the system's. With a manual one, as the store's
};

// Runs workflows and activities: those that it knows. Others are left to other workers.
//
// Threads:    turn_workers and activity_workers of its own, and some more; every method may be
// called
//             from any thread but an activity's.
// Durability: a turn is one transaction; what it decided begins when that is durable.
// Failure:    a turn that cannot be committed is run again. One whose code differs from its history
//             parks its instance; so does one that kills its worker again and again.
class WorkflowWorker {
 public:
  // `store` must outlive the worker. Workflows or activities without a function, twice the same, or
  // none at all are `invalid_argument`.
  static Result<std::unique_ptr<WorkflowWorker>> start(Store& store, WorkflowWorkerOptions options);
  // stop().
  ~WorkflowWorker();
  WorkflowWorker(const WorkflowWorker&) = delete;
  WorkflowWorker& operator=(const WorkflowWorker&) = delete;

  // Waits until nothing is ready and nothing runs; what sleeps is not waited for.
  void wait_idle();
  // Lets turns and activities that run finish. Returns when that is done.
  void stop();
  // The same, but after `patience` activities are told to stop.
  bool stop(Duration patience);

  // What it has done so far, for those who show it.
  [[nodiscard]] std::vector<Metric> metrics() const;

 private:
  class Parts;
  explicit WorkflowWorker(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace strand
