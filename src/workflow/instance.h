#pragma once

#include <bitset>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <strand/history.h>
#include <strand/transaction.h>
#include <strand/workflow.h>

#include "workflow/checkpoint.h"
#include "workflow/saga_state.h"

namespace strand::workflow {

// A coroutine that runs beside others of its workflow. Cancelling one cancels what it has called
// and what it has spawned.
struct Fiber {
  std::optional<Task<void>> task = {};
  bool done = false;
  bool shielded = false;  // it, or whoever has spawned it
  bool cancelled = false;
  std::string reason = {};  // of the cancellation
  std::vector<std::weak_ptr<Call>> calls = {};
  std::vector<std::weak_ptr<Fiber>> children = {};
  std::size_t sweep_at = 32;  // so many calls: time to forget those that are done
};

// Which instance, and where its messages go.
struct Identity {
  std::string id = {};
  std::string queue = {};  // of the instances
  std::uint64_t execution = 1;
};

// What there was since the last checkpoint, or the start: what a replay begins with.
struct SinceCheckpoint {
  std::uint64_t events = 0;
  std::uint64_t came_in = 0;  // of them, not decided by the code
  std::size_t bytes = 0;
  std::bitset<64> kinds = {};  // that came in
  Time from{};
  Time now{};
};

// What an instance may ask about the world, when it decides something new. Never in a replay.
class Outside {
 public:
  Outside() = default;
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;
  virtual ~Outside() = default;
  // What is known of another instance.
  struct Known {
    bool exists = false;
    bool ended = false;
    std::string label = {};
  };
  virtual Known look_up(const std::string& id) = 0;
  virtual ActivityContext& local_context(const ActivityDefinition& activity) = 0;
  // Whether a point that the code offers becomes a checkpoint.
  virtual bool checkpoint_is_due(const SinceCheckpoint& since, const CheckpointOptions& point) = 0;
};

// What new events have led to: to be committed with them.
struct Decisions {
  std::vector<HistoryEvent> events = {};
  std::vector<Send> sends = {};
  std::vector<Cancel> cancels = {};
  std::vector<Publish> publishes = {};
  std::vector<WriteRecord> records = {};
  bool park = false;
  std::string park_reason = {};
};

// The next execution, for one that continues as new.
struct Continuation {
  Bytes input = {};
  std::optional<std::uint32_t> version = {};
};

// One execution of a workflow in memory: its coroutines, what they wait for, and what they decide.
// A machine without clock, random, thread or input and output of its own: events go in, decisions
// come out, and the same events yield the same decisions.
//
// Threads: one at a time, but not always the same.
class Instance {
 public:
  using Where = std::source_location;

  Instance(std::shared_ptr<const WorkflowDefinition> definition, Identity identity,
           Outside& outside);
  // For another turn. An instance that is in no turn is only asked for what it has.
  void ask(Outside& outside) {
    outside_ = &outside;
    status_changed_ = false;
  }
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  // Hands in what has happened before, and compares what the code decides with what it decided
  // then. `first`: the number of the first one; it is a checkpoint, or the start with number 0.
  // `history_mismatch`: they differ, and this instance is of no more use.
  Result<void> replay(std::span<const HistoryEvent> events, std::uint64_t first = 0);
  // Set if it is of no more use because the state of a checkpoint cannot be read.
  [[nodiscard]] bool checkpoint_unreadable() const { return unreadable_; }
  // Why it is of no more use, if so.
  [[nodiscard]] const std::optional<std::string>& mismatch() const { return mismatch_; }
  // Hands in something new. What follows from it is added to the decisions.
  void handle(const HistoryEvent& event);
  [[nodiscard]] Decisions take_decisions() { return std::exchange(decisions_, {}); }
  [[nodiscard]] const Decisions& decisions() const { return decisions_; }

  // What it takes of memory: exactly for its coroutines, by estimate for what they hold besides.
  [[nodiscard]] std::size_t bytes() const;
  // Of its history; in a replay, of what was handed in again so far.
  [[nodiscard]] std::uint64_t length() const { return replaying_ ? first_ + cursor_ : length_; }
  // Of what a replay would hand in.
  [[nodiscard]] std::uint64_t replay_length() const { return since_.events; }
  // Numbers of the last checkpoints that it knows of, two at most.
  [[nodiscard]] const std::vector<std::uint64_t>& checkpoints() const { return checkpoints_; }
  [[nodiscard]] bool begun() const { return begun_; }
  // How it ended, once it has.
  [[nodiscard]] const std::optional<HistoryEvent>& end() const { return end_; }
  // Asks the code; throws what it throws, and ApplicationError "unknown_query".
  Bytes query(const std::string& name, std::string_view input);
  // Whether an answer to that call is still waited for.
  [[nodiscard]] bool waits_for(std::uint64_t call) const { return pending_.contains(call); }

