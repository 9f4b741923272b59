#include "workflow/instance.h"

#include <algorithm>
#include <array>
#include <ranges>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/planted.h"
#include "base/text.h"
#include "workflow/frames.h"
#include "workflow/records.h"
#include "workflow/wire.h"

// The machine: events go in, coroutines run, the execution ends. What they decide is in decide.cc.

namespace strand::workflow {

namespace {

// What an exception says to the world.
struct Said {
  std::string type = {};
  std::string message = {};
  Bytes details = {};
};

Said what_was_said(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const WorkflowError& thrown) {
    return {thrown.type(), thrown.what(), thrown.details()};
  } catch (const ApplicationError& thrown) {
    return {thrown.type(), thrown.what(), thrown.details()};
  } catch (const std::exception& thrown) {
    return {"exception", thrown.what(), {}};
  } catch (...) {
    return {"exception", "something was thrown that is no std::exception", {}};
  }
}

bool is_cancelled(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const WorkflowError& thrown) {
    return thrown.kind() == WorkflowError::Kind::cancelled;
  } catch (...) {
    return false;
  }
}

// Two decisions are the same if they name the same thing and pass the same values. How something is
// tried again, or how long it may take, may be changed while instances run.
bool same_decision(const HistoryEvent& a, const HistoryEvent& b) {
  if (STRAND_PLANTED("replay-ignores-arguments")) return a.kind == b.kind && a.name == b.name;
  if (a.kind != b.kind || a.call != b.call || a.name != b.name) return false;
  // States of two versions are written differently.
  if (a.kind == EventKind::checkpoint && a.detail("version") != b.detail("version")) return true;
  if (a.data != b.data) return false;
  if (a.kind == EventKind::local_activity) return true;  // its details are its result
  constexpr std::array arguments = {"workflow", "event", "key"};
  return std::ranges::all_of(arguments, [&](std::string_view argument) {
    return a.detail(argument) == b.detail(argument);
  });
}

}  // namespace

Instance::Instance(std::shared_ptr<const WorkflowDefinition> definition, Identity identity,
                   Outside& outside)
    : definition_(std::move(definition)),
      identity_(std::move(identity)),
      outside_(&outside),
      door_(*this) {}

Instance::~Instance() {
  // Coroutines that are destroyed run the destructors of their variables, which may come back here.
  const FrameCount count(frame_bytes_);
  destroy_coroutines();
}

void Instance::destroy_coroutines() {
  closing_ = true;
  ready_.clear();
  root_fiber_.reset();
  current_.reset();
  // A coroutine holds what it waits for, and that knows who waits: here the circle is cut.
  for (const auto& fiber : fibers_ | std::views::reverse)
    fiber->task.reset();
}

// --- Events go in ---

Result<void> Instance::replay(std::span<const HistoryEvent> events, std::uint64_t first) {
  history_ = events;
  first_ = first;
  cursor_ = 0;
  replaying_ = true;
  if (!events.empty() && events.front().kind == EventKind::checkpoint) {
    const FrameCount count(frame_bytes_);
    ++cursor_;
    begin_again(events.front(), first);
    run_until_all_wait();
    finish_if_done();
  }
  while (cursor_ < history_.size() && !mismatch_) {
    const HistoryEvent& event = history_[cursor_++];
    if (is_decision(event.kind)) {
      differs(&event, nullptr, nullptr);
      break;
    }
    deliver(event);
  }
  replaying_ = false;
  length_ = first_ + history_.size();
  history_ = {};
  if (mismatch_) return failure(Errc::history_mismatch, *mismatch_);
  return {};
}

void Instance::handle(const HistoryEvent& event) {
  STRAND_ASSERT(!mismatch_, "an instance that differs from its history is not used");
  decisions_.events.push_back(event);
  ++length_;
  deliver(event);
  // Not before all of the code waits: that is where a replay hands it in.
  while (!refusals_.empty()) {
    const HistoryEvent refused = std::move(refusals_.front());
    refusals_.pop_front();
    if (!end_ && !mismatch_ && pending_.contains(refused.call)) handle(refused);
  }
}

std::size_t Instance::bytes() const {
  constexpr std::size_t of_a_call = 400;  // with its future, its fiber, its places in tables
  std::size_t bytes = sizeof(Instance) + data_bytes_ + start_.data.size() + status_.size() +
                      of_a_call * (pending_.size() + fibers_.size() + waiters_.size());
  for (const auto& [key, value] : state_)
    bytes += key.size() + value.size() + of_a_call / 4;
  return bytes + static_cast<std::size_t>(std::max<std::int64_t>(frame_bytes_, 0));
}

