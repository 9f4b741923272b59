#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <strand/store.h>

#include "store/remote/apply_pipe.h"
#include "store/remote/connection.h"
#include "store/remote/watch_pipe.h"

namespace strand::remote {

// A store that a server has: every call goes over the network.
//
// Threads:    as Store says.
// Durability: as the server's store.
// Failure:    what is lost on the way is repeated for the length of the patience: transactions and
//             lease requests have ids, everything else is harmless to repeat. So a server that is
//             restarted costs time, and nothing else.
// Time:       that of the server, estimated between two answers.
class RemoteStore final : public Store {
 public:
  static Result<std::unique_ptr<Store>> open(const Location& location, Patience patience = {});

  using Store::apply;
  std::vector<Result<Receipt>> apply(std::span<const Transaction> transactions) override;
  Result<std::vector<Lease>> lease(const LeaseRequest& request) override;
  Result<Pulled> pull(const Token& token, Cursor cursor, PullLimits limits) override;
  std::vector<Result<Time>> renew(std::span<const Token> tokens, Duration lease) override;
  [[nodiscard]] Watch watch(WatchTarget target, std::function<void()> callback) override;
  [[nodiscard]] Time now() override;

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
  explicit RemoteStore(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
  const std::uint64_t client_;  // of request ids
  std::atomic<std::uint64_t> requests_ = 0;
  ApplyPipe applies_;
  WatchPipe watches_;
};

}  // namespace strand::remote
