#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace strand::model {

// What the model holds a store to. Each failure names one of these.
enum class Invariant : std::uint8_t {
  contract,         // not one of the eleven: an answer that the contract does not allow
  nothing_lost,     // I1
  lane_order,       // I2
  current_epoch,    // I3
  one_end,          // I4
  conservation,     // I5
  exactly_once_id,  // I6
  one_chain,        // I7
  not_early,        // I8
  fair_order,       // I9
  record_versions,  // I10
  drains,           // I11
};

// "I3: only the current epoch settles".
std::string_view name(Invariant invariant);

// Thrown at the first observation that the model cannot accept.
class Violation : public std::runtime_error {
 public:
  Violation(Invariant which, const std::string& what);

  [[nodiscard]] Invariant invariant() const { return invariant_; }

 private:
  Invariant invariant_;
};

[[noreturn]] void violate(Invariant invariant, const std::string& what);

// Checks often, explains seldom: `explain` is called only for a failure.
template <class Explain>
void expect(bool holds, Invariant invariant, const Explain& explain) {
  if (!holds) violate(invariant, explain());
}

}  // namespace strand::model
