#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <strand/time.h>

#include "base/assert.h"

namespace strand {

namespace {

class SystemClock final : public Clock {
 public:
  [[nodiscard]] Time wall() const override {
    return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  }
  [[nodiscard]] Duration monotonic() const override {
    return std::chrono::duration_cast<Duration>(
        std::chrono::steady_clock::now().time_since_epoch());
  }
};

// One callback of a manual clock. The mutex is held while it runs, so that whoever drops the handle
// waits for a running call; it is recursive, so that the callback may drop its own handle, or
// advance the clock further.
struct Listener {
  std::recursive_mutex mutex;
  std::function<void()> advanced;
  bool dropped = false;
};

}  // namespace

std::shared_ptr<Clock> system_clock() {
  static const auto clock = std::make_shared<SystemClock>();
  return clock;
}

// Shared with the handles, which may outlive the clock.
struct ManualClock::State {
  std::mutex mutex;
  Time wall;
  Duration monotonic{0};
  std::vector<std::shared_ptr<Listener>> listeners;
};

ManualClock::ManualClock(Time start) : state_(std::make_shared<State>()) { state_->wall = start; }

ManualClock::~ManualClock() = default;

Time ManualClock::wall() const {
  const std::lock_guard lock(state_->mutex);
  return state_->wall;
}

Duration ManualClock::monotonic() const {
  const std::lock_guard lock(state_->mutex);
  return state_->monotonic;
}

std::shared_ptr<void> ManualClock::on_advance(std::function<void()> advanced) {
  auto listener = std::make_shared<Listener>();
  listener->advanced = std::move(advanced);
  {
    const std::lock_guard lock(state_->mutex);
    state_->listeners.push_back(listener);
  }
  // The pointer is not null only because a handle must count as one; what matters is the deleter.
  return {listener.get(), [state = state_, listener](void*) {
            {
              const std::lock_guard lock(state->mutex);
              std::erase(state->listeners, listener);
            }
            const std::lock_guard running(listener->mutex);
            listener->dropped = true;
          }};
}

void ManualClock::advance(Duration step) {
  STRAND_ASSERT(step >= Duration{0}, "a clock is advanced, never set back; see set_wall");
  std::vector<std::shared_ptr<Listener>> listeners;
  {
    const std::lock_guard lock(state_->mutex);
    state_->wall += step;
    state_->monotonic += step;
    listeners = state_->listeners;
  }
  // Outside the lock, because callbacks read the clock.
  for (const auto& listener : listeners) {
    const std::lock_guard lock(listener->mutex);
    if (!listener->dropped) listener->advanced();
  }
}

void ManualClock::set_wall(Time wall) {
  const std::lock_guard lock(state_->mutex);
  state_->wall = wall;
}

}  // namespace strand
