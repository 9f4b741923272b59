#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <strand/error.h>

#include "pq/connection.h"
#include "store/postgres/location.h"

// Whether a store is whole: every invariant that sql/check.sql names, of every row.

namespace strand::postgres {

struct Finding {
  std::string kind = {};  // stable: scripts depend on it
  std::string what = {};  // which thing, what is wrong with it, and what repair or a person can do
  bool repairable = false;
};

struct CheckReport {
  std::vector<Finding> findings = {};  // the first `findings_max` of each kind
  std::vector<std::pair<std::string, std::uint64_t>> counts = {};  // of all, by kind
  std::uint64_t found = 0;
  std::uint64_t repairable = 0;
  std::uint64_t rows = 0;  // of all tables
  std::uint64_t messages = 0;
  std::uint64_t dead_letters = 0;
  std::uint64_t queues = 0;
};
inline constexpr int findings_max = 100;

// Looks at all rows, in one state of the store: it may be in use meanwhile, and the server may be
// a replica. `not_found` if there is no store.
Result<CheckReport> check(Connection& connection, const Location& location);

struct RepairReport {
  std::string copy = {};  // the schema with the tables as they were
};

// Copies the tables into a schema of their own, and mends all that is repairable, in one
// transaction. `in_use` while anybody has the store open.
Result<RepairReport> repair(Connection& connection, const Location& location);

}  // namespace strand::postgres
