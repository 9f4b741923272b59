#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "faults/store_on_disk.h"

namespace strand::faults {

// Some seeds of many, so that a long run can be stopped and taken up again.
struct Slice {
  OnDisk kind = OnDisk::rocksdb;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};
inline void PrintTo(const Slice& slice, std::ostream* out) {
  *out << to_string(slice.kind) << " seeds " << slice.first << " to "
       << slice.first + slice.count - 1;
}

// `quick` seeds of each store, or `full` ones with STRAND_TEST_FULL. STRAND_FAULT_SEED names one.
inline std::vector<Slice> slices(std::uint64_t quick, std::uint64_t full) {
  std::vector<Slice> result;
  const bool all = std::getenv("STRAND_TEST_FULL") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  const char* const one = std::getenv("STRAND_FAULT_SEED");     // NOLINT(concurrency-mt-unsafe)
  const std::uint64_t count = all ? full : quick;
  const std::uint64_t length = all ? std::max<std::uint64_t>(1, full / 10) : quick;
  for (const OnDisk kind : {OnDisk::rocksdb, OnDisk::sqlite}) {
    if (one != nullptr) {
      result.push_back({.kind = kind, .first = std::strtoull(one, nullptr, 10), .count = 1});
      continue;
    }
    for (std::uint64_t first = 1; first <= count; first += length) {
      result.push_back(
          {.kind = kind, .first = first, .count = std::min(length, count + 1 - first)});
    }
  }
  return result;
}

inline std::string slice_name(const ::testing::TestParamInfo<Slice>& info) {
  return fmt::format("{}_{}", to_string(info.param.kind), info.param.first);
}

// Runs them until one fails, which says how it is repeated.
template <class Run>
void for_each_seed(const Slice& slice, const Run& run) {
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  for (std::uint64_t seed = slice.first; seed < slice.first + slice.count; ++seed) {
    const std::string suite = test->test_suite_name();
    const std::string name = test->name();
    SCOPED_TRACE(fmt::format(
        "repeat with STRAND_FAULT_SEED={} build/release/faults_tests '--gtest_filter={}.{}/{}_*'",
        seed, suite, name.substr(0, name.find('/')), to_string(slice.kind)));
    run(slice.kind, seed);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace strand::faults
