#pragma once

#include <string>
#include <vector>

#include <strand/error.h>

#include "pq/connection.h"
#include "store/postgres/location.h"
#include "store/postgres/places.h"

// The tables and functions of a store in the database, and how they came to be there.

namespace strand::postgres {

// One step of the schema. Steps are applied in order, each once, each in a transaction.
struct Migration {
  int version = 0;
  std::string name = {};
  std::string sql = {};
};

// All steps, oldest first. With `own_clock`, the store takes its time from whoever calls it.
std::vector<Migration> migrations(bool own_clock);

struct MigrationReport {
  int before = 0;  // 0: there was no store
  int after = 0;
  std::vector<std::string> applied = {};  // names of steps
};

// Brings the schema up to date. Many processes may do it at the same time.
//
// Failure: `unsupported` if the schema is newer than this program, `invalid_argument` if the
//          database cannot hold a store (its encoding, missing privileges).
Result<MigrationReport> migrate(Connection& connection, const Location& location, bool own_clock,
                                const Identity& identity);
// The SQL that migrate() would run, for people who run it themselves: it has the store's secret in
// it. Empty if there is nothing to do.
Result<std::string> pending_sql(Connection& connection, const Location& location,
                                const Identity& identity);

// What a store says of itself; `not_found` if there is none.
struct StoreInfo {
  Identity identity = {};
  bool own_clock = false;
  std::int64_t time = 0;
};
Result<StoreInfo> read_store(Connection& connection, const Location& location);

// Settings of each session that uses the store.
std::string session_script(const Location& location);

// Refuses servers on which Strand cannot keep its promises, and says what is wrong with them.
Result<void> check_server(Connection& connection, const Location& location);

}  // namespace strand::postgres
