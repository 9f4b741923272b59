#include "queue/consumer_loop.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "base/assert.h"
#include "base/planted.h"

// The life of the loop, and the workers.

namespace strand {

using queue::settle_failure;
using queue::settle_nothing;
using queue::settle_success;

// What a handler sees of a lane, while it runs.
class Consumer::Loop::RunningWork final : public Work {
 public:
  RunningWork(Loop& loop, Held& held, std::span<const Message> messages)
      : Work(held.lease, messages, held.stop.get_token()), loop_(loop), held_(held) {}

  [[nodiscard]] bool first_of_lease() const override { return held_.fresh; }
  [[nodiscard]] std::optional<Duration> gathered() const override { return held_.gathered; }

  Result<void> lease_for(Duration length) override {
    const std::vector<Token> tokens{held_.lease.token};
    const Duration asked = loop_.now();
    auto renewed = loop_.store_.renew(tokens, length);
    if (!renewed.front()) return std::unexpected(std::move(renewed.front().error()));
    const Lock lock(loop_.mutex_);
    held_.length = length;
    held_.renew_at = asked + length / 3;
    loop_.wake_renewer_by(held_.renew_at);
    return {};
  }

  Result<Receipt> commit() override {
    Transaction all = own_transaction() ? *own_transaction() : Transaction{};
    take_wishes();
    {
      const Lock lock(loop_.mutex_);
      held_.keep = held_.keep && loop_.may_keep(held_);
    }
    all.settles = {settle_success(held_, messages(), fates())};
    all.durability = loop_.options_.durability;
    auto receipt = loop_.store_.apply(all);
    if (receipt) committed_ = std::move(all.settles.front());
    return receipt;
  }

  bool keep_lane() override {
    if (!loop_.options_.keep) return false;
    keep_ = true;
    const Lock lock(loop_.mutex_);
    return loop_.may_keep(held_);
  }

  // What the handler wants for its lane.
  void take_wishes() {
    held_.label = own_label();
    held_.park = own_park();
    held_.hint = own_hint();
    held_.keep = keep_;
    if (own_call()) held_.call = std::move(own_call());  // not again, after a commit that failed
  }

  // What commit() has settled, if it was called.
  [[nodiscard]] std::optional<Settle>& committed() { return committed_; }
  using Work::fates;
  using Work::own_transaction;

