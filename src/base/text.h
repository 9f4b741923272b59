#pragma once

#include <string>
#include <string_view>

namespace strand::base {

// Valid UTF-8 without control characters: fit for names that people read and type.
bool is_plain_text(std::string_view text);

// Valid UTF-8, control characters included: fit for a JSON string.
bool is_utf8(std::string_view text);

// Control characters and invalid UTF-8 as \xNN: fit for one line of a terminal.
std::string escaped(std::string_view text);

// For error messages: escaped, and long text shortened.
std::string printable(std::string_view text);

// RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace strand::base
