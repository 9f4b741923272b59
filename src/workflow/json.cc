#include "workflow/json.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "queue/json.h"

namespace strand::shown {

namespace json = boost::json;

Result<SagaStatus> parse_saga_status(std::string_view text) {
  using enum SagaStatus;
  std::string names;
  for (const SagaStatus status : {pending, in_progress, completed, compensating, failed}) {
    if (to_string(status) == text) return status;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", to_string(status));
  }
  return failure(Errc::invalid_argument, fmt::format("'{}' is no status of a saga; there are {}",
                                                     base::printable(text), names));
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

json::object to_json(const HistoryEvent& event, std::uint64_t number) {
  json::object object{{"number", number},
                      {"kind", to_string(event.kind)},
                      {"at", format_time(event.at)},
                      {"call", event.call}};
  put_bytes(object, "name", event.name);
  put_bytes(object, "data", event.data);
  object["details"] = to_json(event.details);
  return object;
}

Result<void> add_parked(Store& store, const std::string& queue, std::vector<InstanceInfo>& infos) {
  PeekQuery query{.queue = queue, .state = MessageState::parked, .limit = 1000};
  std::map<std::string, std::string> reasons;
  while (true) {
    const auto page = store.peek(query);
    if (!page) return std::unexpected(page.error());
    for (const PeekedMessage& message : page->items) {
      if (message.key) reasons[*message.key] = message.park_reason.value_or("");
    }
    if (!page->more || page->items.empty()) break;
    query.after = page->items.back().id;
  }
  for (InstanceInfo& info : infos) {
    const auto found = reasons.find(info.id);
    if (found != reasons.end() && !has_ended(info.state)) info.parked = found->second;
  }
  return {};
}

Result<Shown> look_at(Workflows& workflows, const std::string& id) {
  auto info = workflows.get(id);
  if (!info) return std::unexpected(std::move(info.error()));
  auto values = workflows.state(id);
  if (!values) return std::unexpected(std::move(values.error()));
  auto children = workflows.children(id);
  if (!children) return std::unexpected(std::move(children.error()));
  auto sagas = workflows.sagas(id);
  if (!sagas) return std::unexpected(std::move(sagas.error()));
  return Shown{.info = *std::move(info),
               .values = *std::move(values),
               .children = *std::move(children),
               .sagas = *std::move(sagas)};
}

json::object to_json(const Shown& shown) {
  json::object object = to_json(shown.info);
  json::array values;
  for (const auto& [key, value] : shown.values) {
    json::object entry;
    put_bytes(entry, "key", key);
    put_bytes(entry, "value", value);
    values.push_back(std::move(entry));
  }
  object["values"] = std::move(values);
  json::array children;
  for (const std::string& child : shown.children)
    children.push_back(json::value(child));
  object["children"] = std::move(children);
  json::array sagas;
  for (const SagaInfo& saga : shown.sagas)
    sagas.push_back(with_steps(saga));
  object["sagas"] = std::move(sagas);
  return object;
}

}  // namespace strand::shown
