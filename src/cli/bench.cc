#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/bench/cache_bench.h"
#include "cli/bench/queue_bench.h"
#include "cli/bench/routing_bench.h"
#include "cli/bench/workflow_bench.h"
#include "cli/commands.h"

// bench queue, workflow: how fast a store is, beside how fast its disk is

namespace strand::cli {

namespace {

struct BenchQueueOptions : Common {
  QueueBenchOptions bench = {};
  std::optional<Duration> duration = {};
};

void declare_queue(CLI::App& app, BenchQueueOptions& options) {
  QueueBenchOptions& bench = options.bench;
  add_number<std::size_t>(app, "--size", bench.size_bytes, 1, "Bytes of a body (100)");
  add_number<std::size_t>(app, "--batch", bench.batch, 1, "Messages a call (100)");
  add_number<std::uint64_t>(app, "--keys", bench.keys, 0, "Different keys (10000); 0: no keys");
  add_number<std::uint64_t>(app, "--per-key", bench.per_key, 1,
                            "Messages of one key that are sent together (1)");
  add_number<unsigned>(app, "--producers", bench.producers, 1, "Threads that send (1)");
  add_number<unsigned>(app, "--consumers", bench.consumers, 1, "Threads that lease and ack (1)");
  add_duration(app, "--duration", options.duration, "Of each measurement (6s)");
  add_durability(app, bench.durability);
  add_number<std::uint64_t>(app, "--backlog", bench.backlog, 0,
                            "Messages that wait meanwhile, left by a process that was killed (0)");
  add_value(app, "--api", "contract|consumer",
            "consumer: measures strand::Consumer as well, beside a bare loop (contract)",
            [&bench](std::string_view text) -> Result<void> {
              if (text != "contract" && text != "consumer") {
                return failure(Errc::invalid_argument, "there are contract and consumer");
              }
              bench.consumer_api = text == "consumer";
              return {};
            });
  add_flag(app, "--allow-memory-filesystem", bench.memory_filesystem,
           "Measure also where a sync costs nothing");
  add_flag(app, "--keep", bench.keep, "Leave the store there");
}

boost::json::object to_json(const Percentiles& ms) {
  return {{"p50", ms.p50}, {"p99", ms.p99}, {"p999", ms.p999}};
}

void print_json(const BenchQueueOptions& options, const QueueBenchReport& report, Output& output) {
  const QueueBenchOptions& bench = options.bench;
  boost::json::object object{
      {"enqueue_per_s", report.enqueue_per_s},
      {"lease_per_s", report.lease_per_s},
      {"ack_per_s", report.ack_per_s},
      {"cycle_per_s", report.cycle_per_s},
      {"baseline_file_per_s", report.baseline_file_per_s},
      {"baseline_rocksdb_per_s", report.baseline_rocksdb_per_s},
      {"latency_ms", boost::json::object{{"enqueue", to_json(report.enqueue_ms)},
                                         {"lease", to_json(report.lease_ms)},
                                         {"ack", to_json(report.ack_ms)}}},
      {"rss_mb", report.rss_mb},
      {"syncs", report.syncs},
      {"filesystem", report.filesystem},
      {"size", bench.size_bytes},
      {"batch", bench.batch},
      {"keys", bench.keys},
      {"producers", bench.producers},
      {"consumers", bench.consumers},
      {"durability", bench.durability == Durability::sync ? "sync" : "async"}};
  if (report.baseline_postgres_per_s > 0) {
    object["baseline_postgres_per_s"] = report.baseline_postgres_per_s;
  }
  if (report.backlog) {
    object["backlog"] = boost::json::object{{"messages", report.backlog->messages},
                                            {"reopen_s", report.backlog->reopen_s},
                                            {"rss_mb", report.backlog->rss_mb},
                                            {"lease_us", report.backlog->lease_us},
                                            {"lease_us_10000", report.backlog->lease_us_small}};
  }
  if (report.consumer) {
    object["consumer"] = boost::json::object{{"consumer_per_s", report.consumer->consumer_per_s},
                                             {"bare_per_s", report.consumer->bare_per_s},
                                             {"added", report.consumer->added}};
  }
  output.object(object);
}

std::string rate(double per_s, double baseline) {
  return baseline > 0 ? fmt::format("{:.0f} ({:.2f})", per_s, per_s / baseline)
                      : fmt::format("{:.0f}", per_s);
}

void print_text(const QueueBenchReport& report, Output& output) {
  const bool postgres = report.baseline_postgres_per_s > 0;
  const double raw = postgres ? report.baseline_postgres_per_s : report.baseline_rocksdb_per_s;
  const auto row = [](std::string name, std::string per_s, const Percentiles& ms) {
    return std::vector<std::string>{std::move(name), std::move(per_s),
                                    fmt::format("{:.3f}", ms.p50), fmt::format("{:.3f}", ms.p99),
                                    fmt::format("{:.3f}", ms.p999)};
  };
  std::vector<std::vector<std::string>> rows;
  if (postgres) {
    rows.push_back({"", "MESSAGES/S (OF CYCLES IN SQL)", "P50 MS", "P99 MS", "P99.9 MS"});
    rows.push_back({"cycle of a table in SQL", rate(raw, raw), "", "", ""});
  } else {
    rows.push_back({"", "MESSAGES/S (OF RAW ROCKSDB)", "P50 MS", "P99 MS", "P99.9 MS"});
    rows.push_back({"plain file", rate(report.baseline_file_per_s, raw), "", "", ""});
    rows.push_back({"raw RocksDB, one put", rate(raw, raw), "", "", ""});
  }
  rows.push_back(row("enqueue", rate(report.enqueue_per_s, raw), report.enqueue_ms));
  rows.push_back(row("lease", rate(report.lease_per_s, raw), report.lease_ms));
  rows.push_back(row("ack", rate(report.ack_per_s, raw), report.ack_ms));
  rows.push_back({"whole cycle", rate(report.cycle_per_s, raw), "", "", ""});
  output.text(table(rows));
  output.text(fmt::format("{} syncs of the store, {:.0f} MB resident, file system {}\n",
                          report.syncs, report.rss_mb, report.filesystem));
  if (report.consumer) {
    output.text(fmt::format(
        "drained by the consumer: {:.0f}/s, by a bare loop {:.0f}/s; it adds {:.0f} %\n",
        report.consumer->consumer_per_s, report.consumer->bare_per_s,
        100 * report.consumer->added));
  }
  if (!report.backlog) return;
  output.text(fmt::format(
      "{} waiting: opened in {:.2f} s after a kill, {:.0f} MB resident; a lease takes {:.1f} us, "
      "with 10000 waiting {:.1f} us\n",
      report.backlog->messages, report.backlog->reopen_s, report.backlog->rss_mb,
      report.backlog->lease_us, report.backlog->lease_us_small));
}

// Says on a terminal what is being measured, and wipes it away at the end.
class ProgressLine {
 public:
  ProgressLine() = default;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() {
    if (watched_) fmt::print(stderr, "\r{:<60}\r", "");
  }
  [[nodiscard]] Progress progress() const {
    return [watched = watched_](std::string_view what) {
      if (watched) fmt::print(stderr, "\r{:<60}", what);
    };
  }

