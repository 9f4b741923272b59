#include "cli/bench/cache_bench.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <strand/workflow_worker.h>
#include <strand/workflows.h>

#include "cli/bench/bench_place.h"
#include "cli/bench/listening.h"
#include "cli/bench/measure.h"
#include "queue/forwarding_store.h"

namespace strand::cli {

namespace {

using namespace std::chrono_literals;

// Counts what is read from a store.
class MeteredStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  Result<std::vector<Lease>> lease(const LeaseRequest& request) override {
    auto leases = behind().lease(request);
    for (const Lease& one : leases ? *leases : std::vector<Lease>{}) {
      add(one.messages);
      if (one.history) add(one.history->events);
    }
    return leases;
  }
  Result<Pulled> pull(const Token& token, Cursor cursor, PullLimits limits) override {
    auto pulled = behind().pull(token, cursor, limits);
    if (pulled) add(pulled->messages);
    return pulled;
  }
  Result<History> history(const HistoryQuery& query) override {
    auto history = behind().history(query);
    if (history) add(history->events);
    return history;
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  void add(const std::vector<Message>& messages) {
    for (const Message& message : messages) {
      bytes_ += message.body.size();
      for (const Header& header : message.headers)
        bytes_ += header.name.size() + header.value.size();
    }
  }
  void add(const std::vector<Bytes>& events) {
    for (const Bytes& event : events)
      bytes_ += event.size();
  }
  std::atomic<std::uint64_t> bytes_ = 0;
};

// A store in which somebody has worked already, and a place for workers to come.
class Stage {
 public:
  static Result<std::unique_ptr<Stage>> make(const CacheBenchOptions& options) {
    auto stage = std::unique_ptr<Stage>(new Stage);
    auto place = BenchPlace::find({.store = options.store,
                                   .memory_filesystem = options.memory_filesystem,
                                   .keep = options.keep});
    if (!place) return std::unexpected(place.error());
    stage->place_ = *std::move(place);
    auto store = stage->place_->open();
    if (!store) return std::unexpected(store.error());
    stage->store_ = *std::move(store);
    stage->metered_ = std::make_unique<MeteredStore>(*stage->store_);
    auto workflows = Workflows::open(*stage->store_);
    if (!workflows) return std::unexpected(workflows.error());
    stage->workflows_.emplace(*std::move(workflows));
    return stage;
  }

  Result<std::unique_ptr<WorkflowWorker>> worker(InstanceCacheOptions cache,
                                                 CoalesceOptions coalesce = {}) {
    WorkflowWorkerOptions working;
    working.workflows = {listening(), remembering()};
    working.cache = cache;
    working.coalesce = coalesce;
    if (!checkpoints) working.checkpoints.when = {.every_events = {}, .every_bytes = {}};
    return WorkflowWorker::start(*metered_, std::move(working));
  }

  // With that many events.
  Result<void> prepare(const std::string& id, std::uint64_t history,
                       const WorkflowType<int()>& type = listening()) {
    if (auto started = workflows_->start(type, id); !started) {
      return std::unexpected(started.error());
    }
    if (history > 1) {
      if (auto sent = send_words(*workflows_, id, history - 1); !sent) return sent;
    }
    auto working = worker({});
    if (!working) return std::unexpected(working.error());
    (*working)->wait_idle();
    return {};
  }

  // Sends one message and waits for its turn. How long that took.
  Result<double> send_one(WorkflowWorker& worker, const std::string& id) {
    const auto began = Stopwatch::now();
    if (auto sent = workflows_->send_event(id, "word", std::string("hello")); !sent) {
      return std::unexpected(sent.error());
    }
    worker.wait_idle();
    return seconds_since(began);
  }

  // Whether they are taken where the code offers them.
  bool checkpoints = true;
  [[nodiscard]] MeteredStore& store() { return *metered_; }
  [[nodiscard]] Workflows& workflows() { return *workflows_; }

