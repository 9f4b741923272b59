#pragma once

#include <string>
#include <utility>
#include <vector>

#include <strand/store.h>

#include "server/access.h"

// The counts of all queues at one moment.

namespace strand::server::http {

struct StatsSnapshot {
  Time at{};
  std::vector<std::pair<std::string, std::string>> queues = {};  // name, and what is shown of it
};

Result<StatsSnapshot> read_stats(Store& store);

// {"at":…,"queues":[…]}: of the queues that the caller sees.
[[nodiscard]] std::string stats_text(const StatsSnapshot& snapshot, const Permit& permit);

}  // namespace strand::server::http
