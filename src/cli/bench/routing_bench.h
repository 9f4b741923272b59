#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <strand/error.h>
#include <strand/routing.h>
#include <strand/time.h>

#include "cli/bench/queue_bench.h"
#include "cli/bench/routing_worker.h"

namespace strand::cli {

// How well messages find the worker process that has their instance in memory, by each way to route
// them: `strand bench workflow --scenario routing`.
//
// Each instance gets its next message `spacing` after the turn of the last one, when the worker
// that ran it has given back its lease. So without routing any process takes it.
struct RoutingBenchOptions {
  std::string store;  // one that several processes can open at the same time
  std::vector<Routing> strategies = {Routing::none, Routing::automatic, Routing::affinity,
                                     Routing::cache_aware, Routing::consistent_hash};
  unsigned workers = 4;  // processes
  std::uint64_t instances = 40;
  std::uint64_t history = 60;   // events of an instance; those with up to 32 are not kept in memory
  std::uint64_t messages = 10;  // to each instance, measured
  Duration spacing = std::chrono::milliseconds{400};
  Duration idle_timeout = std::chrono::milliseconds{200};
  Duration turn_lease = std::chrono::seconds{2};
  Duration grace = RoutingOptions{}.grace;
  bool keep = false;
};

struct RoutingReport {
  // After a worker was killed, with a message for every instance.
  struct Killed {
    std::uint64_t replayed = 0;  // instances that had to go on without what was in memory
    double slowest_ms = 0;       // from the kill to the commit of the last turn
  };
  struct Way {
    Routing strategy = Routing::none;
    RoutingCounts counts = {};
    double hit_rate = 0;
    Percentiles latency_ms = {};  // from the call that sends a message to the commit of its turn
    Killed between = {};          // when no lease was held
    Killed holding = {};          // when it held the leases of its last turns
  };
  std::vector<Way> ways;
};

Result<RoutingReport> bench_routing(const RoutingBenchOptions& options, const Progress& progress);

}  // namespace strand::cli
