#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <strand/activity.h>
#include <strand/checkpoint.h>
#include <strand/future.h>
#include <strand/producer.h>
#include <strand/task.h>
#include <strand/topics.h>
#include <strand/workflow_error.h>

namespace strand {

// What becomes of those that were not needed: of the losers of first_of, of the others when one of
// all_of has failed.
enum class Others : std::uint8_t { cancel, keep };

// What becomes of a child when its parent ends before it.
enum class WhenParentEnds : std::uint8_t { cancel, terminate, keep };

struct ChildOptions {
  std::string id = {};  // "": made of the parent's id and a number
  WhenParentEnds when_parent_ends = WhenParentEnds::cancel;
  std::optional<Duration> timeout = {};  // of its run
};

namespace workflow {

// A workflow without its types.
struct WorkflowDefinition {
  std::string name = {};
  std::uint32_t version = 1;
  std::function<Task<Bytes>(Workflow&, Bytes input)> run = {};  // none: run elsewhere
  // As workers ask for it.
  [[nodiscard]] std::string label() const { return name + "@" + std::to_string(version); }
};

template <class R, class Function, class... In>
Task<Bytes> run_workflow(const Function& function, Workflow& wf, Bytes input) {
  if constexpr (sizeof...(In) == 0 && std::is_void_v<R>) {
    co_await function(wf);
    co_return Bytes{};
  } else if constexpr (sizeof...(In) == 0) {
    co_return encode<R>(co_await function(wf));
  } else if constexpr (std::is_void_v<R>) {
    co_await function(wf, decode_input<In...>(input));
    co_return Bytes{};
  } else {
    co_return encode<R>(co_await function(wf, decode_input<In...>(input)));
  }
}

template <class F>
struct WorkflowTypes;
template <class R, class... In>
struct WorkflowTypes<Task<R> (*)(Workflow&, In...)> {
  static_assert((!std::is_reference_v<In> && ...),
                "take the input of a workflow by value: a reference is gone at the first co_await");
  using Signature = R(In...);
};

struct ActivityCall {
  std::shared_ptr<const ActivityDefinition> activity;
  Bytes input;
  const ActivityOptions& options;
};

struct ChildCall {
  std::string label;
  Bytes input;
  ChildOptions options;
};

}  // namespace workflow

// A kind of workflow: a name and a version for the world, a coroutine, and its types.
//
//   strand::Task<Receipt> run_checkout(strand::Workflow& wf, Order order);
//   const strand::WorkflowType checkout{"checkout", run_checkout};
//   const strand::WorkflowType checkout_2{"checkout", run_checkout_2, 2};
//
//   const strand::WorkflowType<Receipt(Order)> checkout{"checkout"};       run by another program
//
// An instance keeps the version that it was started with.
template <class Signature>
class WorkflowType;

template <class R, class... In>
  requires(sizeof...(In) <= 1)
class WorkflowType<R(In...)> {
 public:
  using Function = std::function<Task<R>(Workflow&, In...)>;

  explicit WorkflowType(std::string name, std::uint32_t version = 1) {
    definition_->name = std::move(name);
    definition_->version = version;
  }
  WorkflowType(std::string name, Function function, std::uint32_t version = 1)
      : WorkflowType(std::move(name), version) {
    definition_->run = [function = std::move(function)](Workflow& wf, Bytes input) {
      return workflow::run_workflow<R, Function, In...>(function, wf, std::move(input));
    };
  }

  [[nodiscard]] const std::string& name() const { return definition_->name; }
  [[nodiscard]] std::uint32_t version() const { return definition_->version; }
  [[nodiscard]] std::shared_ptr<const workflow::WorkflowDefinition> definition() const {
    return definition_;
  }

