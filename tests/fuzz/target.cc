#include "fuzz/target.h"

#include <algorithm>

namespace strand::fuzz {

namespace {

// Filled before main(), by the constants of the targets, in any order.
std::vector<Target>& registry() {
  static std::vector<Target> all;
  return all;
}

}  // namespace

Target::Target(std::string_view target_name, Run target_run, std::size_t target_mutations)
    : name(target_name), run(target_run), mutations(target_mutations) {
  registry().push_back(*this);
}

std::vector<Target> targets() {
  std::vector<Target> all = registry();
  std::ranges::sort(all, {}, &Target::name);
  return all;
}

}  // namespace strand::fuzz
