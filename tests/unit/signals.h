#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace strand {

// Counts events of other threads, and waits for them without sleeping.
//
// Threads: every method may be called concurrently.
class Signal {
 public:
  void raise() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }

  [[nodiscard]] std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

  // Waits until there were so many. False only after so long that the test has failed, or after
  // `at_most`, for tests that something does not happen.
  [[nodiscard]] bool reaches(std::size_t count,
                             std::chrono::milliseconds at_most = std::chrono::seconds{20}) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, at_most, [&] { return count_ >= count; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::size_t count_ = 0;
};

}  // namespace strand
