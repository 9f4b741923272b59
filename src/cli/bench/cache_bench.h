#pragma once

#include <cstdint>
#include <string>

#include <strand/error.h>
#include <strand/time.h>

#include "cli/bench/queue_bench.h"

namespace strand::cli {

// What instances in memory, and checkpoints, save:
// `strand bench workflow --scenario trickle|checkpoint|cached-turn|live`.
struct CacheBenchOptions {
  std::string store;  // as in QueueBenchOptions
  std::uint64_t history = 1000;
  std::uint64_t messages = 10;
  Duration spacing = std::chrono::milliseconds{100};
  std::uint64_t instances = 100'000;
  std::uint64_t cached = 1000;
  Duration duration = std::chrono::seconds{8};
  bool memory_filesystem = false;
  bool keep = false;
};

// --- trickle: an instance with a history, to which messages come one by one ---

struct TrickleReport {
  struct Way {
    std::uint64_t replayed_events = 0;
    std::uint64_t turns = 0;
    std::uint64_t bytes_read = 0;  // of histories and messages
    Percentiles latency_ms;        // from the call that sends a message to the commit of its turn
  };
  Way on;
  Way off;
};
Result<TrickleReport> bench_trickle(const CacheBenchOptions& options, const Progress& progress);

// --- checkpoint: the same with nothing in memory, and a code that offers checkpoints ---

Result<TrickleReport> bench_checkpoint(const CacheBenchOptions& options, const Progress& progress);

// --- cached-turn: turns of instances in memory, with a short and with a long history ---

struct CachedTurnReport {
  struct Way {
    std::uint64_t history = 0;
    double bytes_read = 0;  // by a turn
    Percentiles turn_us;    // of a turn, without its commit
    Percentiles latency_ms;
  };
  Way brief;
  Way lengthy;
};
Result<CachedTurnReport> bench_cached_turn(const CacheBenchOptions& options,
                                           const Progress& progress);

// --- live: many instances, few of them in memory ---

struct LiveReport {
  struct Way {
    double messages_per_s = 0;
    double hit_rate = 0;
    double bytes_max = 0;  // of the cache, by its own count
  };
  double max_memory = 0;
  Way few;   // messages for as many instances as fit
  Way many;  // for all of them
  Way off;   // for all of them, with nothing in memory
  double rss_mb = 0;
};
Result<LiveReport> bench_live(const CacheBenchOptions& options, const Progress& progress);

}  // namespace strand::cli
