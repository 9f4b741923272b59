#include "store/figures.h"

#include <algorithm>

#include "store/local/local_store.h"

namespace strand::store {

namespace {

// Memory takes microseconds, a good disk a tenth of a millisecond, a bad one tens of them.
const std::vector<double> seconds = {0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005,
                                     0.01,    0.02,    0.05,   0.1,    0.2,    0.5,   1,     5};
const std::vector<double> sizes = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10'000};

}  // namespace

void LiveDistribution::add(double value) {
  const auto place = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  counts_[static_cast<std::size_t>(place)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

Distribution LiveDistribution::read() const {
  Distribution result{.bounds = bounds_, .counts = {}, .count = 0, .sum = 0};
  for (const auto& count : counts_) {
    result.counts.push_back(count.load(std::memory_order_relaxed));
    result.count += result.counts.back();
  }
  result.sum = sum_.load(std::memory_order_relaxed);
  return result;
}

CommitFigures::CommitFigures()
    : sync_seconds(seconds), write_seconds(seconds), transactions(sizes) {}

const CommitFigures* commit_figures(const Store& store) {
  const auto* local = dynamic_cast<const local::LocalStore*>(&store);
  return local == nullptr ? nullptr : &local->figures();
}

}  // namespace strand::store
