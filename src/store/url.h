#pragma once

#include <string>
#include <string_view>

#include <strand/error.h>

namespace strand::store {

// The name of a store, taken apart: `memory:orders` is scheme `memory`, rest `orders`.
struct Url {
  enum class Scheme { memory, rocksdb, sqlite, postgres, strand };
  Scheme scheme = Scheme::memory;
  // A name, the path of a store on disk, which is not empty, or the whole URL of a database or
  // server.
  std::string rest;
};

// Text that is no URL is `invalid_argument`; a kind of store that there is not, or not in this
// version, is `unsupported`. Both messages say what can be written instead.
Result<Url> parse_url(std::string_view text);

}  // namespace strand::store
