#include "cli/bench/relay_bench.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/bench/measure.h"
#include "cli/bench/postgres_baseline.h"
#include "cli/bench/relay_baseline.h"
#include "cli/bench/relay_place.h"
#include "pq/connection.h"
#include "relay/claims.h"
#include "relay/config.h"
#include "relay/outbox.h"

namespace strand::cli {

namespace {

using namespace std::chrono_literals;

constexpr std::array<std::string_view, 3> strategies{"advisory", "skip_locked", "shards"};
constexpr auto patience = 5min;
constexpr std::uint64_t claim_rows = 2000;
constexpr int claim_rounds = 100;

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<void> start_processes(RelayProcesses& processes, const RelayPlace& place,
                             const RelayBenchOptions& options, bool trace) {
  std::vector<std::string> command{"relay", "run", "--config", place.config()};
  if (trace) command.insert(command.end(), {"--trace", place.trace()});
  for (unsigned i = 0; i < options.processes; ++i) {
    if (auto started = processes.start(command); !started) return started;
  }
  return {};
}

Result<void> wait_until_sent(RelayPlace& place, RelayProcesses& processes) {
  const auto deadline = Stopwatch::now() + patience;
  while (Stopwatch::now() < deadline) {
    const auto waits = place.anything_waits();
    if (!waits) return std::unexpected(waits.error());
    if (!*waits) return {};
    if (auto running = processes.look(); !running) return running;
    std::this_thread::sleep_for(5ms);
  }
  return failure(Errc::unavailable, "rows still wait after five minutes");
}

Result<RelayBenchReport::Drain> drain(RelayPlace& place, const RelayBenchOptions& options,
                                      std::string_view strategy) {
  if (auto made = place.make_outbox(strategy); !made) return std::unexpected(made.error());
  if (auto filled = place.fill(options.rows); !filled) return std::unexpected(filled.error());
  RelayProcesses processes;
  const auto begin = Stopwatch::now();
  if (auto started = start_processes(processes, place, options, false); !started) {
    return std::unexpected(started.error());
  }
  if (auto sent = wait_until_sent(place, processes); !sent) return std::unexpected(sent.error());
  const double seconds = seconds_since(begin);
  processes.stop();
  return RelayBenchReport::Drain{.name = std::string(strategy),
                                 .rows = options.rows,
                                 .rows_per_s = static_cast<double>(options.rows) / seconds};
}

// --- A steady load ---

// Applications that insert a row a transaction, and when each was handed over.
class Load {
 public:
  Load(const RelayBenchOptions& options, std::string schema)
      : options_(options), schema_(std::move(schema)) {}

  Result<void> run() {
    // Two, so that none waits for the disk of the other.
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 2; ++i)
      threads.emplace_back([this, i] { insert(i); });
    for (std::thread& thread : threads)
      thread.join();
    if (!error_.empty()) return failure(Errc::unavailable, error_);
    return {};
  }
  [[nodiscard]] const std::map<std::string, std::int64_t>& begun_us() const { return begun_us_; }

 private:
  void insert(unsigned thread) {
    auto connection = postgres::Connection::open(options_.database);
    if (!connection) return fail_with(connection.error().message);
    const std::string sql = fmt::format(
        "INSERT INTO {}.outbox (aggregatetype, aggregateid, type, payload) VALUES ('bench', $1, "
        "'Happened', '{{\"amount\": 42}}') RETURNING id::text",
        schema_);
    const auto pause = std::chrono::microseconds(2'000'000 / options_.rate);
    auto due = Stopwatch::now() + thread * pause / 2;
    const auto end = Stopwatch::now() + options_.duration;
    for (std::uint64_t i = thread; due < end; i += 2, due += pause) {
      std::this_thread::sleep_until(due);
      const std::string entity = fmt::format("entity-{}", i * 7919 % 1000);
      const std::int64_t begun = now_us();
      const auto row =
          (*connection)
              ->run(postgres::Group{{.sql = sql, .params = postgres::Params().text(entity)}});
      if (!row) return fail_with(row.error().message);
      const std::lock_guard lock(mutex_);
      begun_us_.emplace(row->front().bytes(0, 0), begun);
    }
  }

