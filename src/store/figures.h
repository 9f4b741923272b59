#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <strand/metrics.h>
#include <strand/store.h>

namespace strand::store {

// How values are distributed, counted while others look.
//
// Threads: every method may be called concurrently. What is read beside an add() may have one half
//          of it.
class LiveDistribution {
 public:
  explicit LiveDistribution(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

  void add(double value);
  [[nodiscard]] Distribution read() const;

 private:
  const std::vector<double> bounds_;
  std::vector<std::atomic<std::uint64_t>> counts_;
  std::atomic<double> sum_ = 0;
};

// What a store in this process knows of its writes, since it was opened. Each write is of all that
// had gathered by then.
struct CommitFigures {
  LiveDistribution sync_seconds;   // of the writes that were synced
  LiveDistribution write_seconds;  // of the others
  LiveDistribution transactions;   // in a write; those with leases alone are left out
  std::atomic<std::uint64_t> failures = 0;
  std::atomic<std::int64_t> free_bytes = -1;  // on its disk, after the last write; -1: none

  CommitFigures();
};

// None if the store's writes happen elsewhere: in a database, or in another process. Good as long
// as the store.
const CommitFigures* commit_figures(const Store& store);

}  // namespace strand::store
