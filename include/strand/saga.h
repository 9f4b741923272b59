#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <strand/activity.h>
#include <strand/workflow.h>

namespace strand {

enum class SagaStatus : std::uint8_t {
  pending,  // no step has begun
  in_progress,
  completed,
  compensating,  // something failed: what was done is being undone
  failed,        // and everything is undone
};
std::string_view to_string(SagaStatus status);

enum class StepStatus : std::uint8_t { pending, completed, failed, compensated };
std::string_view to_string(StepStatus status);

// One step of a saga, as everybody can read it. What undoes a step is a step as well.
struct SagaStep {
  std::string name = {};   // of the activity
  std::string agent = {};  // who does it: the queue where it is waited for
  Bytes data = {};         // its input
  StepStatus status = StepStatus::pending;
  std::optional<std::string> compensates = {};  // the step that it undoes
  std::optional<Time> completed_at = {};
  std::optional<std::string> error = {};  // why it failed, the last time

  friend bool operator==(const SagaStep&, const SagaStep&) = default;
};

struct SagaInfo {
  std::string coordinator = {};  // the instance that runs it
  std::uint64_t execution = 0;   // of that
  std::uint64_t number = 0;      // among the sagas of that execution, from 1
  std::string name = {};
  Bytes data = {};
  SagaStatus status = SagaStatus::pending;
  std::optional<std::string> reason = {};  // why it is, or was, undone
  Time started_at{};
  std::optional<Time> ended_at = {};
  std::vector<SagaStep> steps = {};  // in the order in which they began

  friend bool operator==(const SagaInfo&, const SagaInfo&) = default;
};

struct SagaOptions {
  std::string name = "saga";
  Bytes data = {};  // for those who look on
  // Of what undoes a step. After the last attempt the instance parks, with the reason, until a
  // person has helped and resumes it; then it is tried again.
  Retry undo_retry = {.attempts = 10};
};

namespace workflow {

struct SagaState;

std::size_t begin_step(Workflow& wf, SagaState& saga, const ActivityDefinition& activity,
                       Bytes input);
void end_step(Workflow& wf, const std::shared_ptr<SagaState>& saga, std::size_t number,
              std::shared_ptr<const ActivityDefinition> undo, Bytes undo_input);
Task<void> fail_step(Workflow& wf, std::shared_ptr<SagaState> saga, std::size_t number,
                     std::exception_ptr error);
Task<void> undo_by_choice(Workflow& wf, std::shared_ptr<SagaState> saga, std::string reason);

// What undoes a step, and whether it is given the step's result, or else the step's input.
struct Undo {
  std::shared_ptr<const ActivityDefinition> activity = {};  // none: nothing is to be undone
  bool takes_result = false;
};

// Knows the state and not the Saga, which may be gone before a step that nobody waits for.
template <class R, class In>
Task<R> run_step(Workflow& wf, std::shared_ptr<SagaState> saga, Activity<R(In)> activity, In input,
                 Undo undo, std::source_location where) {
  const Bytes encoded = encode<In>(input);
  const std::size_t number = begin_step(wf, *saga, *activity.definition(), encoded);
  std::exception_ptr error;
  try {
    if constexpr (std::is_void_v<R>) {
      co_await wf.call(activity, input, {}, where);
      end_step(wf, saga, number, undo.activity, undo.takes_result ? Bytes{} : encoded);
      co_return;
    } else {
      R result = co_await wf.call(activity, input, {}, where);
      end_step(wf, saga, number, undo.activity, undo.takes_result ? encode<R>(result) : encoded);
      co_return result;
    }
  } catch (...) {
    error = std::current_exception();
  }
  co_await fail_step(wf, saga, number, error);
  std::rethrow_exception(error);
}

}  // namespace workflow

// Steps that are undone, the last one first, if a later one fails.
//
//   strand::Saga saga{wf};
//   auto hold = co_await saga.step(reserve_stock, order, release_stock);
//   auto paid = co_await saga.step(charge_card, order, refund_card);
//
// When a step fails, what was done is undone before its co_await throws. The same happens when
// another exception leaves the scope of the saga, or the workflow is cancelled; undoing cannot be
// cancelled. When the scope ends without an exception, the saga is completed.
//
// Threads: belongs to its workflow.
class Saga {
 public:
  using Where = std::source_location;

  explicit Saga(Workflow& wf, SagaOptions options = {});
  Saga(const Saga&) = delete;
  Saga& operator=(const Saga&) = delete;
  ~Saga();

  // Does it, and remembers what undoes it. A step that failed is not undone: it should either
  // happen or not. What undoes it is given its result if it takes one, or else its input.
  template <class R, class In, class U, class UndoIn>
  Task<R> step(const Activity<R(In)>& activity, std::type_identity_t<In> input,
               const Activity<U(UndoIn)>& undo, Where where = Where::current()) {
    static_assert(std::is_same_v<UndoIn, R> || std::is_same_v<UndoIn, In>,
                  "what undoes a step takes the step's result or its input");
    return workflow::run_step<R, In>(wf_, state_, activity, std::move(input),
                                     {undo.definition(), std::is_same_v<UndoIn, R>}, where);
  }
  // A step that leaves nothing to undo.
  template <class R, class In>
  Task<R> step(const Activity<R(In)>& activity, std::type_identity_t<In> input,
               Where where = Where::current()) {
    return workflow::run_step<R, In>(wf_, state_, activity, std::move(input), {}, where);
  }

  // Undoes what was done, because of something that no step could know. The saga has ended then.
  Task<void> undo(std::string reason) {
    return workflow::undo_by_choice(wf_, state_, std::move(reason));
  }

 private:
  Workflow& wf_;
  std::shared_ptr<workflow::SagaState> state_;
  int exceptions_;  // in flight when it began
};

}  // namespace strand
