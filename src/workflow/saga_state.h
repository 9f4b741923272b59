#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <strand/activity.h>
#include <strand/saga.h>

namespace strand::workflow {

struct Fiber;

// One saga of an execution: what `Saga` writes and its undoing reads.
struct SagaState {
  struct Step {
    SagaStep shown = {};
    std::shared_ptr<const ActivityDefinition> undo = {};  // none: nothing to undo
    Bytes undo_input = {};
  };
  std::uint64_t number = 0;  // of the execution, from 1
  SagaInfo shown = {};
  std::vector<Step> steps = {};
  Retry undo_retry = {};
  std::weak_ptr<Fiber> fiber = {};  // that runs it
};

}  // namespace strand::workflow
