#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/relay.h"
#include "relay/relay.h"

// relay run

namespace strand::cli {

namespace {

struct RunOptions : RelayCommon {
  std::optional<std::uint32_t> workers = {};
  std::optional<std::string> strategy = {};
  std::optional<std::string> only_shards = {};
  std::string sink = "kafka";
  bool dry_run = false;
  bool until_empty = false;
  std::string trace = {};
  std::string metrics = {};
  std::string process = {};
};

void declare_run(CLI::App& app, RunOptions& options) {
  declare_relay_common(app, options);
  add_number<std::uint32_t>(app, "--workers", options.workers, 1,
                            "Workers for each table, whatever the configuration says");
  add_text(app, "--strategy", options.strategy, "advisory|skip_locked|shards",
           "How entities are claimed, whatever the configuration says");
  add_text(app, "--only-shards", options.only_shards, "LIST",
           "With shards: these only, such as 0-3,7; others never");
  add_text(app, "--sink", options.sink, "kafka|stdout",
           "stdout: prints messages as lines of JSON, and marks the rows (kafka)");
  add_flag(app, "--dry-run", options.dry_run, "Prints what would be sent now; changes nothing");
  add_flag(app, "--until-empty", options.until_empty,
           "Ends when nothing waits but what has stopped; else at Ctrl-C or SIGTERM");
  add_text(app, "--trace", options.trace, "FILE",
           "Appends what each worker does, a line of JSON for each step of each entity");
  add_text(app, "--metrics", options.metrics, "FILE",
           "Writes all counters as JSON, every 5 seconds and at the end");
  add_text(app, "--process", options.process, "NAME",
           "The name of this process in traces and in strand_relay_workers; never one that was in "
           "use before");
}

Result<void> adjust(const RunOptions& options, relay::Config& config) {
  for (relay::TableSettings& table : config.tables) {
    if (options.workers) table.workers = *options.workers;
    if (options.strategy) {
      const auto strategy = relay::parse_strategy(*options.strategy);
      if (!strategy) return std::unexpected(strategy.error());
      table.strategy = *strategy;
    }
    if (options.only_shards) {
      auto shards = relay::parse_shards(*options.only_shards, table.shards);
      if (!shards) return std::unexpected(shards.error());
      table.only_shards = std::move(*shards);
    }
    if (auto fits = relay::check_settings(table); !fits) return fits;
  }
  if (options.sink != "kafka" && options.sink != "stdout") {
    return failure(Errc::invalid_argument, "--sink: there are kafka and stdout");
  }
  return {};
}

boost::json::object to_json(const Metric& metric) {
  boost::json::object labels;
  for (const auto& [name, value] : metric.labels)
    labels[name] = value;
  return {{"name", metric.name},
          {"help", metric.help},
          {"kind", metric.kind == Metric::Kind::counter ? "counter" : "gauge"},
          {"labels", std::move(labels)},
          {"value", metric.value}};
}

// A new file takes the place of the old one, so that a reader never sees half of it.
void write_metrics(const relay::Relay& relay, const std::string& path) {
  if (path.empty()) return;
  boost::json::array metrics;
  for (const Metric& metric : relay.metrics())
    metrics.push_back(to_json(metric));
  const std::string temporary = path + ".new";
  std::ofstream file(temporary, std::ios::trunc);
  file << boost::json::serialize(boost::json::object{{"metrics", std::move(metrics)}}) << "\n";
  file.close();
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (!file || error) complain(fmt::format("cannot write the metrics to {}", path));
}

void log(std::string_view line) {
  const auto now = std::chrono::floor<Duration>(std::chrono::system_clock::now());
  fmt::print(stderr, "{} {}\n", format_time(now), base::escaped(line));
}

constexpr Duration metrics_every = std::chrono::seconds{5};
constexpr Duration empty_every{50};

// Until a signal comes, or nothing waits any more if that is wanted.
Result<void> run_until_told(relay::Relay& relay, const RunOptions& options,
                            const Interrupts& interrupts) {
  const Bell bell;
  auto metrics_at = std::chrono::steady_clock::now();
  while (interrupts.caught() == 0) {
    bell.wait(options.until_empty ? empty_every : metrics_every, interrupts);
    const auto now = std::chrono::steady_clock::now();
    if (now >= metrics_at + metrics_every) {
      write_metrics(relay, options.metrics);
      metrics_at = now;
    }
    if (!options.until_empty) continue;
    const auto empty = relay.empty();
    if (!empty && !empty.error().retryable()) return std::unexpected(empty.error());
    if (empty && *empty) return {};
  }
  return {};
}

Exit run_run(const RunOptions& options, Output& output) {
  auto config = load_relay_config(options);
  if (!config) return fail(config.error());
  if (auto adjusted = adjust(options, *config); !adjusted) {
    return wrong_usage(adjusted.error().message);
  }
  if (options.dry_run) {
    const auto done =
        relay::dry_run(*config, [&output](std::string_view line) { output.text(line); });
    return done ? Exit::done : fail(done.error());
  }
  std::optional<Interrupts> interrupts(std::in_place);
  auto relay = relay::Relay::start(
      std::move(*config),
      {.sink = options.sink == "stdout" ? relay::SinkKind::standard_output : relay::SinkKind::kafka,
       .process = options.process,
       .trace_file = options.trace,
       .log = log});
  if (!relay) return fail(relay.error());
  log(fmt::format("relaying as {}", (*relay)->process()));
  const auto told = run_until_told(**relay, options, *interrupts);
  // From here on a second signal ends the program at once.
  interrupts.reset();
  (*relay)->stop();
  write_metrics(**relay, options.metrics);
  return told ? Exit::done : fail(told.error());
}

}  // namespace

void add_relay_run(Family family) {
  add_command<RunOptions>(
      family,
      {.name = "run",
       .what = "Moves rows to Kafka: those of one entity in order, and by one worker at a time.",
       .example = "  strand relay run --config relay.toml\n"
                  "  strand relay run --config relay.toml --sink stdout --until-empty\n"
                  "  strand relay run --config relay.toml --dry-run"},
      declare_run, run_run);
}

}  // namespace strand::cli
