#pragma once

// Bugs on purpose, to see that the tests would notice them: see tests/plant/README.md.
//
//   if (STRAND_PLANTED("ack-not-synced") && only_settles) return;
//
// A constant false, and nothing in the binary, but in objects that are built for that alone: there
// it is true if the environment variable STRAND_PLANT has this name. Only in .cc files, because
// headers are also compiled into the tests, which are the same for both.

#ifdef STRAND_PLANT

namespace strand::base {

[[nodiscard]] bool planted(const char* name);

}  // namespace strand::base

#define STRAND_PLANTED(name) ::strand::base::planted(name)

#else

#define STRAND_PLANTED(name) false

#endif
