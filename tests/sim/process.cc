// The life of the process: batches, failed writes, crashes, reopenings, the timer.

#include <algorithm>
#include <stdexcept>

#include "model/text.h"
#include "sim/world.h"

namespace strand::sim {
namespace {

using model::Invariant;

model::Told told_by(const local::Pipeline::Woken& woken) {
  model::Told told;
  told.everyone = woken.everyone;
  told.queues.insert(woken.wakes.queues.begin(), woken.wakes.queues.end());
  told.holds.insert(woken.wakes.lanes.begin(), woken.wakes.lanes.end());
  told.records.insert(woken.wakes.records.begin(), woken.wakes.records.end());
  return told;
}

}  // namespace

// --- From a decision to an answer ---

void World::submit(Job job) {
  ++calls_;
  jobs_.push_back(std::move(job));
  pump();
}

// Decides what waits, in order. A call that reads the disk waits until all before it is there.
void World::pump() {
  if (!serves()) {
    const Error error{Errc::unavailable, "the simulated store is down"};
    std::deque<Job> refused;
    refused.swap(jobs_);
    for (const Job& job : refused)
      job.refuse(error);
    return;
  }
  while (serves() && !jobs_.empty()) {
    if (jobs_.front().needs_all_written) {
      // What is due now must be on disk too.
      if (pipeline_->all_written()) catch_up();
      if (!pipeline_->all_written()) break;
    }
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    job.run();
    resolve();
  }
  start_write();
}

void World::await(engine::CommitNumber commit, std::function<void(const Result<void>&)> settle) {
  pending_.push_back(Pending{commit, std::move(settle)});
}

void World::resolve() {
  if (!pipeline_) return;
  while (!pending_.empty()) {
    const std::optional<Result<void>> outcome = pipeline_->outcome(pending_.front().commit);
    if (!outcome) break;
    const Pending pending = std::move(pending_.front());
    pending_.pop_front();
    check_outcome(pending.commit, *outcome);
    pending.settle(*outcome);
  }
}

// S1 and S21: the simulator knows what is on the disk, so it knows what each call must be told.
void World::check_outcome(engine::CommitNumber commit, const Result<void>& outcome) const {
  const engine::CommitNumber on_disk = backend_.shown_commit();
  if (outcome) {
    const auto after = taken_.upper_bound(commit);
    const engine::CommitNumber needed = after == taken_.begin() ? 0 : *std::prev(after);
    const bool gathering = pipeline_->engine().has_decisions();
    model::expect(needed <= on_disk && (!gathering || commit < pipeline_->engine().gathering()),
                  Invariant::nothing_lost, [&] {
                    return "commit " + std::to_string(commit) + " was answered, but the disk has " +
                           std::to_string(on_disk);
                  });
    return;
  }
  const bool unknown = failed_ && commit <= *failed_ && !failed_is_known_;
  const Errc due = unknown ? Errc::unknown_outcome : Errc::unavailable;
  model::expect(failed_ && commit > last_written_ && outcome.error().code == due,
                Invariant::contract, [&] {
                  return "commit " + std::to_string(commit) + " had to be " + model::text(due) +
                         ", but was " + model::text(outcome.error());
                });
}

void World::after_call() {
  last_known_ = std::max({last_known_, engine().now(), store_now()});
  last_decided_ = std::max(last_decided_, engine().now());
  model_.next_due(engine().next_due());
  model_.memory(engine().memory_bytes());
  // Copies and notices have ids that no answer has shown. Looking at once keeps them apart, even
  // if they are alike.
  for (const std::string& queue : model_.decided().queues_with_unseen_ids()) {
    PeekQuery query;
    query.queue = queue;
    query.limit = plan_.limits.page_max;
    model_.peek(query, bare(engine().peek(query)));
  }
  for (const QueueInfo& queue : model_.decided().queue_infos()) {
    model_.stats(queue.name, engine().stats(queue.name));
  }
  arm_timer();
}

void World::start_write() {
  if (!serves() || writing_ || !pipeline_->can_take()) return;
  in_flight_ = &pipeline_->take();
  writing_ = true;
  if (!in_flight_->mutations.empty()) taken_.insert(in_flight_->commit);
  if (in_flight_->mutations.empty()) {
    finish_write();
    return;
  }
  std::int64_t length = random_.between(0, 4);
  if (plan_.happens(Fault::slow_write, random_) && accidents_) length = random_.between(5, 8000);
  after(length, [this, incarnation = incarnation_] {
    if (incarnation == incarnation_) finish_write();
  });
}

FaultyBackend::WriteFault World::draw_write_fault() {
  using WriteFault = FaultyBackend::WriteFault;
  const auto happens = [&](Fault fault) { return plan_.happens(fault, random_) && accidents_; };
  WriteFault fault = WriteFault::none;
  if (happens(Fault::write_fails_before)) fault = WriteFault::before;
  if (happens(Fault::write_fails_after)) fault = WriteFault::after;
  if (happens(Fault::sync_fails)) {
    fault = random_.one_in(2) ? WriteFault::sync_kept : WriteFault::sync_dropped;
  }
  if (happens(Fault::reopen_fails)) backend_.fail_reopens(random_.below(4) + 1);
  return fault;
}

void World::finish_write() {
  const engine::Decisions& batch = *in_flight_;
  const engine::CommitNumber commit = batch.commit;
  const bool empty = batch.mutations.empty();
  Result<void> written;
  if (!empty) {
    backend_.prepare(commit, draw_write_fault());
    written = backend_.write(batch.mutations, batch.durability);
  }
  writing_ = false;
  in_flight_ = nullptr;
  trace([&] {
    return "commit " + std::to_string(commit) + (empty ? " (empty)" : "") +
           (written ? " written" : " failed: " + written.error().message);
  });
  mix(commit * 2 + (written ? 1 : 0));
  const local::Pipeline::Woken woken = pipeline_->complete(written, store_now());
  if (written) {
    if (!empty) {
      last_written_ = commit;
      if (backend_.unsynced() == 0) last_durable_ = commit;
    }
    model_.written(commit, backend_.unsynced() == 0, told_by(woken));
  } else if (pipeline_->broken()) {
    failed_ = commit;
    failed_is_known_ = false;
    trace([] { return "the store cannot be read again"; });
    after(random_.between(1, 500), [this, incarnation = incarnation_] {
      if (incarnation == incarnation_) recover();
    });
  } else {
    failed_ = commit;
    failed_is_known_ = true;
    after_reload(false, last_written_);
  }
  resolve();
  pump();
}

void World::recover() {
  if (!pipeline_->broken()) return;
  if (const Result<void> recovered = pipeline_->recover(store_now()); !recovered) {
    trace([&] { return "recovery failed: " + recovered.error().message; });
    after(random_.between(1, 500), [this, incarnation = incarnation_] {
      if (incarnation == incarnation_) recover();
    });
    return;
  }
  after_reload(false, last_written_);
  resolve();
  pump();
}

// --- Reading the store anew ---

void World::after_reload(bool opened, engine::CommitNumber floor) {
  const engine::CommitNumber survived = backend_.shown_commit();
  std::erase_if(taken_, [&](engine::CommitNumber commit) { return commit > survived; });
  trace([&] {
    return "the store was read at commit " + std::to_string(survived) + ", time " +
           model::text(engine().now());
  });
  model::expect(engine().loaded_commit() == survived, Invariant::nothing_lost, [&] {
    return "the disk has commit " + std::to_string(survived) + ", but the engine found " +
           std::to_string(engine().loaded_commit());
  });
  last_written_ = survived;
  last_durable_ = backend_.durable_commit();
  set_store_now(std::max(engine().now(), store_now()));
  model_.reloaded({opened, survived, floor, engine().now(), pipeline_->decided()});
  armed_.reset();
  after_call();
  read_everything();
}

void World::open() {
  pipeline_ = std::make_unique<local::Pipeline>(
      backend_, plan_.limits, engine::Identity{random_.next(), {random_.next(), random_.next()}});
  if (plan_.happens(Fault::reopen_fails, random_) && accidents_) {
    backend_.fail_reads(random_.below(4) + 1);
  }
  const Time before = wall();
  const Result<void> opened = pipeline_->open(before);
  if (!opened) {
    model::expect(accidents_ && opened.error().code == Errc::io_error, Invariant::contract,
                  [&] { return "the store cannot be opened: " + model::text(opened.error()); });
    trace([&] { return "open failed: " + opened.error().message; });
    pipeline_.reset();
    after(random_.between(1, 1000), [this] { reopen(); });
    return;
  }
  backend_.fail_reads(0);
  base_store_ = engine().now();
  base_monotonic_ = monotonic();
  model::expect(engine().now() >= before && engine().now() <= std::max(before, last_decided_),
                Invariant::not_early, [&] {
                  return "store time at open must be the later of wall " + model::text(before) +
                         " and what was stored, at most " + model::text(last_decided_) +
                         ", but is " + model::text(engine().now());
                });
  after_reload(true, std::min(last_durable_, last_written_));
  pump();
}

void World::reopen() {
  if (!pipeline_) open();
}

void World::crash(bool power) {
  ++incarnation_;
  if (writing_ && in_flight_ != nullptr && !in_flight_->mutations.empty() && random_.one_in(2)) {
    // The write was further on than its caller knew.
    backend_.prepare(in_flight_->commit, FaultyBackend::WriteFault::none);
    const bool synced = in_flight_->durability == Durability::sync && random_.one_in(2);
    const Durability reached = synced ? Durability::sync : Durability::async;
    if (!backend_.write(in_flight_->mutations, reached)) {
      throw std::logic_error("a write that was to succeed has failed");
    }
  }
  writing_ = false;
  in_flight_ = nullptr;
  jobs_.clear();
  pending_.clear();
  armed_.reset();
  pipeline_.reset();
  if (power) {
    const std::uint64_t survivors = random_.below(backend_.unsynced() + 1);
    if (plan_.disk_lies) {
      backend_.betray();
    } else {
      backend_.lose_power(survivors);
    }
    last_written_ = last_durable_;
  } else {
    backend_.crash();
    last_durable_ = last_written_;
  }
  trace([&] {
    return std::string(power ? "power is lost" : "the process dies") + "; left is commit " +
           std::to_string(backend_.shown_commit());
  });
  mix(backend_.shown_commit());
  const std::int64_t down = random_.pick(std::vector<std::int64_t>{1, 40, 3000, 15'000, 200'000});
  after(random_.between(1, down), [this] { reopen(); });
}

void World::restart() {
  trace([] { return "closed, and opened again"; });
  ++incarnation_;
  pipeline_.reset();
  armed_.reset();
  backend_.crash();
  last_durable_ = last_written_;
  open();
}

// --- The timer ---

void World::arm_timer() {
  const std::optional<Time> due = engine().next_due();
  if (due == armed_) return;
  armed_ = due;
  const std::uint64_t number = ++armed_number_;
  if (!due || frozen_at_) return;
  std::int64_t wait = std::max<std::int64_t>(0, (*due - store_now()).count());
  if (plan_.happens(Fault::late_timer, random_) && accidents_) wait += random_.between(1, 9000);
  after(wait, [this, number, incarnation = incarnation_] {
    if (number == armed_number_ && incarnation == incarnation_ && serves()) tick();
  });
}

void World::tick() {
  armed_.reset();
  catch_up();
  pump();
}

// Applies what is due, or a portion of it: then store time stands still where it came to.
Time World::reach() {
  const Time wanted = store_now();
  if (plan_.portion == 0) return wanted;
  const bool there = engine().advance(wanted, plan_.portion);
  const Time now = engine().now();
  const std::optional<Time> due = engine().next_due();
  model::expect(there ? now == wanted : now < wanted && due && *due > now && *due <= wanted,
                Invariant::not_early, [&] {
                  return "a portion on the way to " + model::text(wanted) + " stopped at " +
                         model::text(now);
                });
  model_.advance(now, wanted, pipeline_->decided());
  return now;
}

void World::catch_up() {
  const Time now = reach();
  if (plan_.portion == 0) {
    engine().advance(now);
    model_.advance(now, now, pipeline_->decided());
  }
  trace([&] { return "advance to " + model::text(now); });
  mix(static_cast<std::uint64_t>(now.time_since_epoch().count()));
  after_call();
}

}  // namespace strand::sim
