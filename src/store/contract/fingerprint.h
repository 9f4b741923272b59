#pragma once

#include <cstdint>

#include <strand/transaction.h>

namespace strand::store {

// A hash of what a transaction asks for, without its id and durability. Two transactions with the
// same fingerprint have the same content, as far as 128 bits can tell.
struct Fingerprint {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};
Fingerprint fingerprint(const Transaction& transaction);

}  // namespace strand::store
