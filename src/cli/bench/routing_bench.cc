#include "cli/bench/routing_bench.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <strand/workflows.h>

#include "base/text.h"
#include "cli/bench/bench_place.h"
#include "cli/bench/listening.h"
#include "cli/bench/measure.h"
#include "store/url.h"
#include "workflow/records.h"

namespace strand::cli {

namespace {

using namespace std::chrono_literals;

// Nothing that goes on at all takes longer.
constexpr auto patience = 30s;

// --- Instances, as those see them who send to them ---

class Crowd {
 public:
  Crowd(Workflows workflows, std::uint64_t count) : workflows_(std::move(workflows)), all_(count) {}

  // Starts them, with so many events each.
  Result<void> start(std::uint64_t history) {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      One& one = all_[i];
      one.id = fmt::format("listener-{}", i);
      one.watch = workflows_.store().watch(
          WatchRecord{std::string(workflow::instances_space), one.id}, [this, &one] {
            const std::lock_guard lock(mutex_);
            one.told = Stopwatch::now();
            told_.notify_one();
          });
      if (auto started = workflows_.start(listening(), one.id); !started) {
        return std::unexpected(started.error());
      }
      if (auto sent = send_words(workflows_, one.id, history - 1); !sent) return sent;
      one.wanted = history - 1;
      one.sent = Stopwatch::now();
    }
    return wait_for_all();
  }

  // To each so many, the next one `spacing` after the turn of the last.
  Result<Samples> trickle(std::uint64_t messages, Duration spacing) {
    Samples samples;
    const auto begin = Stopwatch::now();
    for (std::size_t i = 0; i < all_.size(); ++i) {
      all_[i].left = messages;
      // All over the time, so that no lease finds many of them.
      all_[i].due =
          begin + spacing * static_cast<std::int64_t>(i) / static_cast<std::int64_t>(all_.size());
    }
    while (true) {
      if (auto looked = look(&samples, spacing); !looked) return std::unexpected(looked.error());
      One* next = nullptr;
      for (One& one : all_) {
        if (one.waits() || one.left == 0) continue;
        if (next == nullptr || one.due < next->due) next = &one;
      }
      if (next == nullptr && std::ranges::none_of(all_, &One::waits)) return samples;
      if (next != nullptr && next->due <= Stopwatch::now()) {
        if (auto sent = send(*next); !sent) return std::unexpected(sent.error());
      } else if (auto told = wait(next == nullptr ? Stopwatch::now() + 1s : next->due); !told) {
        return std::unexpected(told.error());
      }
    }
  }

  // To all of them at once.
  Result<void> send_to_all() {
    Transaction transaction;
    for (const One& one : all_)
      add_word(transaction, one.id);
    const auto now = Stopwatch::now();
    if (auto sent = workflows_.store().apply(transaction); !sent) {
      return std::unexpected(sent.error());
    }
    for (One& one : all_) {
      ++one.wanted;
      one.sent = now;
    }
    return {};
  }

  Result<void> wait_for_all() {
    while (true) {
      if (auto looked = look(nullptr, Duration{0}); !looked) return looked;
      if (std::ranges::none_of(all_, &One::waits)) return {};
      if (auto told = wait(Stopwatch::now() + 1s); !told) return told;
    }
  }

 private:
  struct One {
    std::string id = {};
    std::uint64_t wanted = 0;  // events that it was sent
    std::uint64_t seen = 0;    // and has taken
    std::uint64_t left = 0;    // to be sent
    Stopwatch::time_point sent = {};
    Stopwatch::time_point due = {};
    std::optional<Stopwatch::time_point> told = {};  // when its record changed, if nobody looked
    Watch watch = {};

    [[nodiscard]] bool waits() const { return seen < wanted; }
  };

  Result<void> send(One& one) {
    one.sent = Stopwatch::now();
    ++one.wanted;
    --one.left;
    if (auto sent = workflows_.send_event(one.id, "word", std::string("hello")); !sent) {
      return std::unexpected(sent.error());
    }
    return {};
  }

