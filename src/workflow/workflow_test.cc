#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <strand/workflow_test.h>

#include "workflow/activity_runner.h"
#include "workflow/due_store.h"
#include "workflow/instance_cache.h"
#include "workflow/turn.h"
#include "workflow/wire.h"

namespace strand {

using namespace workflow;

namespace {

// A failure here is one of the test itself.
template <class T>
T must(Result<T> result, std::string_view what) {
  if (!result) throw std::runtime_error(fmt::format("{}: {}", what, result.error().message));
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

std::unique_ptr<Store> open_in_memory(std::shared_ptr<Clock> clock) {
  OpenOptions options;
  options.clock = std::move(clock);
  return must(open("memory:", options), "a store in memory");
}

// What an activity of a test sees.
class TestContext final : public ActivityContext {
 public:
  TestContext(const Message& message, std::map<std::string, Bytes>& progress)
      : message_(message),
        activity_(wire::header(message.headers, wire::activity_header)),
        instance_(wire::header(message.headers, wire::instance_header)),
        call_(wire::header(message.headers, wire::call_header)),
        progress_(progress) {}
  [[nodiscard]] const std::string& activity() const override { return activity_; }
  [[nodiscard]] const std::string& instance() const override { return instance_; }
  [[nodiscard]] std::string idempotency_key() const override { return call_; }
  [[nodiscard]] std::uint32_t attempt() const override { return message_.attempts + 1; }
  [[nodiscard]] std::stop_token stop_token() const override { return {}; }
  bool heartbeat() override { return true; }

 protected:
  bool heartbeat_with(Bytes progress) override {
    progress_[call_] = std::move(progress);
    return true;
  }
  std::optional<Bytes> kept_progress() override {
    const auto found = progress_.find(call_);
    if (found == progress_.end()) return std::nullopt;
    return found->second;
  }

 private:
  const Message& message_;
  const std::string activity_;
  const std::string instance_;
  const std::string call_;
  std::map<std::string, Bytes>& progress_;
};

}  // namespace

struct WorkflowTest::Parts {
  explicit Parts(std::unique_ptr<Store> behind)
      : store(std::move(behind)),
        workflows(must(Workflows::open(store), "the queue of instances")) {}

  [[nodiscard]] std::optional<Lease> lease(LeaseRequest request) {
    request.lanes = 1;
    request.lease = std::chrono::hours{1};
    auto leases = store.lease(request);
    if (!leases && leases.error().code == Errc::not_found) return std::nullopt;
    auto granted = must(std::move(leases), "a lease");
    if (granted.empty()) return std::nullopt;
    return std::move(granted.front());
  }

