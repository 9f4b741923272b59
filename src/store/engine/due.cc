#include <algorithm>
#include <limits>

#include "base/planted.h"
#include "store/engine/state.h"

// What time brings. Things happen in the order of their times, each at its own time, so that the
// outcome does not depend on how often the store is called.

namespace strand::engine {

namespace {

template <class Timers>
std::optional<Time> first_of(const Timers& timers) {
  if (timers.empty()) return std::nullopt;
  if constexpr (requires { timers.begin()->first.first; }) {
    return timers.begin()->first.first;
  } else {
    return timers.begin()->first;
  }
}

}  // namespace

std::optional<Time> Engine::State::next_due() const {
  std::optional<Time> next;
  const auto consider = [&](const std::optional<Time>& time) {
    if (time && (!next || *time < *next)) next = time;
  };
  consider(first_of(wakes_));
  if (!hint_ends_.empty()) consider(std::get<0>(hint_ends_.begin()->first));
  consider(first_of(lease_ends_));
  consider(first_of(ttl_ends_));
  consider(first_of(dedup_ends_));
  consider(first_of(receipt_ends_));
  consider(first_of(client_ends_));
  consider(first_of(request_ends_));
  consider(first_of(retention_ends_));
  return next;
}

void Engine::State::advance(Time now) { advance(now, std::numeric_limits<std::size_t>::max()); }

// What happens at one instant happens together, so that portions of any size have one outcome.
bool Engine::State::advance(Time now, std::size_t items_max) {
  STRAND_ASSERT(now >= now_, "store time never goes back");
  wanted_ = std::max(wanted_, now);
  const std::size_t before = applied_;
  while (true) {
    const auto next = next_due();
    if (!next || *next > now) break;
    if (applied_ - before >= items_max) {
      if (STRAND_PLANTED("portion-passes-what-is-due")) now_ = now;
      return false;
    }
    now_ = STRAND_PLANTED("late-timer-uses-now") ? now : std::max(now_, *next);
    apply_due();
  }
  now_ = now;
  return true;
}

void Engine::State::apply_due() {
  wake_due();
  end_due_hints();
  while (!lease_ends_.empty() && lease_ends_.begin()->first.first <= now_) {
    LeaseNode& lease = *lease_ends_.begin()->second;
    applied_ += 1 + lease.carried;
    expire_lease(lease);
  }
  while (!ttl_ends_.empty() && ttl_ends_.begin()->first.first <= now_) {
    ++applied_;
    end_expired(*ttl_ends_.begin()->second);
  }
  forget_due_ids();
  while (!retention_ends_.empty() && retention_ends_.begin()->first <= now_) {
    const auto topic = topics_.find(retention_ends_.begin()->second);
    trim_retained(topic->first, topic->second);
  }
}

void Engine::State::wake_due() {
  while (!wakes_.empty() && wakes_.begin()->first.first <= now_) {
    const Waker waker = wakes_.begin()->second;
    if (waker.lane != nullptr) {
      wake_lane(*waker.lane);
    } else {
      wake_unkeyed(*waker.queue);
    }
  }
}

void Engine::State::wake_lane(Lane& lane) {
  LaneEdit edit(*this, lane);
  while (!lane.waiting.empty() && lane.waiting.begin()->wakes_at() <= now_) {
    MessageNode& message = *lane.waiting.begin();
    ++applied_;
    unlink(message);
    clear_backoff(message);
    link(message);
  }
}

void Engine::State::wake_unkeyed(Queue& queue) {
  MessageNode& message = *queue.unkeyed_waiting.begin();
  ++applied_;
  unlink(message);
  clear_backoff(message);
  link(message);
}

void Engine::State::end_due_hints() {
  while (!hint_ends_.empty() && std::get<0>(hint_ends_.begin()->first) <= now_) {
    Lane& lane = *hint_ends_.begin()->second;
    ++applied_;
    LaneEdit edit(*this, lane);
    if (lane.hint->until <= now_) {
      lane.hint.reset();
      lane.changed = true;
    }
  }
}

}  // namespace strand::engine
