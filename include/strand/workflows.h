#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <strand/history.h>
#include <strand/saga.h>
#include <strand/store.h>
#include <strand/workflow.h>

namespace strand {

// Where an instance stands.
enum class InstanceState : std::uint8_t {
  pending,  // started, and no worker has begun with it
  running,
  completed,
  failed,      // its code threw
  cancelled,   // it was asked to end, and did
  terminated,  // it was ended by force
  timed_out,   // its time was over
};
std::string_view to_string(InstanceState state);
Result<InstanceState> parse_instance_state(std::string_view text);
[[nodiscard]] constexpr bool has_ended(InstanceState state) {
  return state >= InstanceState::completed;
}

// What is known of an instance without its history.
struct InstanceInfo {
  std::string id = {};
  std::string name = {};  // of the workflow
  std::uint32_t version = 1;
  InstanceState state = InstanceState::pending;
  std::uint64_t execution = 0;  // 0: none has begun
  std::string status = {};      // its own words
  std::optional<std::string> parent = {};
  Time created_at{};
  std::optional<Time> ended_at = {};
  std::optional<std::string> error = {};  // failed, cancelled, terminated: why
  std::optional<std::string> error_type = {};
  // Stopped, with this reason, until it is resumed.
  std::optional<std::string> parked = {};

  friend bool operator==(const InstanceInfo&, const InstanceInfo&) = default;
};

// How an instance ended.
struct Ended {
  InstanceState state{};
  Bytes result = {};       // completed
  std::string error = {};  // else: why
  std::string error_type = {};
  Bytes error_details = {};
};

// The same with a typed result.
template <class R>
struct EndedWith : Ended {
  // Throws WorkflowError if it did not complete.
  R value() const {
    if (state != InstanceState::completed) {
      throw WorkflowError(WorkflowError::Kind::failed, error_type,
                          std::string(to_string(state)) + ": " + error, error_details);
    }
    if constexpr (!std::is_void_v<R>) return workflow::decode_input<R>(result);
  }
};

// What a start does if there is an instance of that id.
enum class IfExists : std::uint8_t {
  join,     // of the same workflow, version and input: returns it, whatever its state. Else refused
  reject,   // `already_exists`
  reuse,    // runs: as join. Has ended: another run under the same id
  replace,  // runs: it is terminated first. Has ended: as reuse
};

struct StartOptions {
  IfExists if_exists = IfExists::join;
  Duration delay{0};                     // before it begins
  std::optional<Duration> timeout = {};  // of the whole run; then it is `timed_out`
  Priority priority = Priority::normal;  // of its start
};

struct StartRequest : StartOptions {
  std::string name = {};
  std::uint32_t version = 1;
  std::string id = {};
  Bytes input = {};
};

struct InstanceFilter {
  std::optional<InstanceState> state = {};
  std::optional<bool> ended = {};
  std::optional<std::string> name = {};
  std::optional<std::string> parent = {};
  std::optional<Time> created_after = {};  // or at
  std::optional<Time> created_before = {};
  std::string prefix = {};  // of ids
  std::string after = {};   // ids greater than this
  std::size_t limit = 100;
};

struct RemoveOptions {
  bool force = false;    // also if it runs: it is terminated
  bool children = true;  // with all that came from it; else children are in the way
};

struct PruneOptions {
  Duration older_than{0};  // ended at least so long ago
  std::optional<InstanceState> state = {};
  std::optional<std::string> name = {};
  std::size_t limit = 1000;  // at most so many
  bool old_executions =
      false;  // of all instances: only the histories of executions before the last
  bool dry_run = false;
};

struct PruneReport {
  std::size_t instances = 0;
  std::size_t executions = 0;  // histories removed of instances that stay
  std::vector<std::string> ids = {};
};

struct HistoryPage {
  std::uint64_t execution = 0;
  std::uint64_t length = 0;
  std::uint64_t first = 0;  // number of events.front(), from 0
  std::vector<HistoryEvent> events = {};
};

struct WorkflowsOptions {
  std::string queue = "workflow";  // of the instances
};

// An instance that was started, with the type of its result.
template <class R>
class InstanceHandle;

// Starts workflows, and talks to those that run.
//
// Threads:    every method may be called concurrently.
// Durability: what succeeded is durable.
// Failure:    as that of Store::apply; an instance that does not exist is `not_found`.
class Workflows {
 public:
  // Makes sure that the queue of the instances has the settings that it needs. `store` must outlive
  // this.
  static Result<Workflows> open(Store& store, WorkflowsOptions options = {});

  template <class R, class In>
  Result<InstanceHandle<R>> start(const WorkflowType<R(In)>& type, std::string id,
                                  const std::type_identity_t<In>& input,
                                  StartOptions options = {}) {
    auto body = to_body(input);
    if (!body) return std::unexpected(std::move(body.error()));
    return start_typed<R>(*type.definition(), std::move(id), *std::move(body), options);
  }
  template <class R>
  Result<InstanceHandle<R>> start(const WorkflowType<R()>& type, std::string id,
                                  StartOptions options = {}) {
    return start_typed<R>(*type.definition(), std::move(id), {}, options);
  }
  // Returns whether it was started now, not before.
  Result<bool> start(const StartRequest& request);

