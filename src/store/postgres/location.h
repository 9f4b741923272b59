#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <strand/error.h>

namespace strand::postgres {

// Where a store is, and how it is used: what a URL of PostgreSQL says, apart from what is libpq's.
struct Location {
  std::string conninfo = {};         // for libpq
  std::string schema = "strand";     // ?schema=
  bool migrate = true;               // ?migrate=off
  std::size_t connections_max = 16;  // ?connections=
};

// `text` is postgres://…, postgresql://…, or postgres: with key=value pairs of libpq behind it.
Result<Location> parse_location(std::string_view text);

}  // namespace strand::postgres
