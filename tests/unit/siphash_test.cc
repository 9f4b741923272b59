// SipHash-2-4 against the vectors that its authors published.

#include "base/siphash.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace strand::base {
namespace {

// The key of the published vectors: the bytes 00, 01, … 0f.
constexpr std::uint64_t published_key[2] = {0x0706050403020100U, 0x0f0e0d0c0b0a0908U};

std::vector<std::uint8_t> ascending_bytes(std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return bytes;
}

TEST(SipHash, It_yields_the_published_values) {
  constexpr std::array<std::uint64_t, 9> published = {
      0x726fdb47dd0e0e31U, 0x74f839c593dc67fdU, 0x0d6c8009d9a94f5aU,
      0x85676696d7fb7e2dU, 0xcf2794e0277187b7U, 0x18765564cd99a68dU,
      0xcbc9466e58fee3ceU, 0xab0200f58b01d137U, 0x93f5f5799a932462U};
  for (std::size_t length = 0; length < published.size(); ++length) {
    EXPECT_EQ(siphash_bytes(published_key, ascending_bytes(length)), published[length])
        << length << " bytes";
  }
  // The example in the appendix of the paper.
  EXPECT_EQ(siphash_bytes(published_key, ascending_bytes(15)), 0xa129ca6149be45e5U);
}

TEST(SipHash, Words_are_hashed_as_their_bytes_in_little_endian_order) {
  const std::array<std::uint64_t, 3> words = {0x0706050403020100U, 0x0f0e0d0c0b0a0908U,
                                              0x1716151413121110U};
  for (std::size_t count = 0; count <= words.size(); ++count) {
    EXPECT_EQ(siphash(published_key, std::span(words).first(count)),
              siphash_bytes(published_key, ascending_bytes(count * 8)))
        << count << " words";
  }
}

// Both halves of the key and every word must matter, or a seal could be carried over.
TEST(SipHash, Another_key_or_another_word_gives_another_value) {
  const std::array<std::uint64_t, 2> words = {1, 2};
  const std::array<std::uint64_t, 2> others = {1, 3};
  const std::uint64_t first_differs[2] = {published_key[0] ^ 1U, published_key[1]};
  const std::uint64_t second_differs[2] = {published_key[0], published_key[1] ^ 1U};
  const std::uint64_t value = siphash(published_key, words);
  EXPECT_NE(siphash(published_key, others), value);
  EXPECT_NE(siphash(first_differs, words), value);
  EXPECT_NE(siphash(second_differs, words), value);
}

}  // namespace
}  // namespace strand::base