 private:
  Stage() = default;
  std::unique_ptr<BenchPlace> place_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<MeteredStore> metered_;
  std::optional<Workflows> workflows_;
};

Result<TrickleReport::Way> trickle(const CacheBenchOptions& options, Stage& stage,
                                   InstanceCacheOptions cache, CoalesceOptions coalesce) {
  const std::uint64_t read_before = stage.store().bytes();
  auto worker = stage.worker(cache, coalesce);
  if (!worker) return std::unexpected(worker.error());
  Samples samples;
  for (std::uint64_t i = 0; i < options.messages; ++i) {
    if (i > 0) std::this_thread::sleep_for(options.spacing);
    const auto took = stage.send_one(**worker, "one");
    if (!took) return std::unexpected(took.error());
    samples.add(*took);
  }
  return TrickleReport::Way{
      .replayed_events = count_of(**worker, "strand_workflow_replayed_events_total"),
      .turns = count_of(**worker, "strand_workflow_turns_total"),
      .bytes_read = stage.store().bytes() - read_before,
      .latency_ms = samples.percentiles()};
}

Result<TrickleReport::Way> trickle_with_cache(const CacheBenchOptions& options, bool on) {
  const auto stage = Stage::make(options);
  if (!stage) return std::unexpected(stage.error());
  if (auto done = (*stage)->prepare("one", options.history); !done) {
    return std::unexpected(done.error());
  }
  return trickle(options, **stage, {.enabled = on}, {.enabled = on});
}

Result<TrickleReport::Way> trickle_with_checkpoints(const CacheBenchOptions& options, bool on) {
  const auto stage = Stage::make(options);
  if (!stage) return std::unexpected(stage.error());
  (*stage)->checkpoints = on;
  if (auto done = (*stage)->prepare("one", options.history, remembering()); !done) {
    return std::unexpected(done.error());
  }
  return trickle(options, **stage, {.enabled = false}, {.enabled = false});
}

}  // namespace

Result<TrickleReport> bench_trickle(const CacheBenchOptions& options, const Progress& progress) {
  TrickleReport report;
  progress("without instances in memory");
  auto off = trickle_with_cache(options, false);
  if (!off) return std::unexpected(off.error());
  report.off = *off;
  progress("with instances in memory");
  auto on = trickle_with_cache(options, true);
  if (!on) return std::unexpected(on.error());
  report.on = *on;
  return report;
}

Result<TrickleReport> bench_checkpoint(const CacheBenchOptions& options, const Progress& progress) {
  TrickleReport report;
  progress("without checkpoints");
  auto off = trickle_with_checkpoints(options, false);
  if (!off) return std::unexpected(off.error());
  report.off = *off;
  progress("with checkpoints");
  auto on = trickle_with_checkpoints(options, true);
  if (!on) return std::unexpected(on.error());
  report.on = *on;
  return report;
}

Result<CachedTurnReport> bench_cached_turn(const CacheBenchOptions& options,
                                           const Progress& progress) {
  const auto stage = Stage::make(options);
  if (!stage) return std::unexpected(stage.error());
  struct Side {
    std::string id;
    std::uint64_t history = 0;
    double bytes = 0;
    Samples turn = {};
    Samples latency = {};
  };
  std::vector<Side> sides(2);
  sides[0] = {.id = "brief", .history = 10};
  sides[1] = {.id = "lengthy", .history = options.history};
  for (const Side& side : sides) {
    progress(fmt::format("an instance with {} events", side.history));
    if (auto done = (*stage)->prepare(side.id, side.history); !done) {
      return std::unexpected(done.error());
    }
  }
  auto worker = (*stage)->worker({.max_history_size = 10'000'000}, {.enabled = false});
  if (!worker) return std::unexpected(worker.error());
  for (const Side& side : sides) {
    if (auto first = (*stage)->send_one(**worker, side.id); !first) {
      return std::unexpected(first.error());
    }
  }
  progress("turns, in turns");
  const auto seconds_of_turns = [&] {
    for (const Metric& metric : (*worker)->metrics()) {
      if (metric.name == "strand_workflow_turn_duration_seconds") return metric.distribution.sum;
    }
    return 0.0;
  };
  for (std::uint64_t i = 0; i < options.messages; ++i) {
    for (Side& side : sides) {
      const std::uint64_t bytes_before = (*stage)->store().bytes();
      const double before = seconds_of_turns();
      const auto took = (*stage)->send_one(**worker, side.id);
      if (!took) return std::unexpected(took.error());
      side.latency.add(*took);
      side.turn.add(seconds_of_turns() - before);
      side.bytes += static_cast<double>((*stage)->store().bytes() - bytes_before);
    }
  }
  const auto way = [&](Side& side) {
    const Percentiles turn_ms = side.turn.percentiles();
    return CachedTurnReport::Way{
        .history = side.history,
        .bytes_read = side.bytes / static_cast<double>(options.messages),
        .turn_us = {.p50 = turn_ms.p50 * 1e3, .p99 = turn_ms.p99 * 1e3, .p999 = turn_ms.p999 * 1e3},
        .latency_ms = side.latency.percentiles()};
  };
  return CachedTurnReport{.brief = way(sides[0]), .lengthy = way(sides[1])};
}

Result<LiveReport> bench_live(const CacheBenchOptions& options, const Progress& progress) {
  const auto stage = Stage::make(options);
  if (!stage) return std::unexpected(stage.error());
  LiveReport report;
  InstanceCacheOptions cache;
  cache.max_instances = options.cached;
  report.max_memory = static_cast<double>(cache.max_memory);
  Workflows& workflows = (*stage)->workflows();
  auto worker = (*stage)->worker(cache);
  if (!worker) return std::unexpected(worker.error());
  const auto id = [](std::uint64_t i) { return fmt::format("i{}", i); };
  for (std::uint64_t i = 0; i < options.instances; ++i) {
    if (auto started = workflows.start(listening(), id(i)); !started) {
      return std::unexpected(started.error());
    }
    if (i % 1000 == 0) progress(fmt::format("{} of {} instances", i, options.instances));
  }
  (*worker)->wait_idle();

  const auto measure = [&](std::uint64_t among) -> Result<LiveReport::Way> {
    LiveReport::Way way;
    const auto hits = [&] { return value_of(**worker, "strand_orchestration_cache_hits_total"); };
    const auto misses = [&] {
      return value_of(**worker, "strand_orchestration_cache_misses_total");
    };
    const double hits_before = hits();
    const double misses_before = misses();
    std::mt19937_64 random(among);
    const auto handled = [&] { return value_of(**worker, "strand_workflow_events_total"); };
    const double handled_before = handled();
    std::uint64_t sent = 0;
    const auto begin = Stopwatch::now();
    while (Stopwatch::now() < begin + options.duration) {
      way.bytes_max =
          std::max(way.bytes_max, value_of(**worker, "strand_orchestration_cache_bytes_current"));
      constexpr std::uint64_t at_once = 200;
      constexpr double under_way_max = 4000;
      if (static_cast<double>(sent) - (handled() - handled_before) > under_way_max) {
        std::this_thread::sleep_for(1ms);
        continue;
      }
      Transaction transaction;
      transaction.durability = Durability::async;
      for (std::uint64_t i = 0; i < at_once; ++i)
        add_word(transaction, id(random() % among));
      if (auto done = workflows.store().apply(transaction); !done) {
        return std::unexpected(done.error());
      }
      sent += at_once;
    }
    way.messages_per_s = (handled() - handled_before) / seconds_since(begin);
    (*worker)->wait_idle();
    const double all = hits() - hits_before + misses() - misses_before;
    way.hit_rate = all > 0 ? (hits() - hits_before) / all : 0;
    return way;
  };
  progress(fmt::format("messages for {} of them", options.cached / 2));
  // Once to bring them into memory.
  if (auto warm = measure(options.cached / 2); !warm) return std::unexpected(warm.error());
  auto few = measure(options.cached / 2);
  if (!few) return std::unexpected(few.error());
  report.few = *few;
  progress("messages for all of them");
  auto many = measure(options.instances);
  if (!many) return std::unexpected(many.error());
  report.many = *many;
  progress("messages for all of them, with nothing in memory");
  (*worker)->stop();
  worker = (*stage)->worker({.enabled = false});
  if (!worker) return std::unexpected(worker.error());
  auto off = measure(options.instances);
  if (!off) return std::unexpected(off.error());
  report.off = *off;
  report.rss_mb = rss_mb();
  return report;
}

}  // namespace strand::cli
