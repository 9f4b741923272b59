#pragma once

#include <atomic>
#include <memory>
#include <string>

#include <strand/error.h>

#include "cli/bench/measure.h"
#include "cli/bench/queue_bench.h"

namespace strand::cli {

// The queue that people write on PostgreSQL themselves: one table, claimed by UPDATE … WHERE id IN
// (SELECT … FOR UPDATE SKIP LOCKED LIMIT n) RETURNING, acked by DELETE. No keys, no leases that run
// out, no retries, no counters: what is left when everything else is left out.
//
// Threads: one at a time.
class PostgresBaseline {
 public:
  // In a schema of its own, which goes with it.
  static Result<std::unique_ptr<PostgresBaseline>> open(const std::string& conninfo);
  ~PostgresBaseline();
  PostgresBaseline(const PostgresBaseline&) = delete;
  PostgresBaseline& operator=(const PostgresBaseline&) = delete;

  // Producers and consumers at once, as in the whole cycle of a store; counts what was acked.
  Result<Counted> cycle(const QueueBenchOptions& options, Duration duration);
  // Milliseconds of a commit of one small row; the median of some.
  Result<double> commit_ms();

 private:
  explicit PostgresBaseline(std::string conninfo);

  const std::string conninfo_;
  const std::string schema_;
};

}  // namespace strand::cli