  [[nodiscard]] const WorkflowDefinition& definition() const { return *definition_; }
  [[nodiscard]] const Identity& identity() const { return identity_; }
  [[nodiscard]] const HistoryEvent& start() const { return start_; }
  // Distinguishes this execution from all others that had, or will have, its id and number.
  [[nodiscard]] const std::string& run() const { return run_; }
  [[nodiscard]] const std::string& status() const { return status_; }
  [[nodiscard]] bool status_changed() const { return status_changed_; }
  [[nodiscard]] const std::map<std::string, Bytes>& state() const { return state_; }
  // Where a continuation begins, with what it takes along: in front, `started`.
  [[nodiscard]] std::vector<HistoryEvent> next_execution(const std::string& run, Time at) const;
  [[nodiscard]] std::uint32_t next_version() const;

  // What undoes or ends everything that the execution has under way outside.
  void abandon_calls(Decisions& decisions) const;

  // --- For calls, fibers and the door (Workflow) ---

  [[nodiscard]] Time now() const { return now_; }
  [[nodiscard]] bool closing() const { return closing_; }
  [[nodiscard]] bool cancel_requested() const { return cancel_requested_; }
  [[nodiscard]] std::shared_ptr<Fiber> current() const { return current_; }
  void resume_later(std::coroutine_handle<> coroutine, std::shared_ptr<Fiber> fiber);
  void spawn(const std::shared_ptr<Call>& call, Task<void> task, bool shielded);
  std::uint64_t random();

  void call_activity(const std::shared_ptr<Call>& call, const ActivityCall& what, Where where);
  void run_local(const std::shared_ptr<Call>& call, const ActivityCall& what, Where where);
  void start_timer(const std::shared_ptr<Call>& call, Time at, Where where);
  void await_event(const std::shared_ptr<Call>& call, const std::string& name, Where where);
  void start_child(const std::shared_ptr<Call>& call, const ChildCall& what, Where where);
  void start_other(const std::string& label, const std::string& id, Bytes input, Where where);
  void send_event(const std::string& id, const std::string& name, Bytes value, Where where);
  void cancel_other(const std::string& id, Where where);
  void send(Send send, Where where);
  void publish(Publish publish, Where where);
  void park(const std::shared_ptr<Call>& call, const std::string& reason, Where where);
  void continue_as_new(Continuation next, Where where);
  bool patched(std::string_view change, Where where);
  // Whether it is taken: then the code that asked is not resumed, but begins again.
  bool checkpoint(const Bytes& state, const CheckpointOptions& options, Where where);
  struct Restored {
    std::uint32_t version = 1;
    Bytes state = {};
  };
  [[nodiscard]] const std::optional<Restored>& restored() const { return restored_; }
  void give_up_checkpoint(const std::string& why);
  void count_unclaimed(int more) { unclaimed_ += more; }
  void set_status(std::string text);
  void set(const std::string& key, Bytes value);
  void erase(const std::string& key);
  void answer(std::string query, std::function<Bytes(std::string_view)> function);
  void stop_answering(const std::string& query);

  std::shared_ptr<SagaState> begin_saga(std::string name, Bytes data);
  // Its record is written with the turn.
  void saga_changed(const SagaState& saga, std::optional<std::size_t> step = {});
  // Lets it be undone, beside whatever else goes on; the execution does not end before that.
  void undo_saga(const std::shared_ptr<SagaState>& saga, const std::string& reason);
  // Unless it has ended, or is being undone.
  void complete_saga(SagaState& saga);

 private:
  enum class Kind : std::uint8_t { activity, timer, child, park };
  // Something under way outside.
  struct Pending {
    Kind kind{};
    std::shared_ptr<Call> call;
    std::string name = {};   // of the activity, the child's id
    std::string queue = {};  // of the activity's message
    std::string label = {};  // of the child
    WhenParentEnds when_parent_ends = WhenParentEnds::cancel;
    bool has_progress = false;
    bool of_local = false;  // the wait before another attempt
    std::uint64_t input_hash = 0;
  };
  struct LocalCall;
  struct Ready {
    std::coroutine_handle<> coroutine;
    std::shared_ptr<Fiber> fiber;
  };

