#include "store/postgres/places.h"

#include <fmt/format.h>

#include "base/planted.h"

namespace strand::postgres {

namespace {

std::uint64_t seal_of(const Identity& identity, std::uint64_t epoch, std::uint64_t place) {
  const std::uint64_t words[] = {identity.store, epoch, place};
  return base::siphash(identity.secret, words);
}

}  // namespace

Token seal(const Identity& identity, std::int64_t epoch, std::int64_t place) {
  const auto number = static_cast<std::uint64_t>(epoch);
  const auto where = static_cast<std::uint64_t>(place);
  return {Epoch{number}, where, seal_of(identity, number, where)};
}

Result<void> check_seal(const Identity& identity, const Token& token) {
  const auto epoch = static_cast<std::uint64_t>(token.epoch());
  if (STRAND_PLANTED("postgres-forged-token")) return {};
  if (seal_of(identity, epoch, token.place()) == token.seal()) return {};
  return failure(Errc::invalid_token,
                 fmt::format("the token {} was not made by this store", token.to_string()));
}

}  // namespace strand::postgres