  void fail_with(std::string message) {
    const std::lock_guard lock(mutex_);
    error_ = std::move(message);
  }

  const RelayBenchOptions& options_;
  const std::string schema_;
  std::mutex mutex_;
  std::map<std::string, std::int64_t> begun_us_;
  std::string error_;
};

// When the relay knew of each row that Kafka has it.
Result<std::map<std::string, std::int64_t>> confirmed_us(const std::filesystem::path& trace) {
  std::map<std::string, std::int64_t> found;
  std::ifstream file(trace);
  for (std::string line; std::getline(file, line);) {
    boost::system::error_code error;
    const boost::json::value value = boost::json::parse(line, error);
    if (error) return failure(Errc::corrupt, "the trace has a line that is no JSON: " + line);
    const boost::json::object& step = value.as_object();
    if (step.at("event") != "confirmed") continue;
    for (const boost::json::value& row : step.at("rows").as_array())
      found.try_emplace(std::string(row.as_string()), step.at("time_us").to_number<std::int64_t>());
  }
  return found;
}

Result<RelayBenchReport::Steady> steady(RelayPlace& place, const RelayBenchOptions& options,
                                        std::string_view strategy) {
  if (auto made = place.make_outbox(strategy); !made) return std::unexpected(made.error());
  RelayProcesses processes;
  if (auto started = start_processes(processes, place, options, true); !started) {
    return std::unexpected(started.error());
  }
  // Some rows first: what is measured is a relay that runs, with its connections to Kafka.
  if (auto filled = place.fill(100); !filled) return std::unexpected(filled.error());
  if (auto sent = wait_until_sent(place, processes); !sent) return std::unexpected(sent.error());
  Load load(options, place.schema());
  if (auto done = load.run(); !done) return std::unexpected(done.error());
  if (auto sent = wait_until_sent(place, processes); !sent) return std::unexpected(sent.error());
  processes.stop();
  const auto confirmed = confirmed_us(place.trace());
  if (!confirmed) return std::unexpected(confirmed.error());
  Samples samples;
  for (const auto& [row, begun] : load.begun_us()) {
    const auto at = confirmed->find(row);
    if (at == confirmed->end()) {
      return failure(Errc::corrupt, fmt::format("row {} is sent, and not in the trace", row));
    }
    samples.add(static_cast<double>(at->second - begun) / 1e6);
  }
  const double seconds = std::chrono::duration<double>(options.duration).count();
  return RelayBenchReport::Steady{
      .name = std::string(strategy),
      .rows = load.begun_us().size(),
      .rows_per_s = static_cast<double>(load.begun_us().size()) / seconds,
      .latency_ms = samples.percentiles()};
}

// --- The cost of a claim ---

// A worker that claims, and gives back what it has claimed.
class Claimer {
 public:
  static Result<std::unique_ptr<Claimer>> open(const RelayPlace& place) {
    auto config = relay::read_config(place.config());
    if (!config) return std::unexpected(config.error());
    auto connection = postgres::Connection::open(config->conninfo);
    if (!connection) return std::unexpected(connection.error());
    auto outbox = relay::Outbox::describe(**connection, config->tables.front(),
                                          relay::OwnTables(config->own_schema));
    if (!outbox) return std::unexpected(outbox.error());
    std::unique_ptr<Claimer> claimer(
        new Claimer(place.schema(), std::move(*connection), std::move(*outbox)));
    if (auto begun = claimer->claims_->begin(); !begun) return std::unexpected(begun.error());
    return claimer;
  }

  // The time of one claim in microseconds.
  Result<double> once() {
    if (auto kept = claims_->upkeep(); !kept) return std::unexpected(kept.error());
    const auto begin = Stopwatch::now();
    const auto claimed = claims_->claim();
    const double us = seconds_since(begin) * 1e6;
    if (!claimed) return std::unexpected(claimed.error());
    if (claimed->size() != outbox_.settings().entities) {
      return failure(Errc::corrupt, fmt::format("{} entities in a claim", claimed->size()));
    }
    if (auto released = claims_->release(*claimed); !released) {
      return std::unexpected(released.error());
    }
    return us;
  }

