#include "store/local/group_commit.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/planted.h"

namespace strand::local {

using engine::CommitNumber;

GroupCommit::GroupCommit(std::unique_ptr<engine::Backend> backend, const Limits& limits,
                         const engine::Identity& identity, std::shared_ptr<Clock> clock,
                         store::Watches& watches)
    : backend_(std::move(backend)),
      clock_(std::move(clock)),
      watches_(watches),
      disk_reserve_bytes_(limits.disk_reserve_bytes),
      pipeline_(*backend_, limits, identity) {}

GroupCommit::~GroupCommit() {
  Lock lock(mutex_);
  STRAND_ASSERT(!pipeline_.in_flight() && !closed_, "a store is closed when no call is running");
  if (pipeline_.can_take()) lead(lock);
}

Result<void> GroupCommit::open() {
  Lock lock(mutex_);
  // Read together: store time goes on from the one as the other does.
  const Time wall = clock_->wall();
  opened_at_monotonic_ = clock_->monotonic();
  if (auto opened = pipeline_.open(wall); !opened) return opened;
  opened_at_ = pipeline_.engine().now();
  free_bytes_ = backend_->free_bytes();
  if (free_bytes_) figures_.free_bytes = static_cast<std::int64_t>(*free_bytes_);
  return wait(lock, pipeline_.decided());
}

Time GroupCommit::now() const { return opened_at_ + (clock_->monotonic() - opened_at_monotonic_); }

Result<GroupCommit::Lock> GroupCommit::enter() {
  Lock lock(mutex_);
  opened_.wait(lock, [&] { return !closed_; });
  if (pipeline_.broken()) {
    if (auto recovered = recover(); !recovered) {
      return std::unexpected(std::move(recovered).error());
    }
  }
  // While sends are refused nothing may be written, so room that was made is looked for here.
  if (free_bytes_ && *free_bytes_ < disk_reserve_bytes_) free_bytes_ = backend_->free_bytes();
  pipeline_.engine().set_free_bytes(free_bytes_);
  return lock;
}

Result<void> GroupCommit::recover() {
  const std::unique_lock nobody_reads(archive_gate_);
  if (auto recovered = pipeline_.recover(now()); !recovered) {
    return failure(Errc::unavailable,
                   fmt::format("a write has failed, and the store cannot be read again: {}; every "
                               "call tries it anew",
                               recovered.error().message));
  }
  watches_.wake_all();
  return {};
}

Result<void> GroupCommit::wait(Lock& lock, CommitNumber commit) {
  while (true) {
    if (auto outcome = pipeline_.outcome(commit)) return *std::move(outcome);
    if (pipeline_.can_take()) {
      lead(lock);
    } else {
      STRAND_ASSERT(pipeline_.in_flight(), "what is neither written nor in flight can be taken");
      sleep(lock, commit <= flying_commit_ ? in_flight() : gathering());
    }
  }
}

bool GroupCommit::unattended() const {
  // While a batch is in flight, its leader sees to the next one.
  return pipeline_.can_take() && !gathering().awaited;
}

void GroupCommit::flush_unattended(Lock& lock) {
  if (unattended()) lead(lock);
}

void GroupCommit::sleep(Lock& lock, Batch& batch) {
  // Reset when the batch has its outcome, not by those who wake up: they may do so much later.
  batch.awaited = true;
  batch.changed.wait(lock);
}

void GroupCommit::lead(Lock& lock) {
  // Usually once. Again only for decisions that nobody waits for, which would stay unwritten; and
  // not after a failure, so that a disk that always fails does not keep the leader for ever.
  bool goes_on = true;
  while (goes_on) {
    const engine::Decisions& batch = pipeline_.take();
    flying_ = 1 - flying_;
    flying_commit_ = batch.commit;
    const std::size_t transactions = std::exchange(gathered_transactions_, 0);
    Result<void> written;
    if (!batch.mutations.empty()) {
      lock.unlock();
      written = write(batch, transactions);
      const auto free_bytes = backend_->free_bytes();
      figures_.free_bytes = free_bytes ? static_cast<std::int64_t>(*free_bytes) : -1;
      lock.lock();
      free_bytes_ = free_bytes;
    }
    complete(written);
    goes_on = written && unattended();
  }
}

Result<void> GroupCommit::write(const engine::Decisions& batch, std::size_t transactions) {
  using std::chrono::steady_clock;
  const auto began = steady_clock::now();
  auto written = backend_->write(batch.mutations, batch.durability);
  const std::chrono::duration<double> took = steady_clock::now() - began;
  const bool synced = batch.durability == Durability::sync;
  (synced ? figures_.sync_seconds : figures_.write_seconds).add(took.count());
  if (transactions > 0) figures_.transactions.add(static_cast<double>(transactions));
  if (!written) figures_.failures.fetch_add(1, std::memory_order_relaxed);
  return written;
}

void GroupCommit::complete(const Result<void>& written) {
  Pipeline::Woken woken;
  if (written) {
    woken = pipeline_.complete(written, now());
  } else {
    const std::unique_lock nobody_reads(archive_gate_);
    woken = pipeline_.complete(written, now());
  }
  if (woken.everyone) {
    watches_.wake_all();
  } else {
    watches_.wake(woken.wakes);
  }

  if (in_flight().awaited) in_flight().changed.notify_all();
  in_flight().awaited = false;
  if (STRAND_PLANTED("next-leader-not-woken") && written) return;
  if (gathering().awaited) {
    if (written) {
      gathering().changed.notify_one();  // to lead it
    } else {
      gathering().changed.notify_all();  // it failed with this one
      gathering().awaited = false;
    }
  }
}

std::shared_lock<std::shared_mutex> GroupCommit::open_archive(const Lock& lock) {
  STRAND_ASSERT(lock.owns_lock(), "the gate is entered under the lock");
  return std::shared_lock(archive_gate_);
}

GroupCommit::Alone::Alone(GroupCommit& commits) : commits_(commits) {
  STRAND_ASSERT(!commits.closed_, "one is alone at a time");
  commits.closed_ = true;
}

GroupCommit::Alone::~Alone() {
  commits_.closed_ = false;
  commits_.opened_.notify_all();
}

Result<void> GroupCommit::Alone::wait_all_written(Lock& lock) {
  // When a write fails, the engine that was read again may have something to write as well. If that
  // fails too, the disk is in no state to wait for.
  Result<void> outcome;
  for (int writes = 0; writes < 2; ++writes) {
    outcome = commits_.wait(lock, commits_.decided());
    if (commits_.pipeline_.all_written()) return {};
    if (commits_.broken()) break;
  }
  return failure(Errc::unavailable,
                 fmt::format("not applied, because a write before it failed ({}); repeat it",
                             outcome ? "not yet written" : outcome.error().message));
}

}  // namespace strand::local
