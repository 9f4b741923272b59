#include "relay_chaos/trace.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

namespace strand::relay_chaos {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
// A claim is granted before it is written down: so much earlier a fault may have hit it.
constexpr std::int64_t slack_us = 200'000;

constexpr std::array<std::pair<std::string_view, Step::Event>, 7> event_names{{
    {"claim", Step::Event::claim},
    {"publish", Step::Event::publish},
    {"confirmed", Step::Event::confirmed},
    {"released", Step::Event::released},
    {"marked", Step::Event::marked},
    {"lost", Step::Event::lost},
    {"poison", Step::Event::poison},
}};

Step parse_step(std::string_view line) {
  const boost::json::object object = boost::json::parse(line).as_object();
  Step step{.time_us = object.at("time_us").to_number<std::int64_t>(),
            .process = std::string(object.at("process").as_string()),
            .worker = object.at("worker").to_number<int>(),
            .entity = std::string(object.at("entity").as_string()),
            .epoch = object.at("epoch").to_number<std::int64_t>()};
  const std::string_view name = object.at("event").as_string();
  const auto known =
      std::ranges::find(event_names, name, [](const auto& entry) { return entry.first; });
  if (known == event_names.end()) throw std::runtime_error(fmt::format("no event: {}", line));
  step.event = known->second;
  if (const auto* rows = object.if_contains("rows")) {
    for (const boost::json::value& row : rows->as_array())
      step.rows.emplace_back(row.as_string());
  }
  return step;
}

// One worker's time with one entity.
struct Hold {
  std::string process = {};
  int worker = 0;
  std::string entity = {};
  std::int64_t epoch = 0;
  std::int64_t from_us = 0;
  std::int64_t until_us = never;
  bool released = false;
  bool lost = false;
  bool marked = false;
  std::set<std::string> published = {};
  std::set<std::string> confirmed = {};

  [[nodiscard]] bool over() const { return until_us != never; }
  [[nodiscard]] bool same_worker(const Hold& other) const {
    return process == other.process && worker == other.worker;
  }
  [[nodiscard]] std::string name() const {
    return fmt::format("{}/{} (epoch {}, from {} to {}{})", process, worker, epoch, from_us,
                       over() ? std::to_string(until_us) : "its end",
                       lost       ? ", lost"
                       : released ? ", released"
                                  : "");
  }
};

class Judge {
 public:
  Judge(const std::vector<Fault>& faults, bool fenced) : faults_(faults), fenced_(fenced) {}

  TraceJudgement run(const std::vector<Step>& steps) {
    for (const Step& step : steps)
      take(step);
    end_with_their_processes();
    for (auto& [entity, holds] : by_entity_)
      judge(holds);
    return std::move(judgement_);
  }

 private:
  using Who = std::tuple<std::string, int, std::string>;

  void take(const Step& step) {
    const Who who{step.process, step.worker, step.entity};
    if (step.event == Step::Event::claim) {
      begin(who, step);
      return;
    }
    const auto found = current_.find(who);
    if (found == current_.end()) {
      violation(step, "without ever having had the entity");
      return;
    }
    Hold& hold = holds_[found->second];
    switch (step.event) {
      case Step::Event::claim:
        break;
      case Step::Event::publish:
        if (hold.over()) violation(step, "after it had given the entity back, or lost it");
        hold.published.insert(step.rows.begin(), step.rows.end());
        judgement_.totals.published += step.rows.size();
        break;
      case Step::Event::confirmed:
        if (!std::ranges::includes(hold.published, sorted(step.rows))) {
          violation(step, "of rows that it had not published in this hold");
        }
        hold.confirmed.insert(step.rows.begin(), step.rows.end());
        break;
      case Step::Event::released:
        if (hold.over()) violation(step, "of an entity that it did not have");
        hold.released = true;
        hold.until_us = std::min(hold.until_us, step.time_us);
        break;
      case Step::Event::marked:
        mark(hold, step);
        break;
      case Step::Event::lost:
        hold.lost = true;
        hold.until_us = std::min(hold.until_us, step.time_us);
        break;
      case Step::Event::poison:
        break;
    }
  }

  void begin(const Who& who, const Step& step) {
    const auto found = current_.find(who);
    if (found != current_.end() && !holds_[found->second].over()) {
      violation(step, "of an entity that it has already");
    }
    current_[who] = holds_.size();
    by_entity_[step.entity].push_back(holds_.size());
    holds_.push_back({.process = step.process,
                      .worker = step.worker,
                      .entity = step.entity,
                      .epoch = step.epoch,
                      .from_us = step.time_us});
    ++judgement_.totals.holds;
  }

