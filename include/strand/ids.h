#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include <strand/error.h>
#include <strand/time.h>

namespace strand {

// Names a message in its store. Ids grow in the order of commits and are never reused.
enum class MessageId : std::uint64_t {};

// The number of a lease. Every lease has a higher epoch than all leases before it in the store,
// which makes it a fencing number: pass it along to systems that can refuse lower ones.
enum class Epoch : std::uint64_t {};

// The version of a record, from one counter of the store; never reused. 0 means "absent".
enum class Version : std::uint64_t {};

// Says how far a lease has been filled by pulls. Opaque: pass back what lease or pull returned.
enum class Cursor : std::uint64_t {};

// Names one lease. A value: copy it, send it, write it down, read it back.
//
// A store makes and checks tokens; a token of another store, or one that was tampered with, is
// `invalid_token`; a genuine one whose lease is over is `lease_lost`.
class Token {
 public:
  Token() = default;
  Token(Epoch epoch, std::uint64_t place, std::uint64_t seal)
      : epoch_(epoch), place_(place), seal_(seal) {}

  [[nodiscard]] Epoch epoch() const { return epoch_; }
  // For stores: where the leased lane is found, and the proof that the store made this token.
  [[nodiscard]] std::uint64_t place() const { return place_; }
  [[nodiscard]] std::uint64_t seal() const { return seal_; }

  // 48 hexadecimal digits.
  [[nodiscard]] std::string to_string() const;
  static Result<Token> parse(std::string_view text);

  friend auto operator<=>(const Token&, const Token&) = default;

 private:
  Epoch epoch_{};
  std::uint64_t place_ = 0;
  std::uint64_t seal_ = 0;
};

// Makes a lease request repeatable: asking again with the same id returns the same leases.
struct RequestId {
  std::uint64_t client = 0;  // chosen at random by the client
  std::uint64_t number = 0;  // counted by the client

  friend auto operator<=>(const RequestId&, const RequestId&) = default;
};

// Makes a transaction repeatable: a repeat returns the receipt of the first.
struct TransactionId {
  std::uint64_t client = 0;  // chosen at random by the client
  std::uint64_t number = 0;  // counted by the client, from 1
  // Store time when the id was made (see Store::now). Older than the window: refused.
  Time time{};
  // The client has its answers to all numbers below this one: the store may forget them, and
  // refuses them from now on.
  std::uint64_t lowest_unanswered = 0;

  friend auto operator<=>(const TransactionId&, const TransactionId&) = default;
};

}  // namespace strand
