#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <strand/store.h>

namespace strand {

// Passes every call on to another store, which outlives it. For those that change or note some.
class ForwardingStore : public Store {
 public:
  explicit ForwardingStore(Store& store) : store_(store) {}

  using Store::apply;
  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) override {
    return store_.apply(transactions);
  }
  Result<std::vector<Lease>> lease(const LeaseRequest& request) override {
    return store_.lease(request);
  }
  Result<Pulled> pull(const Token& token, Cursor cursor, PullLimits limits) override {
    return store_.pull(token, cursor, limits);
  }
  std::vector<Result<Time>> renew(std::span<const Token> tokens, Duration lease) override {
    return store_.renew(tokens, lease);
  }
  [[nodiscard]] Watch watch(WatchTarget target, std::function<void()> callback) override {
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

 protected:
  [[nodiscard]] Store& behind() { return store_; }

 private:
  Store& store_;
};

}  // namespace strand
