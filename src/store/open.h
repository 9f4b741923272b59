#pragma once

#include <memory>
#include <string_view>

#include <strand/store.h>

#include "store/engine/backend.h"
#include "store/engine/engine.h"

namespace strand::store {

// The two halves of strand::open for a store in this process, for those who need what lies below
// it: the check of a store at rest, benchmarks, tests.

// The backend that the URL names. Holds the store's lock until it is destroyed.
Result<std::unique_ptr<engine::Backend>> open_backend(std::string_view url,
                                                      const OpenOptions& options);

// For a store that is new, or has lost its own. Its secret seals tokens, so it comes from the
// operating system.
engine::Identity new_identity();

// The store on a backend.
Result<std::unique_ptr<Store>> open_on(std::unique_ptr<engine::Backend> backend,
                                       OpenOptions options);

}  // namespace strand::store
