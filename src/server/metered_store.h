#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "queue/forwarding_store.h"
#include "server/metrics.h"

namespace strand::server {

// A store whose calls are measured: how long each took, how it failed, and what became of messages.
// What it counts is what this process was asked for: leases that end by themselves, and messages
// that expire, are in the figures of their queue (see StoreMetrics).
//
// Threads: as Store says.
class MeteredStore final : public ForwardingStore {
 public:
  // Both outlive it.
  MeteredStore(Store& store, Metrics& metrics);

  using Store::apply;
  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) override;
  Result<std::vector<Lease>> lease(const LeaseRequest& request) override;
  Result<Pulled> pull(const Token& token, Cursor cursor, PullLimits limits) override;
  std::vector<Result<Time>> renew(std::span<const Token> tokens, Duration lease) override;
  Result<History> history(const HistoryQuery& query) override;
  Result<Page<Execution>> instances(const InstancesQuery& query) override;
  Result<std::optional<Record>> record(std::string_view space, std::string_view key) override;
  Result<Page<Record>> records(const RecordsQuery& query) override;
  Result<Page<PeekedMessage>> peek(const PeekQuery& query) override;
  Result<Page<DeadLetter>> dead_letters(const DeadLettersQuery& query) override;
  Result<QueueStats> stats(std::string_view queue) override;
  Result<std::vector<QueueInfo>> queues() override;
  Result<std::vector<Subscription>> subscriptions() override;
  Result<std::vector<Topic>> topics() override;

 private:
  enum class Call : std::uint8_t {
    apply,
    lease,
    pull,
    renew,
    history,
    instances,
    record,
    records,
    peek,
    dead_letters,
    stats,
    queues,
    subscriptions,
    topics,
  };
  static constexpr std::size_t calls = 14;
  static std::string_view name_of(Call call);

  class Timer;
  void count_error(Call call, const Error& error);
  void count_messages(const Transaction& transaction, const Receipt& receipt);
  // Measures one call, and counts its failure.
  template <class Ask>
  auto measured(Call call, Ask ask) -> std::invoke_result_t<Ask>;

  struct Outcomes {
    prometheus::Counter& sent;
    prometheus::Counter& duplicate;
    prometheus::Counter& published;
    prometheus::Counter& acked;
    prometheus::Counter& retried;
    prometheus::Counter& dead;
    prometheus::Counter& released;
    prometheus::Counter& cancelled;
  };

  Metrics& metrics_;
  std::vector<prometheus::Histogram*> seconds_;  // by call
  prometheus::Histogram& transactions_;
  prometheus::Counter& leases_;
  prometheus::Counter& delivered_;
  Outcomes outcomes_;
};

}  // namespace strand::server
