#include "store/check/check.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/commands.h"
#include "pq/connection.h"
#include "store/open.h"
#include "store/postgres/check.h"
#include "store/postgres/location.h"
#include "store/url.h"

// check: every invariant of a store at rest

namespace strand::cli {

namespace {

namespace fs = std::filesystem;

struct CheckOptions : Common {
  std::string url = {};
  bool repair = false;
};

void declare_check(CLI::App& app, CheckOptions& options) {
  add_text(app, "URL", options.url, "", "The store; one on disk must not be open elsewhere")
      .required();
  add_flag(app, "--repair", options.repair,
           "Removes what belongs to nothing and counts anew, after making a copy beside the store "
           "(in PostgreSQL, in a schema of its own), which nobody may have open");
}

// A line that is written over, while somebody watches.
class ProgressLine {
 public:
  void show(std::string_view family, std::uint64_t entries) {
    if (!watched_) return;
    fmt::print(stderr, "\r{:<60}", fmt::format("reading {}: {} entries", family, entries));
    shown_ = true;
  }
  void clear() {
    if (std::exchange(shown_, false)) fmt::print(stderr, "\r{:<60}\r", "");
  }

 private:
  const bool watched_ = ::isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
};

Result<std::unique_ptr<engine::Backend>> open_at_rest(const CheckOptions& options) {
  OpenOptions opening;
  opening.create = false;
  return store::open_backend(options.url, opening);
}

// The store as it is, in a place of its own: `--repair` may make mistakes too. Nobody has the store
// open.
Result<fs::path> copy_store(const std::string& url) {
  const auto parsed = store::parse_url(url);
  if (!parsed) return std::unexpected(parsed.error());
  if (parsed->scheme == store::Url::Scheme::memory) {
    return failure(Errc::unsupported, "a store in memory ends with its process; nothing to repair");
  }
  const auto seconds =
      std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds{1};
  const fs::path from = fs::absolute(parsed->rest).lexically_normal();
  fs::path to = from;
  to += fmt::format(".before-repair-{}", seconds);
  std::error_code error;
  fs::copy(from, to, fs::copy_options::recursive, error);
  // What belongs to an SQLite database lies beside it.
  for (const char* suffix : {"-wal", "-shm"}) {
    fs::path part = from;
    part += suffix;
    fs::path copied = to;
    copied += suffix;
    std::error_code unreadable;
    if (!error && fs::exists(part, unreadable)) fs::copy(part, copied, error);
  }
  if (!error) return to;
  std::error_code ignored;
  fs::remove_all(to, ignored);
  return failure(Errc::io_error,
                 fmt::format("cannot copy the store to {} ({}), and so nothing was repaired",
                             base::printable(to.native()), error.message()));
}

Result<check::Report> write_repair(engine::Backend& backend, const check::Progress& progress) {
  auto repair = check::repair(backend, store::new_identity(), progress);
  if (!repair) return std::unexpected(std::move(repair).error());
  for (const engine::MutationBatch& batch : repair->batches) {
    if (auto written = backend.write(batch, Durability::sync); !written) {
      return std::unexpected(std::move(written).error());
    }
  }
  return std::move(repair->report);
}

// What both kinds of store report: the embedded ones by entries, PostgreSQL by rows.
struct Outcome {
  struct Finding {
    std::string kind;
    std::string what;
    bool repairable = false;
  };
  std::vector<Finding> findings = {};
  std::vector<std::pair<std::string, std::uint64_t>> counts = {};  // by kind
  std::uint64_t entries = 0;
  std::uint64_t messages = 0;
  std::uint64_t dead_letters = 0;
  std::uint64_t queues = 0;
  std::uint64_t found = 0;
  std::uint64_t repairable = 0;
  std::optional<std::string> copy = {};  // where the store as it was is
  std::uint64_t repaired = 0;
  std::string store = {};  // as it is named in errors

