// The text form of a token: what `strand receive` prints and `strand ack` takes.

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <strand/error.h>
#include <strand/ids.h>

namespace strand {
namespace {

constexpr std::uint64_t all_ones = std::numeric_limits<std::uint64_t>::max();

void expect_refused(std::string_view text) {
  const Result<Token> parsed = Token::parse(text);
  ASSERT_FALSE(parsed) << '"' << text << "\" was read as " << parsed->to_string();
  // Semantics: a malformed token and a foreign one are the same error to a client.
  EXPECT_EQ(parsed.error().code, Errc::invalid_token) << '"' << text << '"';
  EXPECT_FALSE(parsed.error().message.empty());
}

TEST(Token, Its_text_is_48_hexadecimal_digits) {
  for (const Token& token :
       {Token{}, Token{Epoch{1}, 2, 3}, Token{Epoch{all_ones}, all_ones, all_ones}}) {
    const std::string text = token.to_string();
    EXPECT_EQ(text.size(), 48U) << text;
    EXPECT_EQ(text.find_first_not_of("0123456789abcdefABCDEF"), std::string::npos) << text;
  }
}

// Leading zeros and the top bit are where hand-made hexadecimal goes wrong.
TEST(Token, Its_text_is_read_back_as_the_same_token) {
  for (const std::uint64_t value :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0xff}, std::uint64_t{0x0123456789abcdef},
        std::uint64_t{1} << 63U, all_ones - 1, all_ones}) {
    const Token token{Epoch{value}, value ^ 0x5555U, ~value};
    const Result<Token> parsed = Token::parse(token.to_string());
    ASSERT_TRUE(parsed) << token.to_string() << ": " << parsed.error().message;
    EXPECT_EQ(*parsed, token);
    EXPECT_EQ(parsed->epoch(), token.epoch());
    EXPECT_EQ(parsed->place(), token.place());
    EXPECT_EQ(parsed->seal(), token.seal());
  }
}

TEST(Token, Tokens_that_differ_in_one_part_differ_in_their_text) {
  const std::set<std::string> texts = {
      Token{Epoch{1}, 1, 1}.to_string(), Token{Epoch{2}, 1, 1}.to_string(),
      Token{Epoch{1}, 2, 1}.to_string(), Token{Epoch{1}, 1, 2}.to_string()};
  EXPECT_EQ(texts.size(), 4U);
}

TEST(Token, Text_that_is_too_short_or_too_long_is_refused) {
  const std::string text = Token{Epoch{7}, 8, 9}.to_string();
  expect_refused("");
  expect_refused(text.substr(1));
  expect_refused(text.substr(0, 47));
  expect_refused(text + "0");
  expect_refused(text + text);
}

// strtoull and friends take signs, blanks and "0x" in silence; a token has none of these.
TEST(Token, Text_with_anything_but_digits_is_refused) {
  const std::string digits(48, '1');
  for (const char strange : {'g', 'z', ' ', '-', '+', '.', '\n', '\0', '\xff'}) {
    for (const std::size_t at :
         {std::size_t{0}, std::size_t{16}, std::size_t{31}, std::size_t{47}}) {
      std::string text = digits;
      text[at] = strange;
      expect_refused(text);
    }
  }
  expect_refused("0x" + digits.substr(2));
  expect_refused(" " + digits.substr(1));
}

TEST(Token, Tokens_are_ordered_by_epoch_first) {
  EXPECT_LT((Token{Epoch{1}, 9, 9}), (Token{Epoch{2}, 1, 1}));
  EXPECT_EQ(Token{}, (Token{Epoch{0}, 0, 0}));
}

}  // namespace
}  // namespace strand
