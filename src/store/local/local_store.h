#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include <strand/store.h>

#include "base/alarm.h"
#include "store/contract/watches.h"
#include "store/engine/backend.h"
#include "store/engine/engine.h"
#include "store/local/group_commit.h"

namespace strand::local {

// A store in this process: the engine decides, a backend keeps.
//
// Threads:    as Store says. Two of its own: a timer, which applies what is due when nobody calls,
//             and the one that calls watches.
// Durability: every answer waits until all that the engine had decided by then is written; answers
//             from the archive show only what is written anyway.
// Time:       what is due is applied before anything else. If it is more than a call should wait
//             for, the timer applies it in slices, and store time waits for it: see apply_due().
// Failure:    see Pipeline. A failed batch's answers are shown if the batch turns out to be there.
class LocalStore final : public Store {
 public:
  // `identity` is used if the store is new.
  static Result<std::unique_ptr<Store>> open(std::unique_ptr<engine::Backend> backend,
                                             std::shared_ptr<Clock> clock, const Limits& limits,
                                             const engine::Identity& identity);
  ~LocalStore() override;

  using Store::apply;
  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) override;
  Result<std::vector<Lease>> lease(const LeaseRequest& request) override;
  Result<Pulled> pull(const Token& token, Cursor cursor, PullLimits limits) override;
  std::vector<Result<Time>> renew(std::span<const Token> tokens, Duration lease) override;
  [[nodiscard]] Watch watch(WatchTarget target, std::function<void()> callback) override;
  [[nodiscard]] Time now() override { return commits_.now(); }

  [[nodiscard]] const store::CommitFigures& figures() const { return commits_.figures(); }

  Result<History> history(const HistoryQuery& query) override;
  Result<Page<Execution>> instances(const InstancesQuery& query) override;
  Result<std::optional<Record>> record(std::string_view space, std::string_view key) override;
  Result<Page<Record>> records(const RecordsQuery& query) override;
  Result<Page<PeekedMessage>> peek(const PeekQuery& query) override;
  Result<Page<DeadLetter>> dead_letters(const DeadLettersQuery& query) override;
  Result<QueueStats> stats(std::string_view queue) override;
  Result<std::vector<QueueInfo>> queues() override;
  Result<std::vector<Subscription>> subscriptions() override;
  Result<std::vector<Topic>> topics() override;

 private:
  using Lock = GroupCommit::Lock;

  LocalStore(std::unique_ptr<engine::Backend> backend, std::shared_ptr<Clock> clock,
             const Limits& limits, const engine::Identity& identity);
  void start_timer();
  void run_timer(std::optional<Duration> nap);
  // Applies what is due, and says when to do it again.
  std::optional<Duration> serve_timer();
  // Rings the timer if there is something for it to do before it would wake up.
  void arm_timer();

  // Applies what is due, as far as the one who asks may, and returns the time to give to the
  // engine: good until the lock is let go. While the store is catching up, that is an earlier time
  // than the clock's, and only the timer goes on.
  enum class Upkeep : std::uint8_t { call, timer };
  Time apply_due(Upkeep by = Upkeep::call);
  // GroupCommit::wait, after which the timer is right again whatever happened.
  Result<void> wait(Lock& lock, engine::CommitNumber commit);

  // Leaves out leases that were lost before their messages could be read.
  void leave_out_lost(std::vector<Lease>& leases, const std::vector<engine::Grant>& grants);
  bool is_current(const Token& token);

  // Shows what was read from the engine's memory when all that it may tell of is written.
  template <class Read>
  auto read_memory(Read read) -> Result<std::invoke_result_t<Read, const engine::Engine&>>;
  template <class Read>
  auto read_archive(Read read) -> std::invoke_result_t<Read, const engine::Archive&>;
  // Fills in an answer of the engine from the archive, once it is written.
  template <class Answer, class Fill>
  auto show(Lock& lock, const Result<Answer>& answer, Fill fill)
      -> std::invoke_result_t<Fill, const engine::Archive&, const Answer&>;

  Limits limits_;
  std::shared_ptr<Clock> clock_;
  store::Watches watches_;
  GroupCommit commits_;
  // These are guarded by the lock of commits_.
  engine::CommitNumber due_commit_ = 0;  // covers what was due and has been applied
  bool catching_up_ = false;             // something is due that has not been applied
  std::uint64_t rebuilds_ = 0;           // of the engine, as due_commit_ knows it
  Time timer_wakes_at_{};                // when it looks again; see serve_timer()
  base::Alarm alarm_;
  std::shared_ptr<void> clock_handle_;
  std::thread timer_;
};

}  // namespace strand::local
