#pragma once

#include <string>

#include <strand/error.h>

#include "pq/connection.h"

namespace strand::postgres {

// Refuses a pooler in transaction mode between us and the server. Settings, prepared statements,
// locks of the session and LISTEN need a session of one's own. If there is a pooler at all, it
// opens a second connection with `conninfo` to find out.
Result<void> check_pooler(Connection& connection, const std::string& conninfo);

}  // namespace strand::postgres
