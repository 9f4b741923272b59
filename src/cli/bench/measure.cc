#include "cli/bench/measure.h"

#include <fstream>
#include <mutex>
#include <numeric>
#include <optional>

#include <unistd.h>

namespace strand::cli {

Percentiles Samples::percentiles() {
  if (ms_.empty()) return {};
  std::ranges::sort(ms_);
  const auto at = [&](double part) {
    return static_cast<double>(
        ms_[static_cast<std::size_t>(part * static_cast<double>(ms_.size() - 1))]);
  };
  return {.p50 = at(0.5), .p99 = at(0.99), .p999 = at(0.999)};
}

double Samples::total_s() const { return std::accumulate(ms_.begin(), ms_.end(), 0.0) / 1e3; }

Result<Counted> run_threads(unsigned threads, Duration duration, const Step& step) {
  std::atomic<std::uint64_t> messages = 0;
  std::atomic<bool> over = false;
  std::mutex mutex;
  std::optional<Error> failed;
  const auto begin = Stopwatch::now();
  {
    std::vector<std::jthread> running;
    for (unsigned thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, thread] {
        while (!over && Stopwatch::now() - begin < duration) {
          auto done = step(thread);
          if (done) {
            messages += *done;
          } else {
            const std::lock_guard lock(mutex);
            if (!failed) failed = std::move(done).error();
            over = true;
          }
        }
      });
    }
  }
  if (failed) return std::unexpected(*failed);
  return Counted{.messages = messages, .seconds = seconds_since(begin)};
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double rss_mb() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  file >> size >> resident;
  return static_cast<double>(resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))) / 1e6;
}

}  // namespace strand::cli
