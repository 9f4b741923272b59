#pragma once

#include <chrono>
#include <cstdint>

#include <strand/time.h>

namespace strand {

// Which of several workers an instance goes to when a message comes for it and nobody holds its
// lease. It is a wish: the lane of the instance waits for the wanted worker for `grace`, then any
// worker takes it. So an instance of a worker that is dead, or has too much to do, moves on.
enum class Routing : std::uint8_t {
  none,             // to whoever asks first
  automatic,        // as none, until another worker has run what this one had in memory; then as
                    // cache_aware. So a worker that is alone pays nothing
  affinity,         // to the one that ran it last, if that is not longer ago than max_age
  cache_aware,      // to the one that ran it last, as long as that one keeps it in memory
  consistent_hash,  // to one of the live workers, chosen by the id of the instance
};

struct RoutingOptions {
  Routing strategy = Routing::automatic;
  Duration max_age = std::chrono::minutes{1};       // affinity
  Duration grace = std::chrono::milliseconds{500};  // at most Limits::owner_grace_max (1 s)
  // consistent_hash: each worker says so often that it lives. One that has not for three times as
  // long is not chosen any more.
  Duration heartbeat = std::chrono::seconds{3};
};

}  // namespace strand
