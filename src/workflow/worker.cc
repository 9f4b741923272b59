#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <strand/workflow_worker.h>
#include <strand/workflows.h>

#include "base/planted.h"
#include "workflow/activity_runner.h"
#include "workflow/counts.h"
#include "workflow/instance_cache.h"
#include "workflow/routing.h"
#include "workflow/stored_history.h"
#include "workflow/turn.h"
#include "workflow/wire.h"

namespace strand {

using workflow::ActivityRunner;
using workflow::Counts;
using workflow::is_whole;
using workflow::Resident;
using workflow::TurnResult;
using workflow::Turns;
using Eviction = workflow::InstanceCache::Eviction;

// A consumer of the instances' queue, whose handler runs turns, and one of the activities' queues.
class WorkflowWorker::Parts {
 public:
  Parts(Store& store, WorkflowWorkerOptions options, workflow::Registry registry,
        ActivityRunner::Activities activities)
      : store_(store),
        options_(std::move(options)),
        cache_(options_.cache, options_.clock),
        router_(store, options_.routing, options_.cache, options_.owner, options_.clock),
        turns_(store, std::move(registry),
               {.verify = options_.verify, .checkpoints = options_.checkpoints}),
        runner_(store, activities, options_.clock, counts_),
        activities_(std::move(activities)) {}

  Result<void> start() {
    if (!turns_.registry().empty()) router_.start();
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
      consumer_of_turns_ = turn_consumer_.get();
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
    router_.stop();
    cache_.clear();
    return patient;
  }

  [[nodiscard]] std::vector<Metric> metrics() const { return to_metrics(counts_, cache_); }

 private:
  [[nodiscard]] ConsumerOptions common() const {
    ConsumerOptions options;
    options.owner = options_.owner;
    options.on_trouble = options_.on_trouble;
    options.clock = options_.clock;
    return options;
  }

  [[nodiscard]] ConsumerOptions turn_options() {
    ConsumerOptions options = common();
    options.queues = {options_.queue};
    options.workers = options_.turn_workers;
    options.lease = options_.turn_lease;
    options.history = true;
    // Enough for those that are short, and to see whether what is in memory is true.
    options.history_limit = brief_history;
    options.batch_messages = 1000;
    for (const auto& [label, definition] : turns_.registry())
      options.labels.push_back(label);
    const InstanceCacheOptions& cache = options_.cache;
    if (cache.enabled) {
      options.keep = KeepLanes{.idle = cache.idle_timeout,
                               .total = cache.extended_lock_timeout,
                               .lanes_max = cache.max_instances};
    }
    const CoalesceOptions& coalesce = options_.coalesce;
    if (coalesce.enabled) {
      options.coalesce = Coalesce{.window = coalesce.coalesce_window,
                                  .messages = coalesce.max_batch_size,
                                  .worth = [this](const Lease& lease) { return waits(lease); },
                                  .kept_lanes = coalesce.coalesce_on_hit};
    }
    return options;
  }

