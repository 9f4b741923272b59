#include "workflow/turn.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/planted.h"
#include "base/text.h"
#include "queue/held_lane.h"
#include "workflow/stored_history.h"
#include "workflow/wire.h"

namespace strand::workflow {

namespace {

// What one turn may grow to: more messages are left for the next one. Beyond the second figures it
// would not fit into a transaction at all.
constexpr std::size_t bytes_enough = std::size_t{4} << 20U;
constexpr std::size_t operations_enough = 20'000;
constexpr std::size_t bytes_max = std::size_t{15} << 20U;
constexpr std::size_t operations_max = 90'000;

std::size_t bytes_of(const Headers& headers) {
  std::size_t bytes = 0;
  for (const Header& header : headers)
    bytes += header.name.size() + header.value.size();
  return bytes;
}

// Counts what has been decided since the last look.
class Weight {
 public:
  void add(const Decisions& decisions) {
    for (; events_ < decisions.events.size(); ++events_) {
      const HistoryEvent& event = decisions.events[events_];
      bytes_ += event.data.size() + event.name.size() + bytes_of(event.details) + 16;
    }
    for (; sends_ < decisions.sends.size(); ++sends_) {
      const Send& send = decisions.sends[sends_];
      bytes_ += send.body.size() + bytes_of(send.headers) + 64;
    }
    for (; publishes_ < decisions.publishes.size(); ++publishes_)
      bytes_ += decisions.publishes[publishes_].body.size() + 64;
    for (; records_ < decisions.records.size(); ++records_) {
      const WriteRecord& write = decisions.records[records_];
      bytes_ += write.key.size() + (write.value ? write.value->size() : 0) + 32;
    }
    operations_ = sends_ + publishes_ + records_ + decisions.cancels.size();
  }
  [[nodiscard]] bool enough() const {
    return bytes_ > bytes_enough || operations_ > operations_enough;
  }
  [[nodiscard]] bool too_much() const { return bytes_ > bytes_max || operations_ > operations_max; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t operations() const { return operations_; }

 private:
  std::size_t bytes_ = 0;
  std::size_t operations_ = 0;
  std::size_t events_ = 0;
  std::size_t sends_ = 0;
  std::size_t publishes_ = 0;
  std::size_t records_ = 0;
};

// The last write of each record counts, with what the first one expected.
std::vector<WriteRecord> merged(std::vector<WriteRecord> writes) {
  if (writes.size() < 2) return writes;
  std::map<std::pair<std::string, std::string>, std::size_t> places;
  std::vector<WriteRecord> result;
  for (WriteRecord& write : writes) {
    const auto [place, is_new] = places.try_emplace({write.space, write.key}, result.size());
    if (is_new) {
      result.push_back(std::move(write));
    } else {
      result[place->second].value = std::move(write.value);
    }
  }
  return result;
}

InstanceState state_of(const HistoryEvent* end) {
  if (end == nullptr) return InstanceState::running;
  switch (end->kind) {
    case EventKind::completed:
      return InstanceState::completed;
    case EventKind::failed:
      return InstanceState::failed;
    case EventKind::cancelled:
      return InstanceState::cancelled;
    case EventKind::terminated:
      return InstanceState::terminated;
    case EventKind::timed_out:
      return InstanceState::timed_out;
    default:
      return InstanceState::running;
  }
}

Time time_of(std::string_view text) {
  return Time{Duration{static_cast<std::int64_t>(wire::number(text).value_or(0))}};
}

std::string text_of(Time time) { return std::to_string(time.time_since_epoch().count()); }

}  // namespace

InstanceRecord record_of(const Identity& identity, const std::string& label,
                         const HistoryEvent& started, const std::string& status,
                         const HistoryEvent* end) {
  InstanceRecord record;
  std::tie(record.name, record.version) = parse_label(label).value_or(std::pair{label, 1U});
  record.state = state_of(end);
  record.execution = identity.execution;
  record.status = status;
  if (const auto parent = started.detail("parent"); !parent.empty()) record.parent = parent;
  record.created_at = time_of(started.detail("created"));
  record.input_hash = started.detail("input");
  record.start = wire::number(started.detail("start")).value_or(1);
  if (!has_ended(record.state)) return record;
  record.ended_at = end->at;
  if (record.state == InstanceState::completed) return record;
  record.error = end->detail("error");
  if (const auto type = end->detail("type"); !type.empty()) record.error_type = type;
  return record;
}

void tell_parent(const Ending& ending, Transaction& transaction) {
  const std::string_view parent = ending.started.detail("parent");
  if (parent.empty()) return;
  const bool completed = ending.end.kind == EventKind::completed;
  Send& send = transaction.sends.emplace_back();
  send.queue = ending.identity.queue;
  send.key = parent;
  send.label = ending.started.detail("parent_label");
  send.body = ending.end.data;
  wire::add(send.headers, wire::kind_header,
            completed ? wire::child_result_kind : wire::child_error_kind);
  wire::add(send.headers, wire::call_header, ending.started.detail("parent_call"));
  if (completed) return;
  wire::add(send.headers, wire::error_header, ending.end.detail("error"));
  wire::add(send.headers, wire::error_type_header, ending.end.detail("type"));
  wire::add(send.headers, wire::error_how_header, to_string(ending.end.kind));
}

// --- One turn ---

class Turns::Run final : public Outside {
 public:
  Run(const Turns& turns, const Lease& lease, std::span<const Message> messages)
      : turns_(turns), lease_(lease), messages_(messages), now_(turns.store_.now()) {}

