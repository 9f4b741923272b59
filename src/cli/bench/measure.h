#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <strand/error.h>

#include "cli/bench/queue_bench.h"

namespace strand::cli {

using Stopwatch = std::chrono::steady_clock;

inline double seconds_since(Stopwatch::time_point begin) {
  return std::chrono::duration<double>(Stopwatch::now() - begin).count();
}

// How long calls took, in milliseconds. One thread adds; samples of several are joined.
class Samples {
 public:
  void add(double seconds) { ms_.push_back(static_cast<float>(seconds * 1e3)); }
  void add(const Samples& other) { ms_.insert(ms_.end(), other.ms_.begin(), other.ms_.end()); }
  [[nodiscard]] Percentiles percentiles();
  [[nodiscard]] double total_s() const;

 private:
  std::vector<float> ms_;
};

// What some threads did until the time was over.
struct Counted {
  std::uint64_t messages = 0;
  double seconds = 0;
  [[nodiscard]] double per_s() const {
    return seconds > 0 ? static_cast<double>(messages) / seconds : 0;
  }
};

// Runs `step(thread)` in each of `threads` threads until the duration is over, or one fails. A step
// returns how many messages it has dealt with.
using Step = std::function<Result<std::uint64_t>(unsigned thread)>;
Result<Counted> run_threads(unsigned threads, Duration duration, const Step& step);

double median(std::vector<double> values);
// Of this process.
double rss_mb();

}  // namespace strand::cli
