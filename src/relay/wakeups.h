#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include <strand/time.h>

namespace strand::relay {

// What idle workers wait by. A wake-up that comes while nobody waits is kept for the next one.
//
// Threads: every method may be called concurrently.
class Wakeups {
 public:
  // One worker looks for rows.
  void one() {
    const std::lock_guard lock(mutex_);
    one_ = true;
    changed_.notify_all();  // one in pause() would swallow it; the first in wait() takes it
  }
  // Every worker does.
  void all() {
    const std::lock_guard lock(mutex_);
    ++all_;
    changed_.notify_all();
  }
  // Ends all waiting, now and later.
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] bool stopped() const {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }

  // Until woken, or so long at most. `seen` is the worker's own, and starts at 0.
  void wait(Duration at_most, std::uint64_t& seen) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, at_most, [&] { return one_ || stopped_ || all_ != seen; });
    one_ = false;
    seen = all_;
  }
  // The same, but for a pause that no row ends.
  void pause(Duration at_most) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, at_most, [&] { return stopped_; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool one_ = false;
  std::uint64_t all_ = 0;
  bool stopped_ = false;
};

}  // namespace strand::relay