  Result<TurnResult> run(const History& history) {
    const Execution& last = history.execution;
    if (last.number > 0 && !last.outcome) return go_on(history);
    return from_nothing(last.number);
  }

  // With an instance from an earlier turn.
  Result<TurnResult> run(std::unique_ptr<Instance> instance, bool audit) {
    instance_ = std::move(instance);
    instance_->ask(*this);
    identity_ = instance_->identity();
    audit_ = audit;
    return hand_in();
  }

  Known look_up(const std::string& id) override {
    const auto found = turns_.store_.record(instances_space, id);
    if (!found) trouble_ = found.error();
    if (!found || !*found) return {};
    const auto record = decode_record(id, (*found)->value);
    if (!record) return {.exists = true};
    return {.exists = true, .ended = has_ended(record->state), .label = record->label()};
  }

  // A local activity is a function call: there is nobody to tell, and nothing to be told.
  class Context final : public ActivityContext {
   public:
    const ActivityDefinition* definition = nullptr;
    std::string id;
    std::string key;
    [[nodiscard]] const std::string& activity() const override { return definition->name; }
    [[nodiscard]] const std::string& instance() const override { return id; }
    [[nodiscard]] std::string idempotency_key() const override { return key; }
    [[nodiscard]] std::uint32_t attempt() const override { return 1; }
    [[nodiscard]] std::stop_token stop_token() const override { return {}; }
    bool heartbeat() override { return true; }

   protected:
    bool heartbeat_with(Bytes) override { return true; }
    std::optional<Bytes> kept_progress() override { return std::nullopt; }
  };
  bool checkpoint_is_due(const SinceCheckpoint& since, const CheckpointOptions& point) override {
    const CheckpointWhen& when = point.when ? *point.when : turns_.options_.checkpoints.when;
    const auto came_in = [&](EventKind kind) {
      return since.kinds.test(std::to_underlying(kind) % 64);
    };
    return (when.every_events && since.events >= *when.every_events) ||
           (when.every_bytes && since.bytes >= *when.every_bytes) ||
           std::ranges::any_of(when.after, came_in) ||
           (when.every && since.now - since.from >= *when.every) ||
           (when.replay_longer_than &&
            turns_.costs_.estimate(lease_.label, since.events) >= *when.replay_longer_than);
  }

  ActivityContext& local_context(const ActivityDefinition& activity) override {
    context_.definition = &activity;
    context_.id = identity_.id;
    context_.key = fmt::format("{}.{}", instance_->run(), instance_->length());
    return context_;
  }