 private:
  Claimer(const std::string& name, std::unique_ptr<postgres::Connection> connection,
          relay::Outbox outbox)
      : connection_(std::move(connection)),
        outbox_(std::move(outbox)),
        claims_(relay::make_claims(
            outbox_, *connection_,
            {.process = name, .host = "bench", .pid = static_cast<std::int32_t>(::getpid())})) {}

  std::unique_ptr<postgres::Connection> connection_;
  relay::Outbox outbox_;
  std::unique_ptr<relay::Claims> claims_;
};

// Two tables that differ in what was sent, claimed from by turns: whatever else the machine does,
// it does to both.
Result<RelayBenchReport::Claim> claim_cost(RelayPlace& without, RelayPlace& with,
                                           const RelayBenchOptions& options,
                                           std::string_view strategy) {
  for (const bool sent : {false, true}) {
    RelayPlace& place = sent ? with : without;
    if (auto made = place.make_outbox(strategy); !made) return std::unexpected(made.error());
    if (sent) {
      if (auto filled = place.fill_sent(options.sent); !filled) {
        return std::unexpected(filled.error());
      }
    }
    if (auto filled = place.fill(claim_rows); !filled) return std::unexpected(filled.error());
  }
  // Only now: sessions of workers do not outlive a lease in which they do nothing.
  std::array<std::unique_ptr<Claimer>, 2> claimers;
  for (const bool sent : {false, true}) {
    auto claimer = Claimer::open(sent ? with : without);
    if (!claimer) return std::unexpected(claimer.error());
    claimers[sent ? 1 : 0] = std::move(*claimer);
  }
  std::array<std::vector<double>, 2> us;
  for (int i = 0; i < claim_rounds; ++i) {
    for (std::size_t which = 0; which < 2; ++which) {
      const auto one = claimers[which]->once();
      if (!one) return std::unexpected(one.error());
      // The first ones prepare their statements.
      if (i >= 5) us[which].push_back(*one);
    }
  }
  return RelayBenchReport::Claim{
      .name = std::string(strategy), .empty_us = median(us[0]), .sent_us = median(us[1])};
}

// One kind of measurement for each strategy.
template <class One, class Measure>
Result<void> for_each_strategy(std::vector<One>& into, const Progress& progress,
                               std::string_view what, Measure measure) {
  for (const std::string_view strategy : strategies) {
    progress(fmt::format("{}: {}", what, strategy));
    auto one = measure(strategy);
    if (!one) return std::unexpected(one.error());
    into.push_back(std::move(*one));
  }
  return {};
}

}  // namespace

Result<RelayBenchReport> bench_relay(const RelayBenchOptions& options, const Progress& progress) {
  const auto wanted = [&](std::string_view part) {
    return options.only.empty() || options.only == part;
  };
  auto opened = RelayPlace::open(options);
  if (!opened) return std::unexpected(opened.error());
  RelayPlace& place = **opened;
  RelayBenchReport report;
  {
    const auto baseline = PostgresBaseline::open(options.database);
    if (!baseline) return std::unexpected(baseline.error());
    const auto commit = (*baseline)->commit_ms();
    if (!commit) return std::unexpected(commit.error());
    report.commit_ms = *commit;
  }
  if (wanted("drain")) {
    progress("waiting rows: a plain loop");
    const auto naive = naive_relay(place, options);
    if (!naive) return std::unexpected(naive.error());
    report.drains.push_back(
        {.name = "naive", .rows = naive->messages, .rows_per_s = naive->per_s()});
    auto done = for_each_strategy(report.drains, progress, "waiting rows",
                                  [&](auto strategy) { return drain(place, options, strategy); });
    if (!done) return std::unexpected(done.error());
  }
  if (wanted("steady")) {
    auto done = for_each_strategy(report.steady, progress, "steady load",
                                  [&](auto strategy) { return steady(place, options, strategy); });
    if (!done) return std::unexpected(done.error());
  }
  if (wanted("claim")) {
    const auto other = RelayPlace::open(options, "_sent");
    if (!other) return std::unexpected(other.error());
    auto done = for_each_strategy(report.claims, progress, "claims", [&](auto strategy) {
      return claim_cost(place, **other, options, strategy);
    });
    if (!done) return std::unexpected(done.error());
  }
  return report;
}

}  // namespace strand::cli
