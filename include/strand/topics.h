#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <strand/body.h>
#include <strand/consumer.h>
#include <strand/store.h>

namespace strand {

// All that a published message may have besides its topic and its body; see Publish.
struct PublishOptions {
  std::optional<std::string> key = {};
  Headers headers = {};
  Priority priority = Priority::normal;
  Duration delay{0};
  std::optional<Duration> ttl = {};
  std::optional<std::string> dedup_id = {};
};

// Shows what is published while it lives; see Topics::tail. Its subscription goes with it.
class Tail {
 public:
  Tail(const Tail&) = delete;
  Tail& operator=(const Tail&) = delete;
  ~Tail();

 private:
  friend class Topics;
  Tail(Store& store, std::string queue);
  Store& store_;
  const std::string queue_;
  std::unique_ptr<Consumer> consumer_;
};

// Publishing and subscribing. A topic is a name of segments with dots between them. A subscription
// is a queue that gets a copy of everything published to the topics that its pattern matches:
// consume it like any other, with leases, retries, TTLs, priorities and dead letters.
//
// Threads: every method may be called concurrently.
// Failure: as that of Store::apply.
class Topics {
 public:
  // `store` must outlive this.
  explicit Topics(Store& store) : store_(store) {}

  template <Sendable T>
  Result<Published> publish(std::string topic, const T& value, PublishOptions options = {}) {
    Result<Bytes> body = to_body(value);
    if (!body) return std::unexpected(std::move(body.error()));
    return publish_body(std::move(topic), *std::move(body), std::move(options));
  }
  // Adds a publication to a transaction, which the caller applies. After a failure the transaction
  // is as it was.
  template <Sendable T>
  static Result<void> add(Transaction& transaction, std::string topic, const T& value,
                          PublishOptions options = {}) {
    Result<Bytes> body = to_body(value);
    if (!body) return std::unexpected(std::move(body.error()));
    transaction.publishes.push_back(
        to_publish(std::move(topic), *std::move(body), std::move(options)));
    return {};
  }

  // A publication with these options, for whoever makes a transaction of their own.
  [[nodiscard]] static Publish to_publish(std::string topic, Bytes body, PublishOptions options);

  // `*` is exactly one segment, `#`, at the end only, zero or more. With `from`: also what the
  // topics retained since then; returns how many messages that were. Doing it again changes
  // nothing; with another pattern it is `already_exists`.
  Result<std::uint64_t> subscribe(std::string queue, std::string pattern,
                                  std::optional<Time> from = {});
  // The queue stays, with what it holds.
  Result<void> unsubscribe(std::string queue);
  // By queue.
  Result<std::vector<Subscription>> list() { return store_.subscriptions(); }
  // Keeps what is published to a topic from now on for subscriptions that start in the past; 0
  // keeps nothing any more.
  Result<void> retain(std::string topic, Duration duration);

  // Calls back for each message published to a matching topic from now on (or since `from`, if
  // retained) until the Tail is destroyed, from a thread of its own: those of one key in order, and
  // of the others the most urgent first. If it throws, it gets the messages again a second later.
  //
  // For people who look on, not for work: what has waited for a minute is dropped, and a callback
  // that is too slow sees a message again. A process that is killed leaves its subscription behind,
  // with a minute of messages at most, until a later tail finds what has waited for half of that.
  Result<std::unique_ptr<Tail>> tail(std::string pattern,
                                     std::function<void(const Message&)> callback,
                                     std::optional<Time> from = {});

 private:
  Result<Published> publish_body(std::string topic, Bytes body, PublishOptions options);

  Store& store_;
};

}  // namespace strand