 private:
  using Definition = std::shared_ptr<const WorkflowDefinition>;

  [[nodiscard]] Definition find_definition() const {
    const auto found = turns_.registry_.find(lease_.label);
    return found == turns_.registry_.end() ? nullptr : found->second;
  }

  // An execution is open: replay it, then hand in what is new.
  Result<TurnResult> go_on(const History& history) {
    const Definition definition = find_definition();
    if (!definition) return leave_all();
    identity_ = {.id = *lease_.key, .queue = lease_.queue, .execution = history.execution.number};
    auto replayed = replay(definition, history);
    if (!replayed && !result_.report.differs && history.first > history.execution.first) {
      // Only from its last checkpoint on was it read, and that is of no use.
      result_.report.unreadable_checkpoints = 0;  // it is tried again, and counted once
      const auto whole = read_history(turns_.store_, lease_.queue, *lease_.key);
      if (!whole) return std::unexpected(whole.error());
      replayed = replay(definition, *whole);
    }
    if (!replayed) return refuse(replayed.error().message);
    return hand_in();
  }

  // From the last checkpoint that can be read, or from the start.
  Result<void> replay(const Definition& definition, const History& history) {
    auto events = decode_with_checkpoints(history);
    if (!events) return std::unexpected(std::move(events.error()));
    Error last{Errc::corrupt,
               fmt::format("the history of instance '{}' begins with event {}, which "
                           "is no checkpoint",
                           base::printable(identity_.id), history.first)};
    for (std::size_t i = events->size(); i-- > 0;) {
      const bool is_checkpoint = (*events)[i].kind == EventKind::checkpoint;
      if (!is_checkpoint && (i > 0 || history.first > 0)) continue;
      const auto tail = std::span(*events).subspan(i);
      instance_ = std::make_unique<Instance>(definition, identity_, *this);
      const auto began = std::chrono::steady_clock::now();
      auto replayed = instance_->replay(tail, history.first + i);
      if (replayed) {
        const auto took = std::chrono::steady_clock::now() - began;
        turns_.costs_.add(lease_.label, tail.size(), took);
        result_.report.replayed_events = tail.size();
        events->erase(events->begin(), events->begin() + static_cast<std::ptrdiff_t>(i));
        past_ = *std::move(events);
        past_first_ = history.first + i;
        return {};
      }
      last = std::move(replayed.error());
      if (!instance_->checkpoint_unreadable()) {
        result_.report.replayed_events = tail.size();
        result_.report.differs = true;
        break;
      }
      ++result_.report.unreadable_checkpoints;
    }
    return std::unexpected(std::move(last));
  }

  // A checkpoint that is damaged is no reason to give up the whole history.
  Result<std::vector<HistoryEvent>> decode_with_checkpoints(const History& history) {
    auto events = decode_history(history);
    if (events) return events;
    const auto places = read_checkpoints(turns_.store_, identity_.id);
    if (!places || !*places || (*places)->execution != identity_.execution) return events;
    History readable = history;
    for (const std::uint64_t number : (*places)->events) {
      if (number < history.first || number - history.first >= history.events.size()) continue;
      Bytes& bytes = readable.events[number - history.first];
      if (!decode_event(bytes)) bytes = encode_event(unreadable_checkpoint());
    }
    return decode_history(readable);
  }

  Result<TurnResult> hand_in() {
    length_before_ = instance_->length();
    for (const Message& message : messages_)
      take(message);
    return finish();
  }

  // None is open: there has to be a start, or else what is here is for nobody.
  Result<TurnResult> from_nothing(std::uint64_t last) {
    const auto start = find_start();
    if (!start) return std::unexpected(start.error());
    if (!*start) {
      for (const Message& message : messages_)
        drop(message);
      return std::move(result_);
    }
    const Definition definition = find_definition();
    if (!definition) return leave_all();
    identity_ = {.id = *lease_.key, .queue = lease_.queue, .execution = last + 1};
    instance_ = std::make_unique<Instance>(definition, identity_, *this);
    result_.report.opened = true;
    open(**start);
    for (const Message& message : messages_) {
      if (message.id != (*start)->id) take(message);
    }
    return finish();
  }

