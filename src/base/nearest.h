#pragma once

#include <span>
#include <string>
#include <string_view>

namespace strand::base {

// For a mistyped word: "; did you mean 'receive'?", or nothing if none of `known` is near.
std::string suggestion(std::string_view word, std::span<const std::string> known);

}  // namespace strand::base
