#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace strand::sim {

// Numbers that look random and are the same for the same seed on every machine, which the
// distributions of the standard library do not promise.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // SplitMix64.
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

  // From 0 to n - 1; n > 0.
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): it takes lists of fixed weights for empty ones
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  // From low to high, both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  bool permille(std::uint64_t n) { return below(1000) < n; }

  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(below(from.size()))];
  }

  // A stream of its own, so that one part of a run can change without changing the others.
  [[nodiscard]] Random fork(std::uint64_t name) const {
    return Random(Random(state_ ^ (name * 0xd1342543de82ef95U + 1)).next());
  }

 private:
  std::uint64_t state_;
};

}  // namespace strand::sim
