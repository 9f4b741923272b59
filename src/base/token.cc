#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <strand/error.h>
#include <strand/ids.h>

namespace strand {

namespace {

constexpr std::size_t word_digits = 16;
constexpr std::size_t token_words = 3;

}  // namespace

std::string Token::to_string() const {
  return fmt::format("{:016x}{:016x}{:016x}", static_cast<std::uint64_t>(epoch_), place_, seal_);
}

Result<Token> Token::parse(std::string_view text) {
  if (text.size() != token_words * word_digits) {
    return failure(Errc::invalid_token,
                   fmt::format("a token has {} hexadecimal digits, this one has {} characters",
                               token_words * word_digits, text.size()));
  }
  std::array<std::uint64_t, token_words> words{};
  for (std::size_t i = 0; i < token_words; ++i) {
    const char* first = text.data() + i * word_digits;
    const char* last = first + word_digits;
    // Takes neither sign, blank nor prefix, so that a token has one length and no disguises.
    const auto [end, error] = std::from_chars(first, last, words[i], 16);
    if (error != std::errc{} || end != last) {
      return failure(Errc::invalid_token, "a token has nothing but hexadecimal digits");
    }
  }
  return Token{Epoch{words[0]}, words[1], words[2]};
}

}  // namespace strand
