#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/instances.h"

// saga ls, show

namespace strand::cli {

namespace {

using base::escaped;
using base::printable;

std::string text_of(const std::optional<Time>& time) { return time ? format_time(*time) : ""; }

// --- ls ---

struct ListOptions : InstancesOptions {
  std::optional<SagaStatus> status = {};
  std::string after = {};
  std::size_t limit = 100;
};

Result<void> read_status(std::optional<SagaStatus>& target, std::string_view text) {
  const auto status = shown::parse_saga_status(text);
  if (!status) return std::unexpected(status.error());
  target = *status;
  return {};
}

void declare_ls(CLI::App& app, ListOptions& options) {
  add_value(app, "--status", "S",
            "Only pending, in_progress, completed, compensating or failed ones",
            [&options](std::string_view text) { return read_status(options.status, text); });
  add_text(app, "--after", options.after, "ID", "Only of instances behind this one: the next page");
  add_number<std::size_t>(app, "--limit", options.limit, 1,
                          "So many (100), and the rest of the last instance");
  add_instances(app, options);
}

Exit run_ls(const ListOptions& options, Output& output) {
  auto found = find_instances(options);
  if (!found) return fail(found.error());
  std::vector<std::vector<std::string>> rows = {{"INSTANCE", "SAGA", "STATUS", "STARTED", "ENDED"}};
  bool more = false;
  if (*found) {
    const auto page = (*found)->workflows.all_sagas(options.status, options.after, options.limit);
    if (!page) return fail(page.error());
    for (const SagaInfo& saga : page->items) {
      if (output.json()) output.object(to_json(saga));
      rows.push_back({printable(saga.coordinator), printable(saga.name),
                      std::string(to_string(saga.status)), format_time(saga.started_at),
                      text_of(saga.ended_at)});
    }
    more = page->more;
  }
  if (output.json()) return Exit::done;
  output.text(table(rows));
  if (more) complain("there are more; --after with the last instance goes on, --limit shows more");
  return Exit::done;
}

// --- show ---

struct ShowOptions : InstancesOptions {
  std::string instance = {};
};

void declare_show(CLI::App& app, ShowOptions& options) {
  add_text(app, "INSTANCE", options.instance, "", "The instance that coordinates them").required();
  add_instances(app, options);
}

std::string describe(const SagaInfo& saga) {
  std::vector<std::vector<std::string>> rows = {{"coordinator", escaped(saga.coordinator)},
                                                {"execution", fmt::to_string(saga.execution)},
                                                {"saga", escaped(saga.name)},
                                                {"status", std::string(to_string(saga.status))},
                                                {"started", format_time(saga.started_at)}};
  if (saga.reason) rows.push_back({"undone because", escaped(*saga.reason)});
  if (saga.ended_at) rows.push_back({"ended", format_time(*saga.ended_at)});
  if (!saga.data.empty()) rows.push_back({"data", escaped(saga.data)});
  std::vector<std::vector<std::string>> steps = {
      {"STEP", "AGENT", "STATUS", "UNDOES", "COMPLETED", "DATA", "ERROR"}};
  for (const SagaStep& step : saga.steps) {
    steps.push_back({printable(step.name), printable(step.agent),
                     std::string(to_string(step.status)), printable(step.compensates.value_or("")),
                     text_of(step.completed_at), printable(step.data),
                     printable(step.error.value_or(""))});
  }
  return table(rows) + (saga.steps.empty() ? "" : table(steps));
}

Exit run_show(const ShowOptions& options, Output& output) {
  auto instances = open_instances(options);
  if (!instances) return fail(instances.error());
  const auto sagas = instances->workflows.sagas(options.instance);
  if (!sagas) return fail(sagas.error());
  if (sagas->empty()) {
    const auto info = instances->workflows.get(options.instance);
    if (!info) return fail(info.error());
    if (!output.json()) {
      complain(fmt::format("instance '{}' has begun no saga", printable(options.instance)));
    }
    return Exit::done;
  }
  bool first = true;
  for (const SagaInfo& saga : *sagas) {
    if (output.json()) {
      output.object(with_steps(saga));
    } else {
      output.text((first ? "" : "\n") + describe(saga));
    }
    first = false;
  }
  return Exit::done;
}

}  // namespace

void add_saga_commands(Family program) {
  const Family saga = add_family(program, "saga", "Looks at sagas: steps, and what undoes them.");
  add_command<ListOptions>(saga,
                           {.name = "ls",
                            .what = "Lists sagas by the instances that coordinate them.",
                            .example = "  strand saga ls --status compensating"},
                           declare_ls, run_ls);
  add_command<ShowOptions>(saga,
                           {.name = "show",
                            .what = "Shows the sagas of an instance with all their steps.",
                            .example = "  strand saga show trip-7 -o json"},
                           declare_show, run_show);
}

}  // namespace strand::cli
