#pragma once

// Assertions for what only a bug in Strand can break. They are on in release builds: a store that
// has lost its own invariants must stop before it writes them down.
//
//   STRAND_ASSERT(lease.epoch > last, "epochs only grow");
//
// Never for what a caller, a disk or a network can cause: those are errors (see Result).

namespace strand::base {

// Prints the place, the condition and why it must hold, and aborts.
[[noreturn]] void assertion_failed(const char* file, int line, const char* condition,
                                   const char* why);

}  // namespace strand::base

#define STRAND_ASSERT(condition, why) \
  (static_cast<bool>(condition)       \
       ? static_cast<void>(0)         \
       : ::strand::base::assertion_failed(__FILE__, __LINE__, #condition, why))
