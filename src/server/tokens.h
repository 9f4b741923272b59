#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <strand/error.h>
#include <strand/time.h>

#include "server/access.h"

namespace strand::server {

// A token itself is text such as "strand_9rBnX…", made of 32 random bytes. It is shown once, to the
// one who made it. The server knows its SHA-256 alone: there is nothing to guess in random bytes,
// so one round of a fast hash is enough, where passwords would need many of a slow one.
using Digest = std::array<std::uint8_t, 32>;
[[nodiscard]] std::string new_token();
[[nodiscard]] Digest digest_of(std::string_view token);

// What a file says of one token.
struct TokenEntry {
  std::string name;  // for logs and refusals
  Digest digest{};
  std::vector<Permit::Grant> grants = {};
  std::optional<Time> expires = {};
};

// The entry as a file has it:
//
//   [[token]]
//   name = "billing"
//   sha256 = "2c26b46b…"
//   send = ["orders.*"]        # these three and `expires` may be left out
//   receive = ["billing"]
//   admin = ["billing.#"]
//   expires = "2027-01-01T00:00:00Z"
[[nodiscard]] std::string to_toml(const TokenEntry& entry);

// Reads a whole file, or nothing of it: a mistake anywhere, two tokens of one name, or the same
// token twice. `file` is for complaints, which hold no token and no digest.
Result<std::vector<TokenEntry>> parse_tokens(std::string_view text, const std::string& file);

// A pattern of names is segments with dots between them, none empty; `*` is one, `#`, at the end
// only, any number of them.
Result<void> check_pattern(std::string_view pattern);

// Adds an entry to a file, which is made with mode 0600 if there is none. A file that does not read
// as it should, or has this name already, is left as it is. Two who do this at the same time take
// turns.
Result<void> append_token(const std::filesystem::path& file, const TokenEntry& entry);

// The callers are those whose tokens a file has: nobody else, and nobody at all if it has none.
//
// The file must be a regular one that belongs to root or to who runs the server, and that nobody
// else may read or write. Links are followed; what is checked is the file that was opened.
//
// Threads:  every method may be called concurrently.
// Failure:  a reload that fails leaves all as it was.
// Secrecy:  tokens are compared by their digests, with all entries and in constant time: how long
//           that takes says nothing about them. The answer is the same for no token, an unknown
//           one, and one that has expired.
class TokenAccess final : public Access {
 public:
  // `clock` says when tokens expire; none: the system's.
  static Result<std::unique_ptr<TokenAccess>> open(std::filesystem::path file,
                                                   std::shared_ptr<Clock> clock = nullptr);

  // Reads the file again. Streams that are open ask again then.
  Result<void> reload();

  [[nodiscard]] Result<std::shared_ptr<const Permit>> admit(
      std::optional<std::string_view> bearer) const override;
  [[nodiscard]] std::uint64_t generation() const override;
  [[nodiscard]] std::size_t size() const;

 private:
  struct Known {
    Digest digest{};
    std::shared_ptr<const Permit> permit;
    Time expires = Time::max();
  };
  // All of one reading of the file. Not changed after it was made.
  struct Tokens {
    std::vector<Known> known;
    std::vector<Time> ends;  // when tokens expire, in order
    std::uint64_t generation = 0;

    // Grows with each token that expires, too: streams have to ask again then.
    [[nodiscard]] std::uint64_t generation_at(Time now) const;
  };

  TokenAccess(std::filesystem::path file, std::shared_ptr<Clock> clock);
  [[nodiscard]] std::shared_ptr<const Tokens> tokens() const;

  const std::filesystem::path file_;
  const std::shared_ptr<Clock> clock_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Tokens> tokens_;  // guarded by mutex_
};

}  // namespace strand::server
