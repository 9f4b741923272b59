#include "server/executor.h"

#include <utility>

namespace strand::server {

Executor::Executor(std::size_t threads, std::size_t backlog_max) : backlog_max_(backlog_max) {
  for (std::size_t i = 0; i < threads; ++i)
    threads_.emplace_back([this] { work(); });
}

Executor::~Executor() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_)
    thread.join();
}

bool Executor::run(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (tasks_.size() >= backlog_max_) return false;
    tasks_.push_back(std::move(task));
  }
  work_.notify_one();
  return true;
}

void Executor::run_always(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  work_.notify_one();
}

std::size_t Executor::backlog() const {
  const std::lock_guard lock(mutex_);
  return tasks_.size();
}

void Executor::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace strand::server
