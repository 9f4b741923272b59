#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
    return to_body(value).and_then([&](Bytes body) {
      return publish_body(std::move(topic), std::move(body), std::move(options));
    });
  }
  // Adds a publication to a transaction, which the caller applies.
  template <Sendable T>
  static Result<void> add(Transaction& transaction, std::string topic, const T& value,
                          PublishOptions options = {}) {
    return to_body(value).transform([&](Bytes body) {
      transaction.publishes.push_back(
          to_publish(std::move(topic), std::move(body), std::move(options)));
    });
  }

  // `*` is exactly one segment, `#`, at the end only, zero or more. With `from`: also what the
  // topics retained since then; returns how many messages that were. Doing it again changes
  // nothing; with another pattern it is `already_exists`.
  Result<std::uint64_t> subscribe(std::string queue, std::string pattern,
                                  std::optional<Time> from = {});
  // The queue stays, with what it holds.
  Result<void> unsubscribe(std::string queue);
  Result<std::vector<Subscription>> list() { return store_.subscriptions(); }
  // Keeps what is published to a topic for subscriptions that start in the past.
  Result<void> retain(std::string topic, Duration duration);

  // Calls back for each message published to a matching topic from now on (or since `from`, if
  // retained), in order, until the Tail is destroyed; from a thread of its own. For people who look
  // on: what a process that is killed leaves behind holds a minute of messages at most, and is
  // removed by the next tail.
  Result<std::unique_ptr<Tail>> tail(std::string pattern,
                                     std::function<void(const Message&)> callback,
                                     std::optional<Time> from = {});

 private:
  Result<Published> publish_body(std::string topic, Bytes body, PublishOptions options);
  static Publish to_publish(std::string topic, Bytes body, PublishOptions options);

  Store& store_;
};

}  // namespace strand