  // What starts the instance, if a start is waited for. So many early events may lie in front of it
  // that the lease has not brought it: then it stays in the lane, and is no news when it comes.
  Result<std::optional<Message>> find_start() {
    const auto found = turns_.store_.record(instances_space, *lease_.key);
    if (!found) return std::unexpected(found.error());
    if (!*found) return std::nullopt;
    const auto record = decode_record(*lease_.key, (*found)->value);
    if (!record) return std::unexpected(record.error());
    if (record->state != InstanceState::pending) return std::nullopt;
    const auto is_it = [&](const Message& message) {
      return wire::header(message.headers, wire::kind_header) == wire::start_kind &&
             wire::number(wire::header(message.headers, "strand-start")).value_or(1) ==
                 record->start;
    };
    const auto here = std::ranges::find_if(messages_, is_it);
    if (here != messages_.end()) return *here;
    PeekQuery query{.queue = lease_.queue, .key = lease_.key, .limit = 1000};
    while (true) {
      const auto page = turns_.store_.peek(query);
      if (!page) return std::unexpected(page.error());
      const auto there = std::ranges::find_if(page->items, is_it);
      if (there != page->items.end()) return *there;
      if (!page->more || page->items.empty()) return std::nullopt;
      query.after = page->items.back().id;
    }
  }

  void open(const Message& start) {
    const Headers& headers = start.headers;
    HistoryEvent event{.kind = EventKind::started, .at = now_, .name = lease_.label};
    event.data = start.body;
    event.add("run", new_run(start.id));
    event.add("created", text_of(start.enqueued_at));
    event.add("input", hash_of(start.body));
    const auto copy = [&](std::string_view header, std::string name) {
      if (const auto value = wire::header(headers, header); !value.empty()) {
        event.add(std::move(name), std::string(value));
      }
    };
    copy("strand-start", "start");
    copy(wire::parent_header, "parent");
    copy(wire::parent_call_header, "parent_call");
    copy(wire::parent_label_header, "parent_label");
    const auto delay = wire::milliseconds(headers, wire::start_delay_header);
    if (delay && *delay > Duration{0}) event.add("waits", "delayed");
    if (const auto timeout = wire::milliseconds(headers, wire::timeout_header)) {
      event.add("deadline", text_of(now_ + *timeout + delay.value_or(Duration{0})));
    }
    instance_->handle(event);
    if (delay && *delay > Duration{0}) send_begin(instance_->run(), *delay);
    set_deadline(event, instance_->run());
  }

  // No other execution, of this id or another, has or will have this name: ids of messages are
  // never used again, and the first one of an execution opens it.
  [[nodiscard]] std::string new_run(MessageId id) const {
    return fmt::format("{:x}-{:x}", static_cast<std::uint64_t>(id), identity_.execution);
  }

  void send_begin(const std::string& run, Duration delay) {
    Send& send = result_.transaction.sends.emplace_back();
    send.queue = lease_.queue;
    send.key = identity_.id;
    send.name = run + ".begin";
    send.delay = delay;
    wire::add(send.headers, wire::kind_header, wire::begin_kind);
    wire::add(send.headers, wire::call_header, run + ".0");
  }

  void set_deadline(const HistoryEvent& started, const std::string& run) {
    const auto deadline = started.detail("deadline");
    if (deadline.empty()) return;
    Send& send = result_.transaction.sends.emplace_back();
    send.queue = lease_.queue;
    send.key = identity_.id;
    send.name = run + ".deadline";
    send.delay = std::max(time_of(deadline) - now_, Duration{0});
    wire::add(send.headers, wire::kind_header, wire::deadline_kind);
    wire::add(send.headers, wire::call_header, run + ".0");
  }

  // --- What came in ---

