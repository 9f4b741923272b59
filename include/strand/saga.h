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

// What the undoing of a step is given: the step's result if it takes one, or else the step's input.
template <class R, class In, class UndoIn>
Bytes undo_input(const Bytes& input, const Bytes& result) {
  static_assert(std::is_same_v<UndoIn, R> || std::is_same_v<UndoIn, In>,
                "what undoes a step takes the step's result or its input");
  if constexpr (std::is_same_v<UndoIn, R>) {
    return result;
  } else {
    return input;
  }
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
  // happen or not.
  template <class R, class In, class U, class UndoIn>
  Task<R> step(Activity<R(In)> activity, std::type_identity_t<In> input, Activity<U(UndoIn)> undo,
               Where where = Where::current()) {
    const Bytes encoded = workflow::encode<In>(input);
    const std::size_t number = begin_step(*activity.definition(), encoded);
    std::exception_ptr error;
    try {
      if constexpr (std::is_void_v<R>) {
        co_await wf_.call(activity, input, {}, where);
        end_step(number, undo.definition(), workflow::undo_input<R, In, UndoIn>(encoded, {}));
        co_return;
      } else {
        R result = co_await wf_.call(activity, input, {}, where);
        end_step(number, undo.definition(),
                 workflow::undo_input<R, In, UndoIn>(encoded, workflow::encode<R>(result)));
        co_return result;
      }
    } catch (...) {
      error = std::current_exception();
    }
    co_await fail_step(number, error);
    std::rethrow_exception(error);
  }
  // A step that leaves nothing to undo.
  template <class R, class In>
  Task<R> step(Activity<R(In)> activity, std::type_identity_t<In> input,
               Where where = Where::current()) {
    const std::size_t number = begin_step(*activity.definition(), workflow::encode<In>(input));
    std::exception_ptr error;
    try {
      if constexpr (std::is_void_v<R>) {
        co_await wf_.call(activity, input, {}, where);
        end_step(number, nullptr, {});
        co_return;
      } else {
        R result = co_await wf_.call(activity, input, {}, where);
        end_step(number, nullptr, {});
        co_return result;
      }
    } catch (...) {
      error = std::current_exception();
    }
    co_await fail_step(number, error);
    std::rethrow_exception(error);
  }

  // Undoes what was done, because of something that no step could know. The saga has ended then.
  Task<void> undo(std::string reason);

 private:
  std::size_t begin_step(const workflow::ActivityDefinition& activity, Bytes input);
  void end_step(std::size_t number, std::shared_ptr<const workflow::ActivityDefinition> undo,
                Bytes undo_input);
  Task<void> fail_step(std::size_t number, std::exception_ptr error);

  Workflow& wf_;
  std::shared_ptr<workflow::SagaState> state_;
  int exceptions_;  // in flight when it began
};

}  // namespace strand
