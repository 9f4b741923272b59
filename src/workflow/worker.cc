#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <strand/workflow_worker.h>
#include <strand/workflows.h>

#include "base/planted.h"
#include "workflow/activity_runner.h"
#include "workflow/counts.h"
#include "workflow/turn.h"
#include "workflow/wire.h"

namespace strand {

using workflow::ActivityRunner;
using workflow::Counts;
using workflow::Turns;

// A consumer of the instances' queue, whose handler runs turns, and one of the activities' queues.
class WorkflowWorker::Parts {
 public:
  Parts(Store& store, WorkflowWorkerOptions options, workflow::Registry registry,
        ActivityRunner::Activities activities)
      : store_(store),
        options_(std::move(options)),
        turns_(store, std::move(registry), {.queue = options_.queue, .verify = options_.verify}),
        runner_(store, activities, options_.clock, counts_),
        activities_(std::move(activities)) {}

  Result<void> start() {
    // Activities first: turns have work for them.
    if (!activities_.empty()) {
      auto consumer = Consumer::start(store_, activity_options(),
                                      [this](Work& work) { return runner_.handle(work); });
      if (!consumer) return std::unexpected(consumer.error());
      activity_consumer_ = *std::move(consumer);
    }
    if (!turns_.registry().empty()) {
      auto consumer =
          Consumer::start(store_, turn_options(), [this](Work& work) { return turn(work); });
      if (!consumer) return std::unexpected(consumer.error());
      turn_consumer_ = *std::move(consumer);
    }
    return {};
  }

  // Each has work for the other.
  void wait_idle() {
    const auto handled = [&] {
      std::uint64_t sum = 0;
      for (const auto* consumer : {turn_consumer_.get(), activity_consumer_.get()}) {
        if (consumer != nullptr) sum += consumer->stats().batches;
      }
      return sum;
    };
    for (std::uint64_t before = 0, after = handled() + 1; before != after; after = handled()) {
      before = handled();
      if (turn_consumer_) turn_consumer_->wait_idle();
      if (activity_consumer_) activity_consumer_->wait_idle();
      if (turn_consumer_) turn_consumer_->wait_idle();
    }
  }

  bool stop(std::optional<Duration> patience) {
    bool patient = true;
    const auto end = [&](std::unique_ptr<Consumer>& consumer) {
      if (!consumer) return;
      if (patience) {
        patient = consumer->stop(*patience) && patient;
      } else {
        consumer->stop();
      }
    };
    end(turn_consumer_);
    end(activity_consumer_);
    return patient;
  }

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  [[nodiscard]] ConsumerOptions common() const {
    ConsumerOptions options;
    options.owner = options_.owner;
    options.on_trouble = options_.on_trouble;
    options.clock = options_.clock;
    return options;
  }

  [[nodiscard]] ConsumerOptions turn_options() const {
    ConsumerOptions options = common();
    options.queues = {options_.queue};
    options.workers = options_.turn_workers;
    options.lease = options_.turn_lease;
    options.history = true;
    options.batch_messages = 1000;
    for (const auto& [label, definition] : turns_.registry())
      options.labels.push_back(label);
    return options;
  }

  [[nodiscard]] ConsumerOptions activity_options() const {
    ConsumerOptions options = common();
    options.workers = options_.activity_workers;
    options.lease = options_.activity_lease;
    std::set<std::string> queues(options_.activity_queues.begin(), options_.activity_queues.end());
    for (const auto& [name, definition] : activities_) {
      queues.insert(definition->options.queue);
      for (const std::string& label : options_.activity_labels)
        options.labels.push_back(workflow::wire::activity_label(name, label));
    }
    options.queues.assign(queues.begin(), queues.end());
    return options;
  }

  Result<History> history_of(const Work& work) {
    const Lease& lease = work.lease();
    if (work.first_of_lease() && lease.history) return *lease.history;
    History whole;
    while (true) {
      auto page = store_.history({.queue = lease.queue,
                                  .key = *lease.key,
                                  .execution = whole.execution.number,
                                  .from = whole.events.size()});
      if (!page && page.error().code == Errc::not_found) return History{};
      if (!page) return page;
      if (whole.events.empty()) {
        whole = *std::move(page);
      } else {
        std::ranges::move(page->events, std::back_inserter(whole.events));
      }
      if (whole.events.size() >= whole.execution.length) return whole;
    }
  }

