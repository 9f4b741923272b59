#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "differential/lockstep.h"
#include "differential/plan.h"

namespace strand::differential {

// What became of one history.
struct HistoryResult {
  std::optional<std::string> difference;  // none: the stores agreed to the end
  std::size_t steps_done = 0;      // of the plan, the one that showed the difference included
  std::vector<std::string> trace;  // if asked for
  Coverage coverage;
};

// Opens both stores anew for each run of a plan: they must be empty.
using Stage = std::function<Openers()>;

// Runs the kept steps of a plan, with surveys in between and at the end, then drains the stores.
HistoryResult run(const Plan& plan, const Stage& stage, bool traced);

// A plan with as few steps as can be found in a few seconds on which the stores still differ.
Plan shrink(const Plan& plan, const Stage& stage);

// Which test ran it, for the command that repeats it.
struct Where {
  std::string store;
  std::string test;
};

// For people: the difference, what led to it, a smaller history that shows one, and the commands
// that repeat both.
std::string report(const Plan& plan, const Stage& stage, const Where& where);

}  // namespace strand::differential
