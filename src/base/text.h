#pragma once

#include <string>
#include <string_view>

namespace strand::base {

// Valid UTF-8 without control characters: fit for names that people read and type.
bool is_plain_text(std::string_view text);

// Valid UTF-8, control characters included.
bool is_utf8(std::string_view text);

// For error messages: control characters and invalid UTF-8 as \xNN, long text shortened.
std::string printable(std::string_view text);

}  // namespace strand::base
