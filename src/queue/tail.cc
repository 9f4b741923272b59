#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <strand/topics.h>

namespace strand {

namespace {

constexpr std::string_view prefix = "strand.tail.";
constexpr Duration kept = std::chrono::seconds{60};
// A tail that lives takes its messages long before that.
constexpr Duration left_behind_after = std::chrono::seconds{30};

std::string fresh_name() {
  std::random_device device;
  return fmt::format("{}{:08x}{:08x}", prefix, std::uint32_t{device()}, std::uint32_t{device()});
}

// A message that is lost with its lease, or whose callback throws, is shown again, until its minute
// is over: it never becomes a dead letter.
QueueSettings settings() {
  return {.max_attempts = 0,
          .backoff = {std::chrono::seconds{1}},
          .ttl = kept,
          .on_expired = OnExpired::drop};
}

Result<void> administer(Store& store, Administration operation) {
  Transaction transaction;
  transaction.durability = Durability::async;  // no tail outlives its process
  transaction.admin = std::move(operation);
  const Result<Receipt> receipt = store.apply(transaction);
  if (!receipt) return std::unexpected(receipt.error());
  return {};
}

// What it cannot remove, a later tail will: this one does not depend on it.
void remove_those_left_behind(Store& store) {
  const auto queues = store.queues();
  if (!queues) return;
  for (const QueueInfo& queue : *queues) {
    if (!queue.name.starts_with(prefix)) continue;
    const auto stats = store.stats(queue.name);
    if (!stats || !stats->oldest_ready) continue;
    if (*stats->oldest_ready + left_behind_after < store.now())
      std::ignore = administer(store, RemoveQueue{.queue = queue.name, .force = true});
  }
}

}  // namespace

Tail::Tail(Store& store, std::string queue) : store_(store), queue_(std::move(queue)) {}

Tail::~Tail() {
  consumer_.reset();
  // With its subscription. If that fails, a later tail does it.
  std::ignore = administer(store_, RemoveQueue{.queue = queue_, .force = true});
}

Result<std::unique_ptr<Tail>> Topics::tail(std::string pattern,
                                           std::function<void(const Message&)> callback,
                                           std::optional<Time> from) {
  remove_those_left_behind(store_);
  std::unique_ptr<Tail> tail(new Tail(store_, fresh_name()));
  // The settings first: they hold for what the subscription brings at once.
  auto made = administer(store_, ConfigureQueue{.queue = tail->queue_, .settings = settings()});
  if (!made) return std::unexpected(std::move(made.error()));
  made = administer(store_,
                    Subscribe{.queue = tail->queue_, .pattern = std::move(pattern), .from = from});
  if (!made) return std::unexpected(std::move(made.error()));

  ConsumerOptions options;
  options.queues = {tail->queue_};
  options.durability = Durability::async;
  auto consumer =
      Consumer::start(store_, std::move(options), [callback = std::move(callback)](Work& work) {
        for (const Message& message : work.messages())
          callback(message);
      });
  if (!consumer) return std::unexpected(std::move(consumer.error()));
  tail->consumer_ = *std::move(consumer);
  return tail;
}

}  // namespace strand
