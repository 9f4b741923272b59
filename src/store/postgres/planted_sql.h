#pragma once

#include <string>

namespace strand::postgres {

// The schema with a bug on purpose, where the tests of the tests want one (base/planted.h); else as
// it is.
std::string plant(std::string sql);

}  // namespace strand::postgres
