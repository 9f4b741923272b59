#include "server/lease_waiters.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "base/planted.h"

namespace strand::server {

// Where it is: in a line (waits), or out of it (somebody asks the store for it), or done.
class LeaseWaiters::Waiter {
 public:
  LeaseRequest request;
  Steady::time_point until;
  Done done;

  // Who waits may hold this, and what is called may hold who waits: so it is let go.
  void answer(Answer leases) {
    if (const Done call = std::exchange(done, nullptr)) call(std::move(leases));
  }

  // Guarded by the lock.
  bool over = false;
  bool expired = false;  // its time was up while somebody asked for it
  std::shared_ptr<Queue> queue;
  bool in_line = false;
  Line::iterator place;
  bool limited = false;
  std::multimap<Steady::time_point, std::shared_ptr<Waiter>>::iterator limit;
};

struct LeaseWaiters::Queue {
  std::string name;
  std::map<Shape, Line> lines;
  std::size_t waiters = 0;
  std::uint64_t wakes = 0;  // how often there may have been something
  bool serving = false;
  Watch watch;
};

LeaseWaiters::LeaseWaiters(Store& store, Executor& executor, std::size_t waiters_max)
    : store_(store), executor_(executor), waiters_max_(waiters_max) {
  thread_ = std::thread([this] { run_limits(); });
}

LeaseWaiters::~LeaseWaiters() {
  drain();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == 0; });
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::size_t LeaseWaiters::waiting() const {
  const std::lock_guard lock(mutex_);
  return limits_.size();
}

std::shared_ptr<LeaseWaiters::Waiter> LeaseWaiters::wait(LeaseRequest request,
                                                         Steady::time_point until, Done done) {
  auto waiter = std::make_shared<Waiter>();
  waiter->request = std::move(request);
  waiter->until = until;
  waiter->done = std::move(done);
  std::shared_ptr<Queue> fresh;
  {
    const std::lock_guard lock(mutex_);
    if (limits_.size() >= waiters_max_) return nullptr;
    auto& queue = queues_[waiter->request.queue];
    if (!queue) {
      queue = fresh = std::make_shared<Queue>();
      queue->name = waiter->request.queue;
    }
    waiter->queue = queue;
    ++queue->waiters;
    waiter->limit = limits_.emplace(until, waiter);
    waiter->limited = true;
    if (waiter->limit == limits_.begin()) changed_.notify_all();
    ++running_;
  }
  if (fresh) {
    // Not under the lock: a store may call back before it returns.
    Watch watch = store_.watch(WatchQueue{fresh->name}, [this, weak = std::weak_ptr(fresh)] {
      if (const auto queue = weak.lock()) woken(queue);
    });
    {
      const std::lock_guard lock(mutex_);
      fresh->watch = std::move(watch);
    }
    // Others may have looked and stood in line before the watch was in place.
    woken(fresh);
  }
  executor_.run_always([this, waiter] { look(waiter); });
  return waiter;
}

// Asks for one client that is in no line.
void LeaseWaiters::look(const std::shared_ptr<Waiter>& waiter) {
  while (true) {
    std::uint64_t wakes = 0;
    {
      const std::lock_guard lock(mutex_);
      if (waiter->over) break;
      wakes = waiter->queue->wakes;
    }
    Answer answer = store_.lease(waiter->request);
    std::unique_lock lock(mutex_);
    // A queue that does not exist yet may come to be.
    const bool nothing =
        answer ? answer->empty() : answer.error().code == Errc::not_found && !waiter->request.seize;
    if (waiter->over) {
      lock.unlock();
      give_back(answer);
      break;
    }
    if (nothing && !draining_ && !waiter->expired) {
      if (waiter->queue->wakes != wakes && !STRAND_PLANTED("wake-while-looking-is-lost")) continue;
      park(waiter);
      break;
    }
    leave(waiter);
    lock.unlock();
    if (nothing) answer = std::vector<Lease>{};
    waiter->answer(std::move(answer));
    break;
  }
  const std::lock_guard lock(mutex_);
  --running_;
  changed_.notify_all();
}

void LeaseWaiters::park(const std::shared_ptr<Waiter>& waiter) {
  Line& line =
      waiter->queue
          ->lines[Shape(waiter->request.labels, waiter->request.key, waiter->request.owner)];
  line.push_back(waiter);
  waiter->place = std::prev(line.end());
  waiter->in_line = true;
}

