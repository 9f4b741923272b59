#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/assert.h"

// What a fuzz target is, whoever drives it: libFuzzer (libfuzzer.cc), or a test that replays the
// corpus (replay_test.cc).

namespace strand::fuzz {

// One target, defined by a constant in its file NAME_fuzz.cc.
//
// Failure: `run` ends the process (FUZZ_REQUIRE, an assertion of the product, a sanitizer) when a
//          property does not hold, whatever the bytes are. It keeps nothing from call to call that
//          an outcome could depend on.
struct Target {
  using Run = void (*)(std::string_view bytes);

  // `name` must live as long as the process. `mutations` is how many mutated inputs a test run
  // tries beside the corpus: fewer for a slow target.
  Target(std::string_view name, Run run, std::size_t mutations = 4'000);

  std::string_view name;
  Run run;
  std::size_t mutations;
};

// Those that are linked into the program, by name.
std::vector<Target> targets();

}  // namespace strand::fuzz

// What must hold for every input.
#define FUZZ_REQUIRE(condition, why) STRAND_ASSERT(condition, why)
