#include "cli/instances.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/json.h"

namespace strand::cli {

namespace json = boost::json;

void add_instances(CLI::App& app, InstancesOptions& options) {
  add_text(app, "--queue", options.queue, "Q", "The queue of the instances (workflow)");
}

void add_instance(CLI::App& app, InstancesOptions& options, std::string& id) {
  add_text(app, "ID", id, "", "The instance").required();
  add_instances(app, options);
}

void add_state(CLI::App& app, std::optional<InstanceState>& target, const std::string& what) {
  add_value(app, "--state", "S", what, [&target](std::string_view text) -> Result<void> {
    const auto state = parse_instance_state(text);
    if (!state) return std::unexpected(state.error());
    target = *state;
    return {};
  });
}

namespace {

Result<Instances> with_workflows(std::unique_ptr<Store> store, const InstancesOptions& options) {
  auto workflows = Workflows::open(*store, {.queue = options.queue});
  if (!workflows) return std::unexpected(std::move(workflows.error()));
  return Instances{.store = std::move(store), .workflows = *std::move(workflows)};
}

}  // namespace

Result<Instances> make_instances(const InstancesOptions& options) {
  auto store = open_store(options, IfMissing::create);
  if (!store) return std::unexpected(std::move(store.error()));
  return with_workflows(*std::move(store), options);
}

Result<std::optional<Instances>> find_instances(const InstancesOptions& options) {
  auto store = open_store(options, IfMissing::refuse);
  if (!store) return std::unexpected(std::move(store.error()));
  const auto queues = (*store)->queues();
  if (!queues) return std::unexpected(queues.error());
  if (std::ranges::find(*queues, options.queue, &QueueInfo::name) == queues->end()) {
    return std::nullopt;
  }
  auto found = with_workflows(*std::move(store), options);
  if (!found) return std::unexpected(std::move(found.error()));
  return *std::move(found);
}

Result<Instances> open_instances(const InstancesOptions& options) {
  auto found = find_instances(options);
  if (!found) return std::unexpected(std::move(found.error()));
  if (!*found) {
    return failure(Errc::not_found,
                   fmt::format("no workflow was ever started in this store: it has no queue '{}'; "
                               "strand workflow start starts one, --queue names another queue",
                               base::printable(options.queue)));
  }
  return **std::move(found);
}

json::object to_json(const InstanceInfo& info) {
  json::object object{{"id", info.id},
                      {"name", info.name},
                      {"version", info.version},
                      {"state", to_string(info.state)},
                      {"execution", info.execution}};
  put_bytes(object, "status", info.status);
  put_optional(object, "parent", info.parent);
  object["created_at"] = format_time(info.created_at);
  object["ended_at"] = to_json(info.ended_at);
  put_optional(object, "error", info.error);
  put_optional(object, "error_type", info.error_type);
  put_optional(object, "parked", info.parked);
  return object;
}

json::object to_json(const SagaInfo& saga) {
  json::object object{
      {"coordinator", saga.coordinator}, {"execution", saga.execution}, {"number", saga.number}};
  put_bytes(object, "name", saga.name);
  put_bytes(object, "data", saga.data);
  object["status"] = to_string(saga.status);
  put_optional(object, "reason", saga.reason);
  object["started_at"] = format_time(saga.started_at);
  object["ended_at"] = to_json(saga.ended_at);
  return object;
}

namespace {

json::object step_json(const SagaStep& step) {
  json::object object;
  put_bytes(object, "name", step.name);
  put_bytes(object, "agent", step.agent);
  put_bytes(object, "data", step.data);
  object["status"] = to_string(step.status);
  put_optional(object, "compensates", step.compensates);
  object["completed_at"] = to_json(step.completed_at);
  put_optional(object, "error", step.error);
  return object;
}

}  // namespace

json::object with_steps(const SagaInfo& saga) {
  json::object object = to_json(saga);
  json::array steps;
  for (const SagaStep& step : saga.steps)
    steps.push_back(step_json(step));
  object["steps"] = std::move(steps);
  return object;
}

}  // namespace strand::cli
