#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <strand/saga.h>

#include "base/planted.h"
#include "workflow/instance.h"

namespace strand {

namespace workflow {

namespace {

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    return thrown.what();
  } catch (...) {
    return "something was thrown that is no std::exception";
  }
}

// Does what undoes one step, until it succeeds: tried again, then parked for a person, then again.
Task<void> undo_step(Workflow& wf, std::shared_ptr<SagaState> saga, std::size_t index) {
  Instance& instance = wf.instance();
  const std::size_t undoing = saga->steps.size();
  {
    const SagaState::Step step = saga->steps[index];  // a copy: the next line moves them all
    SagaState::Step& added = saga->steps.emplace_back();
    added.shown = {.name = step.undo->name,
                   .agent = step.undo->options.queue,
                   .data = step.undo_input,
                   .compensates = step.shown.name};
    added.undo = step.undo;
  }
  instance.saga_changed(*saga, undoing);
  const std::shared_ptr<const ActivityDefinition> undo = saga->steps[undoing].undo;
  saga->steps[undoing].undo = nullptr;  // it is not undone itself
  const Bytes input = saga->steps[index].undo_input;
  ActivityOptions options = undo->options;
  options.retry = saga->undo_retry;
  while (true) {
    auto call = std::make_shared<CallFor<Bytes>>(instance);
    instance.call_activity(call, {undo, input, options}, std::source_location::current());
    std::exception_ptr error;
    try {
      co_await Future<Bytes>(call);
    } catch (...) {
      error = std::current_exception();
    }
    SagaStep& shown = saga->steps[undoing].shown;
    if (!error) {
      shown.status = StepStatus::completed;
      shown.completed_at = wf.now();
      shown.error.reset();
      instance.saga_changed(*saga, undoing);
      saga->steps[index].shown.status = StepStatus::compensated;
      instance.saga_changed(*saga, index);
      co_return;
    }
    shown.status = StepStatus::failed;
    shown.error = text_of(error);
    instance.saga_changed(*saga, undoing);
    co_await wf.park(fmt::format("saga '{}' cannot undo '{}' by '{}': {}", saga->shown.name,
                                 saga->steps[index].shown.name, undo->name, text_of(error)));
    saga->steps[undoing].shown.status = StepStatus::pending;
    instance.saga_changed(*saga, undoing);
  }
}

// The last step that is done and can be undone. Asked for again each time: a step that was under
// way when undoing began may be done meanwhile.
std::optional<std::size_t> next_to_undo(const SagaState& saga) {
  const std::size_t count = saga.steps.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = STRAND_PLANTED("saga-undoes-forward") ? i : count - 1 - i;
    const SagaState::Step& step = saga.steps[index];
    if (step.undo && step.shown.status == StepStatus::completed) return index;
  }
  return std::nullopt;
}

Task<void> undo_all(Workflow& wf, std::shared_ptr<SagaState> saga, std::string reason) {
  Instance& instance = wf.instance();
  saga->shown.status = SagaStatus::compensating;
  saga->shown.reason = std::move(reason);
  instance.saga_changed(*saga);
  while (const auto index = next_to_undo(*saga))
    co_await undo_step(wf, saga, *index);
  saga->shown.status = SagaStatus::failed;
  saga->shown.ended_at = wf.now();
  instance.saga_changed(*saga);
}

bool may_be_undone(const SagaState& saga) {
  return saga.shown.status == SagaStatus::pending || saga.shown.status == SagaStatus::in_progress;
}

}  // namespace

void Instance::undo_saga(const std::shared_ptr<SagaState>& saga, const std::string& reason) {
  if (closing_ || mismatch_ || end_ || !may_be_undone(*saga)) return;
  saga->shown.status = SagaStatus::compensating;
  auto call = std::make_shared<CallFor<void>>(*this);
  spawn(
      call,
      [](Task<void> task, std::shared_ptr<CallFor<void>> done) -> Task<void> {
        try {
          co_await std::move(task);
        } catch (...) {  // NOLINT(bugprone-empty-catch): for this reason:
          // It fails only when the instance itself is at its end.
        }
        done->set();
      }(undo_all(door_, saga, reason), call),
      true);
}

void Instance::complete_saga(SagaState& saga) {
  if (closing_ || !may_be_undone(saga)) return;
  saga.shown.status = SagaStatus::completed;
  saga.shown.ended_at = now_;
  saga_changed(saga);
}

std::size_t begin_step(Workflow& wf, SagaState& saga, const ActivityDefinition& activity,
                       Bytes input) {
  if (!may_be_undone(saga)) {
    throw ApplicationError("saga_ended", "a saga that has ended takes no more steps");
  }
  SagaState::Step& step = saga.steps.emplace_back();
  step.shown = {.name = activity.name, .agent = activity.options.queue, .data = std::move(input)};
  saga.shown.status = SagaStatus::in_progress;
  const std::size_t number = saga.steps.size() - 1;
  wf.instance().saga_changed(saga, number);
  return number;
}

void end_step(Workflow& wf, const std::shared_ptr<SagaState>& saga, std::size_t number,
              std::shared_ptr<const ActivityDefinition> undo, Bytes undo_input) {
  SagaState::Step& step = saga->steps[number];
  step.undo = std::move(undo);
  step.undo_input = std::move(undo_input);
  step.shown.status = StepStatus::completed;
  step.shown.completed_at = wf.now();
  wf.instance().saga_changed(*saga, number);
  if (saga->shown.status != SagaStatus::failed) return;
  // The others are undone already: this one came too late.
  saga->shown.status = SagaStatus::in_progress;
  wf.instance().undo_saga(saga, saga->shown.reason.value_or(""));
}

Task<void> fail_step(Workflow& wf, std::shared_ptr<SagaState> saga, std::size_t number,
                     std::exception_ptr error) {
  SagaStep& shown = saga->steps[number].shown;
  shown.status = StepStatus::failed;
  shown.error = text_of(error);
  wf.instance().saga_changed(*saga, number);
  co_await undo_by_choice(wf, saga, fmt::format("step '{}' failed: {}", shown.name, *shown.error));
}

Task<void> undo_by_choice(Workflow& wf, std::shared_ptr<SagaState> saga, std::string reason) {
  if (!may_be_undone(*saga)) co_return;
  if (STRAND_PLANTED("saga-does-not-undo")) co_return;
  co_await wf.shield(undo_all(wf, saga, std::move(reason)));
}

}  // namespace workflow

Saga::Saga(Workflow& wf, SagaOptions options)
    : wf_(wf),
      state_(wf.instance().begin_saga(std::move(options.name), std::move(options.data))),
      exceptions_(std::uncaught_exceptions()) {
  state_->undo_retry = std::move(options.undo_retry);
}

Saga::~Saga() {
  workflow::Instance& instance = wf_.instance();
  if (instance.closing()) return;
  if (std::uncaught_exceptions() > exceptions_) {
    instance.undo_saga(state_, "an exception has left it");
    return;
  }
  instance.complete_saga(*state_);
}

}  // namespace strand