void Instance::deliver(const HistoryEvent& event) {
  const FrameCount count(frame_bytes_);
  data_bytes_ += event.data.size();
  now_ = std::max(now_, event.at);
  since_.now = now_;
  since_.bytes += event.data.size();
  since_.kinds.set(std::to_underlying(event.kind) % 64);
  ++since_.events;
  ++since_.came_in;
  switch (event.kind) {
    case EventKind::started:
      on_started(event);
      break;
    case EventKind::begun:
      begin();
      break;
    case EventKind::activity_completed:
    case EventKind::activity_failed:
    case EventKind::timer_fired:
    case EventKind::child_completed:
    case EventKind::child_failed:
    case EventKind::resumed:
      on_answer(event);
      break;
    case EventKind::event_received:
      on_event(event);
      break;
    case EventKind::cancel_requested:
      cancel_requested_ = true;
      cancel_reason_ = event.data;
      if (root_fiber_) cancel_fiber(*root_fiber_, event.data);
      break;
    case EventKind::terminated:
    case EventKind::timed_out:
      end_ = event;
      break;
    default:
      STRAND_ASSERT(false, "decisions are not delivered");
  }
  run_until_all_wait();
  finish_if_done();
}

void Instance::on_started(const HistoryEvent& event) {
  start_ = event;
  since_.from = event.at;
  run_ = event.detail("run");
  status_ = event.detail("status");
  constexpr std::string_view prefix = "state.";
  for (const Header& detail : event.details) {
    if (detail.name.starts_with(prefix)) state_[detail.name.substr(prefix.size())] = detail.value;
  }
  if (event.detail("waits").empty()) begin();
}

void Instance::begin() {
  if (begun_ || end_) return;
  begun_ = true;
  root_ = std::make_shared<CallFor<Bytes>>(*this);
  spawn(root_, Task<void>([](Task<Bytes> task, std::shared_ptr<CallFor<Bytes>> root) -> Task<void> {
          std::exception_ptr error;
          try {
            root->set(co_await std::move(task));
          } catch (...) {
            error = std::current_exception();
          }
          if (error) root->fail(error);
        }(definition_->run(door_, start_.data), root_)),
        false);
  root_fiber_ = fibers_.back();
  if (cancel_requested_) cancel_fiber(*root_fiber_, cancel_reason_);
}

void Instance::on_answer(const HistoryEvent& event) {
  const auto found = pending_.find(event.call);
  if (found == pending_.end()) return;  // of a call that was cancelled meanwhile
  const Pending pending = std::move(found->second);
  pending_.erase(found);
  if (pending.has_progress && !replaying_) {
    decisions_.records.push_back(
        {.space = std::string(progress_space), .key = reference(event.call)});
  }
  const bool failed =
      event.kind == EventKind::activity_failed || event.kind == EventKind::child_failed;
  if (!failed) {
    pending.call->accept(event.data);
    return;
  }
  const WorkflowError::Kind kind = wire::kind_from(event.detail("kind"));
  const std::string type(event.detail("type"));
  const std::string text(event.detail("error"));
  if (pending.kind == Kind::child) {
    pending.call->fail(std::make_exception_ptr(ChildError(
        pending.name, kind, type,
        fmt::format("child '{}' {}: {}", pending.name, to_string(kind), text), event.data)));
  } else {
    pending.call->fail(std::make_exception_ptr(ActivityError(
        pending.name, kind, type,
        fmt::format("activity '{}' {}: {}", pending.name, to_string(kind), text), event.data)));
  }
}

void Instance::on_event(const HistoryEvent& event) {
  const auto waiting = waiters_.find(event.name);
  if (waiting != waiters_.end()) {
    std::deque<std::shared_ptr<Call>>& calls = waiting->second;
    while (!calls.empty()) {
      const std::shared_ptr<Call> call = std::move(calls.front());
      calls.pop_front();
      if (call->done()) continue;
      if (STRAND_PLANTED("event-kept-when-taken")) mailbox_[event.name].push_back(event.data);
      call->accept(event.data);
      return;
    }
  }
  if (STRAND_PLANTED("early-event-dropped")) return;
  mailbox_[event.name].push_back(event.data);
}

