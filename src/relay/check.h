#pragma once

#include <string>
#include <vector>

#include <strand/error.h>

#include "relay/config.h"

namespace strand::relay {

// One thing that is wrong, or will be slow.
struct Finding {
  std::string table = {};  // as in the configuration
  std::string kind = {};   // table, column, privilege, index, trigger, own_table, topic, server, …
  std::string what = {};
  std::string advice = {};  // what to do about it
};

struct CheckOptions {
  bool kafka = true;
};

// Looks at everything that a relay needs. Changes nothing.
// Failure: only if it cannot look at all (no database).
Result<std::vector<Finding>> check(const Config& config, const CheckOptions& options);

}  // namespace strand::relay
