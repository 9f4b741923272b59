#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <strand/ids.h>
#include <strand/instance_cache.h>
#include <strand/lease.h>
#include <strand/time.h>

#include "workflow/instance.h"

namespace strand::workflow {

// An instance in memory, and the lease under which its last turn was committed.
struct Resident {
  std::unique_ptr<Instance> instance = {};
  Token token = {};
};

// Whether it stands for what the lease has: nothing was appended since, by anybody.
bool is_current(const Resident& resident, const Lease& lease, bool first_of_lease);

// If not: whether that is because another worker has gone on with it, and no client has ended it.
bool ran_elsewhere(const Resident& resident, const Lease& lease);

// Instances between two turns, by id. One that is in a turn is not here.
//
// Threads: every method may be called concurrently.
class InstanceCache {
 public:
  enum class Eviction : std::uint8_t { idle, lru, size, error, lease };
  static constexpr std::array<std::string_view, 5> eviction_names = {"idle", "lru", "size", "error",
                                                                     "lease"};

  InstanceCache(const InstanceCacheOptions& options, std::shared_ptr<Clock> clock)
      : options_(options), clock_(std::move(clock)) {}

  // Takes it out. It comes back when its turn is committed.
  std::unique_ptr<Resident> take(const std::string& id);
  // Whether it may be put here, by the length of its history.
  bool accepts(const Instance& instance);
  // Those that had to go for it, or itself if it is too large: nobody needs their lanes any more.
  std::vector<std::string> put(const std::string& id, std::unique_ptr<Resident> resident);
  // Whether one is here that would serve a lease.
  bool has(const Lease& lease);
  // Something that was taken does not come back.
  void count(Eviction why) { ++evictions_[static_cast<std::size_t>(why)]; }
  void clear();

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] std::uint64_t evictions(Eviction why) const {
    return evictions_[static_cast<std::size_t>(why)];
  }

 private:
  struct Place {
    std::string id;
    std::unique_ptr<Resident> resident;
    std::size_t bytes = 0;
    Duration used{0};
  };
  using Places = std::list<Place>;  // the one that was used last in front
  void move_out(Places::iterator place, Places& gone);
  void evict(Places& gone);

  const InstanceCacheOptions options_;
  const std::shared_ptr<Clock> clock_;
  mutable std::mutex mutex_;
  Places places_;
  std::unordered_map<std::string, Places::iterator> by_id_;
  std::size_t bytes_ = 0;
  std::array<std::atomic<std::uint64_t>, eviction_names.size()> evictions_ = {};
};

}  // namespace strand::workflow