  [[nodiscard]] bool clean() const { return found == 0; }
};

Outcome outcome_of(const check::Report& report) {
  Outcome outcome;
  for (const check::Finding& finding : report.findings) {
    outcome.findings.push_back({.kind = std::string(check::to_string(finding.kind)),
                                .what = finding.what,
                                .repairable = finding.repairable});
  }
  for (std::size_t i = 0; i < check::kind_count; ++i) {
    const auto kind = static_cast<check::Kind>(i);
    if (const auto found = report.count(kind).found; found > 0) {
      outcome.counts.emplace_back(check::to_string(kind), found);
    }
  }
  for (const auto& family : report.families)
    outcome.entries += family.entries;
  outcome.messages = report.family(engine::Family::message).entries;
  outcome.dead_letters = report.family(engine::Family::dead).entries;
  outcome.queues = report.family(engine::Family::queue).entries;
  outcome.found = report.total().found;
  outcome.repairable = report.total().repairable;
  return outcome;
}

Outcome outcome_of(postgres::CheckReport report) {
  Outcome outcome;
  for (postgres::Finding& finding : report.findings) {
    outcome.findings.push_back({.kind = std::move(finding.kind),
                                .what = std::move(finding.what),
                                .repairable = finding.repairable});
  }
  outcome.counts = std::move(report.counts);
  outcome.entries = report.rows;
  outcome.messages = report.messages;
  outcome.dead_letters = report.dead_letters;
  outcome.queues = report.queues;
  outcome.found = report.found;
  outcome.repairable = report.repairable;
  return outcome;
}

boost::json::object to_json(const Outcome& outcome) {
  boost::json::array findings;
  for (const Outcome::Finding& finding : outcome.findings) {
    findings.push_back(boost::json::object{
        {"kind", finding.kind}, {"what", finding.what}, {"repairable", finding.repairable}});
  }
  boost::json::object counts;
  for (const auto& [kind, found] : outcome.counts)
    counts[kind] = found;
  return {{"clean", outcome.clean()},         {"entries", outcome.entries},
          {"messages", outcome.messages},     {"dead_letters", outcome.dead_letters},
          {"queues", outcome.queues},         {"found", outcome.found},
          {"repairable", outcome.repairable}, {"counts", std::move(counts)},
          {"findings", std::move(findings)}};
}

void print_text(const Outcome& outcome, Output& output) {
  for (const Outcome::Finding& finding : outcome.findings) {
    output.text(fmt::format("{}: {}{}\n", finding.kind, finding.what,
                            finding.repairable ? " (--repair can mend it)" : ""));
  }
  if (const auto left = outcome.found - outcome.findings.size(); left > 0) {
    output.text(fmt::format("… and {} more\n", left));
  }
  output.text(fmt::format(
      "{} messages, {} dead letters, {} queues: {}\n", outcome.messages, outcome.dead_letters,
      outcome.queues,
      outcome.clean() ? "all is well" : fmt::format("{} things are wrong", outcome.found)));
}

Result<Outcome> check_embedded(const CheckOptions& options) {
  ProgressLine line;
  const check::Progress progress = [&](std::string_view family, std::uint64_t entries) {
    line.show(family, entries);
  };
  auto backend = open_at_rest(options);
  if (!backend) return std::unexpected(std::move(backend).error());
  auto report = check::inspect(**backend, progress);
  line.clear();
  if (!report) return std::unexpected(std::move(report).error());
  if (!options.repair || report->total().repairable == 0) return outcome_of(*report);

  backend->reset();
  auto copy = copy_store(options.url);
  if (!copy) return std::unexpected(std::move(copy).error());
  backend = open_at_rest(options);
  if (!backend) return std::unexpected(std::move(backend).error());
  auto repaired = write_repair(**backend, progress);
  line.clear();
  if (!repaired) return std::unexpected(std::move(repaired).error());
  auto after = check::inspect(**backend, progress);
  line.clear();
  if (!after) return std::unexpected(std::move(after).error());
  Outcome outcome = outcome_of(*after);
  outcome.copy = copy->native();
  outcome.repaired = repaired->total().repairable;
  return outcome;
}

Result<Outcome> check_postgres(const CheckOptions& options, const std::string& url) {
  const auto location = postgres::parse_location(url);
  if (!location) return std::unexpected(location.error());
  const auto connection = postgres::Connection::open(location->conninfo);
  if (!connection) return std::unexpected(connection.error());
  auto report = postgres::check(**connection, *location);
  if (!report) return std::unexpected(std::move(report).error());
  if (!options.repair || report->repairable == 0) return outcome_of(std::move(*report));

  auto repaired = postgres::repair(**connection, *location);
  if (!repaired) return std::unexpected(std::move(repaired).error());
  auto after = postgres::check(**connection, *location);
  if (!after) return std::unexpected(std::move(after).error());
  const std::uint64_t mended = report->repairable;
  Outcome outcome = outcome_of(std::move(*after));
  outcome.copy = std::move(repaired->copy);
  outcome.repaired = mended;
  return outcome;
}

Result<Outcome> check_store(const CheckOptions& options) {
  const auto url = store::parse_url(options.url);
  const bool in_postgres = url && url->scheme == store::Url::Scheme::postgres;
  auto outcome = in_postgres ? check_postgres(options, url->rest) : check_embedded(options);
  // The URL of a database may have a password in it.
  if (outcome) outcome->store = in_postgres ? "the store" : base::printable(options.url);
  return outcome;
}

Exit run_check(const CheckOptions& options, Output& output) {
  const auto outcome = check_store(options);
  if (!outcome) return fail(outcome.error());
  if (output.json()) {
    boost::json::object object = to_json(*outcome);
    if (options.repair) {
      object["repaired"] = outcome->repaired;
      object["copy"] =
          outcome->copy ? boost::json::value(*outcome->copy) : boost::json::value(nullptr);
    }
    output.object(object);
  } else {
    if (outcome->copy) {
      output.text(fmt::format("{} things were repaired; the store as it was is in {}\n",
                              outcome->repaired, base::printable(*outcome->copy)));
    }
    print_text(*outcome, output);
  }
  if (outcome->clean()) return Exit::done;
  if (!output.flush()) return Exit::failed;
  return fail(fmt::format(
      "{} things are wrong with {}{}", outcome->found, outcome->store,
      outcome->repairable > 0 ? "; --repair mends what can be mended" : ", and need a person"));
}

}  // namespace

void add_check_commands(Family program) {
  add_command<CheckOptions>(program,
                            {.name = "check",
                             .what = "Verifies every invariant of a store.",
                             .example = "  strand check rocksdb:/var/lib/strand\n"
                                        "  strand check postgres://strand@db.example.com/app\n"
                                        "  strand check sqlite:orders.db --repair -o json"},
                            declare_check, run_check);
}

}  // namespace strand::cli