 private:
  std::shared_ptr<workflow::WorkflowDefinition> definition_ =
      std::make_shared<workflow::WorkflowDefinition>();
};

template <class F>
WorkflowType(std::string, F*, std::uint32_t = 1)
    -> WorkflowType<typename workflow::WorkflowTypes<F*>::Signature>;
template <class F>
WorkflowType(const char*, F*, std::uint32_t = 1)
    -> WorkflowType<typename workflow::WorkflowTypes<F*>::Signature>;

// What a coroutine does in order to be continued as another execution: it never comes back.
struct ContinuesAsNew {
  template <class T>
  operator T() const {  // NOLINT(google-explicit-constructor): co_return takes it for any T
    std::terminate();
  }
};

// Answers queries of one name while it lives; see Workflow::answer.
class [[nodiscard("queries are answered while this lives")]] Answering {
 public:
  Answering(workflow::Instance& instance, std::string query)
      : instance_(&instance), query_(std::move(query)) {}
  Answering(Answering&& other) noexcept
      : instance_(std::exchange(other.instance_, nullptr)), query_(std::move(other.query_)) {}
  Answering& operator=(Answering&&) = delete;
  ~Answering();

 private:
  workflow::Instance* instance_;
  std::string query_;
};

// Where a workflow may begin again; see Workflow::checkpoint.
class [[nodiscard("await it")]] CheckpointPoint {
 public:
  CheckpointPoint(workflow::Instance& instance, Bytes state, CheckpointOptions options,
                  std::source_location where)
      : instance_(instance),
        state_(std::move(state)),
        options_(std::move(options)),
        where_(where) {}

  [[nodiscard]] bool await_ready() const;
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  void await_resume() const noexcept {}

 private:
  workflow::Instance& instance_;
  Bytes state_;
  CheckpointOptions options_;
  std::source_location where_;
};

// What the coroutine of a workflow talks to the world through: the one door, because everything
// that goes through it is recorded, and found again when the coroutine is replayed.
//
// Rules for the code of a workflow (docs/guide/workflows.md): no clock but now(), no random numbers
// but random() and uuid(), no threads, no input and output but activities, no order of unordered
// containers. Whatever differs between two runs stops the instance.
//
// Threads:   belongs to the turn that runs the instance; nothing here blocks.
// Failure:   what was called throws when it is awaited: ActivityError, ChildError, Cancelled, …
// Durability: what was called is durable, and begins, when the turn is committed.
class Workflow {
 public:
  using Where = std::source_location;

  explicit Workflow(workflow::Instance& instance) : instance_(instance) {}
  Workflow(const Workflow&) = delete;
  Workflow& operator=(const Workflow&) = delete;

  [[nodiscard]] const std::string& id() const;
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] std::uint32_t version() const;
  [[nodiscard]] std::uint64_t execution() const;  // 1, then one more with each continue_as_new
  [[nodiscard]] std::optional<std::string> parent() const;  // its id, for a child
  [[nodiscard]] bool cancel_requested() const;
  [[nodiscard]] std::uint64_t history_length() const;  // a reason to continue as new

  // --- Activities ---

  // Has an activity done by a worker.
  template <class R, class In>
  Future<R> call(const Activity<R(In)>& activity, const std::type_identity_t<In>& input,
                 const std::optional<ActivityOptions>& options = {},
                 Where where = Where::current()) {
    return call_raw<R>(activity, workflow::encode<In>(input), options, where);
  }
  template <class R>
  Future<R> call(const Activity<R()>& activity, const std::optional<ActivityOptions>& options = {},
                 Where where = Where::current()) {
    return call_raw<R>(activity, {}, options, where);
  }
  // Runs an activity here and now, in the process and the thread of the turn, and records its
  // result: no queue, no sync of its own. For what is quick. It runs again if the turn does; its
  // timeout and heartbeats do not count; waits between attempts are timers.
  template <class R, class In>
  Future<R> local(const Activity<R(In)>& activity, const std::type_identity_t<In>& input,
                  const std::optional<ActivityOptions>& options = {},
                  Where where = Where::current()) {
    return local_raw<R>(activity, workflow::encode<In>(input), options, where);
  }
  template <class R>
  Future<R> local(const Activity<R()>& activity, const std::optional<ActivityOptions>& options = {},
                  Where where = Where::current()) {
    return local_raw<R>(activity, {}, options, where);
  }

  // --- Time and chance ---

