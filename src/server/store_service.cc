#include "server/store_service.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/planted.h"
#include "server/apply_batch.h"
#include "server/permits.h"
#include "server/store_call.h"
#include "store/remote/convert.h"

namespace strand::server {

namespace {

using remote::read_query;
using remote::write;

// Requests belong to gRPC until they are answered, and are read by nobody else: so what they hold
// can be taken instead of copied.
template <class Message>
Message& own(const Message* message) {
  return *const_cast<Message*>(message);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

Error overloaded() {
  return {Errc::unavailable,
          "the server has too much to do at the moment, and has not begun with this; try again"};
}

template <class Items, class Wire>
void write_page(Page<Items>&& page, Wire& response) {
  for (Items& item : page.items)
    write(std::move(item), *response.add_items());
  response.set_more(page.more);
}

}  // namespace

StoreService::StoreService(Store& store, const Access& access, ServiceOptions options)
    : store_(store),
      access_(access),
      options_(std::move(options)),
      executor_(options_.threads, options_.backlog_max),
      committer_(store, options_.commit_threads, options_.transactions_waiting_max),
      waiters_(store, executor_, options_.waiters_max) {}

StoreService::~StoreService() = default;

Result<StoreService::PermitPointer> StoreService::admit(
    const grpc::CallbackServerContext& context) const {
  const auto authorization = metadata_of(context, "authorization");
  return access_.admit(authorization ? bearer_of(*authorization) : std::nullopt);
}

template <class Work>
grpc::ServerUnaryReactor* StoreService::answer(grpc::CallbackServerContext* context,
                                               std::string_view method, Work work) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  Call call(*this, context, method);
  auto permit = call.admit();
  if (!permit) {
    reactor->Finish(call.finished(std::unexpected(permit.error()), false));
    return reactor;
  }
  const bool taken = executor_.run([reactor, call, permit = *permit, work]() mutable {
    reactor->Finish(call.finished(work(*permit)));
  });
  if (!taken) reactor->Finish(call.finished(std::unexpected(overloaded())));
  return reactor;
}

// --- Transactions ---

grpc::ServerUnaryReactor* StoreService::Apply(grpc::CallbackServerContext* context,
                                              const v1::ApplyRequest* request,
                                              v1::ApplyResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  Call call(*this, context, "Apply");
  auto permit = call.admit();
  if (!permit) {
    reactor->Finish(call.finished(std::unexpected(permit.error()), false));
    return reactor;
  }
  const auto trace = metadata_of(*context, "traceparent");
  auto batch = std::make_shared<ApplyBatch>(own(request), **permit, trace);
  const bool taken = committer_.submit(
      batch->take(), [this, reactor, call, batch, request, response](auto results) mutable {
        response->set_sequence(request->sequence());
        batch->write(std::move(results), *response);
        response->set_now_ms(store_.now().time_since_epoch().count());
        reactor->Finish(call.finished({}));
      });
  if (!taken) reactor->Finish(call.finished(std::unexpected(overloaded())));
  return reactor;
}

// --- Leases ---

// A call that may wait. It owns itself until gRPC is done with it.
class StoreService::WaitingLease final : public grpc::ServerUnaryReactor {
 public:
  WaitingLease(StoreService& service, Call call, v1::LeaseResponse* response)
      : service_(service), call_(std::move(call)), response_(response) {}

  static grpc::ServerUnaryReactor* begin(StoreService& service, Call call, LeaseRequest request,
                                         Duration wait, v1::LeaseResponse* response) {
    const auto self = std::make_shared<WaitingLease>(service, std::move(call), response);
    self->self_ = self;
    auto waiter = service.waiters_.wait(std::move(request), std::chrono::steady_clock::now() + wait,
                                        [self](auto leases) { self->answer(std::move(leases)); });
    if (!waiter) {
      self->Finish(self->call_.finished(std::unexpected(overloaded())));
      return self.get();
    }
    const std::lock_guard lock(self->mutex_);
    self->waiter_ = std::move(waiter);
    if (self->cancelled_) self->leave();
    return self.get();
  }

  void answer(LeaseWaiters::Answer leases) {
    if (leases) {
      for (strand::Lease& lease : *leases)
        write(std::move(lease), *response_->add_leases());
    }
    const Result<void> result =
        leases ? Result<void>{} : Result<void>(std::unexpected(leases.error()));
    Finish(call_.finished(result));
  }
  void OnCancel() override {
    const auto self = self_;
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    leave();
  }
  void OnDone() override {
    const auto self = std::move(self_);  // destroys this, unless somebody else holds it
  }

 private:
  void leave() {
    if (!waiter_ || !service_.waiters_.cancel(waiter_)) return;
    call_.report("cancelled");
    Finish(grpc::Status::CANCELLED);
  }

