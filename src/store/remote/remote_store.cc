#include "store/remote/remote_store.h"

#include <random>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "store/contract/check.h"
#include "store/remote/convert.h"
#include "store/remote/unlimited.h"

namespace strand::remote {

namespace {

using Stub = v1::Store::Stub;

std::uint64_t random_word() {
  std::random_device device;
  return std::uint64_t{device()} << 32U | device();
}

// Names travel as text, which must be UTF-8. What else is wrong with them is the server's to say.
Result<void> check_queue(std::string_view queue) { return check_name("queue", queue, unlimited()); }

}  // namespace

RemoteStore::RemoteStore(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)),
      client_(random_word()),
      applies_(*connection_),
      watches_(*connection_) {}

Result<std::unique_ptr<Store>> RemoteStore::open(const Location& location, Patience patience) {
  auto connection = Connection::open(location, patience);
  if (!connection) return std::unexpected(std::move(connection).error());
  return std::unique_ptr<Store>(new RemoteStore(*std::move(connection)));
}

std::vector<Result<Receipt>> RemoteStore::apply(std::span<const Transaction> transactions) {
  return applies_.apply(transactions);
}

Result<std::vector<Lease>> RemoteStore::lease(const LeaseRequest& request) {
  if (auto checked = check_lease_request(request, unlimited()); !checked) {
    return std::unexpected(std::move(checked).error());
  }
  v1::LeaseRequest wire;
  write(request, wire);
  if (!request.request) {
    wire.mutable_request()->set_client(client_);
    wire.mutable_request()->set_number(++requests_);
  }
  v1::LeaseResponse response;
  if (auto called = connection_->call(&Stub::Lease, wire, response); !called) {
    // Lanes may have been leased, and then stay so until their leases run out.
    if (called.error().code == Errc::unavailable) called.error().code = Errc::unknown_outcome;
    return std::unexpected(std::move(called).error());
  }
  std::vector<Lease> leases;
  leases.reserve(static_cast<std::size_t>(response.leases_size()));
  for (v1::Lease& one : *response.mutable_leases()) {
    auto lease = read_lease(one);
    if (!lease) return std::unexpected(std::move(lease).error());
    leases.push_back(*std::move(lease));
  }
  return leases;
}

Result<Pulled> RemoteStore::pull(const Token& token, Cursor cursor, PullLimits limits) {
  v1::PullRequest request;
  request.set_token(token.to_string());
  request.set_cursor(static_cast<std::uint64_t>(cursor));
  request.set_messages(limits.messages);
  request.set_bytes(limits.bytes);
  v1::PullResponse response;
  if (auto called = connection_->call(&Stub::Pull, request, response); !called) {
    return std::unexpected(std::move(called).error());
  }
  Pulled pulled{.messages = {}, .cursor = Cursor{response.cursor()}, .more = response.more()};
  pulled.messages.reserve(static_cast<std::size_t>(response.messages_size()));
  for (v1::Message& message : *response.mutable_messages())
    pulled.messages.push_back(read_message(message));
  return pulled;
}

std::vector<Result<Time>> RemoteStore::renew(std::span<const Token> tokens, Duration lease) {
  std::vector<Result<Time>> results;
  if (tokens.empty()) return results;
  v1::RenewRequest request;
  for (const Token& token : tokens)
    request.add_tokens(token.to_string());
  request.set_lease_ms(lease.count());
  v1::RenewResponse response;
  if (auto called = connection_->call(&Stub::Renew, request, response); !called) {
    results.assign(tokens.size(), std::unexpected(std::move(called).error()));
    return results;
  }
  results.reserve(tokens.size());
  for (const v1::RenewResult& one : response.results()) {
    if (one.has_error()) {
      results.emplace_back(std::unexpected(read_error(one.error())));
    } else {
      results.emplace_back(Time{Duration{one.expires_at_ms()}});
    }
  }
  results.resize(tokens.size(), failure(Errc::io_error, "the server's answer has too few results"));
  return results;
}

Watch RemoteStore::watch(WatchTarget target, std::function<void()> callback) {
  return watches_.watch(std::move(target), std::move(callback));
}

Time RemoteStore::now() { return connection_->now(); }

// --- Reads ---

Result<History> RemoteStore::history(const HistoryQuery& query) {
  if (auto checked = check_queue(query.queue); !checked) {
    return std::unexpected(std::move(checked).error());
  }
  v1::HistoryRequest request;
  write(query, request);
  v1::HistoryResponse response;
  if (auto called = connection_->call(&Stub::GetHistory, request, response); !called) {
    return std::unexpected(std::move(called).error());
  }
  return read_history(*response.mutable_history());
}

