#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <strand/message.h>

#include "base/planted.h"
#include "workflow/instance.h"
#include "workflow/records.h"
#include "workflow/wire.h"

// What the code of a workflow can decide: compared in a replay, done once when it is new.

namespace strand::workflow {

std::string Instance::reference(std::uint64_t call) const {
  return fmt::format("{}.{}", run_, call);
}

Send Instance::to_instance(const std::string& id, std::string_view kind) const {
  Send send;
  send.queue = identity_.queue;
  send.key = id;
  wire::add(send.headers, wire::kind_header, kind);
  return send;
}

bool Instance::admit(const std::shared_ptr<Call>& call) {
  if (closing_ || mismatch_ || end_) return false;  // it waits for ever, which is not long
  if (!current_) return true;
  if (current_->cancelled) {
    call->fail(std::make_exception_ptr(Cancelled(current_->reason)));
    return false;
  }
  std::vector<std::weak_ptr<Call>>& calls = current_->calls;
  if (calls.size() >= current_->sweep_at) {
    std::erase_if(calls, [](const std::weak_ptr<Call>& weak) {
      const auto alive = weak.lock();
      return !alive || alive->done();
    });
    current_->sweep_at = std::max<std::size_t>(32, calls.size() * 2);
  }
  calls.push_back(call);
  return true;
}

// --- Activities ---

void Instance::call_activity(const std::shared_ptr<Call>& call, const ActivityCall& what,
                             Where where) {
  if (!admit(call)) return;
  const std::uint64_t hash = hash_of_input(what.input);
  if (take_over(call, Kind::activity, what.activity->name, "", hash)) return;
  const std::uint64_t number = next_call();
  call->on_cancel = [this, number](const std::string& reason) { cancel_pending(number, reason); };
  const ActivityOptions& options = what.options;
  HistoryEvent event{.kind = EventKind::activity_scheduled,
                     .call = number,
                     .name = what.activity->name,
                     .data = what.input};
  event.add("queue", options.queue);
  if (options.heartbeat) event.add("heartbeat", format_duration(*options.heartbeat));
  const bool is_new = decide(event, where);
  pending_[number] = {.kind = Kind::activity,
                      .call = call,
                      .name = what.activity->name,
                      .queue = std::string(event.detail("queue")),
                      .has_progress = !event.detail("heartbeat").empty(),
                      .input_hash = hash};
  if (!is_new) return;
  Send& send = decisions_.sends.emplace_back();
  send.queue = options.queue;
  send.label = wire::activity_label(what.activity->name, options.label);
  send.name = reference(number);
  send.body = what.input;
  send.priority = options.priority;
  send.max_attempts = options.retry.attempts;
  send.dead_notice_to = Address{.queue = identity_.queue, .key = identity_.id};
  wire::add(send.headers, wire::activity_header, what.activity->name);
  wire::add(send.headers, wire::instance_header, identity_.id);
  wire::add(send.headers, wire::call_header, reference(number));
  wire::add(send.headers, wire::reply_queue_header, identity_.queue);
  wire::add(send.headers, wire::reply_key_header, identity_.id);
  wire::add(send.headers, wire::reply_label_header, definition_->label());
  wire::add(send.headers, wire::retry_header, wire::to_text(options.retry));
  if (options.timeout) {
    wire::add(send.headers, wire::timeout_header, std::to_string(options.timeout->count()));
  }
  if (options.heartbeat) {
    wire::add(send.headers, wire::heartbeat_header, std::to_string(options.heartbeat->count()));
  }
}

// One that runs here. Each attempt is a decision with its outcome; the waits are timers.
struct Instance::LocalCall {
  std::shared_ptr<Call> call;
  std::shared_ptr<const ActivityDefinition> activity;
  Bytes input;
  Retry retry;
  Where where;
  std::uint32_t attempts = 0;
};

void Instance::run_local(const std::shared_ptr<Call>& call, const ActivityCall& what, Where where) {
  if (!admit(call)) return;
  if (!what.activity->run) {
    call->fail(std::make_exception_ptr(ActivityError(
        what.activity->name, WorkflowError::Kind::failed, "not_here",
        fmt::format("activity '{}' has no function in this program", what.activity->name))));
    return;
  }
  attempt_local(std::make_shared<LocalCall>(
      LocalCall{call, what.activity, what.input, what.options.retry, where}));
}

void Instance::attempt_local(const std::shared_ptr<LocalCall>& local) {
  if (local->call->done() || closing_ || mismatch_) return;
  ++local->attempts;
  HistoryEvent event{.kind = EventKind::local_activity,
                     .call = next_call(),
                     .name = local->activity->name,
                     .data = local->input};
  bool final = false;
  if (!replaying_) {
    try {
      event.add("result",
                local->activity->run(outside_->local_context(*local->activity), local->input));
    } catch (const ApplicationError& error) {
      event.add("error", error.what());
      event.add("type", error.type());
      event.add("details", error.details());
      final = error.is_final();
    } catch (const std::exception& error) {
      event.add("error", error.what());
      event.add("type", "exception");
    } catch (...) {
      event.add("error", "something was thrown that is no std::exception");
      event.add("type", "exception");
    }
    if (final) event.add("final", "true");
  }
  decide(event, local->where);
  if (mismatch_) return;
  const bool failed =
      std::ranges::find(event.details, "error", &Header::name) != event.details.end();
  if (!failed) {
    local->call->accept(event.detail("result"));
    return;
  }
  const std::string type(event.detail("type"));
  const Retry& retry = local->retry;
  const bool last = !event.detail("final").empty() ||
                    (retry.attempts > 0 && local->attempts >= retry.attempts) ||
                    std::ranges::find(retry.not_for, type) != retry.not_for.end();
  if (last) {
    local->call->fail(std::make_exception_ptr(ActivityError(
        local->activity->name, WorkflowError::Kind::failed, type,
        fmt::format("activity '{}' failed: {}", local->activity->name, event.detail("error")),
        Bytes(event.detail("details")))));
    return;
  }
  const auto wait = std::make_shared<CallFor<void>>(*this);
  // The timer knows the call; if the call owned the timer too, neither would ever go.
  local->call->on_cancel = [weak = std::weak_ptr(wait)](const std::string& reason) {
    if (const auto timer = weak.lock()) timer->cancel(reason);
  };
  wait->observe([this, wait = wait.get(), local] {
    if (!wait->error()) attempt_local(local);
  });
  start_timer(wait, now_ + retry.wait_after(local->attempts, random()), local->where);
  if (const auto found = pending_.find(calls_); found != pending_.end())
    found->second.of_local = true;
}

// --- Time ---

void Instance::start_timer(const std::shared_ptr<Call>& call, Time at, Where where) {
  if (!admit(call)) return;
  Bytes time = format_time(at);
  const std::uint64_t hash = hash_of_input(time);
  if (take_over(call, Kind::timer, "", "", hash)) return;
  const std::uint64_t number = next_call();
  call->on_cancel = [this, number](const std::string& reason) { cancel_pending(number, reason); };
  HistoryEvent event{.kind = EventKind::timer_started, .call = number, .data = std::move(time)};
  const bool is_new = decide(event, where);
  pending_[number] = {
      .kind = Kind::timer, .call = call, .queue = identity_.queue, .input_hash = hash};
  if (!is_new) return;
  Send send = to_instance(identity_.id, wire::timer_kind);
  wire::add(send.headers, wire::call_header, reference(number));
  send.name = reference(number);
  send.delay = std::max(at - now_, Duration{0});
  decisions_.sends.push_back(std::move(send));
}

// --- Events, and calling off ---

void Instance::await_event(const std::shared_ptr<Call>& call, const std::string& name, Where) {
  if (!admit(call)) return;
  const auto box = mailbox_.find(name);
  if (box == mailbox_.end() || box->second.empty()) {
    waiters_[name].push_back(call);
    return;
  }
  const bool last_in = STRAND_PLANTED("mailbox-is-a-stack");
  const Bytes value = std::move(last_in ? box->second.back() : box->second.front());
  if (last_in) {
    box->second.pop_back();
  } else {
    box->second.pop_front();
  }
  if (box->second.empty()) mailbox_.erase(box);
  call->accept(value);
}

void Instance::cancel_pending(std::uint64_t number, const std::string&) {
  const auto found = pending_.find(number);
  if (found == pending_.end()) return;
  const Pending pending = std::move(found->second);
  pending_.erase(found);
  HistoryEvent event{.kind = EventKind::call_cancelled, .call = number};
  if (decide(event, Where::current())) drop_outside(number, pending, decisions_);
}

// What is under way for a call that nobody waits for any more.
void Instance::drop_outside(std::uint64_t number, const Pending& pending,
                            Decisions& decisions) const {
  switch (pending.kind) {
    case Kind::activity:
      if (STRAND_PLANTED("cancelled-activity-runs-on")) return;
      decisions.cancels.push_back(
          {.queue = pending.queue, .name = reference(number), .quiet = true});
      if (pending.has_progress) {
        decisions.records.push_back(drop_record(progress_space, reference(number)));
      }
      return;
    case Kind::timer:
    case Kind::park:
      decisions.cancels.push_back(
          {.queue = identity_.queue, .name = reference(number), .quiet = true});
      return;
    case Kind::child: {
      if (pending.when_parent_ends == WhenParentEnds::keep) return;
      Send send = to_instance(pending.name, wire::cancel_kind);
      send.label = pending.label;
      send.body = fmt::format("its parent '{}' has ended, or called it off", identity_.id);
      if (pending.when_parent_ends == WhenParentEnds::terminate) {
        wire::add(send.headers, wire::reason_header, "terminate");
      }
      decisions.sends.push_back(std::move(send));
      return;
    }
  }
}

// --- Others ---

namespace {

// What starts an instance: its record, which must not be there, and its first message.
void add_start(Decisions& decisions, Send send, const InstanceRecord& record) {
  const std::string id = *send.key;
  send.label = record.label();
  decisions.sends.push_back(std::move(send));
  WriteRecord write = put_record(instances_space, id, encode_record(record));
  write.expected = Version{0};
  decisions.records.push_back(std::move(write));
  if (record.parent)
    decisions.records.push_back(put_record(children_space, joined(*record.parent, id), {}));
}

// Whether this turn starts it: nobody else can know of it yet.
bool started_now(const Decisions& decisions, const std::string& id) {
  return std::ranges::any_of(decisions.records, [&](const WriteRecord& write) {
    return write.space == instances_space && write.key == id;
  });
}

}  // namespace

void Instance::start_child(const std::shared_ptr<Call>& call, const ChildCall& what, Where where) {
  if (!admit(call)) return;
  const std::uint64_t hash = hash_of_input(what.input);
  if (take_over(call, Kind::child, what.options.id, what.label, hash)) return;
  const std::uint64_t number = next_call();
  call->on_cancel = [this, number](const std::string& reason) { cancel_pending(number, reason); };
  const std::string id = what.options.id.empty()
                             ? fmt::format("{}/{}.{}", identity_.id, identity_.execution, number)
                             : what.options.id;
  HistoryEvent event{
      .kind = EventKind::child_started, .call = number, .name = id, .data = what.input};
  event.add("workflow", what.label);
  if (what.options.when_parent_ends != WhenParentEnds::cancel) {
    const bool keep = what.options.when_parent_ends == WhenParentEnds::keep;
    event.add("when_parent_ends", keep ? "keep" : "terminate");
  }
  const bool is_new = decide(event, where);
  pending_[number] = {.kind = Kind::child,
                      .call = call,
                      .name = id,
                      .label = what.label,
                      .when_parent_ends = what.options.when_parent_ends,
                      .input_hash = hash};
  if (!is_new) return;
  std::string refused;
  if (auto fine = check_id(id); !fine) refused = fine.error().message;
  if (started_now(decisions_, id) || (refused.empty() && outside_->look_up(id).exists)) {
    refused = fmt::format("there is an instance '{}' already", id);
  }
  if (!refused.empty()) {
    HistoryEvent failed{.kind = EventKind::child_failed, .at = now_, .call = number};
    failed.add("kind", "refused");
    failed.add("error", refused);
    refusals_.push_back(std::move(failed));
    return;
  }
  Send send = to_instance(id, wire::start_kind);
  send.body = what.input;
  wire::add(send.headers, wire::parent_header, identity_.id);
  wire::add(send.headers, wire::parent_call_header, reference(number));
  wire::add(send.headers, wire::parent_label_header, definition_->label());
  if (what.options.timeout) {
    wire::add(send.headers, wire::timeout_header, std::to_string(what.options.timeout->count()));
  }
  InstanceRecord record;
  std::tie(record.name, record.version) =
      parse_label(what.label).value_or(std::pair{what.label, 1U});
  record.parent = identity_.id;
  record.created_at = now_;
  record.input_hash = hash_of(what.input);
  record.start = 1;
  add_start(decisions_, std::move(send), record);
}

void Instance::start_other(const std::string& label, const std::string& id, Bytes input,
                           Where where) {
  if (closing_ || mismatch_ || end_) return;
  HistoryEvent event{
      .kind = EventKind::other_started, .call = next_call(), .name = id, .data = input};
  event.add("workflow", label);
  if (!decide(event, where)) return;
  if (auto fine = check_id(id); !fine) return;
  if (started_now(decisions_, id) || outside_->look_up(id).exists) return;
  Send send = to_instance(id, wire::start_kind);
  InstanceRecord record;
  std::tie(record.name, record.version) = parse_label(label).value_or(std::pair{label, 1U});
  record.created_at = now_;
  record.input_hash = hash_of(input);
  record.start = 1;
  send.body = std::move(input);
  add_start(decisions_, std::move(send), record);
}

void Instance::send_event(const std::string& id, const std::string& name, Bytes value,
                          Where where) {
  if (closing_ || mismatch_ || end_) return;
  HistoryEvent event{.kind = EventKind::event_sent, .call = next_call(), .name = id, .data = value};
  event.add("event", name);
  if (!decide(event, where)) return;
  const Outside::Known known = outside_->look_up(id);
  if (known.ended) return;
  Send send = to_instance(id, wire::event_kind);
  send.label = known.label;
  wire::add(send.headers, wire::name_header, name);
  send.body = std::move(value);
  decisions_.sends.push_back(std::move(send));
}

void Instance::cancel_other(const std::string& id, Where where) {
  if (closing_ || mismatch_ || end_) return;
  HistoryEvent event{.kind = EventKind::other_cancelled, .call = next_call(), .name = id};
  if (!decide(event, where)) return;
  const Outside::Known known = outside_->look_up(id);
  if (!started_now(decisions_, id) && (!known.exists || known.ended)) return;
  Send send = to_instance(id, wire::cancel_kind);
  send.label = known.label;
  send.body = fmt::format("cancelled by '{}'", identity_.id);
  decisions_.sends.push_back(std::move(send));
}

void Instance::send(Send send, Where where) {
  if (closing_ || mismatch_ || end_) return;
  HistoryEvent event{
      .kind = EventKind::message_sent, .call = next_call(), .name = send.queue, .data = send.body};
  if (send.key) event.add("key", *send.key);
  if (decide(event, where)) decisions_.sends.push_back(std::move(send));
}

void Instance::publish(Publish publish, Where where) {
  if (closing_ || mismatch_ || end_) return;
  HistoryEvent event{.kind = EventKind::message_published,
                     .call = next_call(),
                     .name = publish.topic,
                     .data = publish.body};
  if (decide(event, where)) decisions_.publishes.push_back(std::move(publish));
}

// --- Itself ---

// The lane stops with the turn; a message that waits in it is what it finds when it is resumed.
void Instance::park(const std::shared_ptr<Call>& call, const std::string& reason, Where where) {
  if (!admit(call)) return;
  const std::uint64_t number = next_call();
  call->on_cancel = [this, number](const std::string& why) { cancel_pending(number, why); };
  HistoryEvent event{.kind = EventKind::parked, .call = number, .data = reason};
  const bool is_new = decide(event, where);
  pending_[number] = {.kind = Kind::park, .call = call, .queue = identity_.queue};
  if (!is_new) return;
  Send send = to_instance(identity_.id, wire::resumed_kind);
  wire::add(send.headers, wire::call_header, reference(number));
  send.name = reference(number);
  decisions_.sends.push_back(std::move(send));
  decisions_.park = true;
  decisions_.park_reason = reason;
}

void Instance::continue_as_new(Continuation next, Where) {
  if (closing_ || mismatch_ || end_ || continuation_) return;
  continuation_ = std::move(next);
}

bool Instance::patched(std::string_view change, Where where) {
  if (closing_ || mismatch_) return false;
  const auto known = patches_.find(change);
  if (known != patches_.end()) return known->second;
  bool answer = true;
  if (replaying_) {
    const HistoryEvent* next = cursor_ < history_.size() ? &history_[cursor_] : nullptr;
    answer = next != nullptr && next->kind == EventKind::patched && next->name == change;
  }
  patches_.emplace(change, answer);
  if (!answer) return false;
  HistoryEvent event{.kind = EventKind::patched, .name = std::string(change)};
  decide(event, where);
  return true;
}

void Instance::set_status(std::string text) {
  if (closing_ || status_ == text) return;
  status_ = std::move(text);
  if (!replaying_) status_changed_ = true;
}

void Instance::set(const std::string& key, Bytes value) {
  if (closing_ || mismatch_ || end_) return;
  if (key.empty() || key.size() > state_key_bytes_max) {
    throw ApplicationError(
        "invalid_key", fmt::format("a key of the state has 1 to {} bytes", state_key_bytes_max));
  }
  const auto [entry, is_new] = state_.try_emplace(key, value);
  if (!is_new && entry->second == value) return;
  entry->second = value;
  if (!replaying_) {
    decisions_.records.push_back(
        put_record(state_space, joined(identity_.id, key), std::move(value)));
  }
}

void Instance::erase(const std::string& key) {
  if (closing_ || mismatch_ || end_ || state_.erase(key) == 0) return;
  if (!replaying_) {
    decisions_.records.push_back(drop_record(state_space, joined(identity_.id, key)));
  }
}

void Instance::answer(std::string query, std::function<Bytes(std::string_view)> function) {
  answers_[std::move(query)] = std::move(function);
}

void Instance::stop_answering(const std::string& query) { answers_.erase(query); }

// --- Sagas ---

std::shared_ptr<SagaState> Instance::begin_saga(std::string name, Bytes data) {
  auto saga = std::make_shared<SagaState>();
  saga->number = ++saga_count_;
  saga->fiber = current_;
  saga->shown = {.coordinator = identity_.id,
                 .execution = identity_.execution,
                 .number = saga->number,
                 .name = std::move(name),
                 .data = std::move(data),
                 .started_at = now_};
  if (!closing_) sagas_.push_back(saga);
  saga_changed(*saga);
  return saga;
}

void Instance::saga_changed(const SagaState& saga, std::optional<std::size_t> step) {
  if (replaying_ || closing_ || mismatch_) return;
  const std::string key = saga_key(identity_.id, identity_.execution, saga.number);
  decisions_.records.push_back(put_record(sagas_space, key, encode_saga(saga.shown)));
  if (!step) return;
  decisions_.records.push_back(
      put_record(saga_steps_space, step_key(key, *step), encode_step(saga.steps[*step].shown)));
}

}  // namespace strand::workflow
