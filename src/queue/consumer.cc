#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <strand/consumer.h>

#include "queue/consumer_loop.h"

namespace strand {

namespace {

Result<void> refuse(std::string why) {
  return failure(Errc::invalid_argument, "a consumer " + std::move(why));
}

Result<void> check(const ConsumerOptions& options, const Handler& handler) {
  constexpr std::uint32_t workers_max = 1000;
  constexpr Duration lease_min = std::chrono::milliseconds{10};
  if (!handler) return refuse("needs a handler");
  if (options.queues.empty()) return refuse("needs at least one queue");
  if (std::ranges::any_of(options.queues, &std::string::empty)) {
    return refuse("cannot have a queue with an empty name");
  }
  auto names = options.queues;
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
    return refuse(fmt::format("names the queue '{}' twice", *twice));
  }
  if (options.workers == 0 || options.workers > workers_max) {
    return refuse(fmt::format("has from 1 to {} workers, not {}", workers_max, options.workers));
  }
  if (options.batch_messages == 0) return refuse("needs batch_messages of at least 1");
  if (options.batch_bytes == 0) return refuse("needs batch_bytes of at least 1");
  if (options.lanes_in_flight != 0 && options.lanes_in_flight < options.workers) {
    return refuse(fmt::format("with {} workers needs as many lanes_in_flight, not {}",
                              options.workers, options.lanes_in_flight));
  }
  if (options.lease && *options.lease < lease_min) {
    return refuse(fmt::format("cannot renew a lease of {} in time; the shortest is {}",
                              format_duration(*options.lease), format_duration(lease_min)));
  }
  if (options.handler_time && *options.handler_time <= Duration{0}) {
    return refuse("needs a handler_time of more than nothing");
  }
  if (options.coalesce &&
      (options.coalesce->window <= Duration{0} || options.coalesce->messages == 0)) {
    return refuse("that coalesces needs a window and a number of messages");
  }
  if (options.keep) {
    if (options.keep->idle <= Duration{0} || options.keep->total < options.keep->idle) {
      return refuse(
          fmt::format("keeps lanes for {} without a message and {} in all; it needs more "
                      "than nothing, and the second not below the first",
                      format_duration(options.keep->idle), format_duration(options.keep->total)));
    }
    if (options.keep->lanes_max == 0)
      return refuse("that keeps lanes needs lanes_max of at least 1");
  }
  return {};
}

}  // namespace

void Work::decide(const Message& message, Verdict verdict) {
  if (std::ranges::find(messages_, message.id, &Message::id) == messages_.end()) {
    throw std::invalid_argument(fmt::format(
        "the handler decides about message {}, which is not in the batch that it was given",
        static_cast<std::uint64_t>(message.id)));
  }
  if (verdict.kind() == Verdict::Kind::park) {
    throw std::invalid_argument("the handler parks one message; only a whole lane can be parked");
  }
  const auto before = std::ranges::find(fates_, message.id, &Fates::value_type::first);
  if (before != fates_.end()) {
    before->second = std::move(verdict);
  } else {
    fates_.emplace_back(message.id, std::move(verdict));
  }
}

Result<std::unique_ptr<Consumer>> Consumer::start(Store& store, ConsumerOptions options,
                                                  Handler handler) {
  if (auto fine = check(options, handler); !fine) return std::unexpected(std::move(fine).error());
  if (!options.clock) options.clock = system_clock();
  auto loop = std::make_unique<Loop>(store, std::move(options), std::move(handler));
  loop->start();
  return std::unique_ptr<Consumer>(new Consumer(std::move(loop)));
}

Consumer::Consumer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
Consumer::~Consumer() = default;

void Consumer::wait_idle() { loop_->wait_idle(); }
void Consumer::stop() { loop_->stop(std::nullopt); }
bool Consumer::stop(Duration patience) { return loop_->stop(patience); }
void Consumer::let_go(const std::string& queue, const std::string& key) {
  loop_->let_go(queue, key);
}
ConsumerStats Consumer::stats() const { return loop_->stats(); }

}  // namespace strand
