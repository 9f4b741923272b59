#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace strand {

// How values are distributed: as many counts as bounds, each of the values up to its bound and
// above the one before, and one more for what is above all of them.
struct Distribution {
  std::vector<double> bounds = {};
  std::vector<std::uint64_t> counts = {};
  std::uint64_t count = 0;
  double sum = 0;
};

// One figure, by the name and labels under which it is shown to the world.
struct Metric {
  enum class Kind : std::uint8_t { counter, gauge, distribution };
  std::string name = {};  // such as "strand_workflow_turns_total"
  std::string help = {};
  Kind kind = Kind::counter;
  std::vector<std::pair<std::string, std::string>> labels = {};
  double value = 0;                // of counters and gauges
  Distribution distribution = {};  // of distributions
};

}  // namespace strand