Result<Page<Execution>> RemoteStore::instances(const InstancesQuery& query) {
  if (auto checked = check_queue(query.queue); !checked) {
    return std::unexpected(std::move(checked).error());
  }
  v1::InstancesRequest request;
  write(query, request);
  v1::InstancesResponse response;
  if (auto called = connection_->call(&Stub::ListInstances, request, response); !called) {
    return std::unexpected(std::move(called).error());
  }
  Page<Execution> page{.items = {}, .more = response.more()};
  for (const v1::Execution& one : response.items())
    page.items.push_back(read_execution(one));
  return page;
}

Result<std::optional<Record>> RemoteStore::record(std::string_view space, std::string_view key) {
  v1::RecordRequest request;
  request.set_space(std::string(space));
  request.set_key(std::string(key));
  v1::RecordResponse response;
  if (auto called = connection_->call(&Stub::GetRecord, request, response); !called) {
    return std::unexpected(std::move(called).error());
  }
  if (!response.has_record()) return std::nullopt;
  return read_record(*response.mutable_record());
}

Result<Page<Record>> RemoteStore::records(const RecordsQuery& query) {
  v1::RecordsRequest request;
  write(query, request);
  v1::RecordsResponse response;
  if (auto called = connection_->call(&Stub::ListRecords, request, response); !called) {
    return std::unexpected(std::move(called).error());
  }
  Page<Record> page{.items = {}, .more = response.more()};
  for (v1::Record& one : *response.mutable_items())
    page.items.push_back(read_record(one));
  return page;
}

Result<Page<PeekedMessage>> RemoteStore::peek(const PeekQuery& query) {
  if (auto checked = check_queue(query.queue); !checked) {
    return std::unexpected(std::move(checked).error());
  }
  v1::PeekRequest request;
  write(query, request);
  v1::PeekResponse response;
  if (auto called = connection_->call(&Stub::Peek, request, response); !called) {
    return std::unexpected(std::move(called).error());
  }
  Page<PeekedMessage> page{.items = {}, .more = response.more()};
  for (v1::PeekedMessage& one : *response.mutable_items())
    page.items.push_back(read_peeked(one));
  return page;
}

Result<Page<DeadLetter>> RemoteStore::dead_letters(const DeadLettersQuery& query) {
  if (auto checked = check_queue(query.queue); !checked) {
    return std::unexpected(std::move(checked).error());
  }
  v1::DeadLettersRequest request;
  write(query, request);
  v1::DeadLettersResponse response;
  if (auto called = connection_->call(&Stub::ListDeadLetters, request, response); !called) {
    return std::unexpected(std::move(called).error());
  }
  Page<DeadLetter> page{.items = {}, .more = response.more()};
  for (v1::DeadLetter& one : *response.mutable_items())
    page.items.push_back(read_dead_letter(one));
  return page;
}

Result<QueueStats> RemoteStore::stats(std::string_view queue) {
  if (auto checked = check_queue(queue); !checked) {
    return std::unexpected(std::move(checked).error());
  }
  v1::StatsRequest request;
  request.set_queue(std::string(queue));
  v1::StatsResponse response;
  if (auto called = connection_->call(&Stub::GetStats, request, response); !called) {
    return std::unexpected(std::move(called).error());
  }
  return read_stats(response.stats());
}

Result<std::vector<QueueInfo>> RemoteStore::queues() {
  v1::QueuesResponse response;
  if (auto called = connection_->call(&Stub::ListQueues, v1::QueuesRequest{}, response); !called) {
    return std::unexpected(std::move(called).error());
  }
  std::vector<QueueInfo> queues;
  for (const v1::QueueInfo& one : response.queues()) {
    auto queue = read_queue(one);
    if (!queue) return std::unexpected(std::move(queue).error());
    queues.push_back(*std::move(queue));
  }
  return queues;
}

Result<std::vector<Subscription>> RemoteStore::subscriptions() {
  v1::SubscriptionsResponse response;
  if (auto called =
          connection_->call(&Stub::ListSubscriptions, v1::SubscriptionsRequest{}, response);
      !called) {
    return std::unexpected(std::move(called).error());
  }
  std::vector<Subscription> subscriptions;
  for (const v1::Subscription& one : response.subscriptions())
    subscriptions.push_back({.queue = one.queue(), .pattern = one.pattern()});
  return subscriptions;
}

Result<std::vector<Topic>> RemoteStore::topics() {
  v1::TopicsResponse response;
  if (auto called = connection_->call(&Stub::ListTopics, v1::TopicsRequest{}, response); !called) {
    return std::unexpected(std::move(called).error());
  }
  std::vector<Topic> topics;
  for (const v1::Topic& one : response.topics())
    topics.push_back(read_topic(one));
  return topics;
}

}  // namespace strand::remote
