#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include <strand/metrics.h>

namespace strand::relay {

// What the workers of one table have done since the process started.
//
// Threads: every member may be used concurrently.
struct Counters {
  std::atomic<std::uint64_t> claims = 0;        // entities that came into our hands
  std::atomic<std::uint64_t> batches = 0;       // with at least one row
  std::atomic<std::uint64_t> rows = 0;          // confirmed and marked
  std::atomic<std::uint64_t> lost = 0;          // entities whose claim was lost
  std::atomic<std::uint64_t> poison = 0;        // rows that cannot be sent
  std::atomic<std::uint64_t> dead_letters = 0;  // of these, sent to the dead-letter topic
  std::atomic<std::uint64_t> outages = 0;       // batches that Kafka did not confirm
  std::atomic<std::uint64_t> reconnects = 0;    // connections to the database, but for the first

  // By the names under which they are shown, labelled with the table's name.
  [[nodiscard]] std::vector<Metric> metrics(const std::string& table) const;
};

}  // namespace strand::relay
