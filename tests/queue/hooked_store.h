#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <strand/store.h>

#include "queue/forwarding_store.h"

namespace strand {

// Passes every call on to a store, unless a hook says otherwise. Hooks are set before threads
// start; they run on the caller's thread.
class HookedStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  // Each returns an error to fail the call with, or nothing to let it through. `after_…` sees that
  // the call was done.
  std::function<std::optional<Error>(std::span<const Transaction>)> before_apply;
  std::function<std::optional<Error>()> after_apply;
  std::function<std::optional<Error>()> before_lease;
  std::function<void(const std::vector<Lease>&)> after_lease;
  std::function<void(const HistoryQuery&)> before_history;
  std::function<std::optional<Error>()> before_renew;
  std::function<void(Duration length)> after_renew;
  std::function<void()> before_watching_a_lane;

  using Store::apply;
  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) override {
    if (auto error = before_apply ? before_apply(transactions) : std::nullopt) {
      return {transactions.size(), std::unexpected(*error)};
    }
    auto results = behind().apply(transactions);
    if (auto error = after_apply ? after_apply() : std::nullopt) {
      return {transactions.size(), std::unexpected(*error)};
    }
    return results;
  }
  Result<std::vector<Lease>> lease(const LeaseRequest& request) override {
    if (auto error = before_lease ? before_lease() : std::nullopt) return std::unexpected(*error);
    auto leases = behind().lease(request);
    if (leases && after_lease) after_lease(*leases);
    return leases;
  }
  Result<History> history(const HistoryQuery& query) override {
    if (before_history) before_history(query);
    return behind().history(query);
  }
  std::vector<Result<Time>> renew(std::span<const Token> tokens, Duration lease) override {
    if (auto error = before_renew ? before_renew() : std::nullopt) {
      return {tokens.size(), std::unexpected(*error)};
    }
    auto results = behind().renew(tokens, lease);
    if (after_renew) after_renew(lease);
    return results;
  }
  [[nodiscard]] Watch watch(WatchTarget target, std::function<void()> callback) override {
    if (before_watching_a_lane && std::holds_alternative<WatchLane>(target))
      before_watching_a_lane();
    return behind().watch(std::move(target), std::move(callback));
  }
};

}  // namespace strand
