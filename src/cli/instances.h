#pragma once

#include <memory>
#include <optional>
#include <string>

#include <strand/workflows.h>

#include "cli/options.h"
#include "workflow/json.h"

// What the commands on instances of workflows have in common.

namespace strand::cli {

struct InstancesOptions : Common {
  std::string queue = WorkflowsOptions{}.queue;
};

// --queue.
void add_instances(CLI::App& app, InstancesOptions& options);
// The same, and ID.
void add_instance(CLI::App& app, InstancesOptions& options, std::string& id);
void add_state(CLI::App& app, std::optional<InstanceState>& target, const std::string& what);

// A store, and the workflows in it.
struct Instances {
  std::unique_ptr<Store> store;
  Workflows workflows;
};

// Makes the store, and the queue of the instances, if they are missing.
Result<Instances> make_instances(const InstancesOptions& options);
// A store without that queue has no workflows. Nothing is made by looking.
Result<std::optional<Instances>> find_instances(const InstancesOptions& options);
// The same, for those who need one.
Result<Instances> open_instances(const InstancesOptions& options);

using shown::to_json;
using shown::with_steps;

// Parts of `workflow` that have files of their own.
void add_workflow_look_commands(Family workflow);    // ls, show, history
void add_workflow_remove_commands(Family workflow);  // rm, prune

}  // namespace strand::cli
