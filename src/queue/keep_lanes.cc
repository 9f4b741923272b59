#include <algorithm>
#include <iterator>
#include <utility>

#include "base/planted.h"
#include "queue/consumer_loop.h"

// Lanes that are kept between two messages, because a handler has something at hand for the next.

namespace strand {

// Without the lock. Calls before the lane waits for anything are remembered.
void Consumer::Loop::watch_lane(const HeldPointer& held) {
  if (held->watched) return;
  held->watched = true;
  held->poked = true;  // something may have come before
  const std::weak_ptr<Held> weak = held;
  Watch watch = store_.watch(WatchLane{held->lease.token}, [this, weak] {
    const std::lock_guard inner(mutex_);
    const auto alive = weak.lock();
    if (!alive || alive->stage == Stage::gone) return;
    alive->poked = true;
    if (alive->stage == Stage::gathering) lease_.notify_one();
    if (alive->stage == Stage::kept) poke(alive);
  });
  const Lock lock(mutex_);
  if (held->stage == Stage::gone) {
    old_watches_.push_back(std::move(watch));
  } else {
    held->watch = std::move(watch);
  }
}

// Lanes are leased many at a time and pulled one by one, so while others wait it is given back. An
// isolated lease brings no further messages (S6).
bool Consumer::Loop::may_keep(const Held& held) const {
  return held.lease.key && !held.lease.isolated && waiting_.empty() && busy() <= options_.workers &&
         poked_.size() <= options_.workers && !stopping_ && held.renewed &&
         now() < held.since + options_.keep->total;
}

// Its messages are all settled, and the lease goes on.
void Consumer::Loop::keep(const HeldPointer& held) {
  held->kept_until = std::min(now() + options_.keep->idle, held->since + options_.keep->total);
  held->used = ++kept_uses_;
  wake_renewer_by(held->kept_until);
  put_among_kept(held);
  if (kept_.size() > options_.keep->lanes_max) {
    const HeldPointer oldest = kept_.front();
    take_from_kept(oldest);
    release(oldest);
  }
  if (wants_leaser()) lease_.notify_one();
}

void Consumer::Loop::put_among_kept(const HeldPointer& held) {
  held->stage = Stage::kept;
  auto place = kept_.end();
  while (place != kept_.begin() && (*std::prev(place))->used > held->used)
    --place;
  held->kept_place = kept_.insert(place, held);
  if (held->poked) poke(held);
}

// Whether somebody has looked since anything happened here. A watch may be about to call.
bool Consumer::Loop::kept_have_nothing() {
  for (const HeldPointer& held : kept_) {
    if (held->looked < seen()) poke(held);
  }
  return poked_.empty();
}

// It may have messages: somebody has to look.
void Consumer::Loop::poke(const HeldPointer& held) {
  held->poked = true;
  if (STRAND_PLANTED("consumer-forgets-kept-lanes")) return;
  if (std::exchange(held->queued, true)) return;
  poked_.push_back(held);
  work_.notify_one();
}

void Consumer::Loop::take_from_kept(const HeldPointer& held) {
  kept_.erase(held->kept_place);
  if (std::exchange(held->queued, false)) std::erase(poked_, held);
  if (busy() == 1) commit_.notify_one();
}

void Consumer::Loop::pull_kept(Lock& lock) {
  const HeldPointer held = poked_.front();
  take_from_kept(held);
  held->stage = Stage::pulling;
  held->poked = false;
  held->looked = seen();
  lock.unlock();
  auto pulled = store_.pull(held->lease.token, held->lease.cursor,
                            {.messages = options_.batch_messages, .bytes = options_.batch_bytes});
  const Duration asked = now();
  lock.lock();
  if (!pulled) {
    // It is over, or the queue does not want to be worked on: others find out when.
    if (pulled.error().code == Errc::lease_lost) {
      drop(held);
    } else {
      release(held);
    }
    return;
  }
  held->lease.cursor = pulled->cursor;
  held->lease.more = pulled->more;
  std::ranges::move(pulled->messages, std::back_inserter(held->lease.messages));
  if (held->lease.messages.empty()) {
    put_among_kept(held);
    return;
  }
  if (options_.coalesce && options_.coalesce->kept_lanes &&
      held->lease.messages.size() < options_.coalesce->messages) {
    begin_gathering(lock, held, asked);
  } else {
    make_wait(held);
  }
}

void Consumer::Loop::let_go(const std::string& queue, const std::string& key) {
  Lock lock(mutex_);
  const auto found = std::ranges::find_if(kept_, [&](const HeldPointer& held) {
    return held->lease.key == key && held->lease.queue == queue;
  });
  if (found == kept_.end()) return;
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): the next line removes it there
  const HeldPointer held = *found;
  take_from_kept(held);
  release(held);
}

void Consumer::Loop::end_watches(Lock& lock) {
  if (old_watches_.empty() && given_up_.empty()) return;
  auto watches = std::exchange(old_watches_, {});
  auto calls = std::exchange(given_up_, {});
  lock.unlock();
  watches.clear();
  calls.clear();
  lock.lock();
}

}  // namespace strand
