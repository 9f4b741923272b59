#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <strand/store.h>

#include "differential/names.h"

namespace strand::differential {

// Which name of the reference store is which name of the other store. Names are learnt where both
// stores give one in the same place of an answer; from then on they must stay with each other.
class Renaming {
 public:
  Renaming();

  // Pairs the names of two answers to the same call, place by place; a name that has a partner
  // keeps it. Answers of different shapes teach nothing: they differ in any case.
  template <class T>
  void learn(T reference, T other) {
    const std::vector<Name> left = names_in(reference);
    const std::vector<Name> right = names_in(other);
    if (left.size() != right.size()) return;
    for (std::size_t i = 0; i < left.size(); ++i)
      pair(left[i], right[i]);
  }

  // The other store's answer in the words of the reference. A name without a partner becomes one
  // that the reference never uses.
  template <class T>
  [[nodiscard]] T to_reference(T answer) const {
    each_name(answer, [this](Name& name) { name = reference_of(name); });
    return answer;
  }

  // A request in the words of the other store. Made-up names stay what they are.
  template <class T>
  [[nodiscard]] T to_other(T request) const {
    each_name(request, [this](Name& name) { name = other_of(name); });
    return request;
  }
  [[nodiscard]] Cursor to_other(const Token& token, Cursor cursor) const {
    return Cursor{other_of(name_of(token, cursor)).value[1]};
  }

  // Names that no store gave, made in the same way from a pair that they did give.
  Token forged_seal(const Token& token);
  Token forged_epoch(const Token& token);
  Cursor forged(const Token& token, Cursor cursor);
  Version forged(Version version);

 private:
  template <class T>
  static std::vector<Name> names_in(T& answer) {
    std::vector<Name> names;
    each_name(answer, [&names](Name& name) { names.push_back(name); });
    return names;
  }

  void pair(const Name& reference, const Name& other);
  [[nodiscard]] Name reference_of(const Name& other) const;
  [[nodiscard]] Name other_of(const Name& reference) const;
  // The name with its part at `index` changed by `change`, on both sides.
  template <class Change>
  Name forge(const Name& name, std::size_t index, Change change);

  std::map<Name, Name> references_;  // by the other store's name
  std::map<Name, Name> others_;      // by the reference's name
};

}  // namespace strand::differential
