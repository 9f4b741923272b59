#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <strand/activity.h>
#include <strand/consumer.h>
#include <strand/store.h>

#include "base/alarm.h"
#include "workflow/counts.h"

namespace strand::workflow {

// What became of one attempt of an activity, and what its message is told.
struct AttemptFailure {
  WorkflowError::Kind kind = WorkflowError::Kind::failed;
  std::string type = {};
  std::string text = {};
  Bytes details = {};
  bool final = false;
};

// The answer to a call, for the transaction that acks its message.
void add_result(const Message& message, Bytes result, Transaction& transaction);
void add_error(const Message& message, const AttemptFailure& failure, Transaction& transaction);
// How long to wait before the next attempt; none: that was the last one.
std::optional<Duration> next_attempt_in(const Message& message, const AttemptFailure& failure);

// Does activities: the handler of a consumer, and a thread that ends the time of those that take
// too long or have fallen silent.
//
// Threads: every method may be called concurrently.
class ActivityRunner {
 public:
  using Activities = std::map<std::string, std::shared_ptr<const ActivityDefinition>, std::less<>>;

  ActivityRunner(Store& store, Activities activities, std::shared_ptr<Clock> clock, Counts& counts);
  ~ActivityRunner();
  ActivityRunner(const ActivityRunner&) = delete;
  ActivityRunner& operator=(const ActivityRunner&) = delete;

  Verdict handle(Work& work);

 private:
  class Attempt;

  void watch_times();
  void watch(const std::shared_ptr<Attempt>& attempt);
  void forget(const std::shared_ptr<Attempt>& attempt);
  void end_time(Attempt& attempt);
  [[nodiscard]] Duration now() const { return clock_->monotonic(); }

  Store& store_;
  const Activities activities_;
  const std::shared_ptr<Clock> clock_;
  Counts& counts_;

  std::mutex mutex_;                               // for what follows
  std::vector<std::shared_ptr<Attempt>> running_;  // those that have a time
  base::Alarm alarm_;
  std::shared_ptr<void> clock_handle_;
  std::thread watcher_;
};

}  // namespace strand::workflow
