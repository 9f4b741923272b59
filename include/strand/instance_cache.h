#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include <strand/time.h>

namespace strand {

// Instances that a worker keeps in memory between two turns, so that the next message of one goes
// straight to its coroutine: nothing is read, nothing is replayed. What is kept is a copy of what
// is stored, and whether it is still true is checked each time; so these settings are about time
// and memory, never about correctness.
struct InstanceCacheOptions {
  bool enabled = true;

  // The worker keeps the lease of the instance's lane for so long after a message, in the hope of
  // the next one; and for so long in all. Others cannot work on the instance meanwhile. Where lanes
  // wait for the worker, it keeps no lease.
  Duration idle_timeout = std::chrono::seconds{10};
  Duration extended_lock_timeout = std::chrono::seconds{60};  // at least idle_timeout
  // Without a lease an instance stays for so long after its last message, and is used if nobody
  // else has worked on it until the next one.
  Duration unleased_timeout = std::chrono::minutes{5};

  std::size_t max_instances = 100;        // the one that was used longest ago goes first
  std::size_t max_history_size = 10'000;  // events; a longer one is not kept
  // What instances may take: exactly for coroutine frames, by the size of what was handed in for
  // what they hold besides.
  std::size_t max_memory = std::size_t{64} << 20U;

  // One of so many turns that had their instance in memory replays the whole history as well, and
  // compares; 0: none. A difference parks the instance, as in every replay.
  std::uint32_t audit_one_in = 0;
};

// Waiting a little for more messages before a long history is replayed for them.
struct CoalesceOptions {
  bool enabled = true;
  Duration coalesce_window = std::chrono::milliseconds{100};
  std::uint32_t max_batch_size = 50;           // enough: waits no longer
  std::size_t min_history_for_coalesce = 100;  // events; shorter ones are replayed at once
  bool coalesce_on_hit = false;                // also for instances that are in memory
};

}  // namespace strand
