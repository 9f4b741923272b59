#pragma once

#include <strand/error.h>

#include "store/sqlite/connection.h"

namespace strand::sqlite {

// Whether a log was left behind that holds something: by a process that ended before it could close
// its store, or by a failed write.
bool has_log(const Place& place);

// Makes durable what the log shows: copies it to a new file, syncs that, and gives it the log's
// name. For after a failed sync, when the operating system may show pages that the disk does not
// have, and no later sync would write.
//
// Nobody may have the database open: this process must have closed its connections, and another
// one's is `in_use`.
Result<void> rescue_log(const Place& place);

}  // namespace strand::sqlite