  void take(const Message& message) {
    weight_.add(instance_->decisions());
    if (instance_->mismatch()) return;  // nothing of this turn will be
    if (instance_->end() || instance_->decisions().park || weight_.enough()) {
      result_.left.push_back(message.id);
      return;
    }
    const std::string_view kind = wire::header(message.headers, wire::kind_header);
    if (!wire::header(message.headers, notice_end_header).empty()) {
      on_notice(message);
    } else if (kind == wire::result_kind) {
      on_answer(message, EventKind::activity_completed);
    } else if (kind == wire::error_kind) {
      on_answer(message, EventKind::activity_failed);
    } else if (kind == wire::child_result_kind) {
      on_answer(message, EventKind::child_completed);
    } else if (kind == wire::child_error_kind) {
      on_answer(message, EventKind::child_failed);
    } else if (kind == wire::timer_kind) {
      on_answer(message, EventKind::timer_fired);
    } else if (kind == wire::resumed_kind) {
      on_answer(message, EventKind::resumed);
    } else if (kind == wire::event_kind) {
      instance_->handle({.kind = EventKind::event_received,
                         .at = now_,
                         .name = std::string(wire::header(message.headers, wire::name_header)),
                         .data = message.body});
    } else if (kind == wire::cancel_kind) {
      on_cancel(message);
    } else if (kind == wire::begin_kind) {
      if (is_for_this_run(message) && !instance_->begun()) {
        instance_->handle({.kind = EventKind::begun, .at = now_});
      }
    } else if (kind == wire::deadline_kind) {
      if (is_for_this_run(message)) {
        HistoryEvent event{.kind = EventKind::timed_out, .at = now_};
        event.add("error", "the run took longer than it was given");
        instance_->handle(event);
      }
    } else if (kind == wire::query_kind) {
      queries_.push_back(&message);
    } else if (kind != wire::start_kind) {  // one that comes again is not asked for its input
      result_.dead.emplace_back(message.id, fmt::format("'{}' is no kind of message that an "
                                                        "instance understands",
                                                        base::printable(kind)));
    }
  }

  // Of an instance that has ended, or is unknown.
  void drop(const Message& message) {
    const std::string_view kind = wire::header(message.headers, wire::kind_header);
    const bool known = !kind.empty() || !wire::header(message.headers, notice_end_header).empty();
    if (kind == wire::query_kind) {
      reply(message, "error", "the instance does not run");
    } else if (!known) {
      result_.dead.emplace_back(message.id, "this is no message that an instance understands");
    }
  }

  // The number of the call, if it is one of this execution.
  [[nodiscard]] std::optional<std::uint64_t> call_of(const Message& message) const {
    const std::string_view reference = wire::header(message.headers, wire::call_header);
    const std::size_t dot = reference.rfind('.');
    if (dot == std::string_view::npos) return std::nullopt;
    if (reference.substr(0, dot) != instance_->run() && !STRAND_PLANTED("answers-of-other-runs")) {
      return std::nullopt;
    }
    return wire::number(reference.substr(dot + 1));
  }
  [[nodiscard]] bool is_for_this_run(const Message& message) const {
    return call_of(message).has_value();
  }

  void on_answer(const Message& message, EventKind kind) {
    const auto call = call_of(message);
    if (!call || !instance_->waits_for(*call)) return;
    HistoryEvent event{.kind = kind, .at = now_, .call = *call, .data = message.body};
    if (kind == EventKind::activity_failed || kind == EventKind::child_failed) {
      const auto how = wire::header(message.headers, wire::error_how_header);
      event.add("kind", std::string(how.empty() ? "failed" : how));
      event.add("type", std::string(wire::header(message.headers, wire::error_type_header)));
      event.add("error", std::string(wire::header(message.headers, wire::error_header)));
    }
    instance_->handle(event);
  }

  // An activity has ended without an answer.
  void on_notice(const Message& message) {
    const auto call = call_of(message);
    if (!call || !instance_->waits_for(*call)) return;
    HistoryEvent event{.kind = EventKind::activity_failed, .at = now_, .call = *call};
    const auto end = wire::header(message.headers, notice_end_header);
    const auto reason = wire::header(message.headers, notice_reason_header);
    event.add("kind", "crashed");
    event.add("type", std::string(end));
    event.add("error",
              fmt::format("its message ended as {}{}{}", end, reason.empty() ? "" : ": ", reason));
    instance_->handle(event);
  }

