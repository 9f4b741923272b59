#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <strand/metrics.h>
#include <strand/store.h>
#include <strand/time.h>

namespace strand::server {

// The figures of a store: its queues, its writes, its place on disk. A source for Metrics.
//
// The queues with the most live messages have figures of their own, by name; those of all others
// are added up as the queue "(others)". So there are never more than `queues_max` + 1 of each kind,
// however many queues there are.
//
// Threads: one at a time, as sources are called.
// Cost:    one Store::stats for each queue. They are counted anew when `interval` has passed, and
//          not before ten times as much time as the last count took: with 100,000 queues the store
//          has other things to do. An interval of 0 has them counted at each look.
class StoreMetrics {
 public:
  struct Options {
    std::uint32_t queues_max = 100;
    Duration interval = std::chrono::seconds{1};
    std::string url = {};  // of the store: where to look for files
  };

  // The store itself, not a measured one: what is asked for here is nobody's call. It outlives
  // this.
  StoreMetrics(Store& store, Options options);

  [[nodiscard]] std::vector<Metric> read();

 private:
  [[nodiscard]] bool due() const;
  void count_queues();
  void add_writes(std::vector<Metric>& metrics) const;
  void add_disk(std::vector<Metric>& metrics) const;

  Store& store_;
  const Options options_;
  std::optional<std::filesystem::path> place_;  // of a store on disk
  std::vector<Metric> queues_;                  // as last counted
  std::optional<std::chrono::steady_clock::time_point> counted_;
  std::chrono::steady_clock::duration took_{};
};

// What the files of a store take: those of a folder, or a database with its companions.
std::uint64_t bytes_on_disk(const std::filesystem::path& place);

}  // namespace strand::server
