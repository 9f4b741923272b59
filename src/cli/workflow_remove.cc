#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/instances.h"

// workflow rm, prune

namespace strand::cli {

namespace {

boost::json::array list_of(const std::vector<std::string>& ids) {
  boost::json::array list;
  for (const std::string& id : ids)
    list.push_back(boost::json::value(id));
  return list;
}

// --- rm ---

struct RmOptions : InstancesOptions {
  std::string id = {};
  bool force = false;
  bool no_children = false;
};

void declare_rm(CLI::App& app, RmOptions& options) {
  add_instance(app, options, options.id);
  add_flag(app, "--force", options.force, "Also if it runs: it is terminated");
  add_flag(app, "--no-children", options.no_children,
           "Refuse if it has children, instead of removing them with it");
}

Exit run_rm(const RmOptions& options, Output& output) {
  auto instances = open_instances(options);
  if (!instances) return fail(instances.error());
  const auto removed = instances->workflows.remove(
      options.id, {.force = options.force, .children = !options.no_children});
  if (!removed && removed.error().code == Errc::in_use && !options.force && !options.no_children) {
    return fail(removed.error().message + " (--force)");
  }
  if (!removed) return fail(removed.error());
  if (output.json()) {
    output.object({{"removed", list_of(*removed)}});
  } else {
    for (const std::string& id : *removed)
      output.text(fmt::format("removed {}\n", base::escaped(id)));
  }
  return Exit::done;
}

// --- prune ---

struct PruneCommandOptions : InstancesOptions {
  PruneOptions prune = {};
  std::optional<Duration> older_than = {};
};

void declare_prune(CLI::App& app, PruneCommandOptions& options) {
  PruneOptions& prune = options.prune;
  add_duration(app, "--older-than", options.older_than, "Those that ended at least so long ago");
  add_state(app, prune.state, "Only completed, failed, cancelled, terminated or timed_out ones");
  add_text(app, "--name", prune.name, "N", "Only those of this workflow");
  add_flag(app, "--old-executions", prune.old_executions,
           "Of all instances, also those that run: only the histories of executions before the "
           "last");
  add_number<std::size_t>(app, "--limit", prune.limit, 1, "At most so many instances (1000)");
  add_flag(app, "--dry-run", prune.dry_run, "Only say which");
  add_instances(app, options);
}

std::optional<Exit> check_prune(const PruneCommandOptions& options) {
  const PruneOptions& prune = options.prune;
  if (prune.old_executions && options.older_than) {
    return wrong_usage(
        "--old-executions looks at all instances, whether they have ended or not: leave out "
        "--older-than");
  }
  if (!prune.old_executions && !options.older_than) {
    return wrong_usage("say how long ago they have ended: --older-than 30d");
  }
  if (!prune.old_executions && prune.state && !has_ended(*prune.state)) {
    return wrong_usage(fmt::format("--state: what is {} is never pruned", to_string(*prune.state)));
  }
  return std::nullopt;
}

std::string summary(const PruneOptions& prune, const PruneReport& report) {
  if (prune.dry_run) {
    return fmt::format("{} instances would be {}\n", report.ids.size(),
                       prune.old_executions ? "shortened" : "removed");
  }
  if (prune.old_executions) {
    return fmt::format("{} old executions of {} instances removed\n", report.executions,
                       report.ids.size());
  }
  return fmt::format("{} instances removed\n", report.instances);
}

Exit run_prune(const PruneCommandOptions& options, Output& output) {
  if (const auto wrong = check_prune(options)) return *wrong;
  auto found = find_instances(options);
  if (!found) return fail(found.error());
  PruneOptions prune = options.prune;
  prune.older_than = options.older_than.value_or(Duration{0});
  PruneReport report;
  if (*found) {
    auto pruned = (*found)->workflows.prune(prune);
    if (!pruned) return fail(pruned.error());
    report = *std::move(pruned);
  }
  if (output.json()) {
    output.object({{"instances", report.instances},
                   {"executions", report.executions},
                   {"ids", list_of(report.ids)},
                   {"dry_run", prune.dry_run}});
    return Exit::done;
  }
  if (prune.dry_run) {
    for (const std::string& id : report.ids)
      output.text(base::escaped(id) + "\n");
  }
  output.text(summary(prune, report));
  return Exit::done;
}

}  // namespace

void add_workflow_remove_commands(Family workflow) {
  add_command<RmOptions>(
      workflow,
      {.name = "rm",
       .what = "Removes an instance, its children, and all that there is of them.",
       .example = "  strand workflow rm order-7\n"
                  "  strand workflow rm order-7 --force"},
      declare_rm, run_rm);
  add_command<PruneCommandOptions>(
      workflow,
      {.name = "prune",
       .what = "Removes instances that ended long ago, or old executions.",
       .example = "  strand workflow prune --older-than 30d --state completed --dry-run\n"
                  "  strand workflow prune --old-executions"},
      declare_prune, run_prune);
}

}  // namespace strand::cli
