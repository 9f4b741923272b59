#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <strand/body.h>
#include <strand/store.h>

namespace strand {

// All that a message may have besides its queue and its body; see Send.
struct SendOptions {
  std::optional<std::string> key = {};
  Headers headers = {};
  Priority priority = Priority::normal;
  Duration delay{0};
  std::optional<Duration> ttl = {};
  std::optional<std::string> dedup_id = {};
  std::string label = {};
  std::optional<std::string> name = {};
  std::optional<std::uint32_t> max_attempts = {};
  std::optional<Address> dead_notice_to = {};
};

// Sends values to one queue.
//
//   strand::Producer orders(*store, "orders");
//   orders.send(order, {.key = order.customer}).value();
//
// Threads:    every method may be called concurrently.
// Durability: success is durable before it is returned.
// Failure:    as that of Store::apply: `unknown_outcome` may have been sent. A `dedup_id`, or a
//             transaction with an id, makes it safe to send again.
class Producer {
 public:
  // `store` must outlive the producer.
  Producer(Store& store, std::string queue) : store_(store), queue_(std::move(queue)) {}

  [[nodiscard]] const std::string& queue() const { return queue_; }

  template <Sendable T>
  Result<Sent> send(const T& value, SendOptions options = {}) {
    Result<Bytes> body = to_body(value);
    if (!body) return std::unexpected(std::move(body.error()));
    return send_body(*std::move(body), std::move(options));
  }

  // To become visible at a point of store time, or a little later; at once if that has passed.
  // options.delay is not used.
  template <Sendable T>
  Result<Sent> send_at(Time due, const T& value, SendOptions options = {}) {
    options.delay = delay_until(due);
    return send(value, std::move(options));
  }

  // Adds a send to a transaction, which the caller applies: it happens together with the rest of
  // it. After a failure the transaction is as it was.
  template <Sendable T>
  Result<void> add(Transaction& transaction, const T& value, SendOptions options = {}) const {
    Result<Bytes> body = to_body(value);
    if (!body) return std::unexpected(std::move(body.error()));
    transaction.sends.push_back(to_send(queue_, *std::move(body), std::move(options)));
    return {};
  }

  // A message with these options, for whoever makes a transaction of their own.
  [[nodiscard]] static Send to_send(std::string queue, Bytes body, SendOptions options);

  // Several messages that are sent together: all of them or none, with one sync.
  //
  // Threads:   one at a time.
  // Ownership: the producer must outlive it.
  // Limits:    those of one transaction (Limits::transaction_operations_max, …_bytes_max).
  class Batch {
   public:
    template <Sendable T>
    Result<void> add(const T& value, SendOptions options = {}) {
      return producer_.add(transaction_, value, std::move(options));
    }
    [[nodiscard]] std::size_t size() const { return transaction_.sends.size(); }
    // One result for each message, in order. After a success the batch is empty; after a failure it
    // is as it was, and may be sent again. An empty batch sends nothing.
    Result<std::vector<Sent>> send();

   private:
    friend class Producer;
    explicit Batch(Producer& producer) : producer_(producer) {}
    Producer& producer_;
    Transaction transaction_;
  };
  Batch batch() { return Batch(*this); }

 private:
  Result<Sent> send_body(Bytes body, SendOptions options);
  [[nodiscard]] Duration delay_until(Time due) const;

  Store& store_;
  const std::string queue_;
};

}  // namespace strand
