#include "differential/plan.h"

#include <charconv>

#include "sim/random.h"

namespace strand::differential {
namespace {

using sim::Random;
using std::chrono::milliseconds;

struct Kind {
  std::string_view name;
  std::uint64_t weight;  // of all steps but the first ones, which set the stage
};

constexpr std::array<Kind, act_count> kinds = {{
    {.name = "configure", .weight = 2},
    {.name = "send", .weight = 22},
    {.name = "publish", .weight = 6},
    {.name = "cancel", .weight = 3},
    {.name = "write_record", .weight = 4},
    {.name = "several", .weight = 5},
    {.name = "repeat", .weight = 4},
    {.name = "lease", .weight = 18},
    {.name = "lease_key", .weight = 5},
    {.name = "seize", .weight = 2},
    {.name = "repeat_request", .weight = 3},
    {.name = "pull", .weight = 6},
    {.name = "renew", .weight = 4},
    {.name = "settle", .weight = 22},
    {.name = "turn", .weight = 8},
    {.name = "administer", .weight = 3},
    {.name = "redrive", .weight = 3},
    {.name = "drop_dead", .weight = 1},
    {.name = "resume_lane", .weight = 3},
    {.name = "subscribe", .weight = 2},
    {.name = "configure_topic", .weight = 1},
    {.name = "read", .weight = 8},
    {.name = "survey", .weight = 3},
    {.name = "flaw", .weight = 6},
    {.name = "advance", .weight = 18},
    {.name = "reopen", .weight = 2},
}};

constexpr std::uint64_t weight_of_all = [] {
  std::uint64_t sum = 0;
  for (const Kind& kind : kinds)
    sum += kind.weight;
  return sum;
}();

Act draw_act(Random& random, const Traits& traits) {
  std::uint64_t drawn = random.below(weight_of_all);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const Act act = static_cast<Act>(i);
    if (drawn < kinds.at(i).weight) {
      return act == Act::reopen && !traits.reopens ? Act::advance : act;
    }
    drawn -= kinds.at(i).weight;
  }
  return Act::survey;
}

}  // namespace

std::string_view name(Act act) { return kinds.at(static_cast<std::size_t>(act)).name; }

Plan::Plan(std::uint64_t the_seed, Traits the_traits) : seed(the_seed), traits(the_traits) {
  Random random = Random(the_seed).fork(7);
  queue_count = static_cast<std::uint64_t>(random.between(1, 4));
  key_count = static_cast<std::uint64_t>(random.between(1, 5));
  pace_ms = random.pick(std::vector<std::int64_t>{1, 20, 300, 2000, 15'000});

  limits.body_bytes_max = 2000;
  limits.headers_bytes_max = 500;
  limits.reason_bytes_max = 300;
  limits.record_bytes_max = 500;
  limits.transaction_operations_max = 64;
  limits.page_max = 1000;
  limits.lease_lanes_max = 1000;
  limits.failures_kept_max = random.one_in(2) ? 2 : 100;
  limits.transaction_window =
      milliseconds{random.pick(std::vector<std::int64_t>{900'000, 20'000, 1000})};
  limits.request_window = milliseconds{random.pick(std::vector<std::int64_t>{300'000, 5000, 300})};

  const auto add = [&](Act act) { steps.push_back({.act = act, .seed = random.next()}); };
  for (std::uint64_t i = 0; i < queue_count; ++i)
    add(Act::configure);
  for (std::int64_t i = random.between(0, 2); i > 0; --i)
    add(Act::configure_topic);
  for (std::int64_t i = random.between(0, 3); i > 0; --i)
    add(Act::subscribe);
  for (std::int64_t i = random.between(60, 150); i > 0; --i)
    add(draw_act(random, traits));
  kept.assign(steps.size(), true);
}

std::string Plan::kept_steps() const {
  std::string out;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) out += (out.empty() ? "" : ",") + std::to_string(i + 1);
  }
  // An empty variable is none at all; there is no step 0.
  return out.empty() ? "0" : out;
}

void Plan::keep_only(std::string_view wanted) {
  kept.assign(steps.size(), false);
  while (!wanted.empty()) {
    const std::size_t comma = wanted.find(',');
    const std::string_view part = wanted.substr(0, comma);
    std::size_t step = 0;
    std::from_chars(part.data(), part.data() + part.size(), step);
    if (step >= 1 && step <= kept.size()) kept[step - 1] = true;
    wanted = comma == std::string_view::npos ? "" : wanted.substr(comma + 1);
  }
}

}  // namespace strand::differential
