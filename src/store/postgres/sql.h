#pragma once

#include <string>

// The files of the folder sql/, built into the library.

namespace strand::postgres::sql {

std::string first();       // tables and functions
std::string test_clock();  // for stores with a clock of their own

}  // namespace strand::postgres::sql