  StoreService& service_;
  Call call_;
  v1::LeaseResponse* response_;
  std::shared_ptr<WaitingLease> self_;
  std::mutex mutex_;  // for what follows
  bool cancelled_ = false;
  std::shared_ptr<LeaseWaiters::Waiter> waiter_;
};

grpc::ServerUnaryReactor* StoreService::Lease(grpc::CallbackServerContext* context,
                                              const v1::LeaseRequest* request,
                                              v1::LeaseResponse* response) {
  Call call(*this, context, "Lease");
  const Duration wait = std::min(Duration{request->wait_ms()}, options_.wait_max);
  auto permit = call.admit();
  if (permit && wait > Duration{0} && !draining_) {
    auto read = remote::read_lease_request(own(request));
    if (read) {
      if (const auto permitted = permit_lease(**permit, *read); !permitted) {
        read = std::unexpected(permitted.error());
      }
    }
    if (read) return WaitingLease::begin(*this, std::move(call), *std::move(read), wait, response);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(call.finished(std::unexpected(read.error())));
    return reactor;
  }
  return answer(context, "Lease", [this, request, response](const Permit& caller) -> Result<void> {
    const auto read = remote::read_lease_request(own(request));
    if (!read) return std::unexpected(read.error());
    if (auto permitted = permit_lease(caller, *read); !permitted) return permitted;
    auto leases = store_.lease(*read);
    if (!leases) return std::unexpected(std::move(leases).error());
    for (strand::Lease& lease : *leases)
      write(std::move(lease), *response->add_leases());
    return {};
  });
}

grpc::ServerUnaryReactor* StoreService::Pull(grpc::CallbackServerContext* context,
                                             const v1::PullRequest* request,
                                             v1::PullResponse* response) {
  return answer(context, "Pull", [this, request, response](const Permit& permit) -> Result<void> {
    if (auto permitted = permit_holder(permit); !permitted) return permitted;
    const auto token = Token::parse(request->token());
    if (!token) return std::unexpected(token.error());
    PullLimits limits;
    if (request->has_messages()) limits.messages = request->messages();
    if (request->has_bytes()) limits.bytes = request->bytes();
    auto pulled = store_.pull(*token, Cursor{request->cursor()}, limits);
    if (!pulled) return std::unexpected(std::move(pulled).error());
    for (Message& message : pulled->messages)
      write(std::move(message), *response->add_messages());
    response->set_cursor(static_cast<std::uint64_t>(pulled->cursor));
    response->set_more(pulled->more);
    return {};
  });
}

grpc::ServerUnaryReactor* StoreService::Renew(grpc::CallbackServerContext* context,
                                              const v1::RenewRequest* request,
                                              v1::RenewResponse* response) {
  return answer(context, "Renew", [this, request, response](const Permit& permit) -> Result<void> {
    if (auto permitted = permit_holder(permit); !permitted) return permitted;
    std::vector<Token> tokens;
    std::vector<std::optional<Error>> errors;
    for (const std::string& text : request->tokens()) {
      const auto token = Token::parse(text);
      errors.push_back(token ? std::nullopt : std::optional(token.error()));
      if (token) tokens.push_back(*token);
    }
    const auto results = store_.renew(tokens, Duration{request->lease_ms()});
    auto next = results.begin();
    for (const auto& error : errors) {
      v1::RenewResult& one = *response->add_results();
      if (error) {
        write(*error, *one.mutable_error());
        continue;
      }
      if (*next) {
        one.set_expires_at_ms((*next)->time_since_epoch().count());
      } else {
        write(next->error(), *one.mutable_error());
      }
      ++next;
    }
    return {};
  });
}

// --- Reads ---

grpc::ServerUnaryReactor* StoreService::Now(grpc::CallbackServerContext* context,
                                            const v1::NowRequest* /*request*/,
                                            v1::NowResponse* response) {
  return answer(context, "Now", [this, response](const Permit& /*permit*/) -> Result<void> {
    response->set_now_ms(store_.now().time_since_epoch().count());
    response->set_manual(options_.manual_clock);
    return {};
  });
}

grpc::ServerUnaryReactor* StoreService::GetHistory(grpc::CallbackServerContext* context,
                                                   const v1::HistoryRequest* request,
                                                   v1::HistoryResponse* response) {
  return answer(context, "GetHistory",
                [this, request, response](const Permit& permit) -> Result<void> {
                  if (auto permitted = permit_read(permit, request->queue()); !permitted)
                    return permitted;
                  auto history = store_.history(read_query(*request));
                  if (!history) return std::unexpected(std::move(history).error());
                  write(*std::move(history), *response->mutable_history());
                  return {};
                });
}

grpc::ServerUnaryReactor* StoreService::ListInstances(grpc::CallbackServerContext* context,
                                                      const v1::InstancesRequest* request,
                                                      v1::InstancesResponse* response) {
  return answer(context, "ListInstances",
                [this, request, response](const Permit& permit) -> Result<void> {
                  if (auto permitted = permit_read(permit, request->queue()); !permitted)
                    return permitted;
                  auto page = store_.instances(read_query(*request));
                  if (!page) return std::unexpected(std::move(page).error());
                  write_page(*std::move(page), *response);
                  return {};
                });
}

grpc::ServerUnaryReactor* StoreService::GetRecord(grpc::CallbackServerContext* context,
                                                  const v1::RecordRequest* request,
                                                  v1::RecordResponse* response) {
  return answer(context, "GetRecord",
                [this, request, response](const Permit& permit) -> Result<void> {
                  if (auto permitted = permit_read(permit, request->space()); !permitted)
                    return permitted;
                  auto record = store_.record(request->space(), request->key());
                  if (!record) return std::unexpected(std::move(record).error());
                  if (*record) write(*std::move(*record), *response->mutable_record());
                  return {};
                });
}

grpc::ServerUnaryReactor* StoreService::ListRecords(grpc::CallbackServerContext* context,
                                                    const v1::RecordsRequest* request,
                                                    v1::RecordsResponse* response) {
  return answer(context, "ListRecords",
                [this, request, response](const Permit& permit) -> Result<void> {
                  if (auto permitted = permit_read(permit, request->space()); !permitted)
                    return permitted;
                  auto page = store_.records(read_query(*request));
                  if (!page) return std::unexpected(std::move(page).error());
                  write_page(*std::move(page), *response);
                  return {};
                });
}

grpc::ServerUnaryReactor* StoreService::Peek(grpc::CallbackServerContext* context,
                                             const v1::PeekRequest* request,
                                             v1::PeekResponse* response) {
  return answer(context, "Peek", [this, request, response](const Permit& permit) -> Result<void> {
    if (auto permitted = permit_read(permit, request->queue()); !permitted) return permitted;
    const auto query = read_query(*request);
    if (!query) return std::unexpected(query.error());
    auto page = store_.peek(*query);
    if (!page) return std::unexpected(std::move(page).error());
    write_page(*std::move(page), *response);
    return {};
  });
}

grpc::ServerUnaryReactor* StoreService::ListDeadLetters(grpc::CallbackServerContext* context,
                                                        const v1::DeadLettersRequest* request,
                                                        v1::DeadLettersResponse* response) {
  return answer(context, "ListDeadLetters",
                [this, request, response](const Permit& permit) -> Result<void> {
                  if (auto permitted = permit_read(permit, request->queue()); !permitted)
                    return permitted;
                  auto page = store_.dead_letters(read_query(*request));
                  if (!page) return std::unexpected(std::move(page).error());
                  write_page(*std::move(page), *response);
                  return {};
                });
}

grpc::ServerUnaryReactor* StoreService::GetStats(grpc::CallbackServerContext* context,
                                                 const v1::StatsRequest* request,
                                                 v1::StatsResponse* response) {
  return answer(context, "GetStats",
                [this, request, response](const Permit& permit) -> Result<void> {
                  if (auto permitted = permit_look(permit, request->queue()); !permitted)
                    return permitted;
                  const auto stats = store_.stats(request->queue());
                  if (!stats) return std::unexpected(stats.error());
                  write(*stats, *response->mutable_stats());
                  return {};
                });
}

grpc::ServerUnaryReactor* StoreService::ListQueues(grpc::CallbackServerContext* context,
                                                   const v1::QueuesRequest* /*request*/,
                                                   v1::QueuesResponse* response) {
  return answer(context, "ListQueues", [this, response](const Permit& permit) -> Result<void> {
    const auto queues = store_.queues();
    if (!queues) return std::unexpected(queues.error());
    for (const QueueInfo& queue : *queues) {
      if (permit.sees(queue.name)) write(queue, *response->add_queues());
    }
    return {};
  });
}

grpc::ServerUnaryReactor* StoreService::ListSubscriptions(
    grpc::CallbackServerContext* context, const v1::SubscriptionsRequest* /*request*/,
    v1::SubscriptionsResponse* response) {
  return answer(context, "ListSubscriptions",
                [this, response](const Permit& permit) -> Result<void> {
                  const auto subscriptions = store_.subscriptions();
                  if (!subscriptions) return std::unexpected(subscriptions.error());
                  for (const Subscription& subscription : *subscriptions) {
                    if (!permit.sees(subscription.queue)) continue;
                    v1::Subscription& one = *response->add_subscriptions();
                    one.set_queue(subscription.queue);
                    one.set_pattern(subscription.pattern);
                  }
                  return {};
                });
}

grpc::ServerUnaryReactor* StoreService::ListTopics(grpc::CallbackServerContext* context,
                                                   const v1::TopicsRequest* /*request*/,
                                                   v1::TopicsResponse* response) {
  return answer(context, "ListTopics", [this, response](const Permit& permit) -> Result<void> {
    const auto topics = store_.topics();
    if (!topics) return std::unexpected(topics.error());
    for (const Topic& topic : *topics) {
      if (permit.sees(topic.name)) write(topic, *response->add_topics());
    }
    return {};
  });
}

}  // namespace strand::server
