#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <strand/message_queue.h>

namespace strand {

Result<MessageId> MessageQueue::enqueue(std::string_view queue,
                                        std::optional<std::string> routing_key, Bytes message,
                                        Duration delay) {
  Transaction transaction;
  Send& send = transaction.sends.emplace_back();
  send.queue = queue;
  send.key = std::move(routing_key);
  send.body = std::move(message);
  send.delay = delay;
  const Result<Receipt> receipt = store_.apply(transaction);
  if (!receipt) return std::unexpected(receipt.error());
  return receipt->sent.front().id;
}

Result<std::optional<MessageBatch>> MessageQueue::dequeue_batch(std::string_view queue) {
  auto leases = store_.lease({.queue = std::string(queue)});
  if (!leases && leases.error().code == Errc::not_found) return std::nullopt;
  if (!leases) return std::unexpected(std::move(leases.error()));
  if (leases->empty()) return std::nullopt;
  Lease& lease = leases->front();
  hold(lease);
  MessageBatch batch{.routing_key = std::move(lease.key), .lock_token = lease.token};
  for (Message& message : lease.messages)
    batch.messages.push_back(std::move(message.body));
  return batch;
}

Result<void> MessageQueue::ack(const Token& lock_token) {
  const auto ids = held(lock_token);
  if (!ids) return std::unexpected(ids.error());
  std::vector<Outcome> outcomes;
  for (const MessageId id : *ids)
    outcomes.push_back({.id = id});
  return settle(lock_token, std::move(outcomes));
}

Result<void> MessageQueue::abandon(const Token& lock_token, std::optional<Duration> delay) {
  const auto ids = held(lock_token);
  if (!ids) return std::unexpected(ids.error());
  // What a settle does not name is released.
  return settle(
      lock_token,
      {{.id = ids->front(), .kind = Outcome::Kind::retry, .delay = delay, .reason = "abandoned"}});
}

Result<void> MessageQueue::settle(const Token& token, std::vector<Outcome> outcomes) {
  Transaction transaction;
  transaction.settles.push_back({.token = token, .outcomes = std::move(outcomes)});
  const Result<Receipt> receipt = store_.apply(transaction);
  // After any other failure the batch may still be held, and settled later.
  if (receipt || receipt.error().code == Errc::lease_lost) {
    const std::lock_guard lock(mutex_);
    held_.erase(token);
  }
  if (!receipt) return std::unexpected(receipt.error());
  return {};
}

void MessageQueue::hold(const Lease& lease) {
  Held held{.ids = {}, .expires_at = lease.expires_at};
  for (const Message& message : lease.messages)
    held.ids.push_back(message.id);
  const Time now = store_.now();
  const std::lock_guard lock(mutex_);
  if (held_.size() >= sweep_at_) {
    std::erase_if(held_, [&](const auto& entry) { return entry.second.expires_at <= now; });
    sweep_at_ = std::max(sweep_at_, 2 * held_.size());
  }
  held_.insert_or_assign(lease.token, std::move(held));
}

Result<std::vector<MessageId>> MessageQueue::held(const Token& token) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = held_.find(token); found != held_.end()) return found->second.ids;
  }
  // Settled, run out, or never ours: the store knows. Keeping the lease as it is changes nothing.
  Transaction transaction;
  transaction.durability = Durability::async;
  transaction.settles.push_back({.token = token, .then = Settle::Then::keep});
  const Result<Receipt> receipt = store_.apply(transaction);
  if (!receipt) return std::unexpected(receipt.error());
  return failure(Errc::invalid_token,
                 "the token is of a lease that this MessageQueue did not hand out: settle it where "
                 "it was leased");
}

}  // namespace strand
