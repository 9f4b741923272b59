#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include <strand/store.h>

#include "store/contract/watches.h"
#include "store/engine/backend.h"
#include "store/engine/engine.h"
#include "store/figures.h"
#include "store/local/pipeline.h"

namespace strand::local {

// Lets many threads use one pipeline, and combines what they decide into few writes.
//
// A call enters (and then holds the lock), asks the engine, and waits for the outcome of what was
// decided up to then. The first one that finds nothing in flight leads: it writes, outside the
// lock, for all that has gathered. Meanwhile the next batch gathers; when the leader is done, one
// of those who wait for that batch leads it. There is no window of time and no thread for writing:
// a lone caller writes at once, and a crowd shares one sync.
//
// Threads: every method may be called concurrently; those that take a Lock need it held, and may
//          let go of it for a while.
// Order:   the lock is taken before the archive's gate. Whoever reads the archive holds the gate
//          alone, and takes no lock until done.
class GroupCommit {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // `watches` must outlive this.
  GroupCommit(std::unique_ptr<engine::Backend> backend, const Limits& limits,
              const engine::Identity& identity, std::shared_ptr<Clock> clock,
              store::Watches& watches);
  // Writes what has gathered, if it can be written.
  ~GroupCommit();
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  // Reads the store and writes what that decided. Called once, before anything else.
  Result<void> open();

  // Store time: what it was at open, and all that has passed on the monotonic clock since.
  [[nodiscard]] Time now() const;

  // The way in for every call that uses the engine. Waits while a transaction has the store for
  // itself. If the store could not be read after a failed write, tries that once more;
  // `unavailable` if it still fails.
  Result<Lock> enter();

  // With the lock held, and until it is let go: a failed write replaces the engine.
  engine::Engine& engine() { return pipeline_.engine(); }
  [[nodiscard]] bool broken() const { return pipeline_.broken(); }
  [[nodiscard]] engine::CommitNumber decided() const { return pipeline_.decided(); }
  [[nodiscard]] bool has_outcome(engine::CommitNumber commit) const {
    return pipeline_.outcome(commit).has_value();
  }

  // With the lock held: one more transaction is in what gathers.
  void count_transaction() { ++gathered_transactions_; }
  [[nodiscard]] const store::CommitFigures& figures() const { return figures_; }

  // How often a failed write has replaced the engine.
  [[nodiscard]] std::uint64_t rebuilds() const { return pipeline_.rebuilds(); }

  // Waits for the outcome of a number that decided() gave, and writes if nobody else does.
  Result<void> wait(Lock& lock, engine::CommitNumber commit);
  // Whether something has gathered that nobody is there to write: by a call that does not wait, or
  // by an engine that was rebuilt after a failed write.
  [[nodiscard]] bool unattended() const;
  // Writes it.
  void flush_unattended(Lock& lock);

  // While it lives, no other call enters. Made and destroyed with the lock held.
  class Alone {
   public:
    explicit Alone(GroupCommit& commits);
    ~Alone();
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

    // Waits until all that was decided has an outcome, and what can be read has been written.
    // Fails with `unavailable` if that cannot be had.
    Result<void> wait_all_written(Lock& lock);

   private:
    GroupCommit& commits_;
  };

  // The archive, to be read while the gate is held and the lock is not. Never blocks under the
  // lock.
  [[nodiscard]] const engine::Archive& archive() const { return *backend_; }
  [[nodiscard]] std::shared_lock<std::shared_mutex> open_archive(const Lock& lock);

 private:
  struct Batch {
    std::condition_variable changed;  // it has an outcome, or can be led
    bool awaited = false;             // somebody waits for it, and leads it if nobody else does
  };

  Batch& in_flight() { return batches_[flying_]; }
  Batch& gathering() { return batches_[1 - flying_]; }
  [[nodiscard]] const Batch& gathering() const { return batches_[1 - flying_]; }
  // Takes the batch that has gathered, writes it and tells everyone concerned.
  void lead(Lock& lock);
  void complete(const Result<void>& written);
  // Without the lock: writes the batch in flight, and counts it.
  Result<void> write(const engine::Decisions& batch, std::size_t transactions);
  static void sleep(Lock& lock, Batch& batch);
  Result<void> recover();

  std::unique_ptr<engine::Backend> backend_;
  std::shared_ptr<Clock> clock_;
  store::Watches& watches_;
  Time opened_at_{};
  Duration opened_at_monotonic_{0};
  const std::size_t disk_reserve_bytes_;
  store::CommitFigures figures_;

  std::mutex mutex_;  // for everything below
  Pipeline pipeline_;
  // There are at most two batches: the one in flight and the one that gathers. They take turns in
  // these two places, so that a batch keeps its place when it takes off, and the end of one does
  // not wake those who wait for the other.
  Batch batches_[2];
  std::size_t flying_ = 0;  // the place of the batch in flight, or of the last that was
  engine::CommitNumber flying_commit_ = 0;
  std::size_t gathered_transactions_ = 0;    // for the figures
  bool closed_ = false;                      // somebody is Alone
  std::optional<std::uint64_t> free_bytes_;  // of the disk, after the last write
  std::condition_variable opened_;

  std::shared_mutex archive_gate_;  // shared: reads the archive; exclusive: reopens it
};

}  // namespace strand::local