  void mark(Hold& hold, const Step& step) {
    if (hold.lost) violation(step, "after it had lost the entity");
    if (!std::ranges::includes(hold.confirmed, sorted(step.rows))) {
      violation(step, "of rows that were not confirmed to it in this hold");
    }
    hold.marked = true;
    for (const std::string& row : step.rows) {
      if (!marked_.insert(row).second) violation(step, fmt::format("row {} a second time", row));
    }
    judgement_.totals.marked += step.rows.size();
  }

  // The trace of a process that was killed just stops.
  void end_with_their_processes() {
    for (Hold& hold : holds_) {
      if (hold.lost) ++judgement_.totals.lost;
      if (hold.over()) continue;
      ++judgement_.totals.cut;
      for (const Fault& fault : faults_) {
        if (fault.fatal && fault.process == hold.process) hold.until_us = fault.from_us;
      }
      if (!hold.over()) {
        judgement_.violations.push_back(fmt::format(
            "entity {}: {} has never given it back, and was not killed", hold.entity, hold.name()));
      }
    }
  }

  // Whether it could be taken from its worker, by what befell the process meanwhile, and did no
  // harm: it marked nothing.
  [[nodiscard]] bool was_taken(const Hold& hold) const {
    return !hold.marked && std::ranges::any_of(faults_, [&](const Fault& fault) {
      return (fault.process.empty() || fault.process == hold.process) &&
             fault.from_us <= hold.until_us && fault.until_us >= hold.from_us - slack_us;
    });
  }

  void judge(std::vector<std::size_t>& numbers) {
    std::ranges::sort(numbers, {}, [&](std::size_t number) { return holds_[number].from_us; });
    std::vector<std::size_t> open;
    for (const std::size_t number : numbers) {
      const Hold& hold = holds_[number];
      std::erase_if(open,
                    [&](std::size_t other) { return holds_[other].until_us <= hold.from_us; });
      for (const std::size_t other : open)
        judge_overlap(holds_[other], hold);
      open.push_back(number);
    }
    if (fenced_) judge_epochs(numbers);
  }

  void judge_overlap(const Hold& earlier, const Hold& later) {
    // Where epochs fence, it is the lower one that was taken. (Which of the two claims was written
    // down first says nothing: a process may be paused between a claim and its line.)
    const Hold& older = earlier.epoch < later.epoch ? earlier : later;
    if (fenced_ ? was_taken(older) : was_taken(earlier) || was_taken(later)) {
      ++judgement_.totals.takeovers;
      return;
    }
    judgement_.violations.push_back(fmt::format("entity {}: two workers at a time: {} and {}",
                                                later.entity, earlier.name(), later.name()));
  }

  void judge_epochs(const std::vector<std::size_t>& numbers) {
    for (std::size_t i = 1; i < numbers.size(); ++i) {
      const Hold& before = holds_[numbers[i - 1]];
      const Hold& after = holds_[numbers[i]];
      // A claim that is written down late, by a process that had been paused, is out of its place.
      if (before.same_worker(after) || was_taken(before) || was_taken(after)) continue;
      if (after.epoch <= before.epoch) {
        judgement_.violations.push_back(
            fmt::format("entity {}: the epoch does not grow from {} to {}", after.entity,
                        before.name(), after.name()));
      }
    }
  }

  void violation(const Step& step, std::string_view what) {
    const auto* name =
        std::ranges::find(event_names, step.event, [](const auto& entry) { return entry.second; });
    judgement_.violations.push_back(fmt::format("entity {}: {}/{} says `{}` at {}, {}", step.entity,
                                                step.process, step.worker, name->first,
                                                step.time_us, what));
  }

  static std::vector<std::string> sorted(std::vector<std::string> rows) {
    std::ranges::sort(rows);
    return rows;
  }

  const std::vector<Fault>& faults_;
  const bool fenced_;
  std::vector<Hold> holds_;
  std::map<Who, std::size_t> current_;
  std::map<std::string, std::vector<std::size_t>> by_entity_;
  std::set<std::string> marked_;
  TraceJudgement judgement_;
};

}  // namespace

std::vector<Step> parse_trace(std::string_view text) {
  std::vector<Step> steps;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(0, end);
    try {
      steps.push_back(parse_step(line));
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("not a step of a trace ({}): {}", error.what(), line));
    }
    text.remove_prefix(end + 1);
  }
  return steps;
}

std::vector<Step> read_trace(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return parse_trace(std::string(std::istreambuf_iterator<char>(stream), {}));
}

TraceJudgement judge_traces(const std::vector<Step>& steps, const std::vector<Fault>& faults,
                            bool fenced) {
  return Judge(faults, fenced).run(steps);
}

}  // namespace strand::relay_chaos