  DueStore store;
  Workflows workflows;
  Registry registry;
  ActivityRunner::Activities activities;
  CheckpointPolicy checkpoints;
  std::map<std::string, Bytes> progress;
  InstanceCache residents{{.idle_timeout = Duration::max() / 4,
                           .unleased_timeout = Duration::max() / 4,
                           .max_instances = 1'000'000,
                           .max_memory = std::size_t{1} << 30U},
                          system_clock()};
};

WorkflowTest::WorkflowTest(Mode mode, const OpenStore& store)
    : mode_(mode),
      parts_(std::make_unique<Parts>(store ? store(clock_) : open_in_memory(clock_))) {}
WorkflowTest::~WorkflowTest() = default;

void WorkflowTest::add(const AnyWorkflow& workflow) {
  parts_->registry[workflow.definition->label()] = workflow.definition;
  parts_->residents.clear();  // other code comes with another process
}

void WorkflowTest::add(const AnyActivity& activity) {
  parts_->activities[activity.definition->name] = activity.definition;
}

void WorkflowTest::set_checkpoints(const CheckpointPolicy& policy) { parts_->checkpoints = policy; }

Workflows& WorkflowTest::workflows() { return parts_->workflows; }
Store& WorkflowTest::store() { return parts_->store; }
Time WorkflowTest::now() { return parts_->store.now(); }

bool WorkflowTest::step() { return run_turn() || run_activity(); }

void WorkflowTest::run() {
  while (true) {
    while (step()) {
    }
    const auto next = parts_->store.next(now());
    if (!next) return;
    clock_->advance(*next - now());
  }
}

void WorkflowTest::run_for(Duration duration) {
  const Time end = now() + duration;
  while (true) {
    while (step()) {
    }
    const auto next = parts_->store.next(now());
    if (!next || *next > end) break;
    clock_->advance(*next - now());
  }
  if (now() < end) clock_->advance(end - now());
  while (step()) {
  }
}

bool WorkflowTest::run_turn() {
  if (parts_->registry.empty()) return false;
  LeaseRequest request{.queue = parts_->workflows.queue()};
  for (const auto& [label, definition] : parts_->registry)
    request.labels.push_back(label);
  request.history_from = 0;
  auto lease = parts_->lease(request);
  if (!lease) return false;
  const bool verify = mode_ == Mode::always_replay || mode_ == Mode::cached;
  const Turns turns(parts_->store, parts_->registry,
                    {.verify = verify, .checkpoints = parts_->checkpoints});
  const auto run = [&] {
    auto resident = parts_->residents.take(*lease->key);
    if (resident && is_current(*resident, *lease, true)) {
      return must(turns.go_on(*lease, lease->messages, std::move(resident->instance), false),
                  "a turn");
    }
    return must(turns.run(*lease, lease->messages, lease->history.value_or(History{})), "a turn");
  };
  TurnResult result = run();
  Transaction transaction = settle_turn(result, *lease);
  if (mode_ == Mode::crash_every_turn) {
    LeaseRequest again = request;
    again.labels.clear();
    again.key = lease->key;
    again.seize = true;
    lease = parts_->lease(again);
    if (!lease) throw std::runtime_error("the lane of a turn that was lost is gone");
    // The one that was lost may still try.
    const auto late = parts_->store.apply(transaction);
    if (late || late.error().code != Errc::lease_lost) {
      throw std::runtime_error("a turn without a lease was committed");
    }
    result = run();
    transaction = settle_turn(result, *lease);
  }
  must(parts_->store.apply(transaction), "the commit of a turn");
  if (mode_ == Mode::cached && result.instance) {
    parts_->residents.put(*lease->key,
                          std::make_unique<Resident>(std::move(result.instance), lease->token));
  }
  ++turns_;
  return true;
}

bool WorkflowTest::run_activity() {
  std::set<std::string> queues{ActivityOptions{}.queue};
  for (const auto& [name, definition] : parts_->activities)
    queues.insert(definition->options.queue);
  for (const QueueInfo& info : must(parts_->store.queues(), "the queues")) {
    if (info.name != parts_->workflows.queue()) queues.insert(info.name);
  }
  for (const std::string& queue : queues) {
    LeaseRequest request{.queue = queue};
    // With any label: who does it is another question than what it does.
    auto lease = parts_->lease(request);
    if (!lease) continue;
    const Message& message = lease->messages.front();
    const auto name = std::string(wire::header(message.headers, wire::activity_header));
    const auto found = parts_->activities.find(name);
    Transaction transaction;
    Settle& settle = transaction.settles.emplace_back();
    settle.token = lease->token;
    if (found == parts_->activities.end() || !found->second->run) {
      // Nobody here does it: out of the way, where the test can find it.
      if (name.empty()) {
        settle.outcomes.push_back({.id = message.id, .kind = Outcome::Kind::release});
        must(parts_->store.apply(transaction), "a message given back");
        continue;
      }
      throw std::runtime_error(
          fmt::format("activity '{}' was called, and the test has no function for it; add or mock "
                      "it",
                      name));
    }
    ++attempts_;
    tried_.push_back(name);
    Outcome& outcome = settle.outcomes.emplace_back(Outcome{.id = message.id});
    AttemptFailure failure;
    try {
      TestContext context(message, parts_->progress);
      add_result(message, found->second->run(context, message.body), transaction);
      must(parts_->store.apply(transaction), "the result of an activity");
      return true;
    } catch (const ActivityTimesOut&) {
      failure = {.kind = WorkflowError::Kind::timed_out,
                 .type = "timeout",
                 .text = "the attempt took longer than it was given"};
    } catch (const ApplicationError& error) {
      failure = {.type = error.type(),
                 .text = error.what(),
                 .details = error.details(),
                 .final = error.is_final()};
    } catch (const std::exception& error) {
      failure = {.type = "exception", .text = error.what()};
    }
    if (const auto wait = next_attempt_in(message, failure)) {
      outcome.kind = Outcome::Kind::retry;
      outcome.delay = *wait;
      outcome.reason = failure.text;
    } else {
      add_error(message, failure, transaction);
    }
    must(parts_->store.apply(transaction), "the failure of an activity");
    return true;
  }
  return false;
}

}  // namespace strand
