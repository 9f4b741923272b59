#include "workflow/fixture.h"

#include <atomic>
#include <stdexcept>

#include <unistd.h>

namespace strand {

void PrintTo(InstanceState state, std::ostream* out) { *out << to_string(state); }
void PrintTo(EventKind kind, std::ostream* out) { *out << to_string(kind); }
void PrintTo(SagaStatus status, std::ostream* out) { *out << to_string(status); }
void PrintTo(StepStatus status, std::ostream* out) { *out << to_string(status); }
void PrintTo(WorkflowError::Kind kind, std::ostream* out) { *out << to_string(kind); }

namespace workflow_tests {

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const conformance::StoreUnderTest& store : conformance::stores_under_test()) {
    // Lost answers are a matter of the store alone.
    if (store.name == "badly_served") continue;
    all.push_back({.name = store.name, .mode = Mode::normal, .store = store});
    if (store.name != "memory") continue;
    all.push_back({.name = "memory_replayed", .mode = Mode::always_replay, .store = store});
    all.push_back({.name = "memory_cached", .mode = Mode::cached, .store = store});
    all.push_back({.name = "memory_crashing", .mode = Mode::crash_every_turn, .store = store});
  }
  return all;
}

std::vector<Way> quick_ways() {
  std::vector<Way> all = ways();
  std::erase_if(all, [](const Way& way) {
    return way.store.name == "rocksdb" || way.store.name == "postgres" ||
           way.store.name == "served";
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ways, WorkflowFeature, ::testing::ValuesIn(ways()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Ways, WorkflowDetail, ::testing::ValuesIn(quick_ways()),
                         [](const auto& info) { return info.param.name; });
// With one store named, there may be no quick way.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(WorkflowDetail);

void WorkflowFeature::SetUp() {
  static std::atomic<std::uint64_t> count{0};
  const conformance::StoreUnderTest& store = GetParam().store;
  url_ = store.name == "memory"
             ? "memory:"
             : store.url("workflow-" + std::to_string(::getpid()) + "-" + std::to_string(++count));
  env_ = std::make_unique<WorkflowTest>(mode(), [this](std::shared_ptr<Clock> clock) {
    OpenOptions options;
    options.clock = std::move(clock);
    options.cache_bytes = std::size_t{4} << 20U;
    return Answer(GetParam().store.open(url_, options)).value();
  });
}

void WorkflowFeature::TearDown() {
  if (env_ && !HasFailure()) {
    for (const QueueInfo& queue : Answer(store().queues()).value()) {
      const QueueStats all = stats(queue.name);
      EXPECT_EQ(all.accepted, all.acked + all.expired + all.dropped + all.moved + all.purged +
                                  all.dead + all.live())
          << queue.name;
    }
  }
  env_.reset();
  if (GetParam().store.remove && !url_.empty()) GetParam().store.remove(url_);
}

Ended WorkflowFeature::ended(const std::string& id, std::source_location where) {
  const auto found = Answer(workflows().wait(id, Duration{0})).value(where);
  if (!found) throw conformance::CannotGoOn("instance " + id + " has not ended", where);
  return *found;
}

InstanceInfo WorkflowFeature::info(const std::string& id, std::source_location where) {
  return Answer(workflows().get(id)).value(where);
}

std::vector<HistoryEvent> WorkflowFeature::history(const std::string& id, std::uint64_t execution,
                                                   std::source_location where) {
  return Answer(workflows().history(id, execution, 0, 10'000)).value(where).events;
}

std::vector<EventKind> WorkflowFeature::kinds(const std::string& id, std::uint64_t execution,
                                              std::source_location where) {
  std::vector<EventKind> result;
  for (const HistoryEvent& event : history(id, execution, where))
    result.push_back(event.kind);
  return result;
}

std::size_t WorkflowFeature::count(const std::string& id, EventKind kind) {
  return static_cast<std::size_t>(std::ranges::count(kinds(id), kind));
}

std::string WorkflowFeature::shown(const std::string& id, const std::string& key) {
  return Answer(workflows().state(id, key)).value().value_or("none");
}

std::vector<PeekedMessage> WorkflowFeature::waiting(const std::string& queue) {
  return Answer(store().peek({.queue = queue, .limit = 10'000})).value().items;
}

conformance::Bodies WorkflowFeature::bodies_in(const std::string& queue) {
  return conformance::bodies(waiting(queue));
}

QueueStats WorkflowFeature::stats(const std::string& queue) {
  return Answer(store().stats(queue)).value();
}

const Activity<int()> never_done{
    "never_done",
    []() -> int { throw std::runtime_error("not now"); },
    {.queue = "nobody", .retry = {.attempts = 20, .first = 24h * 1'000, .max = 24h * 1'000}}};

std::string said(const WorkflowError& error) {
  return std::string(to_string(error.kind())) + ": " + error.what();
}

}  // namespace workflow_tests
}  // namespace strand
