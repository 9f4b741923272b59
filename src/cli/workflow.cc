#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/instances.h"
#include "cli/json.h"

// workflow start, event, query, cancel, terminate, resume, result

namespace strand::cli {

namespace {

using base::escaped;
using base::printable;

// Many workflows, events and queries take no value: none is none, and "-" is the standard input.
void add_input(CLI::App& app, const std::string& name, std::optional<std::string>& target,
               const std::string& what) {
  add_text(app, name, target, "", what + "; '-': the standard input; none: no value");
}

Result<Bytes> read_input(const std::optional<std::string>& argument) {
  return argument ? read_body(argument) : Bytes{};
}

// --- start ---

struct StartCommandOptions : InstancesOptions {
  StartRequest request = {};
  std::optional<std::string> input = {};
  std::optional<Duration> delay = {};
};

Result<void> read_if_exists(IfExists& target, std::string_view text) {
  static constexpr std::pair<std::string_view, IfExists> words[] = {{"join", IfExists::join},
                                                                    {"reject", IfExists::reject},
                                                                    {"reuse", IfExists::reuse},
                                                                    {"replace", IfExists::replace}};
  for (const auto& [word, value] : words) {
    if (word != text) continue;
    target = value;
    return {};
  }
  return failure(Errc::invalid_argument,
                 fmt::format("'{}' is none of join, reject, reuse, replace", printable(text)));
}

void declare_start(CLI::App& app, StartCommandOptions& options) {
  StartRequest& request = options.request;
  add_text(app, "NAME", request.name, "", "The workflow").required();
  add_input(app, "INPUT", options.input, "Its input");
  add_text(app, "--id", request.id, "ID", "The instance: one id is one instance").required();
  add_number<std::uint32_t>(app, "--version", request.version, 0, "Of the workflow (1)");
  add_value(
      app, "--if-exists", "WHAT",
      "If there is such an instance: join it if it is the same (default), reject, reuse the id if "
      "it has ended, replace it",
      [&request](std::string_view text) { return read_if_exists(request.if_exists, text); });
  add_duration(app, "--delay", options.delay, "It begins when this time has passed");
  add_duration(app, "--timeout", request.timeout, "It ends as timed_out if it takes longer");
  add_instances(app, options);
}

Exit run_start(const StartCommandOptions& options, Output& output) {
  auto input = read_input(options.input);
  if (!input) return fail(input.error());
  StartRequest request = options.request;
  request.input = *std::move(input);
  request.delay = options.delay.value_or(Duration{0});
  auto instances = make_instances(options);
  if (!instances) return fail(instances.error());
  const auto started = instances->workflows.start(request);
  if (!started && started.error().code == Errc::already_exists) {
    return fail(started.error().message + " (--if-exists)");
  }
  if (!started) return fail(started.error());
  if (output.json()) {
    output.object({{"id", request.id}, {"started", *started}});
  } else {
    output.text(fmt::format("{} {}\n", *started ? "started" : "joined", escaped(request.id)));
  }
  return Exit::done;
}

// --- event ---

struct EventOptions : InstancesOptions {
  std::string id = {};
  std::string name = {};
  std::optional<std::string> value = {};
};

void declare_event(CLI::App& app, EventOptions& options) {
  add_instance(app, options, options.id);
  add_text(app, "NAME", options.name, "", "The event").required();
  add_input(app, "VALUE", options.value, "Its value");
}

Exit run_event(const EventOptions& options, Output& output) {
  const auto value = read_input(options.value);
  if (!value) return fail(value.error());
  auto instances = open_instances(options);
  if (!instances) return fail(instances.error());
  const auto sent = instances->workflows.send_event(options.id, options.name, *value);
  if (!sent) return fail(sent.error());
  // That is allowed, and may be a mistyped id.
  const auto info = instances->workflows.get(options.id);
  if (!info && info.error().code == Errc::not_found) {
    complain(fmt::format("there is no instance '{}' yet; the event waits for it",
                         printable(options.id)));
  }
  if (output.json()) {
    boost::json::object object{{"id", options.id}};
    put_bytes(object, "event", options.name);
    output.object(object);
  } else {
    output.text(fmt::format("sent {} to {}\n", escaped(options.name), escaped(options.id)));
  }
  return Exit::done;
}

// --- query ---

struct QueryOptions : InstancesOptions {
  std::string id = {};
  std::string name = {};
  std::optional<std::string> input = {};
  std::optional<Duration> wait = {};
};

void declare_query(CLI::App& app, QueryOptions& options) {
  add_instance(app, options, options.id);
  add_text(app, "NAME", options.name, "", "The query").required();
  add_input(app, "INPUT", options.input, "What it is asked");
  add_duration(app, "--wait", options.wait, "How long a worker may take to answer (10s)");
}

Exit run_query(const QueryOptions& options, Output& output) {
  auto input = read_input(options.input);
  if (!input) return fail(input.error());
  auto instances = open_instances(options);
  if (!instances) return fail(instances.error());
  const auto answer = instances->workflows.query(options.id, options.name, *std::move(input),
                                                 options.wait.value_or(std::chrono::seconds{10}));
  if (!answer) return fail(answer.error());
  if (output.json()) {
    boost::json::object object{{"id", options.id}};
    put_bytes(object, "query", options.name);
    put_bytes(object, "answer", *answer);
    output.object(object);
  } else {
    output.text(escaped(*answer) + "\n");
  }
  return Exit::done;
}

// --- cancel, terminate, resume ---

struct EndOptions : InstancesOptions {
  std::string id = {};
  std::optional<std::string> reason = {};
};

void declare_resume(CLI::App& app, EndOptions& options) { add_instance(app, options, options.id); }

void declare_end(CLI::App& app, EndOptions& options) {
  add_instance(app, options, options.id);
  add_text(app, "--reason", options.reason, "TEXT", "Why, kept in the history");
}

void report(const EndOptions& options, std::string_view name, bool done, std::string_view text,
            Output& output) {
  if (output.json()) {
    output.object({{"id", options.id}, {name, done}});
  } else {
    output.text(fmt::format("{} {}\n", escaped(options.id), text));
  }
}

Exit run_cancel(const EndOptions& options, Output& output) {
  auto instances = open_instances(options);
  if (!instances) return fail(instances.error());
  const auto asked =
      instances->workflows.cancel(options.id, options.reason.value_or("cancelled by request"));
  if (!asked) return fail(asked.error());
  report(options, "cancel_requested", true, "is asked to end", output);
  return Exit::done;
}

Exit run_terminate(const EndOptions& options, Output& output) {
  auto instances = open_instances(options);
  if (!instances) return fail(instances.error());
  const auto ended =
      instances->workflows.terminate(options.id, options.reason.value_or("terminated by request"));
  if (!ended) return fail(ended.error());
  report(options, "terminated", *ended, *ended ? "is terminated" : "had ended before", output);
  return Exit::done;
}

Exit run_resume(const EndOptions& options, Output& output) {
  auto instances = open_instances(options);
  if (!instances) return fail(instances.error());
  const auto resumed = instances->workflows.resume(options.id);
  if (!resumed) return fail(resumed.error());
  report(options, "resumed", true, "goes on", output);
  return Exit::done;
}

// --- result ---

struct ResultOptions : InstancesOptions {
  std::string id = {};
  std::optional<Duration> wait = {};
};

void declare_result(CLI::App& app, ResultOptions& options) {
  add_instance(app, options, options.id);
  add_duration(app, "--wait", options.wait, "How long to wait for its end; else it has ended");
}

boost::json::object ended_json(const std::string& id, const Ended& ended) {
  const bool completed = ended.state == InstanceState::completed;
  boost::json::object object{{"id", id}, {"state", to_string(ended.state)}};
  const auto put = [&](std::string_view name, const std::string& text, bool present) {
    put_optional(object, name, present ? std::optional(text) : std::nullopt);
  };
  put("result", ended.result, completed);
  put("error", ended.error, !completed);
  put("error_type", ended.error_type, !ended.error_type.empty());
  put("error_details", ended.error_details, !ended.error_details.empty());
  return object;
}

std::string why(const std::string& id, const Ended& ended) {
  std::string_view how = "failed";
  if (ended.state == InstanceState::cancelled) how = "was cancelled";
  if (ended.state == InstanceState::terminated) how = "was terminated";
  if (ended.state == InstanceState::timed_out) how = "ran out of time";
  return fmt::format("instance '{}' {}{}{}", printable(id), how, ended.error.empty() ? "" : ": ",
                     ended.error);
}

Exit not_yet(Workflows& workflows, const ResultOptions& options, const Output& output) {
  if (output.json()) return Exit::nothing;
  const auto info = workflows.get(options.id);
  if (!info) return fail(info.error());
  const std::string within = options.wait ? " within " + format_duration(*options.wait) : "";
  complain(fmt::format(
      "instance '{}' has not ended{}; it is {}", printable(options.id), within,
      info->parked ? "parked: " + printable(*info->parked) : std::string(to_string(info->state))));
  return Exit::nothing;
}

Exit run_result(const ResultOptions& options, Output& output) {
  auto instances = open_instances(options);
  if (!instances) return fail(instances.error());
  const auto ended = instances->workflows.wait(options.id, options.wait.value_or(Duration{0}));
  if (!ended) return fail(ended.error());
  if (!*ended) return not_yet(instances->workflows, options, output);
  const bool completed = (*ended)->state == InstanceState::completed;
  if (output.json()) {
    output.object(ended_json(options.id, **ended));
  } else if (completed) {
    output.text(escaped((*ended)->result) + "\n");
  }
  return completed ? Exit::done : fail(why(options.id, **ended));
}

}  // namespace

void add_workflow_commands(Family program) {
  const Family workflow =
      add_family(program, "workflow", "Starts workflows, talks to them, and looks at them.");
  add_command<StartCommandOptions>(
      workflow,
      {.name = "start",
       .what = "Starts an instance of a workflow; a worker runs it.",
       .example = "  strand workflow start checkout '{\"order\": 7}' --id order-7\n"
                  "  strand workflow start report --id nightly --if-exists reuse --timeout 1h"},
      declare_start, run_start);
  add_workflow_look_commands(workflow);
  add_command<EventOptions>(workflow,
                            {.name = "event",
                             .what = "Sends an event to an instance.",
                             .example = "  strand workflow event order-7 paid '{\"amount\": 12}'"},
                            declare_event, run_event);
  add_command<QueryOptions>(workflow,
                            {.name = "query",
                             .what = "Asks an instance that runs; a worker answers.",
                             .example = "  strand workflow query order-7 progress --wait 5s"},
                            declare_query, run_query);
  add_command<EndOptions>(workflow,
                          {.name = "cancel",
                           .what = "Asks an instance to end; it may clean up first.",
                           .example = "  strand workflow cancel order-7 --reason 'out of stock'"},
                          declare_end, run_cancel);
  add_command<EndOptions>(workflow,
                          {.name = "terminate",
                           .what = "Ends an instance at once; its code is not asked.",
                           .example = "  strand workflow terminate order-7 --reason 'runs wild'"},
                          declare_end, run_terminate);
  add_command<EndOptions>(workflow,
                          {.name = "resume",
                           .what = "Lets a parked instance go on.",
                           .example = "  strand workflow resume order-7"},
                          declare_resume, run_resume);
  add_command<ResultOptions>(
      workflow,
      {.name = "result",
       .what = "Prints the result of an instance; exit code 3 if it has not ended.",
       .example = "  strand workflow result order-7 --wait 1m"},
      declare_result, run_result);
  add_workflow_remove_commands(workflow);
}

}  // namespace strand::cli