  Verdict turn(Work& work) {
    if (!work.key()) return Verdict::dead("a message without a key is for no instance");
    const auto began = std::chrono::steady_clock::now();
    const auto history = history_of(work);
    if (!history) return Verdict::retry(history.error().message);
    auto result = turns_.run(work.lease(), work.messages(), *history);
    if (!result) return Verdict::retry(result.error().message);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    counts_.turn_seconds.add(took.count());
    count(result->report);
    if (result->refused) {
      ++counts_.parked;
      return Verdict::park(*result->refused);
    }
    work.transaction() = std::move(result->transaction);
    for (const Message& message : work.messages()) {
      if (std::ranges::find(result->left, message.id) != result->left.end()) {
        work.decide(message, Verdict::release());
      }
    }
    for (const auto& [id, reason] : result->dead) {
      const auto message = std::ranges::find(work.messages(), id, &Message::id);
      work.decide(*message, Verdict::dead(reason));
    }
    if (result->label) work.set_label(*std::move(result->label));
    if (result->park) {
      ++counts_.parked;
      work.park_lane(*std::move(result->park));
    }
    return Verdict::ok();
  }

  void count(const workflow::TurnReport& report) {
    ++counts_.turns;
    counts_.replayed_events += report.replayed_events;
    counts_.new_events += report.new_events;
    counts_.history_events.add(static_cast<double>(report.history_length));
    if (report.opened) ++counts_.started;
    if (report.differs) ++counts_.nondeterminism;
    if (!report.ended) return;
    switch (*report.ended) {
      case EventKind::completed:
        ++counts_.completed;
        break;
      case EventKind::failed:
        ++counts_.failed;
        break;
      case EventKind::cancelled:
        ++counts_.cancelled;
        break;
      case EventKind::terminated:
        ++counts_.terminated;
        break;
      case EventKind::timed_out:
        ++counts_.timed_out;
        break;
      default:
        ++counts_.continued;
        break;
    }
  }

  Store& store_;
  const WorkflowWorkerOptions options_;
  Counts counts_;
  const Turns turns_;
  ActivityRunner runner_;
  const ActivityRunner::Activities activities_;
  std::unique_ptr<Consumer> activity_consumer_;
  std::unique_ptr<Consumer> turn_consumer_;
};

namespace {

std::unexpected<Error> refuse(std::string message) {
  return failure(Errc::invalid_argument, std::move(message));
}

Result<workflow::Registry> to_registry(const std::vector<AnyWorkflow>& workflows) {
  workflow::Registry registry;
  for (const AnyWorkflow& any : workflows) {
    const workflow::WorkflowDefinition& definition = *any.definition;
    if (auto fine = workflow::check_name(definition.name); !fine) {
      return std::unexpected(fine.error());
    }
    if (!definition.run) {
      return refuse(fmt::format("workflow {} has no function, so this worker cannot run it",
                                definition.label()));
    }
    if (!registry.emplace(definition.label(), any.definition).second) {
      return refuse(fmt::format("workflow {} is there twice; give one of them another version",
                                definition.label()));
    }
  }
  return registry;
}

Result<ActivityRunner::Activities> to_activities(const std::vector<AnyActivity>& activities) {
  ActivityRunner::Activities result;
  for (const AnyActivity& any : activities) {
    const workflow::ActivityDefinition& definition = *any.definition;
    if (auto fine = workflow::check_name(definition.name); !fine) {
      return std::unexpected(fine.error());
    }
    if (!definition.run) {
      return refuse(fmt::format("activity '{}' has no function, so this worker cannot do it",
                                definition.name));
    }
    if (!result.emplace(definition.name, any.definition).second) {
      return refuse(fmt::format("activity '{}' is there twice", definition.name));
    }
  }
  return result;
}

}  // namespace

Result<std::unique_ptr<WorkflowWorker>> WorkflowWorker::start(Store& store,
                                                              WorkflowWorkerOptions options) {
  auto registry = to_registry(options.workflows);
  if (!registry) return std::unexpected(std::move(registry.error()));
  auto activities = to_activities(options.activities);
  if (!activities) return std::unexpected(std::move(activities.error()));
  if (registry->empty() && activities->empty()) {
    return refuse("a worker needs a workflow or an activity");
  }
  if (!options.clock) options.clock = system_clock();
  if (auto opened = Workflows::open(store, {.queue = options.queue}); !opened) {
    return std::unexpected(std::move(opened.error()));
  }
  auto parts = std::make_unique<Parts>(store, std::move(options), *std::move(registry),
                                       *std::move(activities));
  if (auto started = parts->start(); !started) return std::unexpected(std::move(started.error()));
  return std::unique_ptr<WorkflowWorker>(new WorkflowWorker(std::move(parts)));
}

WorkflowWorker::WorkflowWorker(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
WorkflowWorker::~WorkflowWorker() { parts_->stop(std::nullopt); }
void WorkflowWorker::wait_idle() { parts_->wait_idle(); }
void WorkflowWorker::stop() { parts_->stop(std::nullopt); }
bool WorkflowWorker::stop(Duration patience) { return parts_->stop(patience); }

std::vector<Metric> WorkflowWorker::metrics() const {
  return workflow::to_metrics(parts_->counts());
}

}  // namespace strand
