#include <algorithm>
#include <ranges>
#include <utility>

#include <fmt/format.h>

#include <strand/workflow.h>

#include "base/planted.h"
#include "base/text.h"
#include "workflow/checkpoint.h"
#include "workflow/instance.h"

// Checkpoints: the code says what it has, and begins again with that. What is done here when one is
// taken is what is done when a replay begins with it.

namespace strand::workflow {

bool Instance::checkpoint(const Bytes& state, const CheckpointOptions& options, Where where) {
  if (closing_ || mismatch_ || end_) return true;
  if (current_ != root_fiber_) {
    throw ApplicationError("not_the_workflow",
                           "only the function of the workflow itself has a state to declare, not "
                           "what it has spawned");
  }
  if (current_->cancelled) throw Cancelled(current_->reason);
  if (!is_quiet() || !takes_checkpoint(options)) return false;
  const HistoryEvent own = to_event(snapshot(options.version, state));
  HistoryEvent event = own;
  decide(event, where);
  if (mismatch_) return true;
  // Another program has written it, and could read what this one cannot.
  if (event.detail("version") != own.detail("version")) {
    const Time at = event.at;
    event = own;
    event.at = at;
  }
  begin_again_ = std::move(event);
  return true;
}

bool Instance::is_quiet() const {
  if (STRAND_PLANTED("checkpoint-loses-results")) return fibers_.size() == 1;
  if (cancel_requested_ || continuation_ || winding_up_ || unclaimed_ > 0) return false;
  if (fibers_.size() != 1) return false;  // something runs beside the function
  const auto is_open = [](const auto& saga) {
    return saga->shown.status != SagaStatus::completed && saga->shown.status != SagaStatus::failed;
  };
  const auto in_the_way = [](const auto& entry) {
    return entry.second.kind == Kind::park || entry.second.of_local;
  };
  return std::ranges::none_of(sagas_, is_open) && std::ranges::none_of(pending_, in_the_way);
}

// At one length of the history only the first point is asked, so that a replay knows which one was
// taken; and none before something has come in, so that the code does not begin again for ever.
bool Instance::takes_checkpoint(const CheckpointOptions& options) {
  if (since_.came_in == 0 || asked_at_ == length()) return false;
  asked_at_ = length();
  if (!replaying_) return outside_->checkpoint_is_due(since_, options);
  return cursor_ < history_.size() && history_[cursor_].kind == EventKind::checkpoint;
}

Checkpoint Instance::snapshot(std::uint32_t version, Bytes state) const {
  Checkpoint checkpoint{.version = version,
                        .state = std::move(state),
                        .started = start_,
                        .calls = calls_,
                        .random_numbers = random_count_,
                        .sagas = saga_count_,
                        .status = status_,
                        .shown = state_,
                        .patches = patches_};
  for (const auto& [name, values] : mailbox_) {
    if (STRAND_PLANTED("checkpoint-forgets-mail")) break;
    for (const Bytes& value : values)
      checkpoint.mail.emplace_back(name, value);
  }
  constexpr std::array kinds = {EventKind::activity_scheduled, EventKind::timer_started,
                                EventKind::child_started};
  constexpr std::array<std::string_view, 3> fates = {"", "terminate", "keep"};
  for (const auto& [number, pending] : pending_) {
    checkpoint.underway.push_back(
        {.kind = kinds[std::to_underlying(pending.kind)],
         .call = number,
         .name = pending.name,
         .queue = pending.queue,
         .label = pending.label,
         .when_parent_ends = std::string(fates[std::to_underlying(pending.when_parent_ends)]),
         .has_progress = pending.has_progress,
         .held = pending.call.use_count() > 1,  // by a future, besides the table
         .input_hash = pending.input_hash});
  }
  return checkpoint;
}

void Instance::begin_again(const HistoryEvent& event, std::uint64_t number) {
  auto checkpoint = read_checkpoint(event);
  if (!checkpoint) {
    give_up_checkpoint(checkpoint.error().message);
    return;
  }
  destroy_coroutines();
  root_.reset();
  fibers_.clear();
  waiters_.clear();
  answers_.clear();
  sagas_.clear();
  pending_.clear();
  closing_ = false;

  now_ = std::max(now_, event.at);
  start_ = std::move(checkpoint->started);
  run_ = start_.detail("run");
  calls_ = checkpoint->calls;
  if (!STRAND_PLANTED("checkpoint-repeats-random-numbers")) {
    random_count_ = checkpoint->random_numbers;
  } else {
    random_count_ = 0;
  }
  saga_count_ = checkpoint->sagas;
  status_ = std::move(checkpoint->status);
  state_ = std::move(checkpoint->shown);
  patches_ = std::move(checkpoint->patches);
  mailbox_.clear();
  data_bytes_ = event.data.size() + start_.data.size();
  for (auto& [name, value] : checkpoint->mail) {
    data_bytes_ += value.size();
    mailbox_[name].push_back(std::move(value));
  }
  restored_ = Restored{.version = checkpoint->version, .state = std::move(checkpoint->state)};
  handed_over_.clear();
  for (Underway& one : checkpoint->underway) {
    Pending& pending = pending_[one.call];
    pending.kind = one.kind == EventKind::activity_scheduled ? Kind::activity
                   : one.kind == EventKind::timer_started    ? Kind::timer
                                                             : Kind::child;
    pending.call = std::make_shared<CallFor<Bytes>>(*this);  // nobody's, for the time being
    pending.name = std::move(one.name);
    pending.queue = std::move(one.queue);
    pending.label = std::move(one.label);
    if (one.when_parent_ends == "keep") pending.when_parent_ends = WhenParentEnds::keep;
    if (one.when_parent_ends == "terminate") pending.when_parent_ends = WhenParentEnds::terminate;
    pending.has_progress = one.has_progress;
    pending.input_hash = one.input_hash;
    if (one.held) handed_over_.insert(one.call);
  }
  checkpoints_.push_back(number);
  if (checkpoints_.size() > 2) checkpoints_.erase(checkpoints_.begin());
  since_ = {.events = 1, .from = now_, .now = now_};
  asked_at_.reset();
  begun_ = false;
  begin();
}

bool Instance::take_over(const std::shared_ptr<Call>& call, Kind kind, std::string_view name,
                         std::string_view label, std::uint64_t input_hash) {
  if (STRAND_PLANTED("checkpoint-calls-again")) return false;
  for (const std::uint64_t number : handed_over_) {
    const auto found = pending_.find(number);
    if (found == pending_.end()) continue;
    Pending& pending = found->second;
    const bool any_child = kind == Kind::child && name.empty();  // its id was made up
    if (pending.kind != kind || pending.input_hash != input_hash || pending.label != label ||
        (pending.name != name && !any_child)) {
      continue;
    }
    pending.call = call;
    call->on_cancel = [this, number](const std::string& reason) { cancel_pending(number, reason); };
    handed_over_.erase(number);
    return true;
  }
  return false;
}

void Instance::call_off_what_nobody_took_over() {
  if (handed_over_.empty() || begin_again_ || mismatch_ || end_) return;
  for (const std::uint64_t number : std::exchange(handed_over_, {}))
    cancel_pending(number, "the code did not call it again after a checkpoint");
}

void Instance::give_up_checkpoint(const std::string& why) {
  if (mismatch_) return;
  unreadable_ = true;
  const std::string which =
      checkpoints_.empty() ? "" : fmt::format(" at event {}", checkpoints_.back());
  mismatch_ = fmt::format(
      "the checkpoint{} of '{}' is of no use to the code of {}: {}. Bring back the code that wrote "
      "it, or let the code read that version (restored_version()); then resume the instance",
      which, base::printable(identity_.id), definition_->label(), why);
}

}  // namespace strand::workflow
