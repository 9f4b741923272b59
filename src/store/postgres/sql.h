#pragma once

#include <string>

// The files of the folder sql/, built into the library.

namespace strand::postgres::sql {

std::string first();       // tables and functions
std::string test_clock();  // for stores with a clock of their own

// For strand check. These are not part of the schema.
std::string check_lanes();   // expressions of a WITH: what lanes must be
std::string check();         // more of them: `found`, what is wrong
std::string repair();        // a script
std::string repair_lanes();  // and its second half

}  // namespace strand::postgres::sql
