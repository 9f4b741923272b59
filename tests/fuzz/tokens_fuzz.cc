// Tokens: what parses is written again as it was, and nothing else parses.

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <strand/ids.h>

#include "fuzz/target.h"

namespace strand::fuzz {

namespace {

constexpr std::size_t token_digits = 48;

bool is_hexadecimal(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

void read_text(std::string_view text) {
  const bool well_formed = text.size() == token_digits && std::ranges::all_of(text, is_hexadecimal);
  const auto token = Token::parse(text);
  FUZZ_REQUIRE(token.has_value() == well_formed,
               "48 hexadecimal digits are a token, all else none");
  if (!token) {
    FUZZ_REQUIRE(token.error().code == Errc::invalid_token, "what is malformed is invalid_token");
    return;
  }
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  FUZZ_REQUIRE(token->to_string() == lower, "it is written as it was read, in small letters");
}

void write_numbers(std::string_view bytes) {
  std::uint64_t words[3] = {0, 0, 0};
  std::memcpy(words, bytes.data(), std::min(bytes.size(), sizeof(words)));
  const Token token(Epoch{words[0]}, words[1], words[2]);
  const auto again = Token::parse(token.to_string());
  FUZZ_REQUIRE(again && *again == token, "every token reads back");
}

void run(std::string_view bytes) {
  read_text(bytes);
  write_numbers(bytes);
}

const Target target("tokens", run, 20'000);

}  // namespace

}  // namespace strand::fuzz
