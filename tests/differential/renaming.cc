#include "differential/renaming.h"

namespace strand::differential {
namespace {

// Far beyond what a history counts to, so that a made-up number is nobody's.
constexpr std::uint64_t far = 1'000'003;
constexpr std::uint64_t nobodys = std::uint64_t{1} << 63U;

}  // namespace

Renaming::Renaming() {
  // "Absent" is the same word everywhere.
  pair(name_of(Version{0}), name_of(Version{0}));
}

void Renaming::pair(const Name& reference, const Name& other) {
  if (others_.contains(reference) || references_.contains(other)) return;
  others_.emplace(reference, other);
  references_.emplace(other, reference);
}

Name Renaming::reference_of(const Name& other) const {
  if (const auto known = references_.find(other); known != references_.end()) return known->second;
  Name unknown = other;
  unknown.value[other.kind == NameKind::cursor ? 1 : 0] |= nobodys;
  return unknown;
}

Name Renaming::other_of(const Name& reference) const {
  const auto known = others_.find(reference);
  return known == others_.end() ? reference : known->second;
}

template <class Change>
Name Renaming::forge(const Name& name, std::size_t index, Change change) {
  Name reference = name;
  Name other = other_of(name);
  reference.value.at(index) = change(reference.value.at(index));
  other.value.at(index) = change(other.value.at(index));
  pair(reference, other);
  return reference;
}

Token Renaming::forged_seal(const Token& token) {
  const Name made = forge(name_of(token), 2, [](std::uint64_t seal) { return seal ^ 1U; });
  return {Epoch{made.value[0]}, made.value[1], made.value[2]};
}

Token Renaming::forged_epoch(const Token& token) {
  const Name made = forge(name_of(token), 0, [](std::uint64_t epoch) { return epoch + 1; });
  return {Epoch{made.value[0]}, made.value[1], made.value[2]};
}

Cursor Renaming::forged(const Token& token, Cursor cursor) {
  const auto made =
      forge(name_of(token, cursor), 1, [](std::uint64_t value) { return value + far; });
  return Cursor{made.value[1]};
}

Version Renaming::forged(Version version) {
  const auto made = forge(name_of(version), 0, [](std::uint64_t value) { return value + far; });
  return Version{made.value[0]};
}

}  // namespace strand::differential
