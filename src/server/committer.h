#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <strand/store.h>

namespace strand::server {

// Commits the transactions of all clients together.
//
// A thread takes all that has gathered and applies it in one call of the store. Meanwhile the next
// batch gathers, and the next thread decides it while the first one waits for its sync.
//
// Order:   that of each submission is kept. Two submissions may be applied in either order.
// Threads: every method may be called concurrently.
class Committer {
 public:
  using Results = std::vector<Result<Receipt>>;
  // Called once, by a thread of the committer. It must not block.
  using Done = std::function<void(Results)>;

  // `store` outlives it. `waiting_max`: transactions that may wait for their turn.
  Committer(Store& store, std::size_t threads, std::size_t waiting_max);
  // Commits what was taken, then ends.
  ~Committer();
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;

  // False: too much is waiting already; `done` is not called.
  [[nodiscard]] bool submit(std::vector<Transaction> transactions, Done done);

  // How many transactions wait for their turn.
  [[nodiscard]] std::size_t waiting() const;

 private:
  struct Job {
    std::vector<Transaction> transactions;
    Done done;
  };

  void work();
  void commit(std::vector<Job>& jobs);

  Store& store_;
  const std::size_t waiting_max_;
  mutable std::mutex mutex_;  // for everything below
  std::condition_variable work_;
  std::deque<Job> jobs_;
  std::size_t waiting_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace strand::server
