#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <strand/metrics.h>

#include "workflow/instance_cache.h"

namespace strand::workflow {

// Counts values by size. Bounds grow by a factor of four: wide enough for microseconds and days.
//
// Threads: every method may be called concurrently.
class Histogram {
 public:
  static constexpr std::size_t bounds_count = 14;
  explicit constexpr Histogram(double first) : first_(first) {}

  void add(double value) {
    double bound = first_;
    std::size_t place = 0;
    while (place < bounds_count && value > bound) {
      bound *= 4;
      ++place;
    }
    counts_[place].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }
  [[nodiscard]] Distribution read() const {
    Distribution result;
    double bound = first_;
    for (std::size_t i = 0; i <= bounds_count; ++i, bound *= 4) {
      if (i < bounds_count) result.bounds.push_back(bound);
      result.counts.push_back(counts_[i].load(std::memory_order_relaxed));
      result.count += result.counts.back();
    }
    result.sum = sum_.load(std::memory_order_relaxed);
    return result;
  }

 private:
  double first_;
  std::array<std::atomic<std::uint64_t>, bounds_count + 1> counts_ = {};
  std::atomic<double> sum_ = 0;
};

// What a worker has done.
//
// Threads: every member may be used concurrently.
struct Counts {
  using Count = std::atomic<std::uint64_t>;
  Count started = 0;
  Count completed = 0;
  Count failed = 0;
  Count cancelled = 0;
  Count terminated = 0;
  Count timed_out = 0;
  Count continued = 0;
  Count turns = 0;
  Count parked = 0;
  Count nondeterminism = 0;
  Count replayed_events = 0;
  Count new_events = 0;
  Count checkpoints = 0;
  Count unreadable_checkpoints = 0;
  Count activities_completed = 0;
  Count activities_failed = 0;
  Count activities_retried = 0;
  Count activities_timed_out = 0;
  Count cache_hits = 0;
  Count cache_misses = 0;
  Count events_saved = 0;
  Count lanes_moved = 0;
  Count served_by_owner = 0;
  Count served_by_other = 0;
  Count coalesced_batches = 0;
  Histogram coalesced_messages{1};
  Histogram coalesced_seconds{1e-3};
  Histogram turn_seconds{20e-6};
  Histogram activity_seconds{20e-6};
  Histogram history_events{4};
};

// As they are shown.
std::vector<Metric> to_metrics(const Counts& counts, const InstanceCache& cache);

}  // namespace strand::workflow
