#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include <strand/store.h>

#include "queue/forwarding_store.h"

namespace strand::workflow {

// Passes every call on to a store, and notes when what was sent or given back becomes due: so that
// a clock can jump there.
//
// Threads: one.
class DueStore final : public ForwardingStore {
 public:
  explicit DueStore(std::unique_ptr<Store> store)
      : ForwardingStore(*store), store_(std::move(store)) {}

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
    return behind().apply(transactions);
  }

 private:
  void note(Duration delay) {
    if (delay > Duration{0}) due_.push(now() + delay);
  }

  std::unique_ptr<Store> store_;
  std::priority_queue<Time, std::vector<Time>, std::greater<>> due_;
};

}  // namespace strand::workflow
