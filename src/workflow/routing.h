#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <strand/instance_cache.h>
#include <strand/routing.h>
#include <strand/store.h>

#include "base/alarm.h"

namespace strand::workflow {

// One of the names, the same for everybody who has the same names, and when a name goes or comes
// only its own share moves: rendezvous hashing. None if there are none.
const std::string* choose_worker(const std::vector<std::string>& names, std::string_view id);

// Decides who shall run an instance next. For consistent_hash it keeps a record for its worker, and
// knows those of the others.
//
// Threads: one of its own for consistent_hash; start() and stop() by one thread, the rest by any.
// Failure: a store that does not answer leaves it with the workers that it knew.
class Router {
 public:
  // `store` must outlive it.
  Router(Store& store, const RoutingOptions& options, const InstanceCacheOptions& cache,
         std::string owner, std::shared_ptr<Clock> clock);
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  void start();
  void stop();
  // Says that this worker lives, and looks who else does. Between start() and stop() the thread
  // does that.
  void beat();

  // For an instance whose turn ends, and that stays in this worker's memory or does not.
  [[nodiscard]] std::optional<OwnerHint> hint_for(std::string_view id, bool in_memory) const;
  // Another worker has run an instance that this one had in memory.
  void note_moved() { has_company_ = true; }
  [[nodiscard]] const std::string& owner() const { return owner_; }
  // Those that live, as far as this one knows.
  [[nodiscard]] std::vector<std::string> workers() const;

 private:
  void run(Duration next);  // when it has to say so again

  Store& store_;
  const RoutingOptions options_;
  const InstanceCacheOptions cache_;
  const std::string owner_;
  const std::shared_ptr<Clock> clock_;
  std::atomic<bool> has_company_ = false;
  mutable std::mutex mutex_;
  std::vector<std::string> workers_;
  base::Alarm alarm_;
  std::shared_ptr<void> clock_handle_;
  std::thread thread_;
};

}  // namespace strand::workflow
