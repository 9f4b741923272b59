#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

#include <strand/time.h>

namespace strand::base {

// What a timer thread sleeps by. A ring is never lost: one that comes before the sleep ends it.
//
// Threads: every method may be called concurrently; one thread sleeps.
class Alarm {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    changed_.notify_one();
  }

  // Ends this sleep and all later ones.
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_one();
  }

  // Sleeps until rung, or so long at most. False: stopped.
  [[nodiscard]] bool sleep(std::optional<Duration> at_most) {
    std::unique_lock lock(mutex_);
    const auto over = [&] { return rung_ || stopped_; };
    if (at_most) {
      changed_.wait_for(lock, *at_most, over);
    } else {
      changed_.wait(lock, over);
    }
    rung_ = false;
    return !stopped_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
  bool stopped_ = false;
};

}  // namespace strand::base
