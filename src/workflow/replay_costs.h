#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace strand::workflow {

// How long an event takes in a replay, by kind of workflow: what recent ones took on average.
//
// Threads: every method may be called concurrently.
class ReplayCosts {
 public:
  void add(const std::string& label, std::uint64_t events, std::chrono::nanoseconds took);
  // Of so many events.
  [[nodiscard]] std::chrono::nanoseconds estimate(const std::string& label,
                                                  std::uint64_t events) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, double, std::less<>> nanoseconds_;  // for an event
};

}  // namespace strand::workflow
