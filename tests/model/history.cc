// S20: the history of an instance is one chain.

#include <algorithm>

#include "model/state.h"
#include "model/text.h"

namespace strand::model {

void State::remove_history(const RemoveHistory& removal) {
  const Hold& hold = current(removal.token);
  if (!hold.lane.key) throw Refused{Errc::invalid_argument, "an unkeyed lease has no history"};
  QueueState& queue = queue_at(hold.queue);
  const auto instance = queue.instances.find(*hold.lane.key);
  const std::uint64_t last =
      instance == queue.instances.end() ? 0 : instance->second.rbegin()->first;
  if (removal.through_execution != 0 && removal.through_execution >= last) {
    throw Refused{Errc::history_mismatch, "the last execution is " + std::to_string(last)};
  }
  if (instance == queue.instances.end()) return;
  if (removal.through_execution == 0) {
    queue.instances.erase(instance);
  } else {
    std::erase_if(instance->second, [&](const auto& execution) {
      return execution.first <= removal.through_execution;
    });
  }
}

void State::append(const Append& append) {
  const Hold& hold = current(append.token);
  if (!hold.lane.key) throw Refused{Errc::invalid_argument, "an unkeyed lease has no history"};
  QueueState& queue = queue_at(hold.queue);
  const auto instance = queue.instances.find(*hold.lane.key);
  const bool exists = instance != queue.instances.end();
  const std::uint64_t last = exists ? instance->second.rbegin()->first : 0;
  const auto mismatch = [](const std::string& why) { throw Refused{Errc::history_mismatch, why}; };

  if (append.execution == last + 1) {
    if (exists && !instance->second.rbegin()->second.execution.outcome) {
      mismatch("the last execution is open");
    }
    if (append.expected_length != 0) mismatch("a new execution has length 0");
    Execution opened;
    opened.queue = hold.queue;
    opened.key = *hold.lane.key;
    opened.number = append.execution;
    opened.label = queue.lanes.at(hold.lane).label;
    opened.opened_at = now_;
    queue.instances[*hold.lane.key][append.execution] = ExecutionState{opened, {}};
  } else if (append.execution != last || !exists) {
    mismatch("the last execution is " + std::to_string(last));
  }
  ExecutionState& execution = queue.instances.at(*hold.lane.key).at(append.execution);
  if (execution.execution.outcome) mismatch("the execution is closed");
  if (execution.execution.length != append.expected_length) {
    mismatch("the length is " + std::to_string(execution.execution.length));
  }
  execution.events.insert(execution.events.end(), append.events.begin(), append.events.end());
  execution.execution.length += append.events.size();
  execution.execution.updated_at = now_;
  if (append.close) execution.execution.outcome = *append.close;
}

// The events stay where they are: nothing shows those before `first`.
void State::trim_history(const TrimHistory& trim) {
  const Hold& hold = current(trim.token);
  if (!hold.lane.key) throw Refused{Errc::invalid_argument, "an unkeyed lease has no history"};
  ExecutionState* const open = open_execution(queue_at(hold.queue), *hold.lane.key);
  const auto mismatch = [](const std::string& why) { throw Refused{Errc::history_mismatch, why}; };
  if (open == nullptr) return mismatch("no execution is open");
  if (open->execution.number != trim.execution) {
    mismatch("the open execution is " + std::to_string(open->execution.number));
  }
  if (trim.before > open->execution.length) {
    mismatch("the length is " + std::to_string(open->execution.length));
  }
  open->execution.first = std::max(open->execution.first, trim.before);
}

}  // namespace strand::model
