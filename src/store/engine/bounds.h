#pragma once

#include <cstdint>

#include <strand/time.h>

// What no sound store goes beyond. Reading one refuses more than this, so that nothing that is
// computed later can overflow; check reports it.

namespace strand::engine {

// The end of the year 9999; the order of turns has room for hardly more.
inline constexpr Time last_time{Duration{253'402'300'799'999}};

inline bool is_absurd(Time time) { return time < Time{} || time > last_time; }

// Numbers (message ids, epochs, versions, instances) would take longer than anybody waits to get
// here, and beyond it a backend has no room for them.
inline constexpr std::uint64_t numbers_max = std::uint64_t{1} << 62U;

}  // namespace strand::engine