  // Whether a replay is so long that more messages for it are worth some time.
  [[nodiscard]] bool waits(const Lease& lease) {
    if (!lease.history || lease.history->execution.outcome) return false;
    const Execution& execution = lease.history->execution;
    if (execution.length - execution.first < options_.coalesce.min_history_for_coalesce) {
      return false;
    }
    return options_.coalesce.coalesce_on_hit || !cache_.has(lease);
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

  // So many events are brought by a lease.
  static constexpr std::size_t brief_history = 32;

  // Runs a turn with what is in memory, or with what is stored.
  Result<TurnResult> run_turn(const Work& work) {
    const Lease& lease = work.lease();
    auto resident = cache_.take(*lease.key);
    if (resident && !is_current(*resident, lease, work.first_of_lease())) {
      cache_.count(Eviction::lease);
      ++counts_.lanes_moved;
      if (ran_elsewhere(*resident, lease)) router_.note_moved();
      resident.reset();
    }
    if (resident) {
      const std::uint64_t hit = ++counts_.cache_hits;
      ++counts_.served_by_owner;
      counts_.events_saved += resident->instance->replay_length();
      const std::uint32_t audit = options_.cache.audit_one_in;
      auto result = turns_.go_on(lease, work.messages(), std::move(resident->instance),
                                 audit > 0 && hit % audit == 0);
      if (!result || result->refused) cache_.count(Eviction::error);
      return result;
    }
    const bool brought = work.first_of_lease() && lease.history;
    const bool whole = brought && is_whole(*lease.history);
    auto result = [&]() -> Result<TurnResult> {
      if (whole) return turns_.run(lease, work.messages(), *lease.history);
      const auto history = workflow::read_to_replay(store_, lease.queue, *lease.key,
                                                    brought ? &*lease.history : nullptr);
      if (!history) return std::unexpected(history.error());
      return turns_.run(lease, work.messages(), *history);
    }();
    if (result && result->report.replayed_events > 0) {
      ++counts_.cache_misses;
      ++counts_.served_by_other;
    }
    return result;
  }

  // An instance on its way back to the cache: when its turn is committed, and not otherwise.
  class Returning {
   public:
    Returning(Parts& parts, std::string id, std::unique_ptr<Resident> resident)
        : parts_(&parts), id_(std::move(id)), resident_(std::move(resident)) {}
    Returning(Returning&&) = default;
    Returning& operator=(Returning&&) = delete;
    ~Returning() {
      if (resident_) parts_->cache_.count(Eviction::lease);
    }
    void operator()() {
      const auto gone = parts_->cache_.put(id_, std::move(resident_));
      Consumer* const consumer = parts_->consumer_of_turns_;
      for (const std::string& id : gone) {
        if (consumer != nullptr) consumer->let_go(parts_->options_.queue, id);
      }
    }

   private:
    Parts* parts_;
    std::string id_;
    std::unique_ptr<Resident> resident_;
  };

  // Whether the instance stays in memory, if its turn is committed.
  bool keep(Work& work, TurnResult& result) {
    if (!options_.cache.enabled || !result.instance) return false;
    if (!result.left.empty()) return false;  // has decided so much that the rest comes again
    if (!cache_.accepts(*result.instance)) return false;
    // A short history comes with the next lease, and is replayed sooner than it is kept in order.
    const bool keeps_lane = work.keep_lane();
    if (!keeps_lane && result.instance->replay_length() <= brief_history) return false;
    auto resident = std::make_unique<Resident>(std::move(result.instance), work.lease().token);
    work.when_committed(Returning(*this, *work.key(), std::move(resident)));
    return true;
  }

  Verdict turn(Work& work) {
    if (!work.key()) return Verdict::dead("a message without a key is for no instance");
    const auto began = std::chrono::steady_clock::now();
    if (const auto waited = work.gathered()) {
      ++counts_.coalesced_batches;
      counts_.coalesced_messages.add(static_cast<double>(work.messages().size()));
      counts_.coalesced_seconds.add(std::chrono::duration<double>(*waited).count());
    }
    auto result = run_turn(work);
    if (!result) return Verdict::retry(result.error().message);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    counts_.turn_seconds.add(took.count());
    count(result->report);
    if (result->refused) {
      ++counts_.parked;
      return Verdict::park(*result->refused);
    }
    const bool runs_on = result->instance != nullptr;
    const bool kept = keep(work, *result);
    if (runs_on) {
      if (auto hint = router_.hint_for(*work.key(), kept)) work.hint_owner(*std::move(hint));
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
    counts_.checkpoints += report.checkpoints;
    counts_.unreadable_checkpoints += report.unreadable_checkpoints;
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
  workflow::InstanceCache cache_;
  workflow::Router router_;
  const Turns turns_;
  ActivityRunner runner_;
  const ActivityRunner::Activities activities_;
  std::unique_ptr<Consumer> activity_consumer_;
  std::unique_ptr<Consumer> turn_consumer_;
  std::atomic<Consumer*> consumer_of_turns_ = nullptr;  // handlers may run before it is known
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

Result<void> check(const InstanceCacheOptions& cache, const CoalesceOptions& coalesce) {
  if (cache.enabled) {
    if (cache.idle_timeout <= Duration{0}) {
      return refuse("the instance cache needs an idle_timeout of more than nothing");
    }
    if (cache.extended_lock_timeout < cache.idle_timeout) {
      return refuse(fmt::format(
          "the instance cache has an extended_lock_timeout of {}, which must "
          "not be below its idle_timeout of {}",
          format_duration(cache.extended_lock_timeout), format_duration(cache.idle_timeout)));
    }
    if (cache.unleased_timeout < Duration{0}) {
      return refuse("the instance cache has a negative unleased_timeout");
    }
    if (cache.max_instances == 0) {
      return refuse("the instance cache needs max_instances of at least 1; or do not enable it");
    }
  }
  if (coalesce.enabled &&
      (coalesce.coalesce_window <= Duration{0} || coalesce.max_batch_size == 0)) {
    return refuse("coalescing needs a coalesce_window and a max_batch_size; or do not enable it");
  }
  return {};
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
  if (auto fine = check(options.cache, options.coalesce); !fine) {
    return std::unexpected(std::move(fine.error()));
  }
  if (options.routing.grace <= Duration{0} || options.routing.max_age <= Duration{0} ||
      options.routing.heartbeat <= Duration{0}) {
    return refuse("routing needs a grace, a max_age and a heartbeat of more than nothing");
  }
  if (options.routing.grace > Limits{}.owner_grace_max) {
    return refuse(fmt::format(
        "routing has a grace of {}; a lane waits for its owner for {} at most",
        format_duration(options.routing.grace), format_duration(Limits{}.owner_grace_max)));
  }
  if (!options.clock) options.clock = system_clock();
  if (options.owner.empty()) options.owner = "worker-" + workflow::random_name();
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

std::vector<Metric> WorkflowWorker::metrics() const { return parts_->metrics(); }

}  // namespace strand
