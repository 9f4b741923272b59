#include "cli/bench/workflow_bench.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <strand/workflow_worker.h>
#include <strand/workflows.h>

#include "base/text.h"
#include "cli/bench/bench_place.h"
#include "cli/bench/measure.h"
#include "store/disk/place.h"
#include "workflow/records.h"

namespace strand::cli {

namespace {

using namespace std::chrono_literals;

std::string body(int i) { return fmt::format("{{\"step\": {}, \"of\": \"a benchmark\"}}", i); }

// --- What is run ---

class Scenario {
 public:
  explicit Scenario(Duration delay)
      : work_("work", [delay](const Bytes& input) {
          if (delay > 0ms) std::this_thread::sleep_for(delay);
          return input;
        }) {}

  [[nodiscard]] const Activity<Bytes(Bytes)>& work() const { return work_; }

  Result<WorkflowType<Bytes(Bytes)>> find(const std::string& name) const {
    using Type = WorkflowType<Bytes(Bytes)>;
    if (name == "one") {
      return Type(name,
                  [this](Workflow& wf, Bytes input) { return sequence(wf, std::move(input), 1); });
    }
    if (name == "sequence5") {
      return Type(name,
                  [this](Workflow& wf, Bytes input) { return sequence(wf, std::move(input), 5); });
    }
    if (name == "fanout5") {
      return Type(name,
                  [this](Workflow& wf, Bytes input) { return fan_out(wf, std::move(input), 5); });
    }
    return failure(
        Errc::invalid_argument,
        fmt::format("there is no scenario '{}'; there are sequence5, fanout5 and one, and "
                    "for instances in memory trickle, checkpoint, cached-turn, live and routing",
                    base::printable(name)));
  }

 private:
  Task<Bytes> sequence(Workflow& wf, Bytes input, int count) const {
    for (int i = 0; i < count; ++i)
      input = co_await wf.call(work_, body(i));
    co_return input;
  }
  Task<Bytes> fan_out(Workflow& wf, Bytes, int count) const {
    std::vector<Future<Bytes>> futures;
    for (int i = 0; i < count; ++i)
      futures.push_back(wf.call(work_, body(i)));
    const std::vector<Bytes> results = co_await wf.all_of(std::move(futures));
    co_return results.back();
  }

  Activity<Bytes(Bytes)> work_;
};

// --- Who runs it ---

// Keeps a number of instances running: each that ends is followed by another.
class Starter {
 public:
  Starter(Workflows workflows, WorkflowType<Bytes(Bytes)> type, unsigned number)
      : workflows_(std::move(workflows)), type_(std::move(type)), number_(number) {}

  Result<void> run(unsigned inflight, Stopwatch::time_point end) {
    for (unsigned i = 0; i < inflight; ++i) {
      if (auto started = start(); !started) return started;
    }
    while (Stopwatch::now() < end) {
      std::unique_lock lock(mutex_);
      told_.wait_until(lock, end, [&] { return !changed_.empty(); });
      std::deque<std::shared_ptr<Running>> changed = std::exchange(changed_, {});
      lock.unlock();
      for (const auto& one : changed) {
        const auto ended = has_it_ended(*one);
        if (!ended) return std::unexpected(ended.error());
        if (!*ended) continue;
        one->watch.reset();
        if (auto started = start(); !started) return started;
      }
    }
    return {};
  }

  // Nobody is told of anything any more.
  void stop() { all_.clear(); }
  Samples samples;
  std::uint64_t completed = 0;

 private:
  struct Running {
    std::string id;
    Stopwatch::time_point began;
    std::atomic<double> seconds = 0;  // until it was told of last
    bool over = false;
    Watch watch;
  };

