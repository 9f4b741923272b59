#include <algorithm>
#include <map>
#include <utility>

#include "base/planted.h"
#include "queue/consumer_loop.h"

// What the renewer does: keeps leases alive, ends the time of handlers and of gathering.

namespace strand {

void Consumer::Loop::run_renewer() {
  std::optional<Duration> nap;
  while (true) {
    if (nap && options_.clock->manual()) nap.reset();  // it rings when it moves
    if (!alarm_.sleep(nap)) return;
    Lock lock(mutex_);
    nap = serve_times(lock);
  }
}

void Consumer::Loop::wake_renewer_by(Duration at) {
  if (at >= renewer_wakes_at_) return;
  renewer_wakes_at_ = at;
  alarm_.ring();
}

std::optional<Duration> Consumer::Loop::serve_times(Lock& lock) {
  const Duration reached = now();
  Afterwards afterwards;
  std::map<Duration, std::vector<HeldPointer>> due;  // by the length of the lease
  for (const HeldPointer& held : held_) {
    if (held->stop_at && *held->stop_at <= reached) {
      held->stop_at.reset();
      held->renewed = false;
      tell_to_stop(*held, afterwards);
    }
    // A little early, so that leases that were taken one after the other are renewed together.
    if (STRAND_PLANTED("consumer-does-not-renew")) continue;
    if (held->renewed && held->renew_at <= reached + held->length / 6) {
      due[held->length].push_back(held);
    }
    if (held->ready_at && held->stage == Stage::gathering && *held->ready_at <= reached) {
      lease_.notify_one();
    }
  }
  for (auto next = kept_.begin(); next != kept_.end();) {
    const HeldPointer held = *next++;
    if (held->kept_until > reached) continue;
    take_from_kept(held);
    release(held);
  }
  lock.unlock();
  tell(std::move(afterwards));
  lock.lock();
  for (auto& [length, lanes] : due) {
    release_surplus(lanes);
    renew(lock, lanes, length);
  }

  std::optional<Duration> next;
  const auto consider = [&](Duration at) { next = next ? std::min(*next, at) : at; };
  for (const HeldPointer& held : held_) {
    if (held->renewed) consider(held->renew_at);
    if (held->stop_at) consider(*held->stop_at);
    if (held->stage == Stage::gathering && *held->ready_at > reached) consider(*held->ready_at);
    if (held->stage == Stage::kept) consider(held->kept_until);
  }
  renewer_wakes_at_ = next.value_or(Duration::max());
  if (!next) return std::nullopt;
  return std::max(*next - now(), Duration{0});
}

void Consumer::Loop::tell_to_stop(Held& held, Afterwards& afterwards) {
  held.told_to_stop = true;
  afterwards.stops.push_back(held.stop);
}

// A lane that is due for renewal has been here for a while. If that is because handlers are not as
// quick as they were, others shall have the lanes that were taken for them.
void Consumer::Loop::release_surplus(std::vector<HeldPointer>& due) {
  for (const HeldPointer& held : due) {
    if (held->stage != Stage::running) continue;
    const std::chrono::duration<double> at_least = held->length / 6;
    handler_seconds_ = std::max(handler_seconds_, at_least.count());
  }
  if (options_.lanes_in_flight > 0) return;
  const std::size_t wanted = lanes_wanted() - options_.workers;
  std::erase_if(due, [&](const HeldPointer& held) {
    if (held->stage != Stage::waiting || waiting_.size() <= wanted) return false;
    std::erase(waiting_, held);
    release(held);
    return true;
  });
}

void Consumer::Loop::renew(Lock& lock, const std::vector<HeldPointer>& due, Duration length) {
  std::vector<Token> tokens;
  for (const HeldPointer& held : due)
    tokens.push_back(held->lease.token);
  const Duration asked = now();  // a lease runs from some time after this
  lock.unlock();
  const auto results = store_.renew(tokens, length);
  lock.lock();
  Afterwards afterwards;
  for (std::size_t i = 0; i < due.size(); ++i) {
    const HeldPointer& held = due[i];
    if (results[i]) {
      held->renew_at = asked + length / 3;
    } else if (results[i].error().code == Errc::lease_lost) {
      lost(held, afterwards);
    } else {
      held->renew_at = now() + length / 10;
      afterwards.troubles.push_back(trouble(Kind::store_failed, *held, results[i].error().message));
    }
  }
  lock.unlock();
  tell(std::move(afterwards));
  lock.lock();
}

// The lease is over. A handler is told; its commit will fail. Where none has begun, that is all.
void Consumer::Loop::lost(const HeldPointer& held, Afterwards& afterwards) {
  held->renewed = false;
  switch (held->stage) {
    case Stage::committing:
    case Stage::pulling:
    case Stage::gone:
      return;  // perhaps because its commit has just ended it
    case Stage::running:
      if (STRAND_PLANTED("consumer-lost-lease-not-told")) return;
      tell_to_stop(*held, afterwards);
      return;
    case Stage::gathering:
      --gathering_;
      break;
    case Stage::waiting:
      std::erase(waiting_, held);
      break;
    case Stage::deferred:
      std::erase(deferred_, held);
      break;
    case Stage::kept:
      take_from_kept(held);
      break;
  }
  afterwards.watches.push_back(std::exchange(held->watch, {}));
  drop(held);
}

}  // namespace strand
