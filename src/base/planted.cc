#include "base/planted.h"

#ifdef STRAND_PLANT

#include <cstdlib>
#include <string>

namespace strand::base {

bool planted(const char* name) {
  static const std::string chosen = [] {
    const char* given = std::getenv("STRAND_PLANT");
    return std::string(given == nullptr ? "" : given);
  }();
  return chosen == name;
}

}  // namespace strand::base

#endif
