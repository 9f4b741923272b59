#pragma once

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
#include "queue/forwarding_store.h"
#include "threads/recorded_client.h"

namespace strand {

// A store whose callers need not know that what they do is written down, each thread in its own
// log.
class RecordedStore final : public ForwardingStore {
 public:
  RecordedStore(Store& store, model::Recorder& recorder)
      : ForwardingStore(store), recorder_(recorder) {}

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
  Result<QueueStats> stats(std::string_view queue) override {
    return client().stats(std::string(queue));
  }

 private:
  RecordedClient& client() {
    const std::lock_guard lock(mutex_);
    return clients_.try_emplace(std::this_thread::get_id(), behind(), recorder_).first->second;
  }

  model::Recorder& recorder_;
  std::mutex mutex_;
  std::map<std::thread::id, RecordedClient> clients_;
};

}  // namespace strand
