#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "conformance/suite.h"
#include "differential/history.h"

namespace strand::differential {

// A kind of store that must equal the reference, `memory:`.
struct OtherStore {
  conformance::StoreUnderTest store;
  Traits traits;
  std::uint64_t seeds = 0;  // histories, unless STRAND_DIFF_SEEDS says otherwise
};
void PrintTo(const OtherStore& other, std::ostream* out);

// All stores of the conformance suite but the reference, or those that STRAND_DIFF_STORE names,
// separated by commas.
std::vector<OtherStore> other_stores();

// Fresh stores for each run; what the last run left of them is removed.
Stage stage_of(const OtherStore& other);

// Opens the store at a URL, or ends the test: without a store there is nothing to compare.
std::unique_ptr<Store> opened(const std::string& url, const OpenOptions& options);

}  // namespace strand::differential
