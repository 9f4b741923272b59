#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <strand/store.h>

namespace strand {

// Passes every call on to a store, unless a hook says otherwise. Hooks are set before threads
// start; they run on the caller's thread.
class HookedStore final : public Store {
 public:
  explicit HookedStore(Store& store) : store_(store) {}

  // Each returns an error to fail the call with, or nothing to let it through. `after_…` sees that
  // the call was done.
  std::function<std::optional<Error>(std::span<const Transaction>)> before_apply;
  std::function<std::optional<Error>()> after_apply;
  std::function<std::optional<Error>()> before_lease;
  std::function<std::optional<Error>()> before_renew;
  std::function<void()> after_renew;
  std::function<void()> before_watching_a_lane;

  using Store::apply;
  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) override {
    if (auto error = before_apply ? before_apply(transactions) : std::nullopt) {
      return {transactions.size(), std::unexpected(*error)};
    }
    auto results = store_.apply(transactions);
    if (auto error = after_apply ? after_apply() : std::nullopt) {
      return {transactions.size(), std::unexpected(*error)};
    }
    return results;
  }
  Result<std::vector<Lease>> lease(const LeaseRequest& request) override {
    if (auto error = before_lease ? before_lease() : std::nullopt) return std::unexpected(*error);
    return store_.lease(request);
  }
  Result<Pulled> pull(const Token& token, Cursor cursor, PullLimits limits) override {
    return store_.pull(token, cursor, limits);
  }
  std::vector<Result<Time>> renew(std::span<const Token> tokens, Duration lease) override {
    if (auto error = before_renew ? before_renew() : std::nullopt) {
      return {tokens.size(), std::unexpected(*error)};
    }
    auto results = store_.renew(tokens, lease);
    if (after_renew) after_renew();
    return results;
  }
  [[nodiscard]] Watch watch(WatchTarget target, std::function<void()> callback) override {
    if (before_watching_a_lane && std::holds_alternative<WatchLane>(target))
      before_watching_a_lane();
    return store_.watch(std::move(target), std::move(callback));
  }
  [[nodiscard]] Time now() override { return store_.now(); }
  Result<History> history(const HistoryQuery& query) override { return store_.history(query); }
  Result<Page<Execution>> instances(const InstancesQuery& query) override {
    return store_.instances(query);
  }
  Result<std::optional<Record>> record(std::string_view space, std::string_view key) override {
    return store_.record(space, key);
  }
  Result<Page<Record>> records(const RecordsQuery& query) override { return store_.records(query); }
  Result<Page<PeekedMessage>> peek(const PeekQuery& query) override { return store_.peek(query); }
  Result<Page<DeadLetter>> dead_letters(const DeadLettersQuery& query) override {
    return store_.dead_letters(query);
  }
  Result<QueueStats> stats(std::string_view queue) override { return store_.stats(queue); }
  Result<std::vector<QueueInfo>> queues() override { return store_.queues(); }
  Result<std::vector<Subscription>> subscriptions() override { return store_.subscriptions(); }
  Result<std::vector<Topic>> topics() override { return store_.topics(); }

 private:
  Store& store_;
};

}  // namespace strand