  Future<void> sleep(Duration duration, Where where = Where::current());
  Future<void> sleep_until(Time time, Where where = Where::current());
  // The time of what is being handled: the same for all of it, and the same in a replay.
  [[nodiscard]] Time now() const;
  [[nodiscard]] std::uint64_t random();
  [[nodiscard]] std::string uuid();

  // --- Control ---

  // Lets a coroutine run beside this one, until its next co_await first.
  template <class T>
  Future<T> spawn(Task<T> task) {
    return spawn_as<T>(std::move(task), false);
  }
  // The same, and it goes on when what spawned it is cancelled: for cleaning up.
  template <class T>
  Future<T> shield(Task<T> task) {
    return spawn_as<T>(std::move(task), true);
  }

  // All of them: a tuple, or a vector. Throws as soon as one has failed.
  template <class... What>
  auto all_of(What... what) {
    return all_of(Others::cancel, std::move(what)...);
  }
  template <class... What>
  auto all_of(Others others, What... what) {
    // Braces: from left to right, with every compiler.
    const std::tuple futures{begin(std::move(what))...};
    return std::apply([&](const auto&... each) { return all_of_futures(others, each...); },
                      futures);
  }
  template <class T>
  Future<std::vector<T>> all_of(std::vector<Future<T>> futures, Others others = Others::cancel);
  Future<void> all_of(const std::vector<Future<void>>& futures, Others others = Others::cancel);

  // The first that ends: a variant, its index says which; std::monostate for one of no value.
  // Throws if that one has failed.
  template <class... What>
  auto first_of(What... what) {
    return first_of(Others::cancel, std::move(what)...);
  }
  template <class... What>
  auto first_of(Others others, What... what) {
    const std::tuple futures{begin(std::move(what))...};
    return std::apply(
        [&](const auto&... each) {
          return first_of_futures(others, std::index_sequence_for<What...>{}, each...);
        },
        futures);
  }
  // The index of the first that has ended. Await that one for its value.
  template <class T>
  Future<std::size_t> first_of(const std::vector<Future<T>>& futures,
                               Others others = Others::cancel);

  // What is awaited, or DeadlinePassed if it takes longer; then it is cancelled.
  template <class What>
  auto within(Duration limit, What what, Where where = Where::current()) {
    return within_future(limit, begin(std::move(what)), where);
  }

  // --- Messages in ---

  // The next event of that name. Events wait for their receiver, in order, however early they are.
  template <class T>
  Future<T> event(const std::string& name, Where where = Where::current()) {
    auto call = std::make_shared<workflow::CallFor<T>>(instance_);
    await_event(call, name, where);
    return Future<T>(std::move(call));
  }

  // Answers queries: reads the state of the coroutine and must not change it, nor call anything.
  template <class F>
    requires std::invocable<F&>
  Answering answer(std::string query, F function) {
    return answer_raw(std::move(query), [function = std::move(function)](std::string_view) mutable {
      return workflow::encode<std::invoke_result_t<F&>>(function());
    });
  }
  template <class In, class F>
    requires std::invocable<F&, const In&>
  Answering answer(std::string query, F function) {
    return answer_raw(std::move(query),
                      [function = std::move(function)](std::string_view input) mutable {
                        return workflow::encode<std::invoke_result_t<F&, const In&>>(
                            function(workflow::decode_input<In>(input)));
                      });
  }

  // --- Composition ---