  Result<void> start() {
    auto one = std::make_shared<Running>();
    one->id = fmt::format("bench-{}-{}", number_, ++started_);
    one->watch =
        workflows_.store().watch(WatchRecord{std::string(workflow::instances_space), one->id},
                                 [this, weak = std::weak_ptr(one)] {
                                   const auto alive = weak.lock();
                                   if (!alive) return;
                                   alive->seconds = seconds_since(alive->began);
                                   const std::lock_guard lock(mutex_);
                                   changed_.push_back(alive);
                                   told_.notify_one();
                                 });
    one->began = Stopwatch::now();
    const auto handle = workflows_.start(type_, one->id, body(0));
    if (!handle) return std::unexpected(handle.error());
    all_.push_back(std::move(one));
    if (all_.size() > 10'000) std::erase_if(all_, [](const auto& each) { return each->over; });
    return {};
  }

  Result<bool> has_it_ended(Running& one) {
    if (one.over) return false;
    const auto record = workflows_.store().record(workflow::instances_space, one.id);
    if (!record) return std::unexpected(record.error());
    if (!*record) return false;
    const auto read = workflow::decode_record(one.id, (*record)->value);
    if (!read) return std::unexpected(read.error());
    if (!has_ended(read->state)) return false;
    if (read->state != InstanceState::completed) {
      return failure(Errc::io_error, fmt::format("instance {} has not completed: {}", one.id,
                                                 read->error.value_or("")));
    }
    one.over = true;
    ++completed;
    samples.add(one.seconds);
    return true;
  }

  Workflows workflows_;
  WorkflowType<Bytes(Bytes)> type_;
  const unsigned number_;
  std::uint64_t started_ = 0;
  std::mutex mutex_;  // for the next two
  std::condition_variable told_;
  std::deque<std::shared_ptr<Running>> changed_;
  std::vector<std::shared_ptr<Running>> all_;
};

// How long a sync takes that has next to nothing to write.
Result<Percentiles> measure_fdatasync(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "file";
  const disk::File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (file.fd() < 0) return std::unexpected(disk::cannot("write", path, errno));
  const std::string little(200, 'x');
  Samples samples;
  constexpr int times = 300;
  for (int i = 0; i < times; ++i) {
    const auto begin = Stopwatch::now();
    const bool written =
        ::write(file.fd(), little.data(), little.size()) == static_cast<ssize_t>(little.size());
    if (!written || ::fdatasync(file.fd()) != 0) {
      return std::unexpected(disk::cannot("write", path, errno));
    }
    samples.add(seconds_since(begin));
  }
  return samples.percentiles();
}

double events_of(const WorkflowWorker& worker) {
  for (const Metric& metric : worker.metrics()) {
    if (metric.name == "strand_workflow_events_total") return metric.value;
  }
  return 0;
}

}  // namespace

Result<WorkflowBenchReport> bench_workflow(const WorkflowBenchOptions& options,
                                           const Progress& progress) {
  const Scenario scenario(options.delay);
  const auto type = scenario.find(options.scenario);
  if (!type) return std::unexpected(type.error());
  const auto place = BenchPlace::find({.store = options.store,
                                       .memory_filesystem = options.memory_filesystem,
                                       .keep = options.keep});
  if (!place) return std::unexpected(place.error());
  WorkflowBenchReport report;
  report.filesystem = (*place)->filesystem();
  progress("measuring the disk");
  if (!(*place)->scratch().empty()) {
    const auto sync = measure_fdatasync((*place)->scratch());
    if (!sync) return std::unexpected(sync.error());
    report.fdatasync_ms = *sync;
  }
  const auto store = (*place)->open();
  if (!store) return std::unexpected(store.error());
  WorkflowWorkerOptions working;
  working.workflows = {*type};
  working.activities = {scenario.work()};
  working.turn_workers = options.turn_workers;
  working.activity_workers = options.activity_workers;
  working.cache.enabled = options.cache;
  working.routing.strategy = options.routing;
  auto worker = WorkflowWorker::start(**store, std::move(working));
  if (!worker) return std::unexpected(std::move(worker.error()));
  const auto workflows = Workflows::open(**store);
  if (!workflows) return std::unexpected(workflows.error());

  progress(fmt::format("{} instances of {} at a time", options.inflight, options.scenario));
  constexpr unsigned starters_max = 8;
  const unsigned count = std::min(starters_max, options.inflight);
  std::vector<std::unique_ptr<Starter>> starters;
  for (unsigned i = 0; i < count; ++i)
    starters.push_back(std::make_unique<Starter>(*workflows, *type, i));
  const std::uint64_t syncs_before = (*place)->syncs();
  const auto begin = Stopwatch::now();
  const auto end = begin + options.duration;
  std::vector<Result<void>> results(count);
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < count; ++i) {
      const unsigned share = options.inflight / count + (i < options.inflight % count ? 1 : 0);
      threads.emplace_back([&, i, share] { results[i] = starters[i]->run(share, end); });
    }
  }
  const double seconds = seconds_since(begin);
  report.events_per_s = events_of(**worker) / seconds;
  report.syncs = (*place)->syncs() - syncs_before;
  Samples samples;
  for (unsigned i = 0; i < count; ++i) {
    if (!results[i]) return std::unexpected(results[i].error());
    report.completed += starters[i]->completed;
    samples.add(starters[i]->samples);
    starters[i]->stop();
  }
  report.completed_per_s = static_cast<double>(report.completed) / seconds;
  report.latency_ms = samples.percentiles();
  report.rss_mb = rss_mb();
  progress("stopping");
  (*worker)->stop(1s);
  return report;
}

}  // namespace strand::cli
