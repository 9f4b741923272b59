#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <strand/topics.h>

namespace strand {

namespace {

Result<std::uint64_t> administer(Store& store, Administration operation) {
  Transaction transaction;
  transaction.admin = std::move(operation);
  const Result<Receipt> receipt = store.apply(transaction);
  if (!receipt) return std::unexpected(receipt.error());
  return receipt->affected;
}

}  // namespace

Publish Topics::to_publish(std::string topic, Bytes body, PublishOptions options) {
  Publish publish;
  publish.topic = std::move(topic);
  publish.key = std::move(options.key);
  publish.body = std::move(body);
  publish.headers = std::move(options.headers);
  publish.priority = options.priority;
  publish.delay = options.delay;
  publish.ttl = options.ttl;
  publish.dedup_id = std::move(options.dedup_id);
  return publish;
}

Result<Published> Topics::publish_body(std::string topic, Bytes body, PublishOptions options) {
  Transaction transaction;
  transaction.publishes.push_back(
      to_publish(std::move(topic), std::move(body), std::move(options)));
  const Result<Receipt> receipt = store_.apply(transaction);
  if (!receipt) return std::unexpected(receipt.error());
  return receipt->published.front();
}

Result<std::uint64_t> Topics::subscribe(std::string queue, std::string pattern,
                                        std::optional<Time> from) {
  return administer(
      store_, Subscribe{.queue = std::move(queue), .pattern = std::move(pattern), .from = from});
}

Result<void> Topics::unsubscribe(std::string queue) {
  const auto done = administer(store_, Unsubscribe{.queue = std::move(queue)});
  if (!done) return std::unexpected(done.error());
  return {};
}

Result<void> Topics::retain(std::string topic, Duration duration) {
  const auto done = administer(
      store_, ConfigureTopic{.topic = std::move(topic), .settings = {.retain = duration}});
  if (!done) return std::unexpected(done.error());
  return {};
}

}  // namespace strand
