#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <strand/store.h>

#include "server/executor.h"

namespace strand::server {

// Clients that wait for a lane, without a thread for any of them.
//
// Those of one queue that ask for the same (labels, key, owner) stand in one line, and the first of
// it is asked for when the queue may have a ready lane: so a send wakes one client, not all.
//
// Threads: every method may be called concurrently. One of its own, for the time limits; the store
//          is called on the executor.
class LeaseWaiters {
 public:
  using Steady = std::chrono::steady_clock;
  using Answer = Result<std::vector<Lease>>;
  // Called once, on the executor or on the thread of the time limits.
  using Done = std::function<void(Answer)>;

  // One client that waits. The last reference may go at any time.
  class Waiter;

  // `store` and `executor` outlive it.
  LeaseWaiters(Store& store, Executor& executor, std::size_t waiters_max);
  // Everybody gets an empty answer.
  ~LeaseWaiters();
  LeaseWaiters(const LeaseWaiters&) = delete;
  LeaseWaiters& operator=(const LeaseWaiters&) = delete;

  // Looks at once, and then whenever there may be something, until `until`: then the answer is
  // empty. A request without an id of its own is good for one lease, of course. None: too many
  // wait already.
  [[nodiscard]] std::shared_ptr<Waiter> wait(LeaseRequest request, Steady::time_point until,
                                             Done done);
  // The client is gone. False: it has been answered, or is about to be. True: `done` is not called.
  bool cancel(const std::shared_ptr<Waiter>& waiter);
  // Everybody gets an empty answer now, and who comes later gets one at the first look.
  void drain();

  [[nodiscard]] std::size_t waiting() const;

 private:
  using Line = std::list<std::shared_ptr<Waiter>>;
  using Shape = std::tuple<std::vector<std::string>, std::optional<std::string>, std::string>;
  struct Queue;

  void look(const std::shared_ptr<Waiter>& waiter);
  void woken(const std::shared_ptr<Queue>& queue);
  void serve(const std::shared_ptr<Queue>& queue);
  void run_limits();
  // What was leased for somebody who is gone.
  void give_back(const Answer& answer);
  // These need the lock.
  void leave(const std::shared_ptr<Waiter>& waiter);
  void park(const std::shared_ptr<Waiter>& waiter);

  Store& store_;
  Executor& executor_;
  const std::size_t waiters_max_;

  mutable std::mutex mutex_;  // for everything below
  std::map<std::string, std::shared_ptr<Queue>> queues_;
  std::multimap<Steady::time_point, std::shared_ptr<Waiter>> limits_;
  std::vector<std::shared_ptr<Queue>> finished_;  // nobody waits there; their watches must go
  std::size_t running_ = 0;                       // tasks on the executor
  bool draining_ = false;
  bool stopping_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace strand::server
