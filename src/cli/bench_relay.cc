#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/bench/relay_bench.h"
#include "cli/commands.h"

// bench relay: the outbox relay beside the loop that one would write first

namespace strand::cli {

namespace {

struct BenchRelayOptions : Common {
  RelayBenchOptions bench = {};
  std::optional<Duration> duration = {};
};

void declare_relay_bench(CLI::App& app, BenchRelayOptions& options) {
  RelayBenchOptions& bench = options.bench;
  add_text(app, "--kafka", bench.kafka, "HOST:PORT", "The broker, as bootstrap.servers").required();
  add_number<std::uint64_t>(app, "--rows", bench.rows, 100, "Rows that wait (10000)");
  add_number<std::uint64_t>(app, "--naive-rows", bench.naive_rows, 1,
                            "Of them, those that the plain loop sends (1000)");
  add_number<unsigned>(app, "--workers", bench.workers, 1, "Of each process (4)");
  add_number<unsigned>(app, "--processes", bench.processes, 1, "Of the relay (1)");
  add_number<std::uint64_t>(app, "--rate", bench.rate, 1, "Rows a second, steady (500)");
  add_duration(app, "--duration", options.duration, "Of the steady load (8s)");
  add_number<std::uint64_t>(app, "--sent", bench.sent, 0,
                            "Sent rows in the table when claims are measured (200000)");
  add_value(app, "--only", "drain|steady|claim", "Measures this only",
            [&bench](std::string_view text) -> Result<void> {
              if (text != "drain" && text != "steady" && text != "claim") {
                return failure(Errc::invalid_argument, "there are drain, steady and claim");
              }
              bench.only = text;
              return {};
            });
}

double naive_rate(const RelayBenchReport& report) {
  for (const auto& drain : report.drains)
    if (drain.name == "naive") return drain.rows_per_s;
  return 0;
}

void print_json(const RelayBenchOptions& bench, const RelayBenchReport& report, Output& output) {
  boost::json::object drains;
  boost::json::object object;
  for (const auto& drain : report.drains) {
    // The default's figures stand for the relay's.
    if (drain.name == "advisory") object["rows_per_s"] = drain.rows_per_s;
    drains[drain.name] =
        boost::json::object{{"rows_per_s", drain.rows_per_s},
                            {"rows", drain.rows},
                            {"times_naive", drain.rows_per_s / naive_rate(report)}};
  }
  boost::json::object steady;
  for (const auto& one : report.steady) {
    const boost::json::object ms{{"p50", one.latency_ms.p50}, {"p99", one.latency_ms.p99}};
    if (one.name == "advisory") object["latency_ms"] = ms;
    steady[one.name] =
        boost::json::object{{"latency_ms", ms}, {"rows_per_s", one.rows_per_s}, {"rows", one.rows}};
  }
  boost::json::object claims;
  for (const auto& claim : report.claims) {
    claims[claim.name] = boost::json::object{{"empty_us", claim.empty_us},
                                             {"sent_us", claim.sent_us},
                                             {"times", claim.sent_us / claim.empty_us}};
  }
  if (!drains.empty()) object["drain"] = std::move(drains);
  if (!steady.empty()) object["steady"] = std::move(steady);
  if (!claims.empty()) object["claim"] = std::move(claims);
  object["commit_ms"] = report.commit_ms;
  object["rows"] = bench.rows;
  object["workers"] = bench.workers;
  object["processes"] = bench.processes;
  object["rate"] = bench.rate;
  object["sent"] = bench.sent;
  output.object(object);
}

void print_text(const RelayBenchOptions& bench, const RelayBenchReport& report, Output& output) {
  if (!report.drains.empty()) {
    std::vector<std::vector<std::string>> rows{{"WAITING ROWS", "ROWS/S", "TIMES A PLAIN LOOP"}};
    for (const auto& drain : report.drains)
      rows.push_back({drain.name, fmt::format("{:.0f}", drain.rows_per_s),
                      fmt::format("{:.1f}", drain.rows_per_s / naive_rate(report))});
    output.text(table(rows));
  }
  if (!report.steady.empty()) {
    std::vector<std::vector<std::string>> rows{
        {fmt::format("STEADY, {}/S", bench.rate), "ROWS/S", "P50 MS", "P99 MS"}};
    for (const auto& one : report.steady)
      rows.push_back({one.name, fmt::format("{:.0f}", one.rows_per_s),
                      fmt::format("{:.2f}", one.latency_ms.p50),
                      fmt::format("{:.2f}", one.latency_ms.p99)});
    output.text(table(rows));
  }
  if (!report.claims.empty()) {
    std::vector<std::vector<std::string>> rows{
        {"A CLAIM", "US, NONE SENT", fmt::format("US, {} SENT", bench.sent)}};
    for (const auto& claim : report.claims)
      rows.push_back({claim.name, fmt::format("{:.0f}", claim.empty_us),
                      fmt::format("{:.0f}", claim.sent_us)});
    output.text(table(rows));
  }
  output.text(fmt::format("a commit of one row takes {:.2f} ms; {} processes with {} workers\n",
                          report.commit_ms, bench.processes, bench.workers));
}

Exit run_relay_bench(const BenchRelayOptions& given, Output& output) {
  RelayBenchOptions bench = given.bench;
  if (given.store == default_store || !given.store.starts_with("postgres")) {
    return wrong_usage("the relay is measured on PostgreSQL: name one with --store postgres://…");
  }
  bench.database = given.store;
  if (given.duration) bench.duration = *given.duration;
  const bool watched = ::isatty(STDERR_FILENO) == 1;
  const auto report = bench_relay(bench, [watched](std::string_view what) {
    if (watched) fmt::print(stderr, "\r{:<60}", what);
  });
  if (watched) fmt::print(stderr, "\r{:<60}\r", "");
  if (!report) return fail(report.error());
  if (output.json()) {
    print_json(bench, *report, output);
  } else {
    print_text(bench, *report, output);
  }
  return Exit::done;
}

}  // namespace

void add_bench_relay_command(Family bench) {
  add_command<BenchRelayOptions>(
      bench,
      {.name = "relay",
       .what = "Measures the outbox relay in a new schema and new topics, beside a plain loop.",
       .example = "  strand bench relay --store postgres://localhost/test --kafka localhost:9092\n"
                  "  strand bench relay --store $URL --kafka $BROKER --only claim --sent 10000000 "
                  "-o json"},
      declare_relay_bench, run_relay_bench);
}

}  // namespace strand::cli
