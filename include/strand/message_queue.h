#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <strand/store.h>

namespace strand {

// All messages of one routing key that were waiting, locked together.
struct MessageBatch {
  std::optional<std::string> routing_key = {};  // none: one message without a key
  std::vector<Bytes> messages = {};             // in order
  Token lock_token = {};
};

// The simplest door to a store: four methods, and no two callers ever work on one routing key.
//
// Whoever dequeues holds the key until it acks, abandons, or the queue's lease time has passed;
// then the token is `lease_lost`, and somebody else gets the messages. For renewals, many queues,
// threads and handlers see Consumer.
//
// Threads: every method may be called concurrently.
// Failure: as that of Store::apply. A token that this object did not hand out is `invalid_token`.
class MessageQueue {
 public:
  // `store` must outlive this.
  explicit MessageQueue(Store& store) : store_(store) {}

  Result<MessageId> enqueue(std::string_view queue, std::optional<std::string> routing_key,
                            Bytes message, Duration delay = Duration{0});
  // Nothing if no message is ready, or no such queue exists. Never waits. A batch has up to 1,000
  // messages and 4 MiB; what is beyond that comes with the next batch of the key.
  Result<std::optional<MessageBatch>> dequeue_batch(std::string_view queue);
  // All messages of the batch are done.
  Result<void> ack(const Token& lock_token);
  // The batch failed: the oldest message is charged an attempt and tried again after `delay` (none:
  // the queue's backoff), the others are given back behind it, charged nothing.
  Result<void> abandon(const Token& lock_token, std::optional<Duration> delay = {});

 private:
  // A settle names its messages.
  struct Held {
    std::vector<MessageId> ids;
    Time expires_at{};
  };
  Result<std::vector<MessageId>> held(const Token& token);
  Result<void> settle(const Token& token, std::vector<Outcome> outcomes);
  void hold(const Lease& lease);

  Store& store_;
  std::mutex mutex_;  // for what follows
  std::map<Token, Held> held_;
  std::size_t sweep_at_ = 64;  // so many held: time to forget those that have run out
};

}  // namespace strand