  // Reads the records that have changed.
  Result<void> look(Samples* samples, Duration spacing) {
    for (One& one : all_) {
      std::optional<Stopwatch::time_point> told;
      {
        const std::lock_guard lock(mutex_);
        told = std::exchange(one.told, std::nullopt);
      }
      if (!told) continue;
      const auto record = workflows_.store().record(workflow::instances_space, one.id);
      if (!record) return std::unexpected(record.error());
      if (!*record) continue;
      const auto read = workflow::decode_record(one.id, (*record)->value);
      if (!read) return std::unexpected(read.error());
      const bool waited = one.waits();
      one.seen = read->status.empty() ? 0 : std::stoull(read->status);
      if (!waited || one.waits()) continue;
      one.due = *told + spacing;
      if (samples != nullptr) samples->add(std::chrono::duration<double>(*told - one.sent).count());
    }
    return {};
  }

  // Until something has changed, or `until`.
  Result<void> wait(Stopwatch::time_point until) {
    std::unique_lock lock(mutex_);
    const auto changed = [&] {
      return std::ranges::any_of(all_, [](const One& one) { return one.told.has_value(); });
    };
    if (told_.wait_until(lock, until, changed)) return {};
    for (const One& one : all_) {
      if (one.waits() && Stopwatch::now() - one.sent > patience) {
        return failure(Errc::io_error, fmt::format("instance {} has not gone on for {} s", one.id,
                                                   std::chrono::seconds(patience).count()));
      }
    }
    return {};
  }

  Workflows workflows_;
  std::mutex mutex_;  // for `told` of all of them
  std::condition_variable told_;
  std::vector<One> all_;  // of constant size: watches refer to them
};

// --- The processes ---

class Crew {
 public:
  static Result<Crew> start(const std::string& url, const RoutingBenchOptions& options,
                            Routing strategy) {
    RoutingWorkerOptions one;
    one.strategy = strategy;
    one.idle_timeout = options.idle_timeout;
    one.turn_lease = options.turn_lease;
    one.grace = options.grace;
    Crew crew;
    for (unsigned i = 0; i < options.workers; ++i) {
      one.owner = fmt::format("bench-{}", i);
      auto worker = RoutingWorker::start(url, one);
      if (!worker) return std::unexpected(worker.error());
      crew.workers_.push_back(*std::move(worker));
    }
    for (RoutingWorker& worker : crew.workers_) {
      if (auto ready = worker.wait_until_ready(); !ready) return std::unexpected(ready.error());
    }
    // Each has heard of all others after its next one.
    std::this_thread::sleep_for(one.heartbeat);
    return crew;
  }

  // Of all of them together.
  Result<RoutingCounts> counts() {
    RoutingCounts sum;
    for (RoutingWorker& worker : workers_) {
      const auto counts = worker.counts();
      if (!counts) return std::unexpected(counts.error());
      sum.hits += counts->hits;
      sum.misses += counts->misses;
      sum.lanes_moved += counts->lanes_moved;
    }
    return sum;
  }

  void kill_one() { workers_.pop_back(); }

  Result<void> stop() {
    for (RoutingWorker& worker : workers_) {
      if (auto stopped = worker.stop(); !stopped) return stopped;
    }
    return {};
  }

