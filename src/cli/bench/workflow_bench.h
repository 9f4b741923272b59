#pragma once

#include <cstdint>
#include <string>

#include <strand/error.h>
#include <strand/routing.h>
#include <strand/time.h>

#include "cli/bench/queue_bench.h"

namespace strand::cli {

// `strand bench workflow`: how many instances a store and a worker complete.
struct WorkflowBenchOptions {
  std::string store;  // as in QueueBenchOptions
  std::string scenario = "sequence5";
  unsigned inflight = 500;  // instances that run at the same time
  Duration duration = std::chrono::seconds{8};
  Duration delay{0};  // what an activity takes
  unsigned turn_workers = 2;
  unsigned activity_workers = 2;
  bool cache = true;  // instances stay in memory between turns
  Routing routing = RoutingOptions{}.strategy;
  bool memory_filesystem = false;
  bool keep = false;
};

struct WorkflowBenchReport {
  std::uint64_t completed = 0;
  double completed_per_s = 0;
  double events_per_s = 0;
  Percentiles latency_ms;    // from the call that starts an instance to its end
  Percentiles fdatasync_ms;  // of a bare file, just before
  std::uint64_t syncs = 0;
  double rss_mb = 0;
  std::string filesystem;
};

// Known scenarios: sequence5 (five activities one after another), fanout5 (five at a time), one.
Result<WorkflowBenchReport> bench_workflow(const WorkflowBenchOptions& options,
                                           const Progress& progress);

}  // namespace strand::cli