  // Starts another workflow and waits for it.
  template <class R, class In>
  Future<R> child(const WorkflowType<R(In)>& type, const std::type_identity_t<In>& input,
                  ChildOptions options = {}, Where where = Where::current()) {
    return child_raw<R>(type.definition()->label(), workflow::encode<In>(input), std::move(options),
                        where);
  }
  template <class R>
  Future<R> child(const WorkflowType<R()>& type, ChildOptions options = {},
                  Where where = Where::current()) {
    return child_raw<R>(type.definition()->label(), {}, std::move(options), where);
  }
  // Starts another workflow that is nobody's child. If there is an instance of that id, nothing is
  // started.
  template <class R, class In>
  void start(const WorkflowType<R(In)>& type, const std::string& id,
             const std::type_identity_t<In>& input, Where where = Where::current()) {
    start_other(type.definition()->label(), id, workflow::encode<In>(input), where);
  }
  template <class R>
  void start(const WorkflowType<R()>& type, const std::string& id, Where where = Where::current()) {
    start_other(type.definition()->label(), id, {}, where);
  }
  // An event, or the request to cancel, for another instance.
  template <Sendable T>
  void send_event(const std::string& id, const std::string& event, const T& value,
                  Where where = Where::current()) {
    send_event_raw(id, event, workflow::encode<T>(value), where);
  }
  void cancel_other(const std::string& id, Where where = Where::current());
  // A message, a publication: in the transaction of the turn.
  template <Sendable T>
  void send(std::string queue, const T& value, SendOptions options = {},
            Where where = Where::current()) {
    send_raw(std::move(queue), workflow::encode<T>(value), std::move(options), where);
  }
  template <Sendable T>
  void publish(std::string topic, const T& value, PublishOptions options = {},
               Where where = Where::current()) {
    publish_raw(std::move(topic), workflow::encode<T>(value), std::move(options), where);
  }

  // Ends this execution and begins the next, with a new input and an empty history; events that
  // wait, state and status are kept, what was called is cancelled. `co_return co_await
  // wf.continue_as_new(next);`
  template <Sendable T>
  Future<ContinuesAsNew> continue_as_new(const T& input, std::optional<std::uint32_t> version = {},
                                         Where where = Where::current()) {
    return continue_raw(workflow::encode<T>(input), version, where);
  }
  Future<ContinuesAsNew> continue_as_new(Where where = Where::current()) {
    return continue_raw({}, {}, where);
  }

  // --- Checkpoints ---

  // A point from which the code can begin again: for workflows that live long. If it is taken (see
  // CheckpointWhen), the function of the workflow is called anew, finds `state` by restored(), and
  // events before it need not be replayed any more; else this just returns. What is to survive is
  // in the state; besides it what was set() and the status, events that wait, and calls that the
  // function makes again, with the same input, before it waits for anything: those go on. Other
  // calls that a future stands for are called off.
  //
  // Not taken while something would be lost: while a coroutine runs beside, a saga is open, a
  // result has come that was not looked at. Only the workflow's own function has a state to
  // declare: elsewhere it throws.
  template <Sendable T>
  CheckpointPoint checkpoint(const T& state, CheckpointOptions options = {},
                             Where where = Where::current()) {
    return {instance_, workflow::encode<T>(state), std::move(options), where};
  }
  // The state of the checkpoint from which the code has begun again; none: from the start. One of
  // another version, or that cannot be read, is not used: the code begins again from the checkpoint
  // before, or from the start.
  template <class T>
  [[nodiscard]] std::optional<T> restored(std::uint32_t version = 1) {
    const std::optional<Bytes> state = restored_raw(version);
    if (!state) return std::nullopt;
    auto value = from_body<T>(*state);
    if (!value) give_up_checkpoint(value.error().message);
    return *std::move(value);
  }
  // For code that reads older states as well.
  [[nodiscard]] std::optional<std::uint32_t> restored_version() const;

  // --- Versions ---

  // For a change in the code of instances that run: false for those that had passed this point
  // before the change, true for all others. The same answer for ever, in one execution.
  [[nodiscard]] bool patched(std::string_view change, Where where = Where::current());

  // --- What can be seen from outside ---

  void set_status(std::string text);
  template <Sendable T>
  void set(const std::string& key, const T& value) {
    set_raw(key, workflow::encode<T>(value));
  }
  template <class T>
  [[nodiscard]] std::optional<T> get(const std::string& key) const {
    const std::optional<Bytes> value = get_raw(key);
    if (!value) return std::nullopt;
    return workflow::decode_input<T>(*value);
  }
  void erase(const std::string& key);
  void erase_all();

  // Stops the instance with a reason for a person to read; what is awaited ends when it is resumed.
  Future<void> park(const std::string& reason, Where where = Where::current());

