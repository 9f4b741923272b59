#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <strand/workflows.h>

#include "base/text.h"
#include "queue/json.h"
#include "server/http/router.h"
#include "workflow/json.h"

// Instances of workflows, and their sagas.

namespace strand::server::http {

namespace {

using shown::put_bytes;
using shown::to_json;

std::string queue_of(const Call& call) {
  return call.query.text("queue").value_or(WorkflowsOptions{}.queue);
}

// A store without that queue has no workflows. Nothing is made by looking.
Result<std::optional<Workflows>> find_workflows(const Call& call, Role role) {
  const std::string queue = queue_of(call);
  if (auto may = call.need(role, queue); !may) return std::unexpected(may.error());
  const auto queues = call.store().queues();
  if (!queues) return std::unexpected(queues.error());
  if (std::ranges::find(*queues, queue, &QueueInfo::name) == queues->end()) return std::nullopt;
  auto workflows = Workflows::open(call.store(), {.queue = queue});
  if (!workflows) return std::unexpected(workflows.error());
  return *std::move(workflows);
}

// The same, for those who need one.
Result<Workflows> open_workflows(const Call& call, Role role) {
  auto found = find_workflows(call, role);
  if (!found) return std::unexpected(std::move(found.error()));
  if (!*found) {
    return failure(Errc::not_found,
                   fmt::format("no workflow was ever started here: there is no queue '{}'",
                               base::printable(queue_of(call))));
  }
  return **std::move(found);
}

Result<InstanceFilter> read_filter(const Call& call) {
  const Query& query = call.query;
  InstanceFilter filter;
  if (const auto text = query.text("state")) {
    const auto state = parse_instance_state(*text);
    if (!state) return std::unexpected(state.error());
    filter.state = *state;
  }
  const auto ended = query.flag("ended");
  if (!ended) return std::unexpected(ended.error());
  const auto since = query.time("since");
  if (!since) return std::unexpected(since.error());
  const auto until = query.time("until");
  if (!until) return std::unexpected(until.error());
  const auto limit = query.limit();
  if (!limit) return std::unexpected(limit.error());
  filter.ended = *ended;
  filter.created_after = *since;
  filter.created_before = *until;
  filter.limit = *limit;
  filter.name = query.text("name");
  filter.parent = query.text("parent");
  filter.prefix = query.text("prefix").value_or("");
  filter.after = query.text("after").value_or("");
  return filter;
}

Result<Response> list(const Call& call) {
  const auto filter = read_filter(call);
  if (!filter) return std::unexpected(filter.error());
  auto workflows = find_workflows(call, Role::receive);
  if (!workflows) return std::unexpected(workflows.error());
  if (!*workflows) return json_response(page_json({}, false, ""));
  auto page = (*workflows)->list(*filter);
  if (!page) return std::unexpected(page.error());
  const auto added = shown::add_parked(call.store(), queue_of(call), page->items);
  if (!added) return std::unexpected(added.error());
  boost::json::array items;
  for (const InstanceInfo& info : page->items)
    items.push_back(to_json(info));
  const std::string next = page->items.empty() ? "" : page->items.back().id;
  return json_response(page_json(std::move(items), page->more, next));
}

Result<Response> show(const Call& call) {
  auto workflows = open_workflows(call, Role::receive);
  if (!workflows) return std::unexpected(workflows.error());
  const auto shown = shown::look_at(*workflows, call.path[0]);
  if (!shown) return std::unexpected(shown.error());
  return json_response(to_json(*shown));
}

Result<Response> history(const Call& call) {
  const auto execution = call.query.number("execution", 0, 1, UINT64_MAX);
  if (!execution) return std::unexpected(execution.error());
  const auto after = call.query.number("after", 0, 0, UINT64_MAX);
  if (!after) return std::unexpected(after.error());
  const auto limit = call.query.limit();
  if (!limit) return std::unexpected(limit.error());
  auto workflows = open_workflows(call, Role::receive);
  if (!workflows) return std::unexpected(workflows.error());
  boost::json::array items;
  std::uint64_t from = *after;
  std::uint64_t which = *execution;
  std::uint64_t length = 0;
  // In slices, because events may be large.
  for (std::size_t bytes = 0; items.size() < *limit && bytes < answer_bytes;) {
    const auto page =
        workflows->history(call.path[0], which, from, std::min(*limit - items.size(), slice_items));
    if (!page) return std::unexpected(page.error());
    which = page->execution;  // the last one may become the one before it while we read
    length = page->length;
    for (std::size_t i = 0; i < page->events.size(); ++i) {
      bytes += page->events[i].data.size();
      items.push_back(to_json(page->events[i], page->first + i));
    }
    from = page->first + page->events.size();
    if (page->events.empty() || from >= length) break;
  }
  boost::json::object answer = page_json(std::move(items), from < length, fmt::to_string(from));
  answer["execution"] = which;
  answer["length"] = length;
  return json_response(answer);
}

Result<Response> send_event(const Call& call) {
  std::optional<std::string> name;
  std::optional<std::string> text;
  bool has_value = false;
  auto read = call.read_body({member("name", name),
                              member("text", text),
                              {"value", [&](const json::View&) -> Result<void> {
                                 has_value = true;
                                 return {};
                               }}});
  if (!read) return std::unexpected(read.error());
  if (!name) return failure(Errc::invalid_argument, "the body: name: missing");
  if (text && has_value) {
    return failure(Errc::invalid_argument,
                   "the body: give a `value`, which is sent as JSON, or a `text`, not both");
  }
  if (has_value) {
    // It was read once, so it can be read again.
    boost::json::parse_options options;
    options.max_depth = json::depth_max;
    text = boost::json::serialize(boost::json::parse(call.request.body, {}, options).at("value"));
  }
  auto workflows = open_workflows(call, Role::send);
  if (!workflows) return std::unexpected(workflows.error());
  const auto sent = workflows->send_event(call.path[0], *name, text.value_or(""));
  if (!sent) return std::unexpected(sent.error());
  boost::json::object object{{"id", call.path[0]}};
  put_bytes(object, "event", *name);
  return json_response(object);
}

Result<std::string> read_reason(const Call& call, std::string usual) {
  std::optional<std::string> reason;
  if (auto read = call.read_body({member("reason", reason)}); !read)
    return std::unexpected(read.error());
  return reason.value_or(std::move(usual));
}

Result<Response> cancel(const Call& call) {
  auto reason = read_reason(call, "cancelled by request");
  if (!reason) return std::unexpected(reason.error());
  auto workflows = open_workflows(call, Role::admin);
  if (!workflows) return std::unexpected(workflows.error());
  const auto asked = workflows->cancel(call.path[0], *reason);
  if (!asked) return std::unexpected(asked.error());
  return json_response({{"id", call.path[0]}, {"cancel_requested", true}});
}

Result<Response> terminate(const Call& call) {
  auto reason = read_reason(call, "terminated by request");
  if (!reason) return std::unexpected(reason.error());
  auto workflows = open_workflows(call, Role::admin);
  if (!workflows) return std::unexpected(workflows.error());
  const auto ended = workflows->terminate(call.path[0], *reason);
  if (!ended) return std::unexpected(ended.error());
  return json_response({{"id", call.path[0]}, {"terminated", *ended}});
}

Result<Response> resume(const Call& call) {
  auto workflows = open_workflows(call, Role::admin);
  if (!workflows) return std::unexpected(workflows.error());
  const auto resumed = workflows->resume(call.path[0]);
  if (!resumed) return std::unexpected(resumed.error());
  return json_response({{"id", call.path[0]}, {"resumed", true}});
}

Result<Response> list_sagas(const Call& call) {
  std::optional<SagaStatus> status;
  if (const auto text = call.query.text("status")) {
    const auto known = shown::parse_saga_status(*text);
    if (!known) return std::unexpected(known.error());
    status = *known;
  }
  const auto limit = call.query.limit();
  if (!limit) return std::unexpected(limit.error());
  auto workflows = find_workflows(call, Role::receive);
  if (!workflows) return std::unexpected(workflows.error());
  if (!*workflows) return json_response(page_json({}, false, ""));
  const auto page = (*workflows)->all_sagas(status, call.query.text("after").value_or(""), *limit);
  if (!page) return std::unexpected(page.error());
  boost::json::array items;
  for (const SagaInfo& saga : page->items)
    items.push_back(to_json(saga));
  const std::string next = page->items.empty() ? "" : page->items.back().coordinator;
  return json_response(page_json(std::move(items), page->more, next));
}

Result<Response> show_sagas(const Call& call) {
  auto workflows = open_workflows(call, Role::receive);
  if (!workflows) return std::unexpected(workflows.error());
  const auto sagas = workflows->sagas(call.path[0]);
  if (!sagas) return std::unexpected(sagas.error());
  if (sagas->empty()) {
    const auto info = workflows->get(call.path[0]);
    if (!info) return std::unexpected(info.error());
  }
  boost::json::array items;
  for (const SagaInfo& saga : *sagas)
    items.push_back(shown::with_steps(saga));
  return json_response({{"items", std::move(items)}});
}

const Parameter queue_parameter = {"queue", "string", "The queue of the instances; else workflow"};
const Parameter limit_parameter = {"limit", "integer",
                                   "At most so many items: 1 to 1000, else 100"};
const Parameter after_parameter = {"after", "string", "The `next` of the page before"};

std::vector<Route> looking_routes() {
  const std::string one = "/api/v1/workflows/{id}";
  return {
      {.method = "GET",
       .path = "/api/v1/workflows",
       .what = "Lists instances by their ids.",
       .query = {{"state", "string",
                  "Only pending, running, completed, failed, cancelled, terminated or timed_out "
                  "ones"},
                 {"ended", "boolean", "Only those that have ended, or have not"},
                 {"name", "string", "Only those of this workflow"},
                 {"parent", "string", "Only children of this instance"},
                 {"since", "string", "Only those started then (RFC 3339) or later"},
                 {"until", "string", "Only those started before"},
                 {"prefix", "string", "Only ids that begin so"},
                 after_parameter,
                 limit_parameter,
                 queue_parameter},
       .answers = "InstancePage",
       .answer = list},
      {.method = "GET",
       .path = one,
       .what = "Shows an instance: where it stands, its values, children and sagas.",
       .query = {queue_parameter},
       .answers = "Instance",
       .answer = show},
      {.method = "GET",
       .path = one + "/history",
       .what = "Lists the events of an execution.",
       .query = {{"execution", "integer", "Which one, from 1; else the last"},
                 {"after", "integer", "The `next` of the page before: the number of an event"},
                 limit_parameter,
                 queue_parameter},
       .answers = "HistoryPage",
       .answer = history},
      {.method = "GET",
       .path = "/api/v1/sagas",
       .what = "Lists sagas by the instances that coordinate them.",
       .query = {{"status", "string",
                  "Only pending, in_progress, completed, compensating or failed ones"},
                 after_parameter,
                 limit_parameter,
                 queue_parameter},
       .answers = "SagaPage",
       .answer = list_sagas},
      {.method = "GET",
       .path = "/api/v1/sagas/{id}",
       .what = "Shows the sagas of an instance with all their steps.",
       .query = {queue_parameter},
       .answers = "SagasOfInstance",
       .answer = show_sagas},
  };
}

}  // namespace

std::vector<Route> workflow_routes() {
  const std::string one = "/api/v1/workflows/{id}";
  std::vector<Route> routes = looking_routes();
  const std::vector<Route> talking = {
      {.method = "POST",
       .path = one + "/events",
       .what = "Sends an event to an instance.",
       .query = {queue_parameter},
       .takes = "Event",
       .answers = "EventSent",
       .answer = send_event},
      {.method = "POST",
       .path = one + "/cancel",
       .what = "Asks an instance to end; it may clean up first.",
       .query = {queue_parameter},
       .takes = "Reason",
       .answers = "InstanceChanged",
       .answer = cancel},
      {.method = "POST",
       .path = one + "/terminate",
       .what = "Ends an instance at once; its code is not asked.",
       .query = {queue_parameter},
       .takes = "Reason",
       .answers = "InstanceChanged",
       .answer = terminate},
      {.method = "POST",
       .path = one + "/resume",
       .what = "Lets a parked instance go on.",
       .query = {queue_parameter},
       .answers = "InstanceChanged",
       .answer = resume},
  };
  routes.insert(routes.end(), talking.begin(), talking.end());
  return routes;
}

}  // namespace strand::server::http
