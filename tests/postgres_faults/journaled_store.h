#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include <strand/store.h>

#include "postgres_faults/journal.h"
#include "queue/forwarding_store.h"

namespace strand::postgres_faults {

// A client that does what the contract advises, and writes it down: every transaction and every
// lease request has an id, and is repeated with it until the answer settles the matter. Now and
// then it repeats what was answered, as if the answer had been lost.
//
// Failure: a store that gives no such answer for a minute ends the process.
class JournaledStore final : public ForwardingStore {
 public:
  // So many of its transactions are numbered before one is applied twice with the same id.
  static constexpr std::uint64_t repeat_every = 16;

  // `client` is no other process's, run or past.
  JournaledStore(Store& store, const Journal& journal, std::uint64_t client)
      : ForwardingStore(store), journal_(journal), client_(client) {}

  using Store::apply;
  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) override;
  Result<std::vector<Lease>> lease(const LeaseRequest& request) override;
  Result<Pulled> pull(const Token& token, Cursor cursor, PullLimits limits) override;
  std::vector<Result<Time>> renew(std::span<const Token> tokens, Duration lease) override;
  Result<QueueStats> stats(std::string_view queue) override;

  // Repeats what a run before this one has begun, until it is answered.
  void catch_up(std::span<const Transaction> transactions);

 private:
  void give_id(Transaction& transaction);
  void forget(const Transaction& transaction);
  // One result for each, in order.
  std::vector<Result<Receipt>> apply_until_answered(std::vector<Transaction> transactions);
  void repeat(const Transaction& transaction);
  // The answer that settles the matter.
  template <class Ask>
  auto until_answered(const Ask& ask);

  const Journal& journal_;
  const std::uint64_t client_;
  std::atomic<std::uint64_t> requests_ = 0;
  std::mutex mutex_;
  std::uint64_t numbers_ = 0;
  std::set<std::uint64_t> unanswered_;
};

}  // namespace strand::postgres_faults
