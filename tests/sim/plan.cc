#include "sim/plan.h"

#include <algorithm>

namespace strand::sim {
namespace {

using std::chrono::milliseconds;

Duration ms(std::int64_t count) { return milliseconds{count}; }

}  // namespace

std::string_view name(Fault fault) {
  static constexpr std::array<std::string_view, fault_count> names = {
      "write_fails_before", "write_fails_after", "sync_fails",   "slow_write",
      "reopen_fails",       "read_fails",        "crash",        "power_loss",
      "wall_jump",          "clock_jump",        "clock_freeze", "late_timer",
      "lost_reply",         "late_reply"};
  return names.at(static_cast<std::size_t>(fault));
}

std::string_view name(Action action) {
  static constexpr std::array<std::string_view, action_count> names = {
      "send",   "publish",      "lease", "lease_key", "seize",      "pull", "renew",   "settle",
      "cancel", "write_record", "turn",  "repeat",    "administer", "read", "mischief"};
  return names.at(static_cast<std::size_t>(action));
}

Plan::Plan(std::uint64_t the_seed) : seed(the_seed) {
  Random random = Random(the_seed).fork(1);
  // Some mistakes need a long life; most need many short ones.
  steps_max = static_cast<std::uint64_t>(random.one_in(20) ? random.between(500, 1200)
                                                           : random.between(60, 400));
  faults.fill(true);
  actions.fill(true);

  // A third of the runs is calm, so that plain mistakes are not hidden behind crashes.
  const std::uint64_t weather = random.below(3);
  for (std::uint64_t& rate : rates) {
    rate = weather == 0 ? 0 : (random.one_in(2) ? 0 : random.below(weather == 1 ? 20 : 80));
  }
  // A crash ends much of what is under way; too many of them, and little else happens.
  for (const Fault rare : {Fault::crash, Fault::power_loss, Fault::clock_freeze, Fault::clock_jump,
                           Fault::wall_jump}) {
    std::uint64_t& rate = rates.at(static_cast<std::size_t>(rare));
    rate = rate / 4 + (rate > 0 ? 1 : 0);
  }

  const auto add = [&](Role role, std::int64_t least, std::int64_t most) {
    const std::int64_t count = random.between(least, most);
    roles.insert(roles.end(), static_cast<std::size_t>(count), role);
  };
  add(Role::producer, 1, 3);
  add(Role::consumer, 1, 4);
  add(Role::workflow, 0, 2);
  add(Role::operator_, 0, 2);
  add(Role::onlooker, 0, 1);
  clients.assign(roles.size(), true);

  pace_ms = random.pick(std::vector<std::uint64_t>{5, 50, 200, 1000, 8000});
  queue_count = static_cast<std::uint64_t>(random.between(1, 3));
  key_count = static_cast<std::uint64_t>(random.between(1, 5));
  limits.body_bytes_max = 2000;
  limits.record_bytes_max = 500;
  limits.transaction_operations_max = 64;
  limits.page_max = 1000;
  limits.lease_lanes_max = 1000;
  limits.failures_kept_max = random.one_in(2) ? 2 : 100;
  limits.transaction_window = ms(random.pick(std::vector<std::int64_t>{900'000, 20'000, 1000}));
  limits.request_window = ms(random.pick(std::vector<std::int64_t>{300'000, 5000, 300}));
  if (random.one_in(3)) portion = static_cast<std::uint64_t>(random.between(1, 4));
}

bool Plan::happens(Fault fault, Random& random) const {
  const auto index = static_cast<std::size_t>(fault);
  // The number is drawn in any case: switching one fault off must not shift the others.
  const bool drawn = random.permille(rates.at(index));
  return drawn && faults.at(index);
}

std::string Plan::arguments() const {
  std::string out = "--seed " + std::to_string(seed);
  const Plan whole(seed);
  if (steps_max != whole.steps_max) out += " --steps " + std::to_string(steps_max);
  std::string without;
  for (std::size_t i = 0; i < fault_count; ++i) {
    if (!faults.at(i)) without += "," + std::string(name(static_cast<Fault>(i)));
  }
  for (std::size_t i = 0; i < action_count; ++i) {
    if (!actions.at(i)) without += "," + std::string(name(static_cast<Action>(i)));
  }
  if (!without.empty()) out += " --without " + without.substr(1);
  if (clients != whole.clients) {
    std::string kept;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (clients[i]) kept += "," + std::to_string(i);
    }
    out += " --clients " + (kept.empty() ? "none" : kept.substr(1));
  }
  return out;
}

QueueSettings draw_settings(Random& random) {
  QueueSettings s;
  s.max_attempts = static_cast<std::uint32_t>(random.between(0, 4));
  s.backoff.clear();
  for (std::int64_t steps = random.between(0, 3); steps > 0; --steps) {
    s.backoff.push_back(ms(random.pick(std::vector<std::int64_t>{0, 1, 50, 700, 5000, 60'000})));
  }
  s.retry_policy = random.one_in(2) ? RetryPolicy::block : RetryPolicy::skip;
  s.on_exhausted = random.one_in(3) ? OnExhausted::park : OnExhausted::dead;
  if (random.one_in(4)) s.ttl = ms(random.pick(std::vector<std::int64_t>{1, 300, 4000, 90'000}));
  s.on_expired = random.one_in(2) ? OnExpired::drop : OnExpired::dead;
  s.dedup_window = ms(random.pick(std::vector<std::int64_t>{0, 100, 5000, 300'000}));
  s.lease = ms(random.pick(std::vector<std::int64_t>{20, 500, 3000, 30'000}));
  s.starvation_after = ms(random.pick(std::vector<std::int64_t>{0, 200, 3000, 30'000}));
  if (random.one_in(3)) {
    s.backoff_jitter_percent = static_cast<std::uint32_t>(random.between(1, 100));
  }
  if (random.one_in(3)) {
    // The queue itself among them, and one that is not there yet.
    const std::vector<std::string> told = {"jobs", "mail", "wf", "alarms"};
    s.dead_notice_to = Address{random.pick(told), std::nullopt};
    if (random.one_in(2)) s.dead_notice_to->key = "k1";
  }
  if (random.one_in(4)) s.max_length = static_cast<std::uint64_t>(random.between(1, 12));
  return s;
}

}  // namespace strand::sim
