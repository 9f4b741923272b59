#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

// SipHash-2-4 (Aumasson and Bernstein, 2012): a keyed hash that nobody can forge without the key.
// It seals tokens; it is not for hash tables, which have cheaper ones.

namespace strand::base {

class SipHash {
 public:
  explicit SipHash(const std::uint64_t key[2])
      : v0_(key[0] ^ 0x736f6d6570736575U),
        v1_(key[1] ^ 0x646f72616e646f6dU),
        v2_(key[0] ^ 0x6c7967656e657261U),
        v3_(key[1] ^ 0x7465646279746573U) {}

  // Takes in the next eight bytes, as a little-endian word.
  void word(std::uint64_t word) {
    v3_ ^= word;
    round();
    round();
    v0_ ^= word;
  }

  // The hash, when all has been taken in. `last` is the word that ends the message: its length in
  // bytes (mod 256) in the top byte, and below it the bytes that did not fill a word.
  [[nodiscard]] std::uint64_t finish(std::uint64_t last) {
    word(last);
    v2_ ^= 0xffU;
    round();
    round();
    round();
    round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  void round() {
    v0_ += v1_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v3_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ += v3_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ += v1_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v2_ = std::rotl(v2_, 32);
  }

  std::uint64_t v0_;
  std::uint64_t v1_;
  std::uint64_t v2_;
  std::uint64_t v3_;
};

// The hash of whole words: that of their bytes in little-endian order.
inline std::uint64_t siphash(const std::uint64_t key[2], std::span<const std::uint64_t> words) {
  SipHash hash(key);
  for (const std::uint64_t word : words)
    hash.word(word);
  return hash.finish(static_cast<std::uint64_t>(words.size() * 8) << 56U);
}

// The hash of any bytes.
inline std::uint64_t siphash_bytes(const std::uint64_t key[2],
                                   std::span<const std::uint8_t> bytes) {
  SipHash hash(key);
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    word |= std::uint64_t{bytes[i]} << (8 * (i % 8));
    if (i % 8 == 7) {
      hash.word(word);
      word = 0;
    }
  }
  return hash.finish(word | static_cast<std::uint64_t>(bytes.size()) << 56U);
}

}  // namespace strand::base