  void on_cancel(const Message& message) {
    if (wire::header(message.headers, wire::reason_header) == "terminate") {
      HistoryEvent event{.kind = EventKind::terminated, .at = now_};
      event.add("error", message.body);
      instance_->handle(event);
    } else if (!instance_->cancel_requested()) {
      instance_->handle({.kind = EventKind::cancel_requested, .at = now_, .data = message.body});
    }
  }

  // --- What goes out ---

  Result<TurnResult> finish() {
    if (trouble_) return std::unexpected(*trouble_);
    if (instance_->mismatch()) return refuse(*instance_->mismatch());
    answer_queries();
    if (instance_->end() && (instance_->end()->kind == EventKind::terminated ||
                             instance_->end()->kind == EventKind::timed_out)) {
      abandon_all();
    }
    Decisions decisions = instance_->take_decisions();
    weight_.add(decisions);
    if (weight_.too_much()) {
      return refuse(
          fmt::format("transaction_too_large: one turn decided {} operations of {} bytes; "
                      "let the workflow do less between two co_awaits",
                      weight_.operations(), weight_.bytes()));
    }
    result_.report.new_events = decisions.events.size();
    result_.report.history_length = length_before_ + decisions.events.size();
    if ((turns_.options_.verify || audit_) && !decisions.events.empty()) {
      if (auto read = read_past(); !read) return std::unexpected(read.error());
      if (auto same = verify(decisions.events); !same) {
        result_.report.differs = true;
        return refuse(same.error().message);
      }
    }
    Transaction& transaction = result_.transaction;
    std::ranges::move(decisions.sends, std::back_inserter(transaction.sends));
    std::ranges::move(decisions.cancels, std::back_inserter(transaction.cancels));
    std::ranges::move(decisions.publishes, std::back_inserter(transaction.publishes));
    std::ranges::move(decisions.records, std::back_inserter(transaction.records));
    if (decisions.park) result_.park = decisions.park_reason;
    if (!decisions.events.empty()) append(decisions.events);
    transaction.records = merged(std::move(transaction.records));
    drop_called_off();
    if (!instance_->end() && !result_.park) result_.instance = std::move(instance_);
    return std::move(result_);
  }

  // What was not replayed, because the instance was at hand.
  Result<void> read_past() {
    if (past_first_ + past_.size() == length_before_) return {};
    const auto history = read_history(turns_.store_, lease_.queue, *lease_.key);
    if (!history) return std::unexpected(history.error());
    auto events = decode_with_checkpoints(*history);
    if (!events) return std::unexpected(events.error());
    // Somebody else has appended: the lease is lost, and this turn will not be committed.
    past_first_ = history->first;
    if (past_first_ + events->size() != length_before_) {
      return failure(Errc::lease_lost, fmt::format("the history of '{}' has gone on elsewhere",
                                                   base::printable(identity_.id)));
    }
    past_ = *std::move(events);
    return {};
  }

  // A transaction cancels before it sends: what this turn has called and called off is not sent.
  void drop_called_off() {
    if (result_.transaction.cancels.empty()) return;
    std::set<std::pair<std::string_view, std::string_view>> called_off;
    for (const Cancel& cancel : result_.transaction.cancels)
      called_off.emplace(cancel.queue, cancel.name);
    std::erase_if(result_.transaction.sends, [&](const Send& send) {
      return send.name && called_off.contains({send.queue, *send.name});
    });
  }

