#pragma once

#include "queue/json.h"

// What commands print as JSON is what the admin API of a server answers.

namespace strand::cli {

using shown::number;
using shown::put_bytes;
using shown::put_optional;
using shown::to_json;

}  // namespace strand::cli
