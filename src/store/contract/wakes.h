#pragma once

#include <string>
#include <utility>
#include <vector>

#include <strand/ids.h>

namespace strand::store {

// Who is to be called, because what they watch may have changed.
struct Wakes {
  std::vector<std::string> queues;  // may have a ready lane
  std::vector<Epoch> lanes;         // leased lanes with new messages, or leases that ended
  std::vector<std::pair<std::string, std::string>> records;  // (space, key)

  [[nodiscard]] bool empty() const { return queues.empty() && lanes.empty() && records.empty(); }
};

}  // namespace strand::store
