#pragma once

#include <functional>
#include <string>
#include <vector>

#include <strand/store.h>

#include "differential/lying_store.h"

namespace strand::postgres_faults {

// The names of the lies that a process can be told to tell.
std::vector<std::string> lies_of_producers();
std::vector<std::string> lies_of_consumers();

// A store that lies once, when it has told the truth for a while. `store` outlives it; `told` is
// called when it has.
differential::Lie make_lie(const std::string& name, Store& store, std::function<void()> told);

}  // namespace strand::postgres_faults