 private:
  Loop& loop_;
  Held& held_;
  std::optional<Settle> committed_;
  bool keep_ = false;
};

// --- Starting and stopping ---

Consumer::Loop::Loop(Store& store, ConsumerOptions options, Handler handler)
    : store_(store),
      options_(std::move(options)),
      handler_(std::move(handler)),
      batch_limits_{.messages = options_.batch_messages, .bytes = options_.batch_bytes} {
  for (const std::string& name : options_.queues)
    queues_.push_back({.name = name});
}

Consumer::Loop::~Loop() { stop(std::nullopt); }

void Consumer::Loop::start() {
  clock_handle_ = options_.clock->on_advance([this] { alarm_.ring(); });
  for (Queue& queue : queues_) {
    queue.watch = store_.watch(WatchQueue{queue.name}, [this, &queue] {
      const std::lock_guard lock(mutex_);
      queue.may_have = !STRAND_PLANTED("consumer-wakes-nobody");
      // Who has nothing to do leases for itself: one thread less to be woken before a handler runs.
      (idle_workers_ > 0 ? work_ : lease_).notify_one();
    });
  }
  for (std::uint32_t i = 0; i < options_.workers; ++i)
    workers_.emplace_back([this] { run_worker(); });
  committer_ = std::thread([this] { run_committer(); });
  renewer_ = std::thread([this] { run_renewer(); });
  leaser_ = std::thread([this] { run_leaser(); });
}

void Consumer::Loop::wait_idle() {
  Lock lock(mutex_);
  const std::uint64_t asked = ++idle_asked_;
  lease_.notify_one();
  changed_.wait(lock, [&] { return stopping_ || idle_confirmed_ >= asked; });
}

bool Consumer::Loop::stop(std::optional<Duration> patience) {
  const std::lock_guard one_at_a_time(stop_mutex_);
  if (!leaser_.joinable()) return true;
  {
    const Lock lock(mutex_);
    stopping_ = true;
    lease_.notify_all();
    work_.notify_all();
    changed_.notify_all();
  }
  leaser_.join();

  Afterwards afterwards;
  {
    Lock lock(mutex_);
    release_unbegun(afterwards);
    const auto none_runs = [&] { return in_handlers_.empty(); };
    if (patience && !changed_.wait_for(lock, *patience, none_runs)) {
      hurrying_ = true;
      for (const HeldPointer& held : in_handlers_)
        tell_to_stop(*held, afterwards);
    }
  }
  const bool patient = afterwards.stops.empty();
  tell(std::exchange(afterwards, {}));
  for (std::thread& worker : workers_)
    worker.join();

  {
    const Lock lock(mutex_);
    release_unbegun(afterwards);  // what had more to hand out
    closing_ = true;
    commit_.notify_all();
  }
  committer_.join();
  alarm_.stop();
  renewer_.join();
  clock_handle_.reset();
  for (Queue& queue : queues_)
    queue.watch.reset();
  Lock lock(mutex_);
  end_watches(lock);
  return patient;
}

// Gives back what no handler has begun with.
void Consumer::Loop::release_unbegun(Afterwards& afterwards) {
  for (const HeldPointer& held : held_) {
    if (held->stage == Stage::running || held->stage == Stage::committing ||
        held->stage == Stage::pulling) {
      continue;
    }
    if (held->stage == Stage::gathering) --gathering_;
    afterwards.watches.push_back(std::exchange(held->watch, {}));
    release(held);
  }
  kept_.clear();
  poked_.clear();
  waiting_.clear();
  deferred_.clear();
}

void Consumer::Loop::release(const HeldPointer& held) {
  if (stopping_) held->hint.reset();  // nobody shall wait for one that goes
  held->settle = settle_nothing(*held);
  held->rest.reset();
  held->durability = Durability::async;
  finish(held);
}

ConsumerStats Consumer::Loop::stats() const {
  const Lock lock(mutex_);
  ConsumerStats result = stats_;
  result.in_flight = busy();
  result.kept = kept_.size();
  result.running = in_handlers_.size();
  return result;
}

// --- Workers ---

void Consumer::Loop::run_worker() {
  std::stop_source stop;
  Lock lock(mutex_);
  while (true) {
    if (handlers_are_quick()) help(lock);
    end_watches(lock);
    if (waiting_.empty() && !stopping_) {
      ++idle_workers_;
      work_.wait(lock,
                 [&] { return stopping_ || !waiting_.empty() || !poked_.empty() || may_lease(); });
      --idle_workers_;
      if (!stopping_ && waiting_.empty()) {
        if (poked_.empty()) {
          lease_as_worker(lock);
        } else {
          pull_kept(lock);
        }
        continue;
      }
    }
    if (stopping_) return;
    const HeldPointer held = std::move(waiting_.front());
    waiting_.pop_front();
    if (wants_leaser()) lease_.notify_one();
    run_handler(lock, held, stop);
  }
}

// Where handlers take next to no time, passing lanes from thread to thread costs more than they do.
bool Consumer::Loop::handlers_are_quick() const {
  constexpr double quick_s = 20e-6;
  return handler_seconds_ < quick_s;
}

// Then a worker does the work of the other threads, before it would have to wait for them.
void Consumer::Loop::help(Lock& lock) {
  if (stopping_) return;
  if (!finished_.empty() && !worth_waiting_for_more()) commit_some(lock);
  if (!stopping_ && waiting_.empty() && may_lease()) lease_as_worker(lock);
}

void Consumer::Loop::lease_as_worker(Lock& lock) {
  lease_from_all(lock);
  if (lease_failures_ > 0) lease_.notify_one();
}

// Whether a worker may do it. A store in trouble is left to the leaser, which waits between its
// tries.
bool Consumer::Loop::may_lease() const {
  return !leasing_ && lease_failures_ == 0 && wants_lanes();
}

void Consumer::Loop::run_handler(Lock& lock, const HeldPointer& held, std::stop_source& stop) {
  held->stage = Stage::running;
  held->stop = stop;
  if (options_.handler_time) {
    held->stop_at = now() + *options_.handler_time;
    wake_renewer_by(*held->stop_at);
  }
  in_handlers_.push_back(held);
  ++stats_.batches;
  const auto messages = held->hand_out(batch_limits_);
  // Looking at the clock takes as long as a quick handler; now and then is enough.
  const bool timed = stats_.batches % 8 == 1 || !handlers_are_quick();
  lock.unlock();

  using Clock = std::chrono::steady_clock;
  const auto began = timed ? Clock::now() : Clock::time_point{};
  RunningWork work(*this, *held, messages);
  Verdict verdict = call_handler(work);
  const auto took = timed ? Clock::now() - began : Clock::duration{};

  const bool failed = !work.committed() && (verdict.kind() == Verdict::Kind::retry ||
                                            verdict.kind() == Verdict::Kind::dead ||
                                            verdict.kind() == Verdict::Kind::park);
  if (failed) {
    Afterwards afterwards;
    afterwards.troubles.push_back(trouble(Kind::handler_failed, *held, verdict.reason()));
    tell(std::move(afterwards));
  }

  if (work.committed()) {
    call_back(*held);
  } else {
    work.take_wishes();
  }

  lock.lock();
  held->keep = held->keep && (work.committed() || may_keep(*held));
  if (held->keep && !held->watched) {
    lock.unlock();
    watch_lane(held);
    lock.lock();
  }
  if (timed) note_handler_time(took);
  held->stop_at.reset();
  // Somebody may still be about to request it, which must not hit the next handler.
  if (std::exchange(held->told_to_stop, false)) stop = std::stop_source{};
  if (work.committed()) {
    held->settle = *std::move(work.committed());
    committed(held, Receipt{});
  } else {
    // With nothing else in hand, the worker commits by itself. Otherwise it goes on, and what is
    // finished while one commit syncs is committed together.
    commits_itself_ = busy() == 1 && !stopping_;
    handled(held, messages, work.fates(), std::move(verdict), std::move(work.own_transaction()));
  }
  leave_lane(held);
  if (stopping_) changed_.notify_all();
  if (std::exchange(commits_itself_, false) && !finished_.empty()) commit_some(lock);
}

Verdict Consumer::Loop::call_handler(Work& work) {
  try {
    return handler_(work);
  } catch (const std::exception& exception) {
    return Verdict::retry(exception.what());
  } catch (...) {
    return Verdict::retry("the handler threw something that is no std::exception");
  }
}

// Takes what the handler has decided towards its commit.
void Consumer::Loop::handled(const HeldPointer& held, std::span<const Message> messages,
                             const queue::Fates& fates, Verdict verdict,
                             std::unique_ptr<Transaction> rest) {
  held->durability = options_.durability;
  if (verdict.kind() == Verdict::Kind::ok) {
    held->settle = settle_success(*held, messages, fates);
    held->rest = std::move(rest);
    finish(held);
    return;
  }
  if (held->call) given_up_.push_back(std::exchange(held->call, {}));
  // It may have failed only because it was told to stop.
  const bool charges = STRAND_PLANTED("consumer-stop-charges");
  if (hurrying_ && !charges) verdict = Verdict::release();
  held->settle = settle_failure(*held, messages, fates, verdict);
  held->rest.reset();
  if (held->settle.outcomes.empty() && held->settle.then != Settle::Then::park) {
    make_wait(held);
  } else {
    finish(held);
  }
}

void Consumer::Loop::hold(const HeldPointer& held) {
  held->place = held_.size();
  held_.push_back(held);
  if (busy() == 1) commit_.notify_one();
}

// Passes a lane on to the workers, unless an earlier handler of it still runs.
void Consumer::Loop::make_wait(const HeldPointer& held) {
  const auto same = [&](const HeldPointer& other) {
    return other != held && other->same_lane(*held);
  };
  const bool defers = !STRAND_PLANTED("consumer-two-handlers-of-a-lane");
  if (defers && std::ranges::any_of(in_handlers_, same)) {
    held->stage = Stage::deferred;
    // A lane has one lease: another one that waits here is lost.
    const auto before = std::ranges::find_if(deferred_, same);
    if (before != deferred_.end()) {
      drop(*before);
      deferred_.erase(before);
    }
    deferred_.push_back(held);
    return;
  }
  held->stage = Stage::waiting;
  waiting_.push_back(held);
  work_.notify_one();
}

void Consumer::Loop::leave_lane(const HeldPointer& held) {
  std::erase(in_handlers_, held);
  const auto deferred = std::ranges::find_if(
      deferred_, [&](const HeldPointer& other) { return other->same_lane(*held); });
  if (deferred == deferred_.end()) return;
  const HeldPointer next = std::move(*deferred);
  deferred_.erase(deferred);
  make_wait(next);
}

void Consumer::Loop::finish(const HeldPointer& held) {
  held->stage = Stage::committing;
  finished_.push_back(held);
  if (!handlers_are_quick() && !commits_itself_) commit_.notify_one();
}

// The lane is out of our hands.
void Consumer::Loop::drop(const HeldPointer& held) {
  STRAND_ASSERT(held->stage != Stage::gone, "a lane leaves once");
  if (held->watched) old_watches_.push_back(std::exchange(held->watch, {}));
  if (held->call) given_up_.push_back(std::exchange(held->call, {}));
  held->stage = Stage::gone;
  held_.back()->place = held->place;
  std::swap(held_[held->place], held_.back());
  held_.pop_back();
  if (wants_leaser()) lease_.notify_one();
}

void Consumer::Loop::count_settled(const Settle& settle) {
  stats_.messages += settle.outcomes.size();
  for (const Outcome& outcome : settle.outcomes) {
    switch (outcome.kind) {
      case Outcome::Kind::ack:
        ++stats_.acked;
        break;
      case Outcome::Kind::retry:
        ++stats_.retried;
        break;
      case Outcome::Kind::dead:
        ++stats_.dead;
        break;
      case Outcome::Kind::release:
        ++stats_.released;
        break;
    }
  }
}

void Consumer::Loop::note_handler_time(std::chrono::steady_clock::duration time) {
  // Quick to believe that handlers are quick, which costs little if it is wrong for once.
  constexpr double weight = 0.2;
  const double seconds = std::chrono::duration<double>(time).count();
  const bool were_quick = handlers_are_quick();
  handler_seconds_ += weight * (seconds - handler_seconds_);
  // The committer sleeps otherwise then.
  if (handlers_are_quick() != were_quick) commit_.notify_one();
}

ConsumerTrouble Consumer::Loop::trouble(Kind kind, const Held& held, std::string reason) {
  return {
      .kind = kind, .queue = held.lease.queue, .key = held.lease.key, .reason = std::move(reason)};
}

// Called without the lock: all of this may call back.
void Consumer::Loop::tell(Afterwards&& given) {
  Afterwards afterwards = std::move(given);  // its watches end here
  for (std::stop_source& stop : afterwards.stops)
    stop.request_stop();
  if (!options_.on_trouble || afterwards.troubles.empty()) return;
  const std::lock_guard one_at_a_time(trouble_mutex_);
  for (const ConsumerTrouble& trouble : afterwards.troubles)
    options_.on_trouble(trouble);
}

}  // namespace strand