  // For the library.
  [[nodiscard]] workflow::Instance& instance() { return instance_; }

 private:
  template <class R, class Signature>
  Future<R> call_raw(const Activity<Signature>& activity, Bytes input,
                     const std::optional<ActivityOptions>& options, Where where) {
    auto call = std::make_shared<workflow::CallFor<R>>(instance_);
    call_activity(
        call, {activity.definition(), std::move(input), options ? *options : activity.options()},
        where);
    return Future<R>(std::move(call));
  }
  template <class R, class Signature>
  Future<R> local_raw(const Activity<Signature>& activity, Bytes input,
                      const std::optional<ActivityOptions>& options, Where where) {
    auto call = std::make_shared<workflow::CallFor<R>>(instance_);
    run_local(call,
              {activity.definition(), std::move(input), options ? *options : activity.options()},
              where);
    return Future<R>(std::move(call));
  }
  template <class R>
  Future<R> child_raw(std::string label, Bytes input, ChildOptions options, Where where) {
    auto call = std::make_shared<workflow::CallFor<R>>(instance_);
    start_child(call, {std::move(label), std::move(input), std::move(options)}, where);
    return Future<R>(std::move(call));
  }

  // Runs a task to its end for a call. The coroutine of a fiber.
  template <class T>
  static Task<void> drive(Task<T> task, std::shared_ptr<workflow::CallFor<T>> call) {
    std::exception_ptr error;
    try {
      if constexpr (std::is_void_v<T>) {
        co_await std::move(task);
        call->set();
      } else {
        call->set(co_await std::move(task));
      }
    } catch (...) {
      error = std::current_exception();
    }
    if (error) call->fail(error);
  }
  template <class T>
  Future<T> spawn_as(Task<T> task, bool shielded) {
    auto call = std::make_shared<workflow::CallFor<T>>(instance_);
    spawn_fiber(call, drive<T>(std::move(task), call), shielded);
    return Future<T>(std::move(call));
  }

  template <class T>
  Future<T> begin(Future<T> future) {
    return future;
  }
  template <class T>
  Future<T> begin(Task<T> task) {
    return spawn(std::move(task));
  }

  template <class T>
  static auto value_of(const Future<T>& future) {
    if constexpr (std::is_void_v<T>) {
      future.call()->rethrow();
      return std::monostate{};
    } else {
      return future.call()->copy();
    }
  }
  template <class T>
  using Stored = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  template <class... T>
  Future<std::tuple<Stored<T>...>> all_of_futures(Others others, const Future<T>&... futures);
  template <class... T, std::size_t... i>
  Future<std::variant<Stored<T>...>> first_of_futures(Others others, std::index_sequence<i...>,
                                                      const Future<T>&... futures);
  template <class T>
  Future<T> within_future(Duration limit, const Future<T>& future, Where where);

  void call_activity(const std::shared_ptr<workflow::Call>& call,
                     const workflow::ActivityCall& what, Where where);
  void run_local(const std::shared_ptr<workflow::Call>& call, const workflow::ActivityCall& what,
                 Where where);
  void spawn_fiber(const std::shared_ptr<workflow::Call>& call, Task<void> task, bool shielded);
  void await_event(const std::shared_ptr<workflow::Call>& call, const std::string& name,
                   Where where);
  Answering answer_raw(std::string query, std::function<Bytes(std::string_view)> function);
  void start_child(const std::shared_ptr<workflow::Call>& call, const workflow::ChildCall& what,
                   Where where);
  void start_other(const std::string& label, const std::string& id, Bytes input, Where where);
  void send_event_raw(const std::string& id, const std::string& event, Bytes value, Where where);
  void send_raw(std::string queue, Bytes body, SendOptions options, Where where);
  void publish_raw(std::string topic, Bytes body, PublishOptions options, Where where);
  Future<ContinuesAsNew> continue_raw(Bytes input, std::optional<std::uint32_t> version,
                                      Where where);
  [[nodiscard]] std::optional<Bytes> restored_raw(std::uint32_t version);
  [[noreturn]] void give_up_checkpoint(const std::string& why);
  void set_raw(const std::string& key, Bytes value);
  [[nodiscard]] std::optional<Bytes> get_raw(const std::string& key) const;