  // For the mailbox of that name. May come before the instance is started; `not_found` if it has
  // ended.
  template <Sendable T>
  Result<void> send_event(std::string_view id, const std::string& event, const T& value) {
    auto body = to_body(value);
    if (!body) return std::unexpected(std::move(body.error()));
    return send_event_raw(id, event, *std::move(body));
  }
  // Asks a running instance; waits for a worker to answer. `unavailable` if none does in time.
  Result<Bytes> query(std::string_view id, const std::string& query, Bytes input = {},
                      Duration patience = std::chrono::seconds{10});
  template <class R>
  Result<R> query_for(std::string_view id, const std::string& name, Bytes input = {},
                      Duration patience = std::chrono::seconds{10}) {
    auto answer = query(id, name, std::move(input), patience);
    if (!answer) return std::unexpected(std::move(answer.error()));
    return from_body<R>(*answer);
  }

  // Asks it to end: it may clean up, or refuse.
  Result<void> cancel(std::string_view id, std::string reason = "cancelled by request");
  // Ends it here and now; its code is not asked. Returns whether it was still running.
  Result<bool> terminate(std::string_view id, const std::string& reason = "terminated by request");
  // Lets a parked instance go on.
  Result<void> resume(std::string_view id);

  // Waits until it has ended; none if it has not in time.
  Result<std::optional<Ended>> wait(std::string_view id, Duration patience);

  Result<InstanceInfo> get(std::string_view id);
  Result<Page<InstanceInfo>> list(const InstanceFilter& filter = {});
  Result<std::vector<std::string>> children(std::string_view id);
  // The instance, its children, and theirs: parents first.
  Result<std::vector<std::string>> tree(std::string_view id);
  Result<std::optional<Bytes>> state(std::string_view id, std::string_view key);
  Result<std::map<std::string, Bytes>> state(std::string_view id);
  // Execution 0 is the last one.
  Result<HistoryPage> history(std::string_view id, std::uint64_t execution = 0,
                              std::uint64_t from = 0, std::size_t limit = 1000);
  Result<std::vector<SagaInfo>> sagas(std::string_view id);
  // Without their steps, by instance: those of instances behind `after`. A page ends between two
  // instances, so it may have some more than `limit`.
  Result<Page<SagaInfo>> all_sagas(std::optional<SagaStatus> status = {}, std::string after = {},
                                   std::size_t limit = 100);

  // Removes an instance with all that there is of it, and by default of its children: all of them
  // or none. One that runs is `in_use` unless forced. Returns those that were removed.
  Result<std::vector<std::string>> remove(std::string_view id, RemoveOptions options = {});
  // Removes what has ended; what runs is never touched.
  Result<PruneReport> prune(const PruneOptions& options);

  [[nodiscard]] Store& store() const { return *store_; }
  [[nodiscard]] const std::string& queue() const { return options_.queue; }

 private:
  Workflows(Store& store, WorkflowsOptions options)
      : store_(&store), options_(std::move(options)) {}
  template <class R>
  Result<InstanceHandle<R>> start_typed(const workflow::WorkflowDefinition& type, std::string id,
                                        Bytes input, StartOptions options);
  Result<void> send_event_raw(std::string_view id, const std::string& event, Bytes value);
  Result<std::uint64_t> remove_old_executions(const std::string& id);
  Result<std::optional<std::size_t>> prune_one(const std::string& id, bool dry_run);

  Store* store_;
  WorkflowsOptions options_;
};

template <class R>
class InstanceHandle {
 public:
  InstanceHandle(Workflows workflows, std::string id, bool started_now)
      : workflows_(std::move(workflows)), id_(std::move(id)), started_now_(started_now) {}

  [[nodiscard]] const std::string& id() const { return id_; }
  // Not joined.
  [[nodiscard]] bool started_now() const { return started_now_; }
  // Waits until it has ended; `unavailable` if it has not in time.
  Result<EndedWith<R>> wait(Duration patience = std::chrono::hours{24 * 365}) {
    auto ended = workflows_.wait(id_, patience);
    if (!ended) return std::unexpected(std::move(ended.error()));
    if (!*ended) {
      return failure(Errc::unavailable, "instance '" + id_ + "' has not ended within " +
                                            format_duration(patience) + "; it goes on");
    }
    return EndedWith<R>{std::move(**ended)};
  }

 private:
  Workflows workflows_;
  std::string id_;
  bool started_now_;
};

template <class R>
Result<InstanceHandle<R>> Workflows::start_typed(const workflow::WorkflowDefinition& type,
                                                 std::string id, Bytes input,
                                                 StartOptions options) {
  StartRequest request{options};
  request.name = type.name;
  request.version = type.version;
  request.id = std::move(id);
  request.input = std::move(input);
  const auto started = start(request);
  if (!started) return std::unexpected(started.error());
  return InstanceHandle<R>(*this, std::move(request.id), *started);
}

}  // namespace strand
