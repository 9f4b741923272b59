#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <strand/store.h>

#include "store/engine/backend.h"
#include "store/engine/engine.h"

namespace strand::engine {

// Reads that need only the archive, and the filling in of what the engine granted. They show
// written batches only, so nothing has to be held back.
//
// Threads: may run concurrently, and beside Backend::write.

// Adds bodies and headers to grants whose batch has been written. Messages that are gone from the
// archive (their lease was revoked meanwhile) are left out. Histories come as the request says.
Result<std::vector<Lease>> materialize(const Archive& archive, const std::vector<Grant>& grants,
                                       const LeaseRequest& request);
Result<Pulled> materialize(const Archive& archive, const PullGrant& grant);
Result<Page<PeekedMessage>> materialize(const Archive& archive, const Page<PeekedEntry>& entries);

Result<History> read_history(const Archive& archive, const Limits& limits,
                             const HistoryQuery& query);
Result<Page<Execution>> read_instances(const Archive& archive, const Limits& limits,
                                       const InstancesQuery& query);
Result<std::optional<Record>> read_record(const Archive& archive, const Limits& limits,
                                          std::string_view space, std::string_view key);
Result<Page<Record>> read_records(const Archive& archive, const Limits& limits,
                                  const RecordsQuery& query);
Result<Page<DeadLetter>> read_dead_letters(const Archive& archive, const Limits& limits,
                                           const DeadLettersQuery& query);

}  // namespace strand::engine
