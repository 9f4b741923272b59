#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include <strand/store.h>

#include "model/model.h"
#include "sim/faulty_backend.h"
#include "sim/plan.h"
#include "sim/random.h"
#include "store/local/pipeline.h"

namespace strand::sim {

// What the engine knows of messages without its disk, in the form of an answer.
Result<Page<PeekedMessage>> bare(const Result<Page<engine::PeekedEntry>>& found);

// One store with its disk, its clocks and its accidents, in one thread under virtual time, and the
// model beside it.
//
// Clients call the methods below; the answer comes by a call of `reply` at a later virtual time, or
// never. Each call is decided by the engine, told to the model, and answered when the pipeline
// knows what became of its batch, as LocalStore does it.
class World {
 public:
  World(const Plan& plan, bool tracing);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  template <class T>
  using Reply = std::function<void(const Result<T>&)>;

  // --- Calls of clients (calls.cc) ---

  void apply(const Transaction& transaction, const Reply<Receipt>& reply);
  void lease(const LeaseRequest& request, const Reply<std::vector<Lease>>& reply);
  void pull(const Token& token, Cursor cursor, PullLimits limits, const Reply<Pulled>& reply);
  void renew(const Token& token, Duration lease, const Reply<Time>& reply);

  // --- Reads, compared with the model at once (reads.cc) ---

  void read_stats(const std::string& queue);
  void read_current(const Token& token);
  void read_lists();
  void read_peek(const PeekQuery& query, const Reply<Page<PeekedMessage>>& reply);
  void read_dead_letters(const DeadLettersQuery& query, const Reply<Page<DeadLetter>>& reply);
  void read_history(const HistoryQuery& query);
  void read_instances(const InstancesQuery& query);
  void read_record(const std::string& space, const std::string& key);
  void read_records(const RecordsQuery& query);
  // All of them, over everything there is.
  void read_everything();

  // --- Time and accidents (world.cc, process.cc) ---

  // Calls back after so many milliseconds of virtual time.
  void after(std::int64_t delay_ms, std::function<void()> call);
  // Lets the next thing happen; false: nothing will.
  bool step();
  // What may go wrong between two steps of clients.
  void draw_accidents();
  // Opens the store if it is not open: at the beginning.
  void open();
  // No accidents from now on. Brings the store back if it is down.
  void calm();
  // Closes the store, at rest, and opens it again.
  void restart();
  [[nodiscard]] bool serves() const;
  // Everything is written and answered.
  [[nodiscard]] bool at_rest() const;
  // Lets store time pass without anything else.
  void skip(Duration duration);
  // How long until the store has something to do by itself.
  [[nodiscard]] Duration until_due() const;

  // Store time, as well as clients know it.
  [[nodiscard]] Time client_now() const { return last_known_; }

  [[nodiscard]] model::Model& model() { return model_; }
  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] std::uint64_t calls() const { return calls_; }

  // --- The trace ---

  // Adds a line; `line` is called only when somebody wants to see it.
  template <class Line>
  void trace(const Line& line) {
    if (tracing_) add_trace(line());
  }
  // Makes the number a part of the fingerprint of the run.
  void mix(std::uint64_t number);
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }
  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }

 private:
  struct Event {
    std::int64_t at_ms;
    std::uint64_t number;
    std::function<void()> call;
    bool operator>(const Event& other) const {
      return std::tie(at_ms, number) > std::tie(other.at_ms, other.number);
    }
  };
  // A call that the engine has not seen yet.
  struct Job {
    bool needs_all_written = false;
    std::function<void()> run;
    std::function<void(const Error&)> refuse;
  };
  // A call that the engine has decided and that is not answered yet.
  struct Pending {
    engine::CommitNumber commit;
    std::function<void(const Result<void>&)> settle;
  };

  engine::Engine& engine() { return pipeline_->engine(); }
  void submit(Job job);
  void pump();
  void await(engine::CommitNumber commit, std::function<void(const Result<void>&)> settle);
  void resolve();
  void check_outcome(engine::CommitNumber commit, const Result<void>& outcome) const;
  void start_write();
  void finish_write();
  FaultyBackend::WriteFault draw_write_fault();
  void after_reload(bool opened, engine::CommitNumber floor);
  void recover();
  void crash(bool power);
  void reopen();
  void arm_timer();
  void tick();
  // How far store time has come, and a portion further if it lags behind: the time for a call.
  Time reach();
  // Lets the engine apply what is due, so that reads show the present.
  void catch_up();
  void after_call();
  void check_durable(const Transaction& transaction, const Receipt& receipt,
                     engine::CommitNumber commit) const;
  template <class T>
  void deliver(const Reply<T>& reply, const Result<T>& answer);

  void thaw();
  [[nodiscard]] Duration monotonic() const;
  [[nodiscard]] Time wall() const;
  [[nodiscard]] Time store_now() const;
  void set_store_now(Time now);
  void add_trace(std::string line);

  const Plan plan_;
  bool tracing_;
  Random random_;
  std::vector<std::string> lines_;
  std::uint64_t fingerprint_ = 0;

  std::int64_t now_ms_ = 0;  // virtual time
  std::uint64_t next_event_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::int64_t wall_offset_ms_ = 0;
  std::int64_t monotonic_offset_ms_ = 0;
  std::optional<Duration> frozen_at_;
  Duration base_monotonic_{0};
  Time base_store_{};
  Time last_known_{};

  bool accidents_ = true;
  FaultyBackend backend_;
  std::unique_ptr<local::Pipeline> pipeline_;  // none: the process is down
  std::uint64_t incarnation_ = 0;              // of the process; guards events against later ones
  std::deque<Job> jobs_;
  std::list<Pending> pending_;
  bool writing_ = false;
  const engine::Decisions* in_flight_ = nullptr;  // the pipeline's, while writing_
  std::set<engine::CommitNumber> taken_;  // batches with something to write, since the last open
  // The batch whose write failed, and whether it is known what became of it.
  std::optional<engine::CommitNumber> failed_;
  bool failed_is_known_ = false;
  engine::CommitNumber last_written_ = 0;  // confirmed, and not empty
  engine::CommitNumber last_durable_ = 0;
  Time last_decided_{};  // the highest store time that anybody has seen
  std::optional<Time> armed_;
  std::uint64_t armed_number_ = 0;
  std::uint64_t calls_ = 0;

  model::Model model_;
};

}  // namespace strand::sim
