#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/violation.h"
#include "sim/plan.h"

namespace strand::sim {

// What became of one run.
struct Run {
  struct Failed {
    model::Invariant invariant;
    std::string what;
  };
  std::optional<Failed> failed;
  std::uint64_t calls = 0;
  std::uint64_t fingerprint = 0;   // of all that happened
  std::vector<std::string> trace;  // if it was asked for
  std::string model;               // what the model knows at the end, likewise
};

// Runs the plan: chaos, then calm, in which everything must drain.
Run run(const Plan& plan, bool tracing);

// The smallest plan found that fails in the same way.
Plan shrink(const Plan& plan, const Run::Failed& failed);

// What a person needs to see of a failed seed: the rule, the end of the trace, the command that
// repeats it, and a smaller version.
std::string report(const Plan& plan);

}  // namespace strand::sim
