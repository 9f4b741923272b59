#pragma once

#include <cstdint>
#include <string>

#include <strand/ids.h>
#include <strand/store.h>

#include "base/siphash.h"

namespace strand::postgres {

// What makes one store different from all others; kept in its table `store`.
struct Identity {
  std::uint64_t store = 0;
  std::uint64_t secret[2] = {0, 0};
};

// A place as the functions of the schema make it (see lease.sql): the sign tells lanes and unkeyed
// messages apart.
inline bool is_unkeyed(const Token& token) { return static_cast<std::int64_t>(token.place()) < 0; }

Token seal(const Identity& identity, std::int64_t epoch, std::int64_t place);
// `invalid_token` for one that the store did not make.
Result<void> check_seal(const Identity& identity, const Token& token);

}  // namespace strand::postgres