  void deliver(const HistoryEvent& event);
  void on_started(const HistoryEvent& event);
  void on_answer(const HistoryEvent& event);
  void on_event(const HistoryEvent& event);
  void begin();
  void run_until_all_wait();
  void finish_if_done();
  void destroy_coroutines();

  // Whether nothing would be lost if the code began again now.
  [[nodiscard]] bool is_quiet() const;
  [[nodiscard]] bool takes_checkpoint(const CheckpointOptions& options);
  [[nodiscard]] Checkpoint snapshot(std::uint32_t version, Bytes state) const;
  // From a checkpoint, with that number in the history.
  void begin_again(const HistoryEvent& event, std::uint64_t number);
  // Hands over a call that was under way at the checkpoint, if the code has just begun again.
  bool take_over(const std::shared_ptr<Call>& call, Kind kind, std::string_view name,
                 std::string_view label, std::uint64_t input_hash);
  void call_off_what_nobody_took_over();

  void wind_up();
  void end_with(HistoryEvent event, Where where);
  [[nodiscard]] HistoryEvent outcome_of_root() const;
  void cancel_fiber(Fiber& fiber, const std::string& reason);
  // Whether something new was decided, which has to be done; false in a replay.
  bool decide(HistoryEvent& decision, Where where);
  void differs(const HistoryEvent* expected, const HistoryEvent* decided, const Where* where);
  // Refuses it if the fiber that calls was cancelled; else it belongs to it.
  bool admit(const std::shared_ptr<Call>& call);
  std::uint64_t next_call() { return ++calls_; }
  void cancel_pending(std::uint64_t number, const std::string& reason);
  void drop_outside(std::uint64_t number, const Pending& pending, Decisions& decisions) const;
  void attempt_local(const std::shared_ptr<LocalCall>& local);
  [[nodiscard]] std::string reference(std::uint64_t call) const;
  [[nodiscard]] Send to_instance(const std::string& id, std::string_view kind) const;

  std::shared_ptr<const WorkflowDefinition> definition_;
  Identity identity_;
  Outside* outside_;
  Workflow door_;

  // Of the execution.
  HistoryEvent start_;
  std::string run_;
  std::uint64_t length_ = 0;
  std::size_t data_bytes_ = 0;  // that were handed in
  std::int64_t frame_bytes_ = 0;
  Time now_{};
  std::uint64_t calls_ = 0;
  std::uint64_t random_count_ = 0;
  std::uint64_t saga_count_ = 0;
  std::int64_t unclaimed_ = 0;  // calls that are done, and nobody has looked
  bool begun_ = false;
  bool cancel_requested_ = false;
  std::string cancel_reason_;
  std::optional<HistoryEvent> end_;
  std::optional<Continuation> continuation_;

  // Replay.
  std::span<const HistoryEvent> history_ = {};
  std::uint64_t first_ = 0;  // number of the first one
  std::size_t cursor_ = 0;
  bool replaying_ = false;
  std::optional<std::string> mismatch_;
  bool unreadable_ = false;

  // Checkpoints.
  SinceCheckpoint since_;
  std::vector<std::uint64_t> checkpoints_;
  std::optional<std::uint64_t> asked_at_;  // the length at which a point was offered last
  std::optional<Restored> restored_;
  std::optional<HistoryEvent> begin_again_;  // as soon as the code waits
  std::set<std::uint64_t> handed_over_;      // calls that the code may make again

  // What it does.
  Decisions decisions_;
  std::deque<HistoryEvent> refusals_;  // of children, in this turn

  // What is waited for.
  std::map<std::uint64_t, Pending> pending_;
  std::map<std::string, std::deque<Bytes>, std::less<>> mailbox_;
  std::map<std::string, std::deque<std::shared_ptr<Call>>, std::less<>> waiters_;
  std::map<std::string, bool, std::less<>> patches_;
  std::map<std::string, std::function<Bytes(std::string_view)>> answers_;

  // What is seen from outside.
  std::string status_;
  bool status_changed_ = false;
  std::map<std::string, Bytes> state_;
  std::vector<std::shared_ptr<SagaState>> sagas_;
  bool winding_up_ = false;  // the code is done; what it has left is cleaned up

  // Last, so that coroutines go first.
  std::deque<Ready> ready_;
  std::shared_ptr<CallFor<Bytes>> root_;
  std::shared_ptr<Fiber> root_fiber_;
  std::shared_ptr<Fiber> current_;
  std::vector<std::shared_ptr<Fiber>> fibers_;
  bool closing_ = false;
};

}  // namespace strand::workflow
