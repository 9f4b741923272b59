#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/instances.h"
#include "cli/json.h"

// workflow ls, show, history

namespace strand::cli {

namespace {

using base::escaped;
using base::printable;

constexpr std::size_t page_size = 1000;

std::string kind_of(const InstanceInfo& info) {
  return fmt::format("{}@{}", info.name, info.version);
}

// --- ls ---

struct ListOptions : InstancesOptions {
  InstanceFilter filter = {};
  Moment since = {};
  Moment until = {};
};

void declare_ls(CLI::App& app, ListOptions& options) {
  InstanceFilter& filter = options.filter;
  add_state(app, filter.state,
            "Only pending, running, completed, failed, cancelled, terminated or timed_out ones");
  add_text(app, "--name", filter.name, "N", "Only those of this workflow");
  add_text(app, "--parent", filter.parent, "ID", "Only children of this instance");
  add_moment(app, "--since", options.since, "Only those started then or later");
  add_moment(app, "--until", options.until, "Only those started before");
  add_text(app, "--prefix", filter.prefix, "P", "Only ids that begin so");
  add_text(app, "--after", filter.after, "ID", "Only ids behind this one: the next page");
  add_number<std::size_t>(app, "--limit", filter.limit, 1, "At most so many (100)");
  add_instances(app, options);
}

std::vector<std::string> row_of(const InstanceInfo& info) {
  return {printable(info.id),
          printable(kind_of(info)),
          info.parked ? "parked" : std::string(to_string(info.state)),
          format_time(info.created_at),
          info.ended_at ? format_time(*info.ended_at) : "",
          printable(info.parked.value_or(info.error.value_or(info.status)))};
}

Exit run_ls(const ListOptions& options, Output& output) {
  auto found = find_instances(options);
  if (!found) return fail(found.error());
  std::vector<std::vector<std::string>> rows = {
      {"ID", "WORKFLOW", "STATE", "STARTED", "ENDED", "STATUS"}};
  bool more = false;
  if (*found) {
    InstanceFilter filter = options.filter;
    const Time now = (*found)->store->now();
    filter.created_after = options.since.before(now);
    filter.created_before = options.until.before(now);
    auto page = (*found)->workflows.list(filter);
    if (!page) return fail(page.error());
    const auto added = shown::add_parked(*(*found)->store, options.queue, page->items);
    if (!added) return fail(added.error());
    for (const InstanceInfo& info : page->items) {
      if (output.json()) output.object(to_json(info));
      rows.push_back(row_of(info));
    }
    more = page->more;
  }
  if (output.json()) return Exit::done;
  output.text(table(rows));
  if (more) complain("there are more; --after with the last id goes on, --limit shows more");
  return Exit::done;
}

// --- show ---

struct ShowOptions : InstancesOptions {
  std::string id = {};
};

void declare_show(CLI::App& app, ShowOptions& options) { add_instance(app, options, options.id); }

using shown::Shown;

std::string describe(const Shown& shown) {
  const InstanceInfo& info = shown.info;
  std::vector<std::vector<std::string>> rows = {{"id", escaped(info.id)},
                                                {"workflow", escaped(kind_of(info))},
                                                {"state", std::string(to_string(info.state))}};
  if (!info.status.empty()) rows.push_back({"status", escaped(info.status)});
  if (info.parked) rows.push_back({"parked", escaped(*info.parked)});
  rows.push_back({"execution", fmt::to_string(info.execution)});
  if (info.parent) rows.push_back({"parent", escaped(*info.parent)});
  rows.push_back({"started", format_time(info.created_at)});
  if (info.ended_at) rows.push_back({"ended", format_time(*info.ended_at)});
  if (info.error) rows.push_back({"error", escaped(*info.error)});
  if (info.error_type) rows.push_back({"type", escaped(*info.error_type)});
  for (const auto& [key, value] : shown.values)
    rows.push_back({"value", fmt::format("{}: {}", escaped(key), escaped(value))});
  for (const std::string& child : shown.children)
    rows.push_back({"child", escaped(child)});
  for (const SagaInfo& saga : shown.sagas) {
    rows.push_back({"saga", fmt::format("{}  {}, {} steps", escaped(saga.name),
                                        to_string(saga.status), saga.steps.size())});
  }
  return table(rows);
}

Exit run_show(const ShowOptions& options, Output& output) {
  auto instances = open_instances(options);
  if (!instances) return fail(instances.error());
  const auto shown = shown::look_at(instances->workflows, options.id);
  if (!shown) return fail(shown.error());
  if (output.json()) {
    output.object(to_json(*shown));
  } else {
    output.text(describe(*shown));
  }
  return Exit::done;
}

// --- history ---

struct HistoryOptions : InstancesOptions {
  std::string id = {};
  std::uint64_t execution = 0;
  std::uint64_t from = 0;
  std::optional<std::uint64_t> limit = {};
};

void declare_history(CLI::App& app, HistoryOptions& options) {
  add_instance(app, options, options.id);
  add_number<std::uint64_t>(app, "--execution", options.execution, 1,
                            "Which one, from 1; else the last");
  add_number<std::uint64_t>(app, "--from", options.from, 0, "From this event on; the first is 0");
  add_value(app, "--limit", "N", "At most so many events; else all",
            [&options](std::string_view text) -> Result<void> {
              const auto number = parse_number<std::uint64_t>(text, 1);
              if (!number) return std::unexpected(number.error());
              options.limit = *number;
              return {};
            });
}

void print(const HistoryEvent& event, std::uint64_t number, Output& output) {
  if (output.json()) {
    output.object(to_json(event, number));
    return;
  }
  const std::string_view error = event.detail("error");
  output.text(fmt::format("{:>5}  {}  {}{}{}\n", number, format_time(event.at), describe(event),
                          error.empty() ? "" : ": ", printable(error)));
}

Exit run_history(const HistoryOptions& options, Output& output) {
  auto instances = open_instances(options);
  if (!instances) return fail(instances.error());
  std::uint64_t left = options.limit.value_or(UINT64_MAX);
  std::uint64_t execution = options.execution;
  for (std::uint64_t from = options.from; left > 0;) {
    const auto page = instances->workflows.history(options.id, execution, from,
                                                   std::min<std::uint64_t>(left, page_size));
    if (!page) return fail(page.error());
    // The last one may become the one before it while we read.
    execution = page->execution;
    for (std::size_t i = 0; i < page->events.size(); ++i)
      print(page->events[i], page->first + i, output);
    left -= page->events.size();
    // What was trimmed is passed over.
    from = page->first + page->events.size();
    if (page->events.empty() || from >= page->length) break;
  }
  return Exit::done;
}

}  // namespace

void add_workflow_look_commands(Family workflow) {
  add_command<ListOptions>(workflow,
                           {.name = "ls",
                            .what = "Lists instances by their ids.",
                            .example = "  strand workflow ls --state failed --since 1h\n"
                                       "  strand workflow ls --name checkout --limit 1000 -o json"},
                           declare_ls, run_ls);
  add_command<ShowOptions>(
      workflow,
      {.name = "show",
       .what = "Shows an instance: where it stands, its values, children and sagas.",
       .example = "  strand workflow show order-7"},
      declare_show, run_show);
  add_command<HistoryOptions>(workflow,
                              {.name = "history",
                               .what = "Prints the history of an instance, a line for each event.",
                               .example = "  strand workflow history order-7\n"
                                          "  strand workflow history order-7 --from 10 -o json"},
                              declare_history, run_history);
}

}  // namespace strand::cli