  void append(const std::vector<HistoryEvent>& events) {
    Append append{
        .token = lease_.token, .execution = identity_.execution, .expected_length = length_before_};
    append.events.reserve(events.size());
    for (const HistoryEvent& event : events)
      append.events.push_back(encode_event(event));
    const auto& end = instance_->end();
    const std::string label = instance_->definition().label();
    Transaction& transaction = result_.transaction;
    if (end) {
      append.close = to_string(end->kind);
      result_.report.ended = end->kind;
      if (!instance_->start().detail("deadline").empty()) {
        transaction.cancels.push_back(
            {.queue = lease_.queue, .name = instance_->run() + ".deadline", .quiet = true});
      }
    }
    transaction.appends.push_back(std::move(append));
    note_checkpoints(events);
    if (end && end->kind == EventKind::continued) {
      continue_as_new();
      return;
    }
    if (end || result_.report.opened || instance_->status_changed()) {
      write_record(record_of(identity_, label, instance_->start(), instance_->status(),
                             end ? &*end : nullptr));
    }
    if (end) tell_parent({identity_, label, instance_->start(), *end, {}}, transaction);
  }

  // Where the last ones lie; what is older than both is of no more use.
  void note_checkpoints(const std::vector<HistoryEvent>& events) {
    const auto& known = instance_->checkpoints();
    result_.report.checkpoints = static_cast<std::uint64_t>(
        std::ranges::count(events, EventKind::checkpoint, &HistoryEvent::kind));
    if (instance_->end()) {
      if (!known.empty()) {
        result_.transaction.records.push_back(drop_record(checkpoints_space, identity_.id));
      }
      return;
    }
    if (result_.report.checkpoints == 0) return;
    const CheckpointsRecord record{.execution = identity_.execution, .events = known};
    result_.transaction.records.push_back(
        put_record(checkpoints_space, identity_.id, encode_checkpoints(record)));
    if (!turns_.options_.checkpoints.prune || known.size() < 2) return;
    result_.transaction.trim_histories.push_back(
        {.token = lease_.token,
         .execution = identity_.execution,
         .before =
             STRAND_PLANTED("checkpoint-trims-the-older-one") ? known.back() : known.front()});
  }

  void write_record(const InstanceRecord& record) {
    result_.transaction.records.push_back(
        put_record(instances_space, identity_.id, encode_record(record)));
  }

  // Closes this execution and opens the next, which begins with a turn of its own.
  void continue_as_new() {
    Transaction& transaction = result_.transaction;
    ++identity_.execution;
    const std::string run = fmt::format(
        "{}-{:x}", instance_->run().substr(0, instance_->run().rfind('-')), identity_.execution);
    std::vector<HistoryEvent> events = instance_->next_execution(run, now_);
    const std::string label =
        fmt::format("{}@{}", instance_->definition().name, instance_->next_version());
    events.front().name = label;
    Append next{.token = lease_.token, .execution = identity_.execution, .expected_length = 0};
    for (const HistoryEvent& event : events)
      next.events.push_back(encode_event(event));
    transaction.appends.push_back(std::move(next));
    if (label != lease_.label) result_.label = label;
    send_begin(run, Duration{0});
    set_deadline(events.front(), run);
    write_record(record_of(identity_, label, events.front(), instance_->status(), nullptr));
  }

  // The code was not asked, so nothing was called off by it.
  void abandon_all() {
    Decisions abandoned;
    instance_->abandon_calls(abandoned);
    std::ranges::move(abandoned.sends, std::back_inserter(result_.transaction.sends));
    std::ranges::move(abandoned.cancels, std::back_inserter(result_.transaction.cancels));
    std::ranges::move(abandoned.records, std::back_inserter(result_.transaction.records));
  }

  void answer_queries() {
    for (const Message* message : queries_) {
      if (instance_->end()) {
        reply(*message, "error", "the instance has ended");
        continue;
      }
      try {
        const std::string name(wire::header(message->headers, wire::name_header));
        reply(*message, "value", instance_->query(name, message->body));
      } catch (const std::exception& error) {
        reply(*message, "error", error.what());
      } catch (...) {
        reply(*message, "error", "something was thrown that is no std::exception");
      }
    }
  }

