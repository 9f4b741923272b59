#pragma once

#include <string>

#include "store/sqlite/connection.h"

namespace strand::sqlite {

// In the header of the file, where `file` and others find out whose it is: "Strd".
inline constexpr std::int64_t application_id = 0x53747264;
// Raised when a table changes in a way that older versions cannot read.
inline constexpr std::int64_t format_version = 3;

// What a file turned out to hold.
enum class Contents { nothing, store };

// Tells a store of this format from an empty database. All else is an error: the database of
// another program, a newer format, tables that are missing or have been altered.
Result<Contents> look_inside(Connection& connection);

// Makes all tables and views, and marks the file as Strand's, in one transaction.
Result<void> create_schema(Connection& connection);

}  // namespace strand::sqlite
