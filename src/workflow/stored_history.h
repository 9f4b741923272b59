#pragma once

#include <string>
#include <vector>

#include <strand/history.h>
#include <strand/lease.h>
#include <strand/store.h>

namespace strand::workflow {

// An open execution with all of its events that are left: those that the lease has brought, and the
// others. Not found: an empty one.
[[nodiscard]] bool is_whole(const History& history);
Result<History> read_history(Store& store, const std::string& queue, const std::string& key,
                             const History* begun = nullptr);
// As much of it as a replay needs: from its last checkpoint, if it has one.
Result<History> read_to_replay(Store& store, const std::string& queue, const std::string& key,
                               const History* begun = nullptr);

// An event that cannot be read is named by its number.
Result<std::vector<HistoryEvent>> decode_history(const History& history);

}  // namespace strand::workflow