// --- Coroutines run ---

void Instance::resume_later(std::coroutine_handle<> coroutine, std::shared_ptr<Fiber> fiber) {
  if (closing_) return;
  ready_.push_back({coroutine, std::move(fiber)});
}

void Instance::spawn(const std::shared_ptr<Call>& call, Task<void> task, bool shielded) {
  if (closing_) return;
  auto fiber = std::make_shared<Fiber>();
  fiber->shielded = shielded || (current_ && current_->shielded);
  const std::coroutine_handle<> coroutine = task.handle();
  fiber->task.emplace(std::move(task));
  if (current_ && !shielded) {
    current_->children.push_back(fiber);
    if (current_->cancelled) {
      fiber->cancelled = true;
      fiber->reason = current_->reason;
    }
  }
  call->cleans_up = true;
  call->on_cancel = [this, weak = std::weak_ptr(fiber)](const std::string& reason) {
    if (const auto alive = weak.lock()) cancel_fiber(*alive, reason);
  };
  call->observe([weak = std::weak_ptr(fiber)] {
    if (const auto alive = weak.lock()) alive->done = true;
  });
  fibers_.push_back(fiber);
  resume_later(coroutine, std::move(fiber));
}

void Instance::run_until_all_wait() {
  while (!ready_.empty() && !mismatch_ && !end_) {
    Ready next = std::move(ready_.front());
    ready_.pop_front();
    current_ = next.fiber;
    next.coroutine.resume();
    current_.reset();
    // A fiber that is done has no more to resume, but its frame may hold what waits for others.
    if (next.fiber->done && next.fiber != root_fiber_) {
      std::erase(fibers_, next.fiber);
      next.fiber->task.reset();
    }
    if (begin_again_ && !mismatch_) {
      next.fiber.reset();
      const HistoryEvent checkpoint = *std::exchange(begin_again_, std::nullopt);
      begin_again(checkpoint, length() - 1);
    }
  }
  call_off_what_nobody_took_over();
}

// What was called first is cancelled first, so that it is the same every time.
void Instance::cancel_fiber(Fiber& fiber, const std::string& reason) {
  if (fiber.cancelled || fiber.done) return;
  fiber.cancelled = true;
  fiber.reason = reason;
  const auto children = fiber.children;
  for (const auto& weak : children) {
    if (const auto child = weak.lock()) cancel_fiber(*child, reason);
  }
  const auto calls = std::exchange(fiber.calls, {});
  for (const auto& weak : calls) {
    if (const auto call = weak.lock()) call->cancel(reason);
  }
}

// --- The execution ends ---

void Instance::finish_if_done() {
  if (mismatch_ || end_ || !(continuation_ || (root_ && root_->done()))) return;
  if (!std::exchange(winding_up_, true)) wind_up();
  if (mismatch_ || end_) return;
  // Cleaning up is waited for; the rest is not wanted any more.
  const bool cleaning = std::ranges::any_of(
      fibers_, [](const auto& fiber) { return fiber->shielded && !fiber->done; });
  if (cleaning) return;
  if (continuation_) {
    HistoryEvent event{.kind = EventKind::continued, .data = continuation_->input};
    if (continuation_->version) event.call = *continuation_->version;
    end_with(std::move(event), Where::current());
  } else {
    end_with(outcome_of_root(), Where::current());
  }
}

// What the code has spawned and not waited for is cancelled. Sagas that nobody brings to an end any
// more are undone; but for those of a code that goes on as another execution.
void Instance::wind_up() {
  const auto fibers = fibers_;
  for (const auto& fiber : fibers) {
    if (fiber != root_fiber_ && !fiber->shielded) cancel_fiber(*fiber, "the workflow has ended");
  }
  run_until_all_wait();
  const auto sagas = sagas_;
  for (const auto& saga : sagas) {
    if (const auto fiber = saga->fiber.lock(); fiber && fiber->shielded && !fiber->done) continue;
    if (continuation_) {
      complete_saga(*saga);
    } else {
      undo_saga(saga, "the workflow has ended");
    }
  }
  run_until_all_wait();
}

HistoryEvent Instance::outcome_of_root() const {
  if (!root_->error()) {
    return {.kind = EventKind::completed, .data = root_->copy()};
  }
  const Said said = what_was_said(root_->error());
  if (cancel_requested_ && is_cancelled(root_->error())) {
    HistoryEvent event{.kind = EventKind::cancelled, .data = {}};
    event.add("error", cancel_reason_);
    return event;
  }
  HistoryEvent event{.kind = EventKind::failed, .name = said.type, .data = said.details};
  event.add("error", said.message);
  event.add("type", said.type);
  return event;
}

