#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <strand/history.h>
#include <strand/time.h>

namespace strand {

// When a point that the code of a workflow offers becomes a checkpoint: as soon as one of these is
// true. All count from the checkpoint before, or from the start.
struct CheckpointWhen {
  std::optional<std::uint64_t> every_events = 500;
  std::optional<std::size_t> every_bytes = std::size_t{1} << 20U;  // of history
  std::vector<EventKind> after = {};                               // one of these came in
  std::optional<Duration> every = {};
  // A replay would take longer, by what events of this kind of workflow took in replays so far.
  std::optional<Duration> replay_longer_than = {};
};

// Of a worker, for all checkpoints that its workflows offer.
struct CheckpointPolicy {
  CheckpointWhen when = {};
  // Events before the last checkpoint but one are removed. The last two stay, so that a state that
  // cannot be read is no end.
  bool prune = true;
};

// Of one point.
struct CheckpointOptions {
  std::uint32_t version = 1;                // of the state: raise it when its type changes
  std::optional<CheckpointWhen> when = {};  // instead of the worker's
};

}  // namespace strand
