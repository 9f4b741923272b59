#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/engine/mutations.h"

// The values of entries, by family.

namespace strand::fuzz {

// The value decoded as a load does it, and encoded again: as the engine would have written it. None
// if it does not decode.
std::optional<std::string> encoded_again(engine::Family family, std::string_view value);

}  // namespace strand::fuzz
