// Makes a failing run small, so that a person can read it.

#include <algorithm>

#include "model/text.h"
#include "sim/run.h"

namespace strand::sim {
namespace {

// A limit on the patience of whoever waits for the report.
constexpr int tries_max = 250;

class Shrinking {
 public:
  Shrinking(const Plan& plan, const Run::Failed& failed)
      : best_(plan), invariant_(failed.invariant) {}

  Plan result() {
    for (bool smaller = true; smaller && tries_ < tries_max;) {
      smaller = fewer_steps();
      smaller = fewer_clients() || smaller;
      smaller = fewer_kinds(&Plan::faults) || smaller;
      smaller = fewer_kinds(&Plan::actions) || smaller;
    }
    return best_;
  }

 private:
  // Keeps the plan if it still breaks the same rule.
  bool attempt(const Plan& plan) {
    if (++tries_ > tries_max) return false;
    const Run again = run(plan, false);
    if (!again.failed || again.failed->invariant != invariant_) return false;
    best_ = plan;
    best_.steps_max = std::min(best_.steps_max, again.calls + 1);
    return true;
  }

  bool fewer_steps() {
    bool smaller = false;
    for (std::uint64_t cut = best_.steps_max / 2; cut > 0; cut /= 2) {
      while (best_.steps_max > cut) {
        Plan plan = best_;
        plan.steps_max -= cut;
        if (!attempt(plan)) break;
        smaller = true;
      }
    }
    return smaller;
  }

  bool fewer_clients() {
    bool smaller = false;
    for (std::size_t i = 0; i < best_.clients.size(); ++i) {
      if (!best_.clients[i]) continue;
      Plan plan = best_;
      plan.clients[i] = false;
      smaller = attempt(plan) || smaller;
    }
    return smaller;
  }

  template <class Kinds>
  bool fewer_kinds(Kinds Plan::* kinds) {
    bool smaller = false;
    for (std::size_t i = 0; i < (best_.*kinds).size(); ++i) {
      if (!(best_.*kinds).at(i)) continue;
      Plan plan = best_;
      (plan.*kinds).at(i) = false;
      smaller = attempt(plan) || smaller;
    }
    return smaller;
  }

  Plan best_;
  model::Invariant invariant_;
  int tries_ = 0;
};

std::string tail(const std::vector<std::string>& lines, std::size_t count) {
  std::string out;
  const std::size_t from = lines.size() > count ? lines.size() - count : 0;
  if (from > 0) out += "  … " + std::to_string(from) + " lines before\n";
  for (std::size_t i = from; i < lines.size(); ++i)
    out += "  " + lines[i] + "\n";
  return out;
}

}  // namespace

Plan shrink(const Plan& plan, const Run::Failed& failed) {
  return Shrinking(plan, failed).result();
}

std::string report(const Plan& plan) {
  constexpr std::size_t lines_max = 40;
  const Run whole = run(plan, true);
  if (!whole.failed) return "seed " + std::to_string(plan.seed) + " passes\n";
  std::string out = "seed " + std::to_string(plan.seed) + " breaks " + whole.failed->what +
                    "\n\nthe end of the trace:\n" + tail(whole.trace, lines_max) +
                    "\nrepeat it:  ./dev sim " + plan.arguments() + " --trace\n";
  const Plan small = shrink(plan, *whole.failed);
  if (small.arguments() == plan.arguments()) return out;
  const Run shrunk = run(small, true);
  out += "\nmade smaller, it breaks " + shrunk.failed->what + "\n\nthe whole trace:\n" +
         tail(shrunk.trace, 2 * lines_max) + "\nrepeat it:  ./dev sim " + small.arguments() +
         " --trace\n";
  return out;
}

}  // namespace strand::sim
