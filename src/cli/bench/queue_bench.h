#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <strand/error.h>
#include <strand/time.h>
#include <strand/transaction.h>

namespace strand::cli {

// `strand bench queue`: how fast a store is, beside how fast its disk is.
struct QueueBenchOptions {
  // A path that does not exist yet; empty: a store of RocksDB in a folder of its own, here.
  std::string store;
  std::size_t size_bytes = 100;
  std::size_t batch = 100;
  std::uint64_t keys = 10'000;  // 0: unkeyed
  std::uint64_t per_key = 1;    // messages of one key that are sent together
  unsigned producers = 1;
  unsigned consumers = 1;
  Duration duration = std::chrono::seconds{6};  // of each measurement
  Durability durability = Durability::sync;
  std::uint64_t backlog = 0;       // messages that wait before it starts
  bool consumer_api = false;       // measure strand::Consumer as well
  bool memory_filesystem = false;  // allowed
  bool keep = false;               // leave the store there
};

struct Percentiles {
  double p50 = 0;
  double p99 = 0;
  double p999 = 0;
};

// What waiting messages cost: opening a store whose process was killed, memory, and leases.
struct BacklogReport {
  std::uint64_t messages = 0;
  double reopen_s = 0;
  double rss_mb = 0;          // after the reopen
  double lease_us_small = 0;  // a lease with 10,000 messages waiting
  double lease_us = 0;        // a lease with all of them waiting
};

// Draining a queue by strand::Consumer, beside a bare loop of lease and apply with as many threads.
struct ConsumerReport {
  double consumer_per_s = 0;
  double bare_per_s = 0;
  double added = 0;  // of time, by the consumer: 0.3 is 30 % (the median of all rounds)
};

struct QueueBenchReport {
  double enqueue_per_s = 0;
  double lease_per_s = 0;
  double ack_per_s = 0;
  double cycle_per_s = 0;
  double baseline_file_per_s = 0;
  double baseline_rocksdb_per_s = 0;
  double baseline_postgres_per_s = 0;  // cycles of the queue that people write in SQL themselves
  Percentiles enqueue_ms;
  Percentiles lease_ms;
  Percentiles ack_ms;
  double rss_mb = 0;
  std::uint64_t syncs = 0;  // of the store, in all measurements
  std::string filesystem;
  std::optional<BacklogReport> backlog;
  std::optional<ConsumerReport> consumer;
};

// Says what is being measured now.
using Progress = std::function<void(std::string_view)>;

// Rates of messages, each the median of nine rounds, in which the baselines and the store take
// turns: a busy machine then slows all of them.
Result<QueueBenchReport> bench_queue(const QueueBenchOptions& options, const Progress& progress);

}  // namespace strand::cli
