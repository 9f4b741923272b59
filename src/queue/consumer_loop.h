#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <strand/consumer.h>

#include "base/alarm.h"
#include "queue/held_lane.h"

namespace strand {

// The threads of a consumer, and the lanes that they pass on to each other:
//
//   leaser ──▶ (gathering) ──▶ waiting ──▶ worker ──▶ finished ──▶ committer ──▶ done, or waiting,
//                                 ▲                                              or kept, until
//                                 └── pulled, by a worker, when messages come ◀── it is let go
//                                                                                 (renewer: all)
//
// Threads: start() and stop() by one thread, the rest by any. One mutex guards all; it is never
//          held during a call of the store, of a handler, or of on_trouble.
class Consumer::Loop {
 public:
  Loop(Store& store, ConsumerOptions options, Handler handler);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void start();
  void wait_idle();
  bool stop(std::optional<Duration> patience);
  void let_go(const std::string& queue, const std::string& key);
  [[nodiscard]] ConsumerStats stats() const;

 private:
  using Held = queue::HeldLane;
  using HeldPointer = queue::HeldPointer;
  using Stage = Held::Stage;
  using Lock = std::unique_lock<std::mutex>;
  using Kind = ConsumerTrouble::Kind;

  struct Queue {
    std::string name;
    bool may_have = true;  // something that can be leased
    Watch watch = {};
  };

  // Something to be told, or to be done to a handler, once the lock is let go.
  struct Afterwards {
    std::vector<ConsumerTrouble> troubles;
    std::vector<std::stop_source> stops;
    std::vector<Watch> watches;  // whose callbacks take the lock
  };

  class RunningWork;

  // --- consumer_loop.cc: workers ---
  void run_worker();
  void run_handler(Lock& lock, const HeldPointer& held, std::stop_source& stop);
  // Lanes that somebody works on, or waits for.
  [[nodiscard]] std::size_t busy() const { return held_.size() - kept_.size(); }
  [[nodiscard]] bool handlers_are_quick() const;
  void help(Lock& lock);
  [[nodiscard]] bool may_lease() const;
  void lease_as_worker(Lock& lock);
  void release(const HeldPointer& held);
  Verdict call_handler(Work& work);
  void handled(const HeldPointer& held, std::span<const Message> messages,
               const queue::Fates& fates, Verdict verdict, std::unique_ptr<Transaction> rest);
  void hold(const HeldPointer& held);
  void make_wait(const HeldPointer& held);
  void finish(const HeldPointer& held);
  void drop(const HeldPointer& held);
  void leave_lane(const HeldPointer& held);
  void release_unbegun(Afterwards& afterwards);
  void count_settled(const Settle& settle);
  void tell(Afterwards&& given);
  [[nodiscard]] static ConsumerTrouble trouble(Kind kind, const Held& held, std::string reason);
  void note_handler_time(std::chrono::steady_clock::duration time);

  // --- lease_lanes.cc ---
  void run_leaser();
  [[nodiscard]] bool wants_lanes() const;
  [[nodiscard]] bool wants_leaser() const;
  [[nodiscard]] std::size_t room() const;
  [[nodiscard]] std::size_t lanes_wanted() const;
  void lease_from_all(Lock& lock);
  void lease_from(Lock& lock, Queue& queue);
  void admit(Lock& lock, std::vector<Lease> leases, Time store_time, Duration asked);
  [[nodiscard]] bool worth_gathering(const Lease& lease) const;
  void begin_gathering(Lock& lock, const HeldPointer& held, Duration since);
  [[nodiscard]] HeldPointer next_to_gather() const;
  void gather_more(Lock& lock, const HeldPointer& held);
  // Before something that failed is tried again; until `over` at most.
  static void pause(Lock& lock, std::condition_variable& changed, std::uint32_t failures,
                    const bool& over);

  // --- keep_lanes.cc ---
  void watch_lane(const HeldPointer& held);
  [[nodiscard]] bool may_keep(const Held& held) const;
  void keep(const HeldPointer& held);
  void put_among_kept(const HeldPointer& held);
  // Grows with everything after which a lane that is kept may have messages.
  [[nodiscard]] std::uint64_t seen() const { return stats_.batches + idle_asked_; }
  [[nodiscard]] bool kept_have_nothing();
  void poke(const HeldPointer& held);
  void take_from_kept(const HeldPointer& held);
  void pull_kept(Lock& lock);
  void end_watches(Lock& lock);

  // --- commit_work.cc ---
  void run_committer();
  [[nodiscard]] bool worth_waiting_for_more() const;
  // Whether the store took it.
  bool commit_some(Lock& lock);
  std::vector<Result<Receipt>> commit(std::span<const HeldPointer> batch);
  void committed(const HeldPointer& held, const Result<Receipt>& result);
  static void call_back(Held& held);
  void refused(const HeldPointer& held, const Error& error);

  // --- renew_leases.cc ---
  void run_renewer();
  // When it has something to do again.
  std::optional<Duration> serve_times(Lock& lock);
  void renew(Lock& lock, const std::vector<HeldPointer>& due, Duration length);
  void lost(const HeldPointer& held, Afterwards& afterwards);
  static void tell_to_stop(Held& held, Afterwards& afterwards);
  void release_surplus(std::vector<HeldPointer>& due);
  void wake_renewer_by(Duration at);
  [[nodiscard]] Duration now() const { return options_.clock->monotonic(); }

  Store& store_;
  const ConsumerOptions options_;
  const Handler handler_;
  const queue::BatchLimits batch_limits_;

  mutable std::mutex mutex_;  // for everything below, but for what says otherwise
  std::condition_variable lease_;
  std::condition_variable work_;
  std::condition_variable commit_;
  std::condition_variable changed_;  // for wait_idle() and stop()

  std::vector<Queue> queues_;
  std::size_t next_queue_ = 0;

  std::vector<HeldPointer> held_;  // all of them
  std::deque<HeldPointer> waiting_;
  std::deque<HeldPointer> finished_;
  std::vector<HeldPointer> in_handlers_;  // at most one for each worker
  std::vector<HeldPointer> deferred_;     // seldom any
  std::list<HeldPointer> kept_;           // the one that was idle for longest in front
  std::deque<HeldPointer> poked_;         // of those that are kept: to be pulled
  std::uint64_t kept_uses_ = 0;
  // What is destroyed when the lock is let go: it may wait for those who want it, or call back.
  std::vector<Watch> old_watches_;
  std::vector<std::move_only_function<void()>> given_up_;
  std::size_t gathering_ = 0;
  std::size_t idle_workers_ = 0;
  bool leasing_ = false;              // somebody is about it
  bool commits_itself_ = false;       // the worker that has the lock now
  std::uint32_t lease_failures_ = 0;  // of the store, one after the other
  double handler_seconds_ = 0.01;     // a moving mean; at first no lane is taken that has to wait

  std::uint64_t idle_asked_ = 0;      // how often somebody asked whether it is idle
  std::uint64_t idle_confirmed_ = 0;  // up to which the answer was yes
  bool stopping_ = false;
  bool hurrying_ = false;  // handlers were told to stop
  bool closing_ = false;   // no handler runs any more
  ConsumerStats stats_;

  Duration renewer_wakes_at_ = Duration::max();
  base::Alarm alarm_;                   // has its own lock
  std::shared_ptr<void> clock_handle_;  // set at start
  std::mutex trouble_mutex_;            // one call of on_trouble at a time

  std::mutex stop_mutex_;  // one stop at a time; for the threads
  std::vector<std::thread> workers_;
  std::thread leaser_;
  std::thread committer_;
  std::thread renewer_;
};

}  // namespace strand
