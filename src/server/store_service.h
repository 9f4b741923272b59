#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include <grpcpp/grpcpp.h>

#include <strand/store.h>

#include "proto/strand/v1/store.grpc.pb.h"
#include "server/access.h"
#include "server/committer.h"
#include "server/executor.h"
#include "server/lease_waiters.h"

namespace strand::server {

namespace v1 = ::strand::v1;

// One call that is over, for logs and metrics.
struct CallReport {
  std::string_view method;  // such as "Lease"
  std::string caller;       // the name of its token
  std::string request_id;   // `x-request-id` of the client; "" if it brought none
  std::string_view status;  // "ok", or the name of the error
  std::chrono::microseconds took{0};
};

struct ServiceOptions {
  std::size_t threads = 8;         // for leases and reads
  std::size_t commit_threads = 2;  // one decides while the other waits for its sync
  // What may wait for a thread; beyond it calls are refused as `unavailable`.
  std::size_t backlog_max = 10'000;
  std::size_t transactions_waiting_max = 200'000;
  std::size_t waiters_max = 100'000;  // clients that wait for a lane
  std::size_t watches_max = 100'000;  // on one stream
  std::size_t streams_max = 100'000;  // of transactions and of watches
  // On one stream of transactions; and of a stream of watches, those refused that nobody reads.
  std::size_t requests_in_flight_max = 64;
  Duration wait_max = std::chrono::minutes{5};
  bool manual_clock = false;  // tests: the time of the store passes by hand
  std::function<void(const CallReport&)> on_call;
};

// The contract over gRPC. See proto/strand/v1/store.proto.
//
// Threads: as gRPC calls it. No thread waits for a client: transactions go to the committer, what
//          else asks the store to the executor, and who waits for a lane stands in a line.
class StoreService final : public v1::Store::CallbackService {
 public:
  // `store` and `access` outlive it.
  StoreService(Store& store, const Access& access, ServiceOptions options);
  // No call may be under way: the gRPC server must be gone.
  ~StoreService() override;

  // Answers those who wait, and ends the streams when all that they brought has been answered.
  void drain();

  [[nodiscard]] std::size_t waiting_clients() const { return waiters_.waiting(); }
  [[nodiscard]] std::size_t open_streams() const;

  grpc::ServerUnaryReactor* Apply(grpc::CallbackServerContext* context,
                                  const v1::ApplyRequest* request,
                                  v1::ApplyResponse* response) override;
  grpc::ServerBidiReactor<v1::ApplyRequest, v1::ApplyResponse>* ApplyStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Lease(grpc::CallbackServerContext* context,
                                  const v1::LeaseRequest* request,
                                  v1::LeaseResponse* response) override;
  grpc::ServerUnaryReactor* Pull(grpc::CallbackServerContext* context,
                                 const v1::PullRequest* request,
                                 v1::PullResponse* response) override;
  grpc::ServerUnaryReactor* Renew(grpc::CallbackServerContext* context,
                                  const v1::RenewRequest* request,
                                  v1::RenewResponse* response) override;
  grpc::ServerBidiReactor<v1::WatchRequest, v1::WatchEvent>* Watch(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Now(grpc::CallbackServerContext* context, const v1::NowRequest* request,
                                v1::NowResponse* response) override;
  grpc::ServerUnaryReactor* GetHistory(grpc::CallbackServerContext* context,
                                       const v1::HistoryRequest* request,
                                       v1::HistoryResponse* response) override;
  grpc::ServerUnaryReactor* ListInstances(grpc::CallbackServerContext* context,
                                          const v1::InstancesRequest* request,
                                          v1::InstancesResponse* response) override;
  grpc::ServerUnaryReactor* GetRecord(grpc::CallbackServerContext* context,
                                      const v1::RecordRequest* request,
                                      v1::RecordResponse* response) override;
  grpc::ServerUnaryReactor* ListRecords(grpc::CallbackServerContext* context,
                                        const v1::RecordsRequest* request,
                                        v1::RecordsResponse* response) override;
  grpc::ServerUnaryReactor* Peek(grpc::CallbackServerContext* context,
                                 const v1::PeekRequest* request,
                                 v1::PeekResponse* response) override;
  grpc::ServerUnaryReactor* ListDeadLetters(grpc::CallbackServerContext* context,
                                            const v1::DeadLettersRequest* request,
                                            v1::DeadLettersResponse* response) override;
  grpc::ServerUnaryReactor* GetStats(grpc::CallbackServerContext* context,
                                     const v1::StatsRequest* request,
                                     v1::StatsResponse* response) override;
  grpc::ServerUnaryReactor* ListQueues(grpc::CallbackServerContext* context,
                                       const v1::QueuesRequest* request,
                                       v1::QueuesResponse* response) override;
  grpc::ServerUnaryReactor* ListSubscriptions(grpc::CallbackServerContext* context,
                                              const v1::SubscriptionsRequest* request,
                                              v1::SubscriptionsResponse* response) override;
  grpc::ServerUnaryReactor* ListTopics(grpc::CallbackServerContext* context,
                                       const v1::TopicsRequest* request,
                                       v1::TopicsResponse* response) override;

 private:
  class Call;
  class WaitingLease;
  class ApplyingStream;
  class WatchingStream;
  // What drain() must end.
  class OpenStream {
   public:
    OpenStream() = default;
    OpenStream(const OpenStream&) = delete;
    OpenStream& operator=(const OpenStream&) = delete;
    virtual ~OpenStream() = default;
    virtual void drain() = 0;
  };

  using PermitPointer = std::shared_ptr<const Permit>;

  // Who calls, by the metadata.
  [[nodiscard]] Result<PermitPointer> admit(const grpc::CallbackServerContext& context) const;
  // Runs work(permit) on the executor, and answers with what it returns.
  template <class Work>
  grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context, std::string_view method,
                                   Work work);
  // False: there are too many.
  [[nodiscard]] bool may_open() const { return open_streams() < options_.streams_max; }
  void opened(OpenStream* stream);
  void closed(OpenStream* stream);

  Store& store_;
  const Access& access_;
  const ServiceOptions options_;
  Executor executor_;
  Committer committer_;
  LeaseWaiters waiters_;

  mutable std::mutex streams_mutex_;
  std::set<OpenStream*> streams_;
  std::condition_variable streams_changed_;
  std::atomic<bool> draining_ = false;
};

}  // namespace strand::server