 private:
  std::vector<RoutingWorker> workers_;
};

// Kills one, and sends to all instances.
Result<RoutingReport::Killed> kill_one(Crew& crew, Crowd& crowd) {
  crew.kill_one();
  const auto killed = Stopwatch::now();
  const auto before = crew.counts();
  if (!before) return std::unexpected(before.error());
  if (auto sent = crowd.send_to_all(); !sent) return std::unexpected(sent.error());
  if (auto done = crowd.wait_for_all(); !done) return std::unexpected(done.error());
  const double slowest_ms = seconds_since(killed) * 1e3;
  const auto after = crew.counts();
  if (!after) return std::unexpected(after.error());
  return RoutingReport::Killed{.replayed = after->misses - before->misses,
                               .slowest_ms = slowest_ms};
}

Result<RoutingReport::Way> measure(const RoutingBenchOptions& options, Routing strategy,
                                   const Progress& progress) {
  const auto name = name_of(strategy);
  const auto place = BenchPlace::find({.store = options.store, .keep = options.keep});
  if (!place) return std::unexpected(place.error());
  const auto store = (*place)->open();
  if (!store) return std::unexpected(store.error());
  auto workflows = Workflows::open(**store);
  if (!workflows) return std::unexpected(workflows.error());
  progress(fmt::format("{}: {} processes, {} instances", name, options.workers, options.instances));
  auto crew = Crew::start((*place)->url(), options, strategy);
  if (!crew) return std::unexpected(crew.error());
  Crowd crowd(*std::move(workflows), options.instances);
  if (auto started = crowd.start(options.history); !started) {
    return std::unexpected(started.error());
  }
  // Each finds its home.
  constexpr std::uint64_t first = 2;
  if (auto warm = crowd.trickle(first, options.spacing); !warm) {
    return std::unexpected(warm.error());
  }

  progress(fmt::format("{}: messages, one by one", name));
  const auto before = crew->counts();
  if (!before) return std::unexpected(before.error());
  auto samples = crowd.trickle(options.messages, options.spacing);
  if (!samples) return std::unexpected(samples.error());
  const auto after = crew->counts();
  if (!after) return std::unexpected(after.error());
  RoutingReport::Way way{.strategy = strategy, .latency_ms = samples->percentiles()};
  way.counts = {.hits = after->hits - before->hits,
                .misses = after->misses - before->misses,
                .lanes_moved = after->lanes_moved - before->lanes_moved};
  const auto all = static_cast<double>(way.counts.hits + way.counts.misses);
  way.hit_rate = all > 0 ? static_cast<double>(way.counts.hits) / all : 0;

  if (options.workers > 2) {
    progress(fmt::format("{}: a worker is killed", name));
    std::this_thread::sleep_for(options.spacing);  // the last leases end
    const auto between = kill_one(*crew, crowd);
    if (!between) return std::unexpected(between.error());
    way.between = *between;
    // One by one, or no lease would be kept; and at once, or none would be kept any more.
    if (auto more = crowd.trickle(1, options.spacing); !more) return std::unexpected(more.error());
    const auto holding = kill_one(*crew, crowd);
    if (!holding) return std::unexpected(holding.error());
    way.holding = *holding;
  }
  if (auto stopped = crew->stop(); !stopped) return std::unexpected(stopped.error());
  return way;
}

Result<void> check(const RoutingBenchOptions& options) {
  const auto url = store::parse_url(options.store.empty() ? "rocksdb:here" : options.store);
  if (!url) return std::unexpected(url.error());
  if (url->scheme != store::Url::Scheme::postgres) {
    return failure(Errc::invalid_argument,
                   "the scenario routing has several processes, and this kind of store can be "
                   "opened by one only: name one in PostgreSQL with --store postgres://…");
  }
  if (options.spacing <= options.idle_timeout) {
    return failure(Errc::invalid_argument,
                   fmt::format("--spacing must be more than --idle-timeout ({}), or no lease ends "
                               "between two messages",
                               format_duration(options.idle_timeout)));
  }
  return {};
}

}  // namespace

Result<RoutingReport> bench_routing(const RoutingBenchOptions& options, const Progress& progress) {
  if (auto fine = check(options); !fine) return std::unexpected(fine.error());
  RoutingReport report;
  for (const Routing strategy : options.strategies) {
    auto way = measure(options, strategy, progress);
    if (!way) return std::unexpected(way.error());
    report.ways.push_back(*std::move(way));
  }
  return report;
}

}  // namespace strand::cli
