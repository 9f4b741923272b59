#include "differential/history.h"

#include <algorithm>
#include <chrono>

#include "differential/workload.h"

namespace strand::differential {
namespace {

// A survey reads much, so there is one every so many steps.
constexpr std::size_t steps_between_surveys = 25;

void run_steps(const Plan& plan, Lockstep& stores, std::size_t& done) {
  Workload workload(plan, stores);
  std::size_t since_survey = 0;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (!plan.kept[i]) continue;
    done = i + 1;
    workload.run(i + 1, plan.steps[i]);
    if (++since_survey == steps_between_surveys) {
      workload.survey();
      since_survey = 0;
    }
  }
  stores.heading("survey at the end");
  workload.survey();
  workload.drain();
  workload.survey();
}

class Shrinking {
 public:
  Shrinking(const Plan& plan, const Stage& stage) : best_(plan), stage_(stage) {}

  Plan result() {
    // What comes behind the difference has no part in it.
    attempt(best_);
    for (std::size_t portion = std::max<std::size_t>(left() / 2, 1);; portion /= 2) {
      while (drop_some(portion)) {
      }
      if (portion == 1 || out_of_time()) return best_;
    }
  }

 private:
  [[nodiscard]] std::size_t left() const {
    return static_cast<std::size_t>(std::ranges::count(best_.kept, true));
  }
  // A limit on the patience of whoever waits for the report.
  [[nodiscard]] bool out_of_time() const {
    return std::chrono::steady_clock::now() - began_ > std::chrono::seconds{5};
  }

  // Takes the plan if the stores still differ, whatever in.
  bool attempt(const Plan& plan) {
    if (out_of_time()) return false;
    const HistoryResult again = run(plan, stage_, false);
    if (!again.difference) return false;
    best_ = plan;
    for (std::size_t i = again.steps_done; i < best_.kept.size(); ++i)
      best_.kept[i] = false;
    return true;
  }

  // Tries to do without each `portion` of the steps that are left, the latest first.
  bool drop_some(std::size_t portion) {
    bool dropped = false;
    for (std::size_t end = best_.kept.size(); end > 0;) {
      Plan plan = best_;
      std::size_t gone = 0;
      while (end > 0 && gone < portion) {
        --end;
        if (!plan.kept[end]) continue;
        plan.kept[end] = false;
        ++gone;
      }
      if (gone > 0 && attempt(plan)) dropped = true;
    }
    return dropped;
  }

  Plan best_;
  const Stage& stage_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

std::string last_of(const std::vector<std::string>& lines, std::size_t count) {
  std::string out;
  const std::size_t from = lines.size() > count ? lines.size() - count : 0;
  if (from > 0) out += "  … " + std::to_string(from) + " lines before\n";
  for (std::size_t i = from; i < lines.size(); ++i)
    out += "  " + lines[i] + "\n";
  return out;
}

std::string command(const Plan& plan, const Where& where) {
  const bool whole = std::ranges::count(plan.kept, false) == 0;
  return "repeat it:  STRAND_DIFF_SEED=" + std::to_string(plan.seed) +
         " STRAND_DIFF_STORE=" + where.store +
         (whole ? "" : " STRAND_DIFF_STEPS=" + plan.kept_steps()) +
         " build/release/differential_tests --gtest_filter='" + where.test + "'\n";
}

}  // namespace

HistoryResult run(const Plan& plan, const Stage& stage, bool traced) {
  HistoryResult result;
  Lockstep stores(stage(), plan.limits, traced);
  try {
    run_steps(plan, stores, result.steps_done);
  } catch (const Difference& difference) {
    result.difference = difference.what();
  }
  result.trace = stores.trace();
  result.coverage = stores.coverage();
  return result;
}

Plan shrink(const Plan& plan, const Stage& stage) { return Shrinking(plan, stage).result(); }

std::string report(const Plan& plan, const Stage& stage, const Where& where) {
  constexpr std::size_t lines_max = 25;
  const std::string seed = "seed " + std::to_string(plan.seed);
  const HistoryResult whole = run(plan, stage, true);
  if (!whole.difference) {
    return seed +
           " differs at one time and not at another: the stores do not only depend on what "
           "they are told\n";
  }
  std::string out = seed + ", step " + std::to_string(whole.steps_done) + ": " + *whole.difference +
                    "\n\nwhat came before, with the answers of the reference:\n" +
                    last_of(whole.trace, lines_max) + "\n" + command(plan, where);
  const Plan small = shrink(plan, stage);
  const HistoryResult shrunk = run(small, stage, true);
  if (!shrunk.difference || small.kept == plan.kept) return out;
  return out + "\nmade smaller: " + *shrunk.difference + "\n\nall of it:\n" +
         last_of(shrunk.trace, 4 * lines_max) + "\n" + command(small, where);
}

}  // namespace strand::differential
