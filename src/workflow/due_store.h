#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include <strand/store.h>

namespace strand::workflow {

// Passes every call on to a store, and notes when what was sent or given back becomes due: so that
// a clock can jump there.
//
// Threads: one.
class DueStore final : public Store {
 public:
  explicit DueStore(std::unique_ptr<Store> behind) : behind_(std::move(behind)) {}

  // The first time after `now` at which something may become due.
  std::optional<Time> next(Time now) {
    while (!due_.empty() && due_.top() <= now)
      due_.pop();
    if (due_.empty()) return std::nullopt;
    return due_.top();
  }

  using Store::apply;
  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) override {
    for (const Transaction& transaction : transactions) {
      for (const Send& send : transaction.sends)
        note(send.delay);
      for (const Publish& publish : transaction.publishes)
        note(publish.delay);
      for (const Settle& settle : transaction.settles) {
        for (const Outcome& outcome : settle.outcomes)
          note(outcome.delay.value_or(Duration{0}));
      }
    }
    return behind_->apply(transactions);
  }
  Result<std::vector<Lease>> lease(const LeaseRequest& request) override {
    return behind_->lease(request);
  }
  Result<Pulled> pull(const Token& token, Cursor cursor, PullLimits limits) override {
    return behind_->pull(token, cursor, limits);
  }
  std::vector<Result<Time>> renew(std::span<const Token> tokens, Duration lease) override {
    return behind_->renew(tokens, lease);
  }
  [[nodiscard]] Watch watch(WatchTarget target, std::function<void()> callback) override {
    return behind_->watch(std::move(target), std::move(callback));
  }
  [[nodiscard]] Time now() override { return behind_->now(); }
  Result<History> history(const HistoryQuery& query) override { return behind_->history(query); }
  Result<Page<Execution>> instances(const InstancesQuery& query) override {
    return behind_->instances(query);
  }
  Result<std::optional<Record>> record(std::string_view space, std::string_view key) override {
    return behind_->record(space, key);
  }
  Result<Page<Record>> records(const RecordsQuery& query) override {
    return behind_->records(query);
  }
  Result<Page<PeekedMessage>> peek(const PeekQuery& query) override { return behind_->peek(query); }
  Result<Page<DeadLetter>> dead_letters(const DeadLettersQuery& query) override {
    return behind_->dead_letters(query);
  }
  Result<QueueStats> stats(std::string_view queue) override { return behind_->stats(queue); }
  Result<std::vector<QueueInfo>> queues() override { return behind_->queues(); }
  Result<std::vector<Subscription>> subscriptions() override { return behind_->subscriptions(); }
  Result<std::vector<Topic>> topics() override { return behind_->topics(); }

 private:
  void note(Duration delay) {
    if (delay > Duration{0}) due_.push(behind_->now() + delay);
  }

  std::unique_ptr<Store> behind_;
  std::priority_queue<Time, std::vector<Time>, std::greater<>> due_;
};

}  // namespace strand::workflow
