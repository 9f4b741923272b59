#include "postgres_faults/words.h"

#include <fmt/format.h>

namespace strand::postgres_faults {

std::string WordWriter::quoted(std::string_view value) {
  std::string result = "'";
  for (const char c : value) {
    if (c > ' ' && c < '\x7f' && c != '%') {
      result += c;
    } else {
      result += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

std::string_view WordReader::word() {
  const std::size_t end = rest_.find(' ');
  if (end == std::string_view::npos) throw std::runtime_error("a word is missing");
  const std::string_view word = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
  return word;
}

void WordReader::read(std::string& value) {
  const std::string_view text = word();
  if (!text.starts_with('\'')) throw std::runtime_error("not a string: " + std::string(text));
  value.clear();
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] != '%') {
      value += text[i];
      continue;
    }
    unsigned char byte = 0;
    std::from_chars(text.data() + i + 1, text.data() + std::min(i + 3, text.size()), byte, 16);
    value += static_cast<char>(byte);
    i += 2;
  }
}

void WordReader::read(Token& token) {
  const auto parsed = Token::parse(word());
  if (!parsed) throw std::runtime_error(parsed.error().message);
  token = *parsed;
}

}  // namespace strand::postgres_faults
