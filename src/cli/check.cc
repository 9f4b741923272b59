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
#include "store/open.h"
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
  add_text(app, "URL", options.url, "", "The store, which nobody may have open").required();
  add_flag(app, "--repair", options.repair,
           "Removes what belongs to nothing and counts anew, after making a copy beside the store");
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

boost::json::object to_json(const check::Report& report) {
  boost::json::array findings;
  for (const check::Finding& finding : report.findings) {
    findings.push_back(boost::json::object{{"kind", check::to_string(finding.kind)},
                                           {"what", finding.what},
                                           {"repairable", finding.repairable}});
  }
  boost::json::object counts;
  for (std::size_t i = 0; i < check::kind_count; ++i) {
    const auto kind = static_cast<check::Kind>(i);
    if (report.count(kind).found > 0) counts[check::to_string(kind)] = report.count(kind).found;
  }
  std::uint64_t entries = 0;
  for (const auto& family : report.families)
    entries += family.entries;
  return {{"clean", report.clean()},
          {"entries", entries},
          {"messages", report.family(engine::Family::message).entries},
          {"dead_letters", report.family(engine::Family::dead).entries},
          {"queues", report.family(engine::Family::queue).entries},
          {"found", report.total().found},
          {"repairable", report.total().repairable},
          {"counts", std::move(counts)},
          {"findings", std::move(findings)}};
}

void print_text(const check::Report& report, Output& output) {
  for (const check::Finding& finding : report.findings) {
    output.text(fmt::format("{}: {}{}\n", check::to_string(finding.kind), finding.what,
                            finding.repairable ? " (--repair can mend it)" : ""));
  }
  if (const auto left = report.total().found - report.findings.size(); left > 0) {
    output.text(fmt::format("… and {} more\n", left));
  }
  output.text(fmt::format(
      "{} messages, {} dead letters, {} queues: {}\n",
      report.family(engine::Family::message).entries, report.family(engine::Family::dead).entries,
      report.family(engine::Family::queue).entries,
      report.clean() ? "all is well" : fmt::format("{} things are wrong", report.total().found)));
}

struct Outcome {
  check::Report report;
  std::optional<fs::path> copy;
  std::uint64_t repaired = 0;
};

Result<Outcome> check_store(const CheckOptions& options) {
  ProgressLine line;
  const check::Progress progress = [&](std::string_view family, std::uint64_t entries) {
    line.show(family, entries);
  };
  auto backend = open_at_rest(options);
  if (!backend) return std::unexpected(std::move(backend).error());
  auto report = check::inspect(**backend, progress);
  line.clear();
  if (!report) return std::unexpected(std::move(report).error());
  Outcome outcome{.report = std::move(*report), .copy = {}, .repaired = 0};
  if (!options.repair || outcome.report.total().repairable == 0) return outcome;

  backend->reset();
  auto copy = copy_store(options.url);
  if (!copy) return std::unexpected(std::move(copy).error());
  outcome.copy = std::move(*copy);
  backend = open_at_rest(options);
  if (!backend) return std::unexpected(std::move(backend).error());
  auto repaired = write_repair(**backend, progress);
  line.clear();
  if (!repaired) return std::unexpected(std::move(repaired).error());
  outcome.repaired = repaired->total().repairable;
  auto after = check::inspect(**backend, progress);
  line.clear();
  if (!after) return std::unexpected(std::move(after).error());
  outcome.report = std::move(*after);
  return outcome;
}

Exit run_check(const CheckOptions& options, Output& output) {
  const auto outcome = check_store(options);
  if (!outcome) return fail(outcome.error());
  const check::Report& report = outcome->report;
  if (output.json()) {
    boost::json::object object = to_json(report);
    if (options.repair) {
      object["repaired"] = outcome->repaired;
      object["copy"] =
          outcome->copy ? boost::json::value(outcome->copy->native()) : boost::json::value(nullptr);
    }
    output.object(object);
  } else {
    if (outcome->copy) {
      output.text(fmt::format("{} things were repaired; the store as it was is in {}\n",
                              outcome->repaired, base::printable(outcome->copy->native())));
    }
    print_text(report, output);
  }
  if (report.clean()) return Exit::done;
  if (!output.flush()) return Exit::failed;
  return fail(fmt::format("{} things are wrong with {}{}", report.total().found,
                          base::printable(options.url),
                          report.total().repairable > 0 ? "; --repair mends what can be mended"
                                                        : ", and need a person"));
}

}  // namespace

void add_check_commands(Family program) {
  add_command<CheckOptions>(program,
                            {.name = "check",
                             .what = "Verifies every invariant of a store that nobody has open.",
                             .example = "  strand check rocksdb:/var/lib/strand\n"
                                        "  strand check sqlite:orders.db --repair -o json"},
                            declare_check, run_check);
}

}  // namespace strand::cli
