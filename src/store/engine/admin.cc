#include <algorithm>

#include <fmt/format.h>

#include "base/planted.h"
#include "base/text.h"
#include "store/engine/state.h"

// Administration of queues and topics; dead letters and removal are in admin_dead.cc and
// admin_remove.cc. Each operation finds out everything that can fail before it changes anything.

namespace strand::engine {

Result<std::uint64_t> Engine::State::administer(const Administration& operation) {
  return std::visit([this](const auto& op) { return run(op); }, operation);
}

Result<void> Engine::State::check_new_queue(std::string_view name) const {
  if (find_queue(name) != nullptr || queues_.size() < limits_.queues_max) return {};
  return failure(Errc::limit_exceeded,
                 fmt::format("the store has {} queues, its limit (queues_max); remove some, or use "
                             "keys instead of queues",
                             queues_.size()));
}

Result<std::uint64_t> Engine::State::run(const ConfigureQueue& op) {
  if (auto checked = check_new_queue(op.queue); !checked) return std::unexpected(checked.error());
  Queue& queue = ensure_queue(op.queue);
  queue.settings = op.settings;
  persist(queue);
  return 0;
}

Result<std::uint64_t> Engine::State::run(const PauseQueue& op) {
  const auto queue = known_queue(op.queue);
  if (!queue) return std::unexpected(queue.error());
  (*queue)->paused = true;
  persist(**queue);
  return 0;
}

Result<std::uint64_t> Engine::State::run(const ResumeQueue& op) {
  const auto queue = known_queue(op.queue);
  if (!queue) return std::unexpected(queue.error());
  (*queue)->paused = false;
  persist(**queue);
  wake(**queue);
  // Holders could not pull meanwhile.
  for (const auto& [key, lane] : (*queue)->lanes) {
    if (lane->lease != nullptr) wake(*lane->lease);
  }
  return 0;
}

Result<std::uint64_t> Engine::State::run(const ResumeLane& op) {
  const auto found = known_queue(op.queue);
  if (!found) return std::unexpected(found.error());
  Queue& queue = **found;
  const auto start_again = [&](MessageNode& message) {
    unlink(message);
    message.attempts = 0;
    clear_backoff(message);
    if (message.has_state) persist_state(message);
    link(message);
  };
  if (op.id) {
    const auto message = queue.messages.find(*op.id);
    if (message == queue.messages.end() || !message->parked_alone()) {
      return failure(Errc::not_found,
                     fmt::format("queue '{}' has no parked unkeyed message {}",
                                 base::printable(op.queue), static_cast<std::uint64_t>(*op.id)));
    }
    unlink(*message);
    message->extras->park_reason.reset();
    start_again(*message);
    return 1;
  }
  Lane* lane = find_lane(queue, *op.key);
  if (lane == nullptr || !lane->parked()) {
    return failure(Errc::not_found,
                   fmt::format("queue '{}' has no parked lane '{}'", base::printable(op.queue),
                               base::printable(*op.key)));
  }
  LaneEdit edit(*this, *lane);
  lane->park_reason.reset();
  lane->changed = true;
  const std::vector<MessageNode*> messages = lane->free_messages();
  for (MessageNode* message : messages)
    start_again(*message);
  return messages.size();
}

Result<std::uint64_t> Engine::State::run(const PurgeQueue& op) {
  const auto found = known_queue(op.queue);
  if (!found) return std::unexpected(found.error());
  Queue& queue = **found;
  // Collected first: a purge may send notices into the same queue, which it must not reach.
  std::vector<MessageNode*> messages;
  if (op.key) {
    if (Lane* lane = find_lane(queue, *op.key)) messages = lane->free_messages();
    std::ranges::sort(messages, {}, &MessageNode::id);
  } else {
    for (MessageNode& message : queue.messages) {
      if (message.where != Where::leased) messages.push_back(&message);
    }
  }
  for (MessageNode* message : messages)
    end(*message, End::purged);
  if (STRAND_PLANTED("purge-erases-leased-lane")) {
    for (const auto& [key, lane] : queue.lanes) {
      if (lane->lease == nullptr || !lane->empty()) continue;
      revoke(*lane->lease);
      break;
    }
  }
  return messages.size();
}

Result<std::uint64_t> Engine::State::run(const Subscribe& op) {
  if (auto checked = check_new_queue(op.queue); !checked) return std::unexpected(checked.error());
  if (const Queue* queue = find_queue(op.queue); queue != nullptr && queue->pattern) {
    if (*queue->pattern == op.pattern) return 0;
    return failure(Errc::already_exists,
                   fmt::format("queue '{}' is subscribed to '{}' already: unsubscribe it first",
                               base::printable(op.queue), base::printable(*queue->pattern)));
  }
  const auto subscribed = std::ranges::count_if(
      queues_, [](const auto& entry) { return entry.second->pattern.has_value(); });
  if (static_cast<std::size_t>(subscribed) >= limits_.subscriptions_max) {
    return failure(
        Errc::limit_exceeded,
        fmt::format("the store has {} subscriptions, its limit (subscriptions_max)", subscribed));
  }
  const auto backlog = find_backlog(op);
  if (!backlog) return std::unexpected(backlog.error());
  Queue& queue = ensure_queue(op.queue);
  queue.pattern = op.pattern;
  subscriptions_.add(op.pattern, queue);
  decisions_.mutations.put(Family::subscription, queue_key(queue.id), op.pattern);
  for (const Backlog& item : *backlog) {
    const std::optional<std::string> topic = item.topic;
    deliver(queue, item.publication.content,
            {.topic = &topic,
             .shared_body = item.id,
             .shared_body_bytes = item.publication.body_bytes});
  }
  return backlog->size();
}

// What topics that match retained since the time asked for, in the order of publication.
Result<std::vector<Engine::State::Backlog>> Engine::State::find_backlog(const Subscribe& op) const {
  std::vector<Backlog> backlog;
  if (!op.from) return backlog;
  for (const auto& [topic, state] : topics_) {
    if (!topic_matches(op.pattern, topic)) continue;
    const std::string prefix = retained_prefix(topic);
    std::optional<Error> wrong;
    auto scanned = archive_.scan(
        Family::retained, prefix, behind_prefix(prefix),
        [&](std::string_view key, std::string_view value) {
          auto publication = decode<PublicationRecord>(value);
          const auto name = decode_retained_key(key);
          if (!publication || !name) {
            wrong = damaged(Family::retained, key);
            return false;
          }
          if (publication->at >= *op.from) {
            backlog.push_back(
                {.topic = topic, .id = name->second, .publication = std::move(*publication)});
          }
          return true;
        });
    if (!scanned) return std::unexpected(scanned.error());
    if (wrong) return std::unexpected(*wrong);
  }
  if (backlog.size() > limits_.transaction_operations_max) {
    return failure(Errc::transaction_too_large,
                   fmt::format("{} retained messages match, more than the limit of {} "
                               "(transaction_operations_max): start later",
                               backlog.size(), limits_.transaction_operations_max));
  }
  std::ranges::sort(backlog, {}, &Backlog::id);
  return backlog;
}

Result<std::uint64_t> Engine::State::run(const Unsubscribe& op) {
  const auto found = known_queue(op.queue);
  if (!found) return std::unexpected(found.error());
  Queue& queue = **found;
  if (!queue.pattern) {
    return failure(Errc::not_found, fmt::format("queue '{}' is not subscribed to anything",
                                                base::printable(op.queue)));
  }
  subscriptions_.remove(*queue.pattern, queue);
  queue.pattern.reset();
  erase(Family::subscription, queue_key(queue.id));
  return 0;
}

Result<std::uint64_t> Engine::State::run(const ConfigureTopic& op) {
  const auto found = topics_.find(op.topic);
  const bool retains = op.settings.retain > Duration::zero();
  if (found == topics_.end() && !retains) return 0;
  if (found == topics_.end() && topics_.size() >= limits_.subscriptions_max) {
    return failure(Errc::limit_exceeded,
                   fmt::format("the store has settings for {} topics, its limit "
                               "(subscriptions_max)",
                               topics_.size()));
  }
  TopicState& state = topics_[op.topic];
  state.settings = op.settings;
  trim_retained(op.topic, state);
  if (retains) {
    put(Family::topic, op.topic, op.settings);
  } else {
    erase(Family::topic, op.topic);
    topics_.erase(op.topic);
  }
  return 0;
}

}  // namespace strand::engine