void Instance::end_with(HistoryEvent event, Where where) {
  const bool is_new = decide(event, where);
  if (mismatch_) return;
  end_ = std::move(event);
  if (is_new) abandon_calls(decisions_);
}

void Instance::abandon_calls(Decisions& decisions) const {
  for (const auto& [number, pending] : pending_)
    drop_outside(number, pending, decisions);
}

std::uint32_t Instance::next_version() const {
  if (end_ && end_->kind == EventKind::continued && end_->call > 0) {
    return static_cast<std::uint32_t>(end_->call);
  }
  return definition_->version;
}

std::vector<HistoryEvent> Instance::next_execution(const std::string& run, Time at) const {
  std::vector<HistoryEvent> events;
  HistoryEvent& started = events.emplace_back(start_);
  started.at = at;
  started.data = end_->data;
  // A child of any execution is a child, its time runs on, and it was started once.
  started.details.clear();
  for (const Header& detail : start_.details) {
    const bool of_parent = detail.name.starts_with("parent");
    if (of_parent && STRAND_PLANTED("continued-child-loses-its-parent")) continue;
    if (of_parent || detail.name == "deadline" || detail.name == "created" ||
        detail.name == "input" || detail.name == "start") {
      started.details.push_back(detail);
    }
  }
  started.add("run", run);
  started.add("waits", "continued");
  if (!status_.empty()) started.add("status", status_);
  for (const auto& [key, value] : state_)
    started.add("state." + key, value);
  for (const auto& [name, values] : mailbox_) {
    if (STRAND_PLANTED("mailbox-lost-by-continue")) break;
    for (const Bytes& value : values)
      events.push_back({.kind = EventKind::event_received, .at = at, .name = name, .data = value});
  }
  return events;
}

// --- Replay ---

bool Instance::decide(HistoryEvent& decision, Where where) {
  if (mismatch_ || closing_) return false;
  if (!replaying_) {
    decision.at = now_;
    ++since_.events;
    since_.bytes += decision.data.size();
    decisions_.events.push_back(decision);
    ++length_;
    return true;
  }
  const HistoryEvent* expected = cursor_ < history_.size() ? &history_[cursor_] : nullptr;
  if (expected == nullptr || !same_decision(*expected, decision)) {
    differs(expected, &decision, &where);
    return false;
  }
  ++cursor_;
  ++since_.events;
  since_.bytes += expected->data.size();
  decision = *expected;
  return false;
}

void Instance::differs(const HistoryEvent* expected, const HistoryEvent* decided,
                       const Where* where) {
  const std::uint64_t number = first_ + (decided != nullptr ? cursor_ : cursor_ - 1);
  std::string history = "ends here";
  if (expected != nullptr) {
    history = fmt::format("has '{}'", describe(*expected));
    if (!is_decision(expected->kind)) history += ", so nothing was decided here";
  }
  std::string code = "decides nothing more";
  if (decided != nullptr) code = fmt::format("decides '{}'", describe(*decided));
  if (where != nullptr && where->line() > 0) {
    code += fmt::format(" at {}:{}", where->file_name(), where->line());
  }
  mismatch_ = fmt::format(
      "the code of {} does not do what it did before: event {} of the history of '{}' {}, and the "
      "code {}. Bring back the old code, or ask wf.patched() before what is new; then resume the "
      "instance",
      definition_->label(), number, base::printable(identity_.id), history, code);
}

Bytes Instance::query(const std::string& name, std::string_view input) {
  const auto found = answers_.find(name);
  if (found == answers_.end()) {
    std::vector<std::string> known;
    for (const auto& [query, function] : answers_)
      known.push_back(query);
    throw ApplicationError(
        "unknown_query",
        fmt::format("the workflow answers no query '{}'; it answers: {}", name,
                    known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  }
  return found->second(input);
}

// splitmix64 over the name of the run and a count: the same in every replay, and nobody else's.
std::uint64_t Instance::random() {
  std::uint64_t x = 0;
  for (const char c : run_)
    x = x * 0x100000001b3U + static_cast<unsigned char>(c);
  x += ++random_count_ * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

}  // namespace strand::workflow