// Over for this one, whatever its answer is.
void LeaseWaiters::leave(const std::shared_ptr<Waiter>& waiter) {
  waiter->over = true;
  if (waiter->in_line) {
    const Shape shape(waiter->request.labels, waiter->request.key, waiter->request.owner);
    const auto line = waiter->queue->lines.find(shape);
    line->second.erase(waiter->place);
    if (line->second.empty()) waiter->queue->lines.erase(line);
    waiter->in_line = false;
  }
  if (waiter->limited) limits_.erase(waiter->limit);
  waiter->limited = false;
  Queue& queue = *waiter->queue;
  if (--queue.waiters == 0) {
    // Its watch is destroyed by the thread of the limits: here it could wait for a call that waits
    // for the lock.
    queues_.erase(queue.name);
    finished_.push_back(waiter->queue);
    changed_.notify_all();
  }
}

bool LeaseWaiters::cancel(const std::shared_ptr<Waiter>& waiter) {
  const std::lock_guard lock(mutex_);
  if (waiter->over) return false;
  leave(waiter);
  if (!STRAND_PLANTED("cancelled-waits-are-kept")) waiter->done = nullptr;
  return true;
}

void LeaseWaiters::woken(const std::shared_ptr<Queue>& queue) {
  const std::lock_guard lock(mutex_);
  ++queue->wakes;
  if (queue->serving || queue->lines.empty() || stopping_) return;
  queue->serving = true;
  ++running_;
  executor_.run_always([this, queue] { serve(queue); });
}

// Asks for the first of each line, and for the next while there is something.
void LeaseWaiters::serve(const std::shared_ptr<Queue>& queue) {
  std::unique_lock lock(mutex_);
  std::uint64_t wakes = 0;
  do {
    wakes = queue->wakes;
    std::vector<Shape> shapes;
    for (const auto& [shape, line] : queue->lines)
      shapes.push_back(shape);
    for (const Shape& shape : shapes) {
      while (true) {
        const auto line = queue->lines.find(shape);
        if (line == queue->lines.end()) break;
        const std::shared_ptr<Waiter> first = line->second.front();
        lock.unlock();
        Answer answer = store_.lease(first->request);
        lock.lock();
        const bool nothing = answer ? answer->empty() : answer.error().code == Errc::not_found;
        if (nothing) break;
        const bool gone = first->over;
        if (!gone) leave(first);
        lock.unlock();
        if (gone) {
          give_back(answer);
        } else {
          first->answer(std::move(answer));
        }
        lock.lock();
      }
    }
  } while (queue->wakes != wakes && !stopping_);
  queue->serving = false;
  --running_;
  changed_.notify_all();
}

void LeaseWaiters::give_back(const Answer& answer) {
  if (!answer || answer->empty() || STRAND_PLANTED("keeps-lanes-of-clients-that-are-gone")) return;
  Transaction transaction;
  for (const Lease& lease : *answer)
    transaction.settles.push_back({.token = lease.token});
  // Otherwise their leases run out.
  std::ignore = store_.apply(transaction);
}

void LeaseWaiters::drain() {
  std::vector<std::shared_ptr<Waiter>> all;
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    for (const auto& [until, waiter] : limits_) {
      if (waiter->in_line) all.push_back(waiter);
    }
    for (const auto& waiter : all)
      leave(waiter);
  }
  for (const auto& waiter : all)
    waiter->answer(std::vector<Lease>{});
}

void LeaseWaiters::run_limits() {
  std::unique_lock lock(mutex_);
  while (!stopping_ || !finished_.empty()) {
    if (!finished_.empty()) {
      const auto queues = std::exchange(finished_, {});
      lock.unlock();
      for (const auto& queue : queues)
        queue->watch.reset();
      lock.lock();
      continue;
    }
    if (limits_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto first = limits_.begin();
    if (Steady::now() < first->first) {
      changed_.wait_until(lock, first->first);
      continue;
    }
    const std::shared_ptr<Waiter> waiter = first->second;
    if (!waiter->in_line) {
      // It is being asked for; look() or serve() says what comes of it, and nobody waits longer.
      limits_.erase(first);
      waiter->limited = false;
      waiter->expired = true;
      continue;
    }
    leave(waiter);
    lock.unlock();
    waiter->answer(std::vector<Lease>{});
    lock.lock();
  }
}

}  // namespace strand::server
