#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace strand::base {

void assertion_failed(const char* file, int line, const char* condition, const char* why) {
  // stdio only: the heap or a logger may be what is broken.
  std::fprintf(stderr, "%s:%d: assertion failed: %s (%s)\n", file, line, why, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace strand::base
