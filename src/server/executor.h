#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace strand::server {

// A few threads for calls of a store, which may wait for a disk or a database.
//
// Threads: every method may be called concurrently, and by what is run.
class Executor {
 public:
  // At most `backlog_max` tasks wait for a thread.
  Executor(std::size_t threads, std::size_t backlog_max);
  // Runs what was taken, then ends.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // False: too much is waiting already, and the task will not run.
  [[nodiscard]] bool run(std::function<void()> task);
  // Runs it however much is waiting: for the rest of something that was taken before.
  void run_always(std::function<void()> task);

  [[nodiscard]] std::size_t backlog() const;

 private:
  void work();

  const std::size_t backlog_max_;
  mutable std::mutex mutex_;  // for everything below
  std::condition_variable work_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace strand::server
