#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>

#include <libpq-fe.h>

#include "pq/connection.h"

namespace strand::postgres {

// What connections have in common with the exchanges on them: bytes and answers of libpq.

struct ClearResult {
  void operator()(PGresult* result) const { PQclear(result); }
};
using ResultHandle = std::unique_ptr<PGresult, ClearResult>;

enum class Traffic : std::uint8_t {
  flushed,  // all is written
  moved,    // something was read or written
  gone,     // the connection; what came before its end can still be taken from libpq
  stopped,  // `stop` became readable
};

// Writes what the socket takes. Then, unless all is written and no answer is wanted, waits until
// something can be read or written, and reads. Reading goes on while writing waits: otherwise the
// two sides could wait for each other for ever, each with full buffers.
Traffic move_bytes(PGconn* connection, bool answer_wanted, int stop = -1);

// Runs statements without parameters, outside of the pipeline mode: one transaction. The
// connection is of no more use when it is not idle afterwards.
std::expected<void, Failure> run_script(PGconn* connection, const std::string& sql, int stop = -1);

// The server's error in a result; without a sqlstate when it is libpq that has one.
Failure read_failure(const PGresult* result);
// The server ends the connection with this error.
bool is_fatal(const PGresult* result);
// What libpq says about a connection, on one line.
std::string last_words(const PGconn* connection);

}  // namespace strand::postgres
