#pragma once

#include <memory>
#include <string>

#include <strand/error.h>
#include <strand/time.h>

struct pg_conn;

namespace strand::postgres {

struct Disconnect {
  void operator()(pg_conn* connection) const;
};
using Handle = std::unique_ptr<pg_conn, Disconnect>;

// Connects to the first of the hosts in `conninfo` that answers and takes writes, and waits at most
// `timeout` for all of them together. Gives up when `stop` (a descriptor, or -1) becomes readable.
//
// Failure: invalid_argument (conninfo cannot be read, or the server does not accept user and
//          password), not_found (no such database), unavailable (all else: trying again may help).
Result<Handle> connect(const std::string& conninfo, Duration timeout, int stop = -1);

}  // namespace strand::postgres
