#include "workflow/replay_costs.h"

namespace strand::workflow {

void ReplayCosts::add(const std::string& label, std::uint64_t events,
                      std::chrono::nanoseconds took) {
  if (events == 0) return;
  const double each = static_cast<double>(took.count()) / static_cast<double>(events);
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = nanoseconds_.try_emplace(label, each);
  if (!is_new) place->second += (each - place->second) / 8;
}

std::chrono::nanoseconds ReplayCosts::estimate(const std::string& label,
                                               std::uint64_t events) const {
  constexpr double unknown = 2'000;  // none of this kind was replayed here so far
  const std::lock_guard lock(mutex_);
  const auto found = nanoseconds_.find(label);
  const double each = found == nanoseconds_.end() ? unknown : found->second;
  return std::chrono::nanoseconds{static_cast<std::int64_t>(each * static_cast<double>(events))};
}

}  // namespace strand::workflow
