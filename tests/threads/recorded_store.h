#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <strand/store.h>

#include "model/recorder.h"
#include "threads/recorded_client.h"

namespace strand {

// A store whose callers need not know that what they do is written down, each thread in its own
// log.
class RecordedStore final : public Store {
 public:
  RecordedStore(Store& store, model::Recorder& recorder) : store_(store), recorder_(recorder) {}

  using Store::apply;
  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) override {
    return client().apply(transactions);
  }
  Result<std::vector<Lease>> lease(const LeaseRequest& request) override {
    return client().lease(request);
  }
  Result<Pulled> pull(const Token& token, Cursor cursor, PullLimits limits) override {
    return client().pull(token, cursor, limits);
  }
  std::vector<Result<Time>> renew(std::span<const Token> tokens, Duration lease) override {
    std::vector<Result<Time>> results;
    for (const Token& token : tokens)
      results.push_back(client().renew(token, lease));
    return results;
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
  Result<QueueStats> stats(std::string_view queue) override {
    return client().stats(std::string(queue));
  }
  Result<std::vector<QueueInfo>> queues() override { return store_.queues(); }
  Result<std::vector<Subscription>> subscriptions() override { return store_.subscriptions(); }
  Result<std::vector<Topic>> topics() override { return store_.topics(); }

 private:
  RecordedClient& client() {
    const std::lock_guard lock(mutex_);
    return clients_.try_emplace(std::this_thread::get_id(), store_, recorder_).first->second;
  }

  Store& store_;
  model::Recorder& recorder_;
  std::mutex mutex_;
  std::map<std::thread::id, RecordedClient> clients_;
};

}  // namespace strand
