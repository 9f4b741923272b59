#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <strand/workflow_worker.h>
#include <strand/workflows.h>

namespace strand::cli {

// A workflow that lives for ever: each event is one of its history, and its status says how many
// came.
const WorkflowType<int()>& listening();

// The same with checkpoints.
const WorkflowType<int()>& remembering();

// One more event for an instance.
void add_word(Transaction& transaction, const std::string& id);
// So many, without a sync.
Result<void> send_words(Workflows& workflows, const std::string& id, std::uint64_t count);

// A counter or gauge of a worker; the first of its name.
double value_of(const WorkflowWorker& worker, std::string_view name);
std::uint64_t count_of(const WorkflowWorker& worker, std::string_view name);

}  // namespace strand::cli
