#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/relay.h"
#include "relay/check.h"
#include "relay/status.h"

// relay check, status, resume

namespace strand::cli {

namespace {

using relay::TableStatus;

// --- check ---

struct CheckCommand : RelayCommon {
  bool no_kafka = false;
};

void declare_check(CLI::App& app, CheckCommand& options) {
  declare_relay_common(app, options);
  add_flag(app, "--no-kafka", options.no_kafka, "Look at the database only");
}

Exit run_check(const CheckCommand& options, Output& output) {
  const auto config = load_relay_config(options);
  if (!config) return fail(config.error());
  const auto findings = relay::check(*config, {.kafka = !options.no_kafka});
  if (!findings) return fail(findings.error());
  if (output.json()) {
    boost::json::array list;
    for (const relay::Finding& finding : *findings) {
      list.push_back(boost::json::object{{"table", finding.table},
                                         {"kind", finding.kind},
                                         {"what", finding.what},
                                         {"advice", finding.advice}});
    }
    output.object({{"ok", findings->empty()}, {"findings", std::move(list)}});
  } else {
    for (const relay::Finding& finding : *findings) {
      output.text(fmt::format("{}{}{}: {}{}{}\n", finding.table, finding.table.empty() ? "" : ": ",
                              finding.kind, finding.what, finding.advice.empty() ? "" : "; ",
                              finding.advice));
    }
    if (findings->empty()) output.text("all is well\n");
  }
  if (findings->empty()) return Exit::done;
  return fail(fmt::format("{} {} wrong", findings->size(),
                          findings->size() == 1 ? "thing is" : "things are"));
}

// --- status ---

boost::json::object to_json(const TableStatus::Stopped& stopped) {
  return {{"entity", stopped.entity},
          {"state", stopped.state},
          {"row", stopped.row},
          {"reason", stopped.reason},
          {"attempts", stopped.attempts},
          {"since", format_time(stopped.since)},
          {"next_at", cli::to_json(stopped.next_at)}};
}

boost::json::object to_json(const TableStatus::Worker& worker) {
  return {{"owner", worker.owner},
          {"process", worker.process},
          {"worker", worker.worker},
          {"host", worker.host},
          {"pid", worker.pid},
          {"strategy", worker.strategy},
          {"seen_at", format_time(worker.seen_at)},
          {"live", worker.live},
          {"rows", worker.rows}};
}

boost::json::object to_json(const TableStatus::Shard& shard) {
  return {{"shard", shard.shard},
          {"owner", shard.owner.empty() ? boost::json::value(nullptr) : shard.owner.c_str()},
          {"epoch", shard.epoch},
          {"until", cli::to_json(shard.until)}};
}

boost::json::value number_or_null(const std::optional<std::int64_t>& number) {
  return number ? boost::json::value(*number) : boost::json::value(nullptr);
}

template <class T>
boost::json::array to_array(const std::vector<T>& values) {
  boost::json::array array;
  for (const T& value : values)
    array.push_back(to_json(value));
  return array;
}

boost::json::object to_json(const TableStatus& status) {
  boost::json::value oldest = nullptr;
  boost::json::value lag = 0;
  if (status.oldest) {
    lag = number_or_null(status.oldest->waiting_ms);
    oldest = boost::json::object{
        {"entity", status.oldest->entity}, {"id", status.oldest->id}, {"waiting_ms", lag}};
  }
  return {{"table", status.table},
          {"strategy", relay::to_string(status.strategy)},
          {"style", relay::to_string(status.style)},
          {"waiting_rows", status.waiting_rows},
          {"lag_ms", std::move(lag)},
          {"oldest", std::move(oldest)},
          {"trouble", to_array(status.trouble)},
          {"workers", to_array(status.workers)},
          {"claims", status.claims},
          {"shards", to_array(status.shards)}};
}

std::string in_words(const TableStatus& status) {
  std::string text = fmt::format("{}: {} rows wait", status.table, status.waiting_rows);
  if (status.oldest) {
    text += fmt::format(", the oldest of {}", base::printable(status.oldest->entity));
    if (status.oldest->waiting_ms) {
      text += fmt::format(" for {}", format_duration(Duration{*status.oldest->waiting_ms}));
    }
  }
  text += fmt::format(" (strategy {}, style {})\n", relay::to_string(status.strategy),
                      relay::to_string(status.style));
  for (const TableStatus::Stopped& stopped : status.trouble) {
    text += fmt::format("  {} {} at row {} since {}: {}\n", base::printable(stopped.entity),
                        stopped.state, stopped.row, format_time(stopped.since),
                        base::escaped(stopped.reason));
  }
  for (const TableStatus::Worker& worker : status.workers) {
    text += fmt::format("  worker {}: {}, {} rows, seen {}\n", worker.owner,
                        worker.live ? "live" : "gone", worker.rows, format_time(worker.seen_at));
  }
  for (const TableStatus::Shard& shard : status.shards) {
    text +=
        fmt::format("  shard {}: {}\n", shard.shard, shard.owner.empty() ? "free" : shard.owner);
  }
  return text;
}

void declare_status(CLI::App& app, RelayCommon& options) { declare_relay_common(app, options); }

Exit run_status(const RelayCommon& options, Output& output) {
  const auto config = load_relay_config(options);
  if (!config) return fail(config.error());
  const auto tables = relay::status(*config);
  if (!tables) return fail(tables.error());
  for (const TableStatus& status : *tables) {
    if (output.json()) {
      output.object(to_json(status));
    } else {
      output.text(in_words(status));
    }
  }
  return Exit::done;
}

// --- resume ---

struct ResumeCommand : RelayCommon {
  std::vector<std::string> entities = {};
  bool all = false;
};

void declare_resume(CLI::App& app, ResumeCommand& options) {
  declare_relay_common(app, options);
  add_values(app, "--entity", "E", "This entity; may be repeated",
             [&options](std::string_view text) -> Result<void> {
               options.entities.emplace_back(text);
               return {};
             });
  add_flag(app, "--all", options.all, "Every entity that has stopped");
}

Exit run_resume(const ResumeCommand& options, Output& output) {
  if (options.entities.empty() != options.all) {
    return wrong_usage("say which entities go on: --entity E, or --all");
  }
  const auto config = load_relay_config(options);
  if (!config) return fail(config.error());
  std::size_t resumed = 0;
  for (const relay::TableSettings& table : config->tables) {
    const auto done = relay::resume(*config, table, options.entities);
    if (!done) return fail(done.error());
    resumed += *done;
  }
  if (output.json()) {
    output.object({{"resumed", resumed}});
  } else {
    output.text(fmt::format("{} go on\n", resumed));
  }
  return resumed == 0 && !options.all ? fail("no such entity has stopped") : Exit::done;
}

}  // namespace

void add_relay_look(Family family) {
  add_command<CheckCommand>(
      family,
      {.name = "check",
       .what = "Verifies tables, columns, privileges, indexes, triggers and topics.",
       .example = "  strand relay check --config relay.toml"},
      declare_check, run_check);
  add_command<RelayCommon>(
      family,
      {.name = "status",
       .what = "Shows what waits, since when, what has stopped, and who works.",
       .example = "  strand relay status --config relay.toml -o json"},
      declare_status, run_status);
  add_command<ResumeCommand>(
      family,
      {.name = "resume",
       .what = "Lets entities go on that were parked or blocked.",
       .example = "  strand relay resume --config relay.toml --table outbox --entity order-7"},
      declare_resume, run_resume);
}

}  // namespace strand::cli