 private:
  const bool watched_ = ::isatty(STDERR_FILENO) == 1;
};

Exit run_queue(const BenchQueueOptions& given, Output& output) {
  BenchQueueOptions options = given;
  if (options.store != default_store) options.bench.store = options.store;
  if (options.duration) options.bench.duration = *options.duration;
  Result<QueueBenchReport> report;
  {
    const ProgressLine line;
    report = bench_queue(options.bench, line.progress());
  }
  if (!report) return fail(report.error());
  if (output.json()) {
    print_json(options, *report, output);
  } else {
    print_text(*report, output);
  }
  return Exit::done;
}

// --- workflow ---

struct BenchWorkflowOptions : Common {
  WorkflowBenchOptions bench = {};
  std::optional<Duration> duration = {};
  std::optional<Duration> delay = {};
  std::optional<Duration> spacing = {};
  std::optional<std::uint64_t> history = {};
  std::optional<std::uint64_t> messages = {};
  std::optional<std::uint64_t> instances = {};
  std::optional<std::uint64_t> cached = {};
  std::optional<unsigned> workers = {};
  std::optional<Routing> strategy = {};
  std::optional<Duration> idle_timeout = {};
  std::optional<Duration> turn_lease = {};
  std::optional<Duration> grace = {};
  bool no_cache = false;
};

// Those that a worker process of the scenario routing has as well.
template <class Options>
void declare_routing(CLI::App& app, Options& options) {
  add_value(app, "--strategy", "NAME",
            "How instances find a worker: none, automatic, affinity, cache_aware or "
            "consistent_hash (automatic; routing: all of them, one after another)",
            [&options](std::string_view text) -> Result<void> {
              const auto strategy = parse_routing(text);
              if (!strategy) return std::unexpected(strategy.error());
              options.strategy = *strategy;
              return {};
            });
  add_duration(app, "--idle-timeout", options.idle_timeout,
               "routing: how long leases are kept after a message (200ms)");
  add_duration(app, "--turn-lease", options.turn_lease, "routing: the length of a lease (2s)");
  add_duration(app, "--grace", options.grace,
               "routing: how long a lane waits for the worker that is wanted (500ms)");
}

void declare_workflow(CLI::App& app, BenchWorkflowOptions& options) {
  WorkflowBenchOptions& bench = options.bench;
  add_text(
      app, "--scenario", bench.scenario, "NAME",
      "sequence5: five activities one after another; fanout5: five at a time; one. Of instances in "
      "memory: trickle, cached-turn, live, without them checkpoint, and of several processes "
      "routing (sequence5)");
  add_number<unsigned>(app, "--inflight", bench.inflight, 1,
                       "Instances that run at the same time (500)");
  add_duration(app, "--duration", options.duration, "Of the measurement (8s)");
  add_duration(app, "--delay", options.delay, "What an activity takes (0ms)");
  add_number<unsigned>(app, "--turn-workers", bench.turn_workers, 1, "Threads that run turns (2)");
  add_number<unsigned>(app, "--activity-workers", bench.activity_workers, 1,
                       "Threads that run activities (2)");
  add_flag(app, "--no-cache", options.no_cache, "Replay in every turn");
  add_number<std::uint64_t>(
      app, "--history", options.history, 1,
      "trickle, checkpoint, cached-turn, routing: events of an instance (1000, 1000, 10000, "
      "60)");
  add_number<std::uint64_t>(app, "--messages", options.messages, 1,
                            "trickle, cached-turn, routing: messages to it (10, 500, 10)");
  add_duration(app, "--spacing", options.spacing,
               "trickle, routing: between two of them (100ms, 400ms)");
  add_number<std::uint64_t>(app, "--instances", options.instances, 1,
                            "live, routing: instances in all (100000, 40)");
  add_number<std::uint64_t>(app, "--cached", options.cached, 2,
                            "live: those that fit in memory (1000)");
  add_number<unsigned>(app, "--workers", options.workers, 1, "routing: worker processes (4)");
  declare_routing(app, options);
  add_flag(app, "--allow-memory-filesystem", bench.memory_filesystem,
           "Measure also where a sync costs nothing");
  add_flag(app, "--keep", bench.keep, "Leave the store there");
}

Exit print_trickle(const TrickleReport& report, std::string_view what, Output& output) {
  const auto way = [](const TrickleReport::Way& one) {
    return boost::json::object{{"replayed_events", std::llround(one.replayed_events)},
                               {"turns", std::llround(one.turns)},
                               {"bytes_read", std::llround(one.bytes_read)},
                               {"latency_ms", to_json(one.latency_ms)}};
  };
  if (output.json()) {
    output.object({{"replayed_events", boost::json::object{{"on", report.on.replayed_events},
                                                           {"off", report.off.replayed_events}}},
                   {"on", way(report.on)},
                   {"off", way(report.off)}});
    return Exit::done;
  }
  for (const auto& [name, one] : {std::pair{"with", &report.on}, std::pair{"without", &report.off}})
    output.text(fmt::format(
        "{} {}: {} events replayed in {} turns, {} "
        "bytes read; a message took {:.2f} ms (half)\n",
        name, what, one->replayed_events, one->turns, one->bytes_read, one->latency_ms.p50));
  return Exit::done;
}

Exit print_cached_turn(const CachedTurnReport& report, Output& output) {
  const double time = report.lengthy.turn_us.p50 / report.brief.turn_us.p50;
  const double bytes = report.lengthy.bytes_read / report.brief.bytes_read;
  const auto way = [](const CachedTurnReport::Way& one) {
    return boost::json::object{{"history", one.history},
                               {"turn_us", to_json(one.turn_us)},
                               {"bytes_read", one.bytes_read},
                               {"latency_ms", to_json(one.latency_ms)}};
  };
  if (output.json()) {
    output.object({{"brief", way(report.brief)},
                   {"lengthy", way(report.lengthy)},
                   {"time_ratio", time},
                   {"bytes_ratio", bytes}});
    return Exit::done;
  }
  for (const auto* one : {&report.brief, &report.lengthy})
    output.text(
        fmt::format("{} events: a turn takes {:.1f} us (half) and reads {:.0f} bytes; with "
                    "its commit {:.2f} ms\n",
                    one->history, one->turn_us.p50, one->bytes_read, one->latency_ms.p50));
  output.text(fmt::format("ratio: time {:.2f}, bytes {:.2f}\n", time, bytes));
  return Exit::done;
}

Exit print_live(const CacheBenchOptions& bench, const LiveReport& report, Output& output) {
  const auto way = [](const LiveReport::Way& one) {
    return boost::json::object{{"messages_per_s", one.messages_per_s},
                               {"hit_rate", one.hit_rate},
                               {"cache_bytes_max", std::llround(one.bytes_max)}};
  };
  if (output.json()) {
    output.object({{"few", way(report.few)},
                   {"many", way(report.many)},
                   {"off", way(report.off)},
                   {"max_memory", report.max_memory},
                   {"rss_mb", report.rss_mb},
                   {"instances", bench.instances},
                   {"cached", bench.cached}});
    return Exit::done;
  }
  output.text(fmt::format("{} instances, {} in memory at most\n", bench.instances, bench.cached));
  for (const auto& [name, one] :
       {std::pair{"to few", &report.few}, std::pair{"to all", &report.many},
        std::pair{"(nothing in memory) to all", &report.off}})
    output.text(fmt::format(
        "messages {} of them: {:.0f} messages/s, {:.0f} % hits, at most {:.0f} of "
        "{:.0f} bytes in memory\n",
        name, one->messages_per_s, 100 * one->hit_rate, one->bytes_max, report.max_memory));
  output.text(fmt::format("{:.0f} MB resident\n", report.rss_mb));
  return Exit::done;
}

// Scenarios of instances in memory.
Exit run_cache(const BenchWorkflowOptions& given, Output& output) {
  const std::string& scenario = given.bench.scenario;
  const bool turn = scenario == "cached-turn";
  CacheBenchOptions bench;
  if (given.store != default_store) bench.store = given.store;
  bench.history = given.history.value_or(turn ? 10'000 : 1000);
  bench.messages = given.messages.value_or(turn ? 500 : 10);
  bench.spacing = given.spacing.value_or(bench.spacing);
  bench.instances = given.instances.value_or(bench.instances);
  bench.cached = given.cached.value_or(bench.cached);
  bench.duration = given.duration.value_or(bench.duration);
  bench.memory_filesystem = given.bench.memory_filesystem;
  bench.keep = given.bench.keep;
  const auto run = [&](auto measure, auto print) {
    auto report = [&] {
      const ProgressLine line;
      return measure(bench, line.progress());
    }();
    if (!report) return fail(report.error());
    return print(*report);
  };
  if (turn) {
    return run(bench_cached_turn, [&](const auto& r) { return print_cached_turn(r, output); });
  }
  if (scenario == "live") {
    return run(bench_live, [&](const auto& r) { return print_live(bench, r, output); });
  }
  if (scenario == "checkpoint") {
    return run(bench_checkpoint,
               [&](const auto& r) { return print_trickle(r, "checkpoints", output); });
  }
  return run(bench_trickle,
             [&](const auto& r) { return print_trickle(r, "instances in memory", output); });
}

// --- routing ---

Exit print_routing(const RoutingBenchOptions& bench, const RoutingReport& report, Output& output) {
  if (output.json()) {
    const auto killed = [](const RoutingReport::Killed& one) {
      return boost::json::object{{"replayed", one.replayed}, {"slowest_ms", one.slowest_ms}};
    };
    boost::json::object object;
    for (const RoutingReport::Way& way : report.ways) {
      object[name_of(way.strategy)] =
          boost::json::object{{"hit_rate", way.hit_rate},
                              {"hits", way.counts.hits},
                              {"misses", way.counts.misses},
                              {"lanes_moved", way.counts.lanes_moved},
                              {"latency_ms", to_json(way.latency_ms)},
                              {"killed_between_leases", killed(way.between)},
                              {"killed_holding_leases", killed(way.holding)}};
    }
    object["workers"] = bench.workers;
    object["instances"] = bench.instances;
    object["messages"] = bench.messages;
    object["history"] = bench.history;
    object["spacing_ms"] = bench.spacing.count();
    object["idle_timeout_ms"] = bench.idle_timeout.count();
    object["turn_lease_ms"] = bench.turn_lease.count();
    object["grace_ms"] = bench.grace.count();
    output.object(object);
    return Exit::done;
  }
  std::vector<std::vector<std::string>> rows = {{"STRATEGY", "HITS", "LANES MOVED", "P50 MS",
                                                 "P99 MS", "KILLED WITHOUT LEASES: MS (REPLAYED)",
                                                 "WITH LEASES"}};
  const auto killed = [](const RoutingReport::Killed& one) {
    return fmt::format("{:.0f} ({})", one.slowest_ms, one.replayed);
  };
  for (const RoutingReport::Way& way : report.ways) {
    rows.push_back(
        {std::string(name_of(way.strategy)), fmt::format("{:.1f} %", 100 * way.hit_rate),
         fmt::format("{}", way.counts.lanes_moved), fmt::format("{:.2f}", way.latency_ms.p50),
         fmt::format("{:.2f}", way.latency_ms.p99), killed(way.between), killed(way.holding)});
  }
  output.text(table(rows));
  output.text(fmt::format(
      "{} processes, {} instances with {} events and {} messages each, {} apart; leases are kept "
      "for {} and last for {}, lanes wait for {}\n",
      bench.workers, bench.instances, bench.history, bench.messages, format_duration(bench.spacing),
      format_duration(bench.idle_timeout), format_duration(bench.turn_lease),
      format_duration(bench.grace)));
  return Exit::done;
}

Exit run_routing(const BenchWorkflowOptions& given, Output& output) {
  RoutingBenchOptions bench;
  if (given.store != default_store) bench.store = given.store;
  if (given.strategy) bench.strategies = {*given.strategy};
  bench.workers = given.workers.value_or(bench.workers);
  bench.instances = given.instances.value_or(bench.instances);
  bench.history = given.history.value_or(bench.history);
  bench.messages = given.messages.value_or(bench.messages);
  bench.spacing = given.spacing.value_or(bench.spacing);
  bench.idle_timeout = given.idle_timeout.value_or(bench.idle_timeout);
  bench.turn_lease = given.turn_lease.value_or(bench.turn_lease);
  bench.grace = given.grace.value_or(bench.grace);
  bench.keep = given.bench.keep;
  Result<RoutingReport> report;
  {
    const ProgressLine line;
    report = bench_routing(bench, line.progress());
  }
  if (!report) return fail(report.error());
  return print_routing(bench, *report, output);
}

struct BenchWorkerOptions : Common {
  std::string owner = {};
  std::optional<Routing> strategy = {};
  std::optional<Duration> idle_timeout = {};
  std::optional<Duration> turn_lease = {};
  std::optional<Duration> grace = {};
  std::optional<Duration> heartbeat = {};
};

void declare_worker(CLI::App& app, BenchWorkerOptions& options) {
  app.group("");  // the benchmark starts it, and nobody else
  add_text(app, "--owner", options.owner, "NAME", "Its name among the workers");
  add_duration(app, "--heartbeat", options.heartbeat, "How often it says that it lives");
  declare_routing(app, options);
}

Exit run_worker(const BenchWorkerOptions& given, Output&) {
  RoutingWorkerOptions worker;
  worker.owner = given.owner;
  worker.strategy = given.strategy.value_or(worker.strategy);
  worker.idle_timeout = given.idle_timeout.value_or(worker.idle_timeout);
  worker.turn_lease = given.turn_lease.value_or(worker.turn_lease);
  worker.grace = given.grace.value_or(worker.grace);
  worker.heartbeat = given.heartbeat.value_or(worker.heartbeat);
  const auto done = run_routing_worker(worker);
  return done ? Exit::done : fail(done.error());
}

Exit run_workflow(const BenchWorkflowOptions& given, Output& output) {
  if (given.bench.scenario == "routing") return run_routing(given, output);
  for (const char* scenario : {"trickle", "checkpoint", "cached-turn", "live"}) {
    if (given.bench.scenario == scenario) return run_cache(given, output);
  }
  WorkflowBenchOptions bench = given.bench;
  bench.cache = !given.no_cache;
  bench.routing = given.strategy.value_or(bench.routing);
  if (given.store != default_store) bench.store = given.store;
  if (given.duration) bench.duration = *given.duration;
  if (given.delay) bench.delay = *given.delay;
  Result<WorkflowBenchReport> report;
  {
    const ProgressLine line;
    report = bench_workflow(bench, line.progress());
  }
  if (!report) return fail(report.error());
  if (output.json()) {
    output.object({{"completed_per_s", report->completed_per_s},
                   {"events_per_s", report->events_per_s},
                   {"latency_ms", to_json(report->latency_ms)},
                   {"syncs", report->syncs},
                   {"completed", report->completed},
                   {"fdatasync_ms", to_json(report->fdatasync_ms)},
                   {"rss_mb", report->rss_mb},
                   {"filesystem", report->filesystem},
                   {"scenario", bench.scenario},
                   {"inflight", bench.inflight},
                   {"delay_ms", bench.delay.count()},
                   {"turn_workers", bench.turn_workers},
                   {"activity_workers", bench.activity_workers}});
    return Exit::done;
  }
  output.text(fmt::format(
      "{}: {:.0f} instances/s ({} in all), {:.0f} events/s; from start to end {:.2f} ms (half), "
      "{:.2f} ms (99 %)\n",
      bench.scenario, report->completed_per_s, report->completed, report->events_per_s,
      report->latency_ms.p50, report->latency_ms.p99));
  output.text(
      fmt::format("{} syncs of the store; a bare fdatasync takes {:.3f} ms; {:.0f} MB "
                  "resident, file system {}\n",
                  report->syncs, report->fdatasync_ms.p50, report->rss_mb, report->filesystem));
  return Exit::done;
}

}  // namespace

void add_bench_commands(Family program) {
  const Family bench = add_family(program, "bench", "Measures stores.");
  add_command<BenchQueueOptions>(
      bench,
      {.name = "queue",
       .what = "Measures send, lease and ack on a new store, beside its disk and raw RocksDB.",
       .example = "  strand bench queue\n"
                  "  strand bench queue --store sqlite:bench.db --producers 8 --keys 0 -o json\n"
                  "  strand bench queue --backlog 1000000 --keys 100000"},
      declare_queue, run_queue);
  add_command<BenchWorkflowOptions>(
      bench,
      {.name = "workflow",
       .what = "Measures how many instances of a workflow are completed on a new store.",
       .example =
           "  strand bench workflow --scenario sequence5 --inflight 500 --duration 8s\n"
           "  strand bench workflow --scenario trickle --history 1000 --messages 10 -o json\n"
           "  strand bench workflow --scenario fanout5 --delay 10ms --inflight 20 -o json"},
      declare_workflow, run_workflow);
  add_command<BenchWorkerOptions>(bench,
                                  {.name = "routing-worker",
                                   .what = "A worker process of the scenario routing.",
                                   .example = "  strand bench workflow --scenario routing"},
                                  declare_worker, run_worker);
  add_bench_relay_command(bench);
}

}  // namespace strand::cli
