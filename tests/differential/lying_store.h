#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <strand/store.h>

#include "queue/forwarding_store.h"

namespace strand::differential {

// What a store may be wrong about. Each function changes what goes in or what comes out; all are
// optional. A lie says "now and then" by counting, so that a seed repeats it.
struct Lie {
  std::function<void(Transaction&)> in_transaction = {};
  std::function<void(LeaseRequest&)> in_request = {};
  std::function<void(const Transaction&, Result<Receipt>&)> of_receipt = {};
  std::function<void(Result<std::vector<Lease>>&)> of_leases = {};
  std::function<void(Result<Pulled>&)> of_pull = {};
  std::function<void(Result<Time>&)> of_renewal = {};
  std::function<void(Result<QueueStats>&)> of_stats = {};
  std::function<void(Result<Page<PeekedMessage>>&)> of_peek = {};
  std::function<void(Result<Page<DeadLetter>>&)> of_dead_letters = {};
  std::function<void(Result<History>&)> of_history = {};
  std::function<void(Result<Page<Record>>&)> of_records = {};
  // In force instead of the settings that were given, which are shown all the same.
  std::function<void(QueueSettings&)> in_settings = {};
};

// Owns the store for the base class that only passes on.
struct StoreOwner {
  std::unique_ptr<Store> owned;
};

// A store that is right but for one lie.
class LyingStore final : private StoreOwner, public ForwardingStore {
 public:
  LyingStore(std::unique_ptr<Store> store, Lie lie)
      : StoreOwner{std::move(store)}, ForwardingStore(*owned), lie_(std::move(lie)) {}

  using Store::apply;
  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) override {
    std::vector<Result<Receipt>> results;
    for (Transaction transaction : transactions) {
      if (lie_.in_transaction) lie_.in_transaction(transaction);
      change_settings(transaction);
      results.push_back(behind().apply(transaction));
      if (lie_.of_receipt) lie_.of_receipt(transaction, results.back());
    }
    return results;
  }
  Result<std::vector<Lease>> lease(const LeaseRequest& request) override {
    LeaseRequest changed = request;
    if (lie_.in_request) lie_.in_request(changed);
    return after(behind().lease(changed), lie_.of_leases);
  }
  Result<Pulled> pull(const Token& token, Cursor cursor, PullLimits limits) override {
    return after(behind().pull(token, cursor, limits), lie_.of_pull);
  }
  std::vector<Result<Time>> renew(std::span<const Token> tokens, Duration lease) override {
    std::vector<Result<Time>> results = behind().renew(tokens, lease);
    for (Result<Time>& result : results)
      result = after(std::move(result), lie_.of_renewal);
    return results;
  }
  Result<QueueStats> stats(std::string_view queue) override {
    return after(behind().stats(queue), lie_.of_stats);
  }
  Result<Page<PeekedMessage>> peek(const PeekQuery& query) override {
    return after(behind().peek(query), lie_.of_peek);
  }
  Result<Page<DeadLetter>> dead_letters(const DeadLettersQuery& query) override {
    return after(behind().dead_letters(query), lie_.of_dead_letters);
  }
  Result<History> history(const HistoryQuery& query) override {
    return after(behind().history(query), lie_.of_history);
  }
  Result<Page<Record>> records(const RecordsQuery& query) override {
    return after(behind().records(query), lie_.of_records);
  }
  Result<std::vector<QueueInfo>> queues() override {
    Result<std::vector<QueueInfo>> infos = behind().queues();
    if (!infos) return infos;
    for (QueueInfo& info : *infos) {
      if (const auto given = given_.find(info.name); given != given_.end()) {
        info.settings = given->second;
      }
    }
    return infos;
  }

 private:
  template <class T>
  static T after(T answer, const std::function<void(T&)>& lie) {
    if (lie) lie(answer);
    return answer;
  }

  void change_settings(Transaction& transaction) {
    if (!transaction.admin) return;
    if (const auto* const gone = std::get_if<RemoveQueue>(&*transaction.admin)) {
      given_.erase(gone->queue);
    }
    auto* const given = std::get_if<ConfigureQueue>(&*transaction.admin);
    if (given == nullptr || !lie_.in_settings) return;
    given_[given->queue] = given->settings;
    lie_.in_settings(given->settings);
  }

  Lie lie_;
  std::map<std::string, QueueSettings> given_;
};

}  // namespace strand::differential
