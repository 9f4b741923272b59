#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "differential/lying_store.h"
#include "differential/names.h"

namespace strand::differential {

// Equal to the store behind it, but for the names that it gives: other ids, epochs, tokens,
// versions and cursors, in the same order.
class RenamedStore final : private StoreOwner, public ForwardingStore {
 public:
  explicit RenamedStore(std::unique_ptr<Store> store)
      : StoreOwner{std::move(store)}, ForwardingStore(*owned) {}

  using Store::apply;
  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) override {
    std::vector<Transaction> inside;
    for (const Transaction& transaction : transactions)
      inside.push_back(inward(transaction));
    std::vector<Result<Receipt>> results = behind().apply(std::span<const Transaction>(inside));
    for (Result<Receipt>& result : results)
      result = outward(std::move(result));
    return results;
  }
  Result<std::vector<Lease>> lease(const LeaseRequest& request) override {
    return outward(behind().lease(request));
  }
  Result<Pulled> pull(const Token& token, Cursor cursor, PullLimits limits) override {
    Cursor cursor_inside = cursor;
    each_name(token, cursor_inside, to_inside);
    const Token token_inside = inward(token);
    Result<Pulled> pulled = behind().pull(token_inside, cursor_inside, limits);
    if (!pulled) return pulled;
    return outward(PulledFor{.token = token_inside, .pulled = std::move(*pulled)}).pulled;
  }
  std::vector<Result<Time>> renew(std::span<const Token> tokens, Duration lease) override {
    std::vector<Token> inside;
    for (const Token& token : tokens)
      inside.push_back(inward(token));
    return behind().renew(inside, lease);
  }
  Result<std::optional<Record>> record(std::string_view space, std::string_view key) override {
    return outward(behind().record(space, key));
  }
  Result<Page<Record>> records(const RecordsQuery& query) override {
    return outward(behind().records(query));
  }
  Result<Page<PeekedMessage>> peek(const PeekQuery& query) override {
    return outward(behind().peek(inward(query)));
  }
  Result<Page<DeadLetter>> dead_letters(const DeadLettersQuery& query) override {
    return outward(behind().dead_letters(inward(query)));
  }

 private:
  static void to_outside(Name& name) {
    auto& [first, second, third] = name.value;
    switch (name.kind) {
      case NameKind::message:
        first = first * 3 + 1000;
        break;
      case NameKind::publication:
        first += 5;  // the ids of some messages among them
        break;
      case NameKind::token:
        first += 1000;
        second ^= 0xabcdU;
        third ^= 0x77U;
        break;
      case NameKind::cursor:
        second = second * 7 + 3;
        break;
      case NameKind::version:
        if (first != 0) first = first * 2 + 100;
        break;
    }
  }
  // Names that to_outside() did not make become some others, which the store does not know.
  static void to_inside(Name& name) {
    auto& [first, second, third] = name.value;
    switch (name.kind) {
      case NameKind::message:
        first = (first - 1000) / 3;
        break;
      case NameKind::publication:
        first -= 5;
        break;
      case NameKind::token:
        first -= 1000;
        second ^= 0xabcdU;
        third ^= 0x77U;
        break;
      case NameKind::cursor:
        second = (second - 3) / 7;
        break;
      case NameKind::version:
        if (first != 0) first = (first - 100) / 2;
        break;
    }
  }

  template <class T>
  static T inward(T request) {
    each_name(request, to_inside);
    return request;
  }
  template <class T>
  static T outward(T answer) {
    each_name(answer, to_outside);
    return answer;
  }
  template <class T>
  static Result<T> outward(Result<T> answer) {
    if (answer) each_name(*answer, to_outside);
    return answer;
  }
};

}  // namespace strand::differential