  workflow::Instance& instance_;
};

// --- How futures are combined ---

namespace workflow {

// Ends `whole` when all parts have ended, or one has failed.
void gather(const std::shared_ptr<Call>& whole, std::vector<std::shared_ptr<Call>> parts,
            Others others, std::function<void()> succeed);
// Ends `whole` when the first part has ended.
void race(const std::shared_ptr<Call>& whole, std::vector<std::shared_ptr<Call>> parts,
          Others others, std::function<void(std::size_t)> succeed);

}  // namespace workflow

template <class... T>
Future<std::tuple<Workflow::Stored<T>...>> Workflow::all_of_futures(Others others,
                                                                    const Future<T>&... futures) {
  using Whole = workflow::CallFor<std::tuple<Stored<T>...>>;
  auto whole = std::make_shared<Whole>(instance_);
  workflow::gather(whole, {futures.call()...}, others, [whole = whole.get(), futures...] {
    whole->set(std::tuple<Stored<T>...>{value_of(futures)...});
  });
  return Future<std::tuple<Stored<T>...>>(std::move(whole));
}

template <class T>
Future<std::vector<T>> Workflow::all_of(std::vector<Future<T>> futures, Others others) {
  auto whole = std::make_shared<workflow::CallFor<std::vector<T>>>(instance_);
  std::vector<std::shared_ptr<workflow::Call>> parts;
  for (const Future<T>& future : futures)
    parts.push_back(future.call());
  workflow::gather(whole, std::move(parts), others,
                   [whole = whole.get(), futures = std::move(futures)] {
                     std::vector<T> values;
                     values.reserve(futures.size());
                     for (const Future<T>& future : futures)
                       values.push_back(future.call()->copy());
                     whole->set(std::move(values));
                   });
  return Future<std::vector<T>>(std::move(whole));
}

template <class... T, std::size_t... i>
Future<std::variant<Workflow::Stored<T>...>> Workflow::first_of_futures(
    Others others, std::index_sequence<i...>, const Future<T>&... futures) {
  using Value = std::variant<Stored<T>...>;
  auto whole = std::make_shared<workflow::CallFor<Value>>(instance_);
  workflow::race(
      whole, {futures.call()...}, others, [whole = whole.get(), futures...](std::size_t n) {
        static_cast<void>(
            ((n == i ? (whole->set(Value(std::in_place_index<i>, value_of(futures))), true)
                     : false) ||
             ...));
      });
  return Future<Value>(std::move(whole));
}

template <class T>
Future<std::size_t> Workflow::first_of(const std::vector<Future<T>>& futures, Others others) {
  if (futures.empty()) throw ApplicationError("nothing_to_await", "the first of none never comes");
  auto whole = std::make_shared<workflow::CallFor<std::size_t>>(instance_);
  std::vector<std::shared_ptr<workflow::Call>> parts;
  for (const Future<T>& future : futures)
    parts.push_back(future.call());
  workflow::race(whole, std::move(parts), others,
                 [whole = whole.get()](std::size_t n) { whole->set(n); });
  return Future<std::size_t>(std::move(whole));
}

template <class T>
Future<T> Workflow::within_future(Duration limit, const Future<T>& future, Where where) {
  auto whole = std::make_shared<workflow::CallFor<T>>(instance_);
  const Future<void> timer = sleep(limit, where);
  workflow::race(whole, {future.call(), timer.call()}, Others::cancel,
                 [whole = whole.get(), future, limit](std::size_t n) {
                   if (n == 1) {
                     whole->fail(std::make_exception_ptr(
                         DeadlinePassed("not done within " + format_duration(limit))));
                   } else if constexpr (std::is_void_v<T>) {
                     whole->set();
                   } else {
                     whole->set(future.call()->copy());
                   }
                 });
  return Future<T>(std::move(whole));
}

}  // namespace strand
