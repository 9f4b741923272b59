#pragma once

#include <optional>
#include <string>

#include <strand/store.h>

#include "cli/errors.h"
#include "cli/output.h"

namespace strand::cli {

struct LinesRequest {
  Send pattern = {};  // what all messages have in common
  std::optional<std::string> key_separator = {};
  Durability durability = Durability::sync;
};

// Sends each line of the standard input, in order, many in a transaction: as many as there are
// without waiting, so that the lines of a slow pipe are sent as they come.
//
// Failure: stops at the first line that is refused, and says which it is. The lines before it have
//          been sent, and none behind it.
Exit send_lines(Store& store, const LinesRequest& request, Output& output);

}  // namespace strand::cli
