#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <strand/error.h>
#include <strand/time.h>

#include "cli/bench/queue_bench.h"

namespace strand::cli {

// `strand bench relay`: the outbox relay on a real database and a real broker.
struct RelayBenchOptions {
  std::string database;  // a URL of PostgreSQL
  std::string kafka;     // bootstrap.servers
  std::uint64_t rows = 10'000;
  std::uint64_t naive_rows = 1000;  // that the plain loop sends of them: its rate does not change
  unsigned workers = 4;
  unsigned processes = 1;
  std::uint64_t rate = 500;                     // rows a second, steady
  Duration duration = std::chrono::seconds{8};  // of the steady load
  std::uint64_t sent = 200'000;                 // rows that were sent before, in the table
  std::string only;                             // drain, steady or claim; empty: all
};

struct RelayBenchReport {
  // Waiting rows, 1 to 10 of an entity, until none waits: from the start of the processes.
  struct Drain {
    std::string name;  // a strategy, or "naive"
    std::uint64_t rows = 0;
    double rows_per_s = 0;
  };
  std::vector<Drain> drains;
  // From the moment that a transaction was handed to the database, its commit included, until the
  // relay knew from Kafka that its row was there.
  struct Steady {
    std::string name;
    std::uint64_t rows = 0;
    double rows_per_s = 0;
    Percentiles latency_ms;
  };
  std::vector<Steady> steady;
  // What a claim of 50 entities takes in a table without sent rows, and in one with many.
  struct Claim {
    std::string name;
    double empty_us = 0;
    double sent_us = 0;
  };
  std::vector<Claim> claims;
  double commit_ms = 0;  // of one small row
};

Result<RelayBenchReport> bench_relay(const RelayBenchOptions& options, const Progress& progress);

}  // namespace strand::cli
