#include "cli/instances.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace strand::cli {

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

}  // namespace strand::cli
