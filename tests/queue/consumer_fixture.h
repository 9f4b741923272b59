#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <strand/consumer.h>
#include <strand/strand.h>

#include "hooked_store.h"

namespace strand {

// Something that threads wait for each other by. A test that waits for what never comes is ended by
// the runner's own time limit.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// What handlers write down, in order.
template <class T>
class Notes {
 public:
  void add(T note) {
    const std::lock_guard lock(mutex_);
    notes_.push_back(std::move(note));
    changed_.notify_all();
  }
  [[nodiscard]] std::vector<T> all() const {
    const std::lock_guard lock(mutex_);
    return notes_;
  }
  void wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return notes_.size() >= count; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<T> notes_;
};

using Bodies = std::vector<std::string>;

inline Bodies bodies(std::span<const Message> messages) {
  Bodies result;
  for (const Message& message : messages)
    result.push_back(message.body);
  return result;
}

// A store in memory with a manual clock, and consumers of the queue "q".
class ConsumerTest : public testing::Test {
 protected:
  ConsumerTest() {
    OpenOptions options;
    options.clock = clock_;
    store_ = open("memory:", options).value();
    hooked_ = std::make_unique<HookedStore>(*store_);
    hooked_->after_renew = [this](Duration) { renewals_.add(1); };
  }

  [[nodiscard]] ConsumerOptions options() const {
    ConsumerOptions result;
    result.queues = {"q"};
    result.clock = clock_;
    return result;
  }
  template <class F>
  std::unique_ptr<Consumer> consume(ConsumerOptions options, F handler) {
    options.on_trouble = [this](const ConsumerTrouble& trouble) { troubles_.add(trouble); };
    return Consumer::start(*hooked_, std::move(options), std::move(handler)).value();
  }
  template <class F>
  std::unique_ptr<Consumer> consume(F handler) {
    return consume(options(), std::move(handler));
  }

  static void add_send(Transaction& transaction, const std::string& queue, const std::string& key,
                       const std::string& body, Duration delay = {}) {
    Send& send = transaction.sends.emplace_back();
    send.queue = queue;
    if (!key.empty()) send.key = key;
    send.body = body;
    send.delay = delay;
  }
  MessageId send(const std::string& key, const std::string& body, Duration delay = {},
                 const std::string& queue = "q") {
    Transaction transaction;
    add_send(transaction, queue, key, body, delay);
    return store_->apply(transaction).value().sent.front().id;
  }
  void configure(const QueueSettings& settings, const std::string& queue = "q") {
    Transaction transaction;
    transaction.admin = ConfigureQueue{.queue = queue, .settings = settings};
    store_->apply(transaction).value();
  }
  [[nodiscard]] QueueStats stats(const std::string& queue = "q") {
    return store_->stats(queue).value();
  }
  [[nodiscard]] std::vector<ConsumerTrouble::Kind> troubles() const {
    std::vector<ConsumerTrouble::Kind> kinds;
    for (const ConsumerTrouble& trouble : troubles_.all())
      kinds.push_back(trouble.kind);
    return kinds;
  }

  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  std::unique_ptr<Store> store_;
  std::unique_ptr<HookedStore> hooked_;  // what consumers see of it
  Notes<int> renewals_;
  Notes<ConsumerTrouble> troubles_;
};

}  // namespace strand
