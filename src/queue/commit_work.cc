#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/planted.h"
#include "queue/consumer_loop.h"

// What the committer does: writes what handlers have decided, as much as there is at a time.

namespace strand {

namespace {

constexpr std::size_t lanes_max = 1000;
constexpr std::size_t lanes_enough = 64;
// Workers with quick handlers commit for themselves, and wake nobody for it: waking costs more than
// the handler. Should one be stuck before it came to that, the committer finds what it has left.
constexpr std::chrono::milliseconds look_every{2};
constexpr std::size_t outcomes_max = 20'000;

bool lease_is_over(const Error& error) {
  return error.code == Errc::lease_lost || error.code == Errc::message_not_leased ||
         error.code == Errc::invalid_token;
}

// Whether the commit itself may succeed later, whatever is in it.
bool store_is_in_trouble(const Error& error) {
  return error.code == Errc::unavailable || error.code == Errc::unknown_outcome ||
         error.code == Errc::io_error;
}

ConsumerTrouble::Kind kind_of(const Error& error) {
  if (lease_is_over(error)) return ConsumerTrouble::Kind::lease_lost;
  if (store_is_in_trouble(error)) return ConsumerTrouble::Kind::store_failed;
  return ConsumerTrouble::Kind::commit_refused;
}

// What a lane wants to be committed. A copy: it may have to be tried again.
Transaction whole(const queue::HeldLane& held) {
  const bool bare = !held.rest || STRAND_PLANTED("consumer-acks-without-its-sends");
  Transaction transaction = bare ? Transaction{} : *held.rest;
  transaction.settles = {held.settle};
  transaction.durability = held.durability;
  return transaction;
}

}  // namespace

void Consumer::Loop::run_committer() {
  Lock lock(mutex_);
  std::uint32_t failures = 0;
  while (true) {
    commit_.wait(lock, [&] {
      return closing_ || !finished_.empty() || (handlers_are_quick() && busy() > 0);
    });
    if (!closing_ && handlers_are_quick()) {
      commit_.wait_for(lock, look_every, [&] { return closing_ || !handlers_are_quick(); });
    }
    if (finished_.empty()) {
      if (closing_) return;
      continue;
    }
    if (commit_some(lock)) {
      failures = 0;
      continue;
    }
    // Who stops waits for a store that recovers soon, and not for ever.
    constexpr std::uint32_t failures_max = 5;
    if (++failures >= failures_max && closing_) {
      for (const HeldPointer& held : std::exchange(finished_, {}))
        drop(held);
    }
    static constexpr bool never = false;
    pause(lock, commit_, closing_ ? 0 : failures - 1, closing_ ? never : closing_);
  }
}

bool Consumer::Loop::commit_some(Lock& lock) {
  std::vector<HeldPointer> batch;
  for (std::size_t outcomes = 0;
       !finished_.empty() && batch.size() < lanes_max && outcomes < outcomes_max;
       finished_.pop_front()) {
    outcomes += finished_.front()->settle.outcomes.size();
    batch.push_back(std::move(finished_.front()));
  }
  lock.unlock();
  const auto results = commit(batch);
  Afterwards afterwards;
  bool failed = false;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (results[i]) continue;
    const Error& error = results[i].error();
    afterwards.troubles.push_back(trouble(kind_of(error), *batch[i], error.message));
    failed |= store_is_in_trouble(error);
  }
  tell(std::move(afterwards));
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (results[i]) call_back(*batch[i]);
  }
  lock.lock();
  for (std::size_t i = 0; i < batch.size(); ++i)
    committed(batch[i], results[i]);
  end_watches(lock);
  return !failed;
}

// A commit for each lane of a quick handler would cost more than the handler does. It waits only
// while more is on its way at once.
bool Consumer::Loop::worth_waiting_for_more() const {
  return !stopping_ && !waiting_.empty() && finished_.size() < lanes_enough && handlers_are_quick();
}

// One result for each. What settles and does nothing else is written in one transaction; if that
// fails, because one of the leases is over, each is written by itself.
std::vector<Result<Receipt>> Consumer::Loop::commit(std::span<const HeldPointer> batch) {
  std::vector<Transaction> transactions(1);  // the first for all that has nothing but a settle
  Transaction& together = transactions.front();
  together.durability = Durability::async;
  together.settles.reserve(batch.size());
  std::vector<std::size_t> joined;
  std::vector<std::size_t> alone;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Held& held = *batch[i];
    if (held.rest) {
      alone.push_back(i);
      continue;
    }
    joined.push_back(i);
    Settle& settle = together.settles.emplace_back();
    settle.token = held.settle.token;
    settle.outcomes = std::move(held.settle.outcomes);  // lent, see below
    settle.then = held.settle.then;
    settle.park_reason = held.settle.park_reason;
    settle.label = held.settle.label;
    settle.owner_hint = held.settle.owner_hint;
    if (held.durability == Durability::sync) together.durability = Durability::sync;
  }
  for (const std::size_t i : alone)
    transactions.push_back(whole(*batch[i]));

  auto applied = store_.apply(transactions);
  std::vector<Result<Receipt>> results(batch.size());
  for (std::size_t i = 0; i < alone.size(); ++i)
    results[alone[i]] = std::move(applied[1 + i]);
  for (std::size_t i = 0; i < joined.size(); ++i)
    batch[joined[i]]->settle.outcomes = std::move(transactions.front().settles[i].outcomes);
  if (applied.front()) return results;

  transactions.clear();
  for (const std::size_t i : joined)
    transactions.push_back(whole(*batch[i]));
  applied = store_.apply(transactions);
  for (std::size_t i = 0; i < joined.size(); ++i)
    results[joined[i]] = std::move(applied[i]);
  return results;
}

void Consumer::Loop::committed(const HeldPointer& held, const Result<Receipt>& result) {
  if (!result) {
    refused(held, result.error());
    return;
  }
  held->refusals = 0;
  held->fresh = false;
  held->gathered.reset();
  held->lease.history.reset();  // is older than this commit
  count_settled(held->settle);
  if (held->ends()) {
    drop(held);
    return;
  }
  held->drop_settled();
  if (stopping_) {
    release(held);
  } else if (held->lease.messages.empty()) {
    keep(held);
  } else {
    make_wait(held);
  }
}

// Before the lane is handed out again, and without the lock.
void Consumer::Loop::call_back(Held& held) {
  if (auto call = std::exchange(held.call, {})) call();
}

void Consumer::Loop::refused(const HeldPointer& held, const Error& error) {
  if (lease_is_over(error)) {
    ++stats_.lost;
    drop(held);
    return;
  }
  if (store_is_in_trouble(error)) {
    // A settle is applied once at most, so it may be repeated whatever became of it.
    if (STRAND_PLANTED("consumer-gives-up-a-commit")) {
      drop(held);
      return;
    }
    finish(held);
    return;
  }
  // The store will not take what the handler has added: that is a failure of the handler.
  constexpr std::uint32_t refusals_max = 2;
  if (++held->refusals > refusals_max) {
    if (held->refusals > refusals_max + 1) {
      drop(held);
    } else {
      release(held);
    }
    return;
  }
  handled(held, std::span(held->lease.messages).first(held->count), {},
          Verdict::retry("not committed: " + error.message), {});
}

}  // namespace strand
