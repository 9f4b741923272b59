#pragma once

#include <cstdint>

#include <strand/error.h>

#include "cli/bench/measure.h"
#include "cli/bench/relay_place.h"

namespace strand::cli {

// The relay that people write themselves: one worker claims the oldest row (NEW to PROCESSING),
// publishes it, flushes, marks it SENT, and goes on with the next one. Sends so many of the rows
// that wait.
Result<Counted> naive_relay(RelayPlace& place, const RelayBenchOptions& options);

}  // namespace strand::cli
