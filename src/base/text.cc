#include "base/text.h"

#include <cstdint>

namespace strand::base {

namespace {

constexpr std::size_t printable_bytes_max = 80;

// The length of the UTF-8 character that `text` starts with; 0 if it starts with none. Overlong
// forms, surrogates and values beyond U+10FFFF are none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80U) return 1;
  const std::size_t length = lead >= 0xf0U ? 4 : lead >= 0xe0U ? 3 : lead >= 0xc2U ? 2 : 0;
  if (length == 0 || lead > 0xf4U || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
  }
  if (lead == 0xe0U && byte(1) < 0xa0U) return 0;
  if (lead == 0xedU && byte(1) > 0x9fU) return 0;
  if (lead == 0xf0U && byte(1) < 0x90U) return 0;
  if (lead == 0xf4U && byte(1) > 0x8fU) return 0;
  return length;
}

// U+0000 to U+001F, U+007F, and U+0080 to U+009F (which UTF-8 writes as C2 80 to C2 9F).
bool is_control(std::string_view character) {
  const auto lead = static_cast<std::uint8_t>(character[0]);
  if (character.size() == 1) return lead < 0x20U || lead == 0x7fU;
  return lead == 0xc2U && static_cast<std::uint8_t>(character[1]) < 0xa0U;
}

// Takes the first character of `text`, and appends what shows it.
void append_escaped(std::string& result, std::string_view& text) {
  static constexpr std::string_view digits = "0123456789abcdef";
  const std::size_t length = utf8_length(text);
  if (length == 0 || is_control(text.substr(0, length))) {
    const auto byte = static_cast<std::uint8_t>(text.front());
    result += {'\\', 'x', digits[byte >> 4U], digits[byte & 0xfU]};
    text.remove_prefix(1);
  } else {
    result.append(text.substr(0, length));
    text.remove_prefix(length);
  }
}

}  // namespace

bool is_plain_text(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0 || is_control(text.substr(0, length))) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string escaped(std::string_view text) {
  std::string result;
  while (!text.empty())
    append_escaped(result, text);
  return result;
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    if (result.size() >= printable_bytes_max) return result + "…";
    append_escaped(result, text);
  }
  return result;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  result.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    std::uint32_t bits = 0;
    for (std::size_t j = 0; j < 3; ++j)
      bits = bits << 8U | (j < group.size() ? static_cast<std::uint8_t>(group[j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      result += j <= group.size() ? digits[bits >> (18U - 6U * j) & 0x3fU] : '=';
  }
  return result;
}

}  // namespace strand::base
