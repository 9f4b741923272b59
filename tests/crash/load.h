#pragma once

#include <cstdint>

#include <strand/store.h>

namespace strand::crash {

// Works on the store with several threads until the process is killed, and writes to `pipe`, line
// by line and each line at once:
//
//   R                             the store is open
//   s KEY SEQ       S KEY SEQ     a message will be sent to "in"; it has been
//   m KEY SEQ       M KEY SEQ     it will be moved to "out", with a record of it; it has been
//   d KEY SEQ       D KEY SEQ     it will be finished; it has been
//   L EPOCH QUEUE KEY SEQ...      a lease was shown
//
// Sequence numbers grow within a key, also from run to run.
[[noreturn]] void work(Store& store, std::uint64_t run, std::uint64_t seed, unsigned batch_max,
                       int pipe);

}  // namespace strand::crash