  // One word and a line feed, then the answer.
  void reply(const Message& message, std::string_view how, std::string_view text) {
    const auto key = wire::header(message.headers, wire::reply_record_header);
    if (key.empty()) return;
    result_.transaction.records.push_back(
        put_record(answers_space, std::string(key), fmt::format("{}\n{}", how, text)));
  }

  // Replays what there is, this turn included, and compares.
  Result<void> verify(const std::vector<HistoryEvent>& events) {
    std::vector<HistoryEvent> all = past_;
    all.insert(all.end(), events.begin(), events.end());
    std::size_t begin = past_.size();
    bool unreadable = true;
    while (unreadable && begin > 0) {
      --begin;
      if (all[begin].kind != EventKind::checkpoint && begin > 0) continue;
      if (auto same = verify_from(all, begin, unreadable); !same && !unreadable) return same;
    }
    if (past_.empty()) {
      if (auto same = verify_from(all, 0, unreadable); !same) return same;
    }
    // From a checkpoint that was just taken, the next replay will begin.
    for (std::size_t i = all.size(); i-- > past_.size();) {
      if (all[i].kind == EventKind::checkpoint) return verify_from(all, i, unreadable);
    }
    return {};
  }

  Result<void> verify_from(std::span<const HistoryEvent> all, std::size_t begin, bool& unreadable) {
    Instance again(find_definition(), identity_, *this);
    auto same = again.replay(all.subspan(begin), past_first_ + begin);
    unreadable = again.checkpoint_unreadable();
    if (same && (again.state() != instance_->state() || again.status() != instance_->status() ||
                 again.replay_length() != instance_->replay_length())) {
      return failure(Errc::history_mismatch,
                     fmt::format("a replay of '{}' leaves another state than its first run",
                                 base::printable(identity_.id)));
    }
    return same;
  }

  // Nothing is written.
  [[nodiscard]] TurnResult refuse(std::string reason) const {
    TurnResult refused;
    refused.refused = std::move(reason);
    refused.report = result_.report;
    return refused;
  }

  // For a worker that knows this kind of workflow.
  TurnResult leave_all() {
    for (const Message& message : messages_)
      result_.left.push_back(message.id);
    return std::move(result_);
  }

  const Turns& turns_;
  const Lease& lease_;
  const std::span<const Message> messages_;
  const Time now_;

  Identity identity_;
  std::vector<HistoryEvent> past_;  // none with an instance from an earlier turn
  std::uint64_t past_first_ = 0;
  std::uint64_t length_before_ = 0;
  bool audit_ = false;
  std::unique_ptr<Instance> instance_;
  std::vector<const Message*> queries_;
  Weight weight_;
  Context context_;
  std::optional<Error> trouble_;
  TurnResult result_;
};

Result<TurnResult> Turns::run(const Lease& lease, std::span<const Message> messages,
                              const History& history) const {
  return Run(*this, lease, messages).run(history);
}

Result<TurnResult> Turns::go_on(const Lease& lease, std::span<const Message> messages,
                                std::unique_ptr<Instance> instance, bool audit) const {
  return Run(*this, lease, messages).run(std::move(instance), audit);
}

Transaction settle_turn(TurnResult& result, const Lease& lease) {
  Transaction transaction = std::move(result.transaction);
  Settle& settle = transaction.settles.emplace_back();
  settle.token = lease.token;
  if (result.refused) {
    settle.then = Settle::Then::park;
    settle.park_reason = queue::fit_reason(*result.refused);
    return transaction;
  }
  for (const Message& message : lease.messages) {
    if (std::ranges::find(result.left, message.id) != result.left.end()) continue;
    settle.outcomes.push_back({.id = message.id});
  }
  for (const auto& [id, reason] : result.dead) {
    const auto outcome = std::ranges::find(settle.outcomes, id, &Outcome::id);
    outcome->kind = Outcome::Kind::dead;
    outcome->reason = queue::fit_reason(reason);
  }
  if (result.park) {
    settle.then = Settle::Then::park;
    settle.park_reason = queue::fit_reason(*result.park);
  }
  settle.label = result.label;
  return transaction;
}

}  // namespace strand::workflow
