#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "store/contract/check.h"
#include "store/engine/state.h"

// Reads of what is in memory.

namespace strand::engine {

// Visible messages of the lane that a blocked one holds back. Walks those before the block, which
// are few: a block stands at the message that failed, and that is mostly the oldest.
std::uint64_t Engine::State::behind_block(const Lane& lane) const {
  const auto barrier = lane.barrier();
  if (!barrier) return 0;
  std::uint64_t before = 0;
  for (const VisibleSet& set : lane.visible) {
    for (auto it = set.begin(); it != set.end() && it->place() < *barrier; ++it)
      ++before;
  }
  return lane.visible_count - before;
}

Result<QueueStats> Engine::State::stats(std::string_view name) const {
  const auto found = known_queue(name);
  if (!found) return std::unexpected(found.error());
  Queue& queue = **found;
  QueueStats stats;
  stats.accepted = queue.counters.accepted;
  stats.acked = queue.counters.acked;
  stats.expired = queue.counters.expired;
  stats.dropped = queue.counters.dropped;
  stats.moved = queue.counters.moved;
  stats.purged = queue.counters.purged;
  stats.dead = queue.counters.dead;
  stats.ready = queue.tally.ready;
  stats.delayed = queue.tally.delayed;
  stats.waiting = queue.tally.waiting;
  stats.leased = queue.tally.leased;
  stats.parked = queue.tally.parked;
  stats.backoff = queue.tally.backoff;
  for (const Lane* lane : queue.blocked) {
    const std::uint64_t held = behind_block(*lane);
    stats.ready -= held;
    stats.waiting += held;
  }
  stats.lanes_ready = queue.listed;
  stats.leases = queue.leases;
  const ReadyEntry* oldest = queue.ready.oldest({});
  for (const auto& [owner, index] : queue.hinted) {
    oldest = older(const_cast<ReadyEntry*>(oldest), index->oldest({}));
  }
  if (oldest != nullptr) stats.oldest_ready = time_of(oldest->turn);
  return stats;
}

std::vector<QueueInfo> Engine::State::queues() const {
  std::vector<QueueInfo> result;
  result.reserve(queues_.size());
  for (const auto& [name, queue] : queues_) {
    result.push_back({.name = name, .settings = queue->settings, .paused = queue->paused});
  }
  std::ranges::sort(result, {}, &QueueInfo::name);
  return result;
}

std::vector<Subscription> Engine::State::subscriptions() const {
  std::vector<Subscription> result;
  for (const auto& [name, queue] : queues_) {
    if (queue->pattern) result.push_back({.queue = name, .pattern = *queue->pattern});
  }
  std::ranges::sort(result, {}, &Subscription::queue);
  return result;
}

std::vector<Topic> Engine::State::topics() const {
  std::vector<Topic> result;
  for (const auto& [name, topic] : topics_) {
    result.push_back({.name = name, .settings = topic.settings});
  }
  return result;
}

MessageState Engine::State::state_of(const MessageNode& message) const {
  const Lane* lane = message.lane;
  if (message.where == Where::leased) return MessageState::leased;
  if (lane != nullptr ? lane->parked() : message.parked_alone()) return MessageState::parked;
  if (message.where == Where::waiting) {
    return message.in_backoff() ? MessageState::backoff : MessageState::delayed;
  }
  if (lane == nullptr) return MessageState::ready;
  const auto barrier = lane->barrier();
  const bool held = lane->lease != nullptr || (barrier && message.place() >= *barrier);
  return held ? MessageState::waiting : MessageState::ready;
}

PeekedEntry Engine::State::look(const MessageNode& message) const {
  PeekedEntry entry;
  entry.message = {
      .id = message.id, .deliveries = message.deliveries, .attempts = message.attempts};
  entry.state = state_of(message);
  if (message.lane != nullptr) {
    entry.label = message.lane->label;
    if (message.lane->parked()) entry.park_reason = *message.lane->park_reason;
  }
  if (message.extras) {
    if (message.lane == nullptr) entry.label = message.extras->label;
    if (entry.state == MessageState::backoff) entry.retry_at = message.extras->not_before;
    if (!message.extras->failures.empty()) {
      entry.last_reason = message.extras->failures.back().reason;
    }
    if (message.extras->park_reason) entry.park_reason = message.extras->park_reason;
  }
  return entry;
}

Result<Page<PeekedEntry>> Engine::State::peek(const PeekQuery& query) const {
  if (auto checked = check_page(query.limit, limits_); !checked) {
    return std::unexpected(checked.error());
  }
  const auto found = known_queue(query.queue);
  if (!found) return std::unexpected(found.error());
  const Queue& queue = **found;
  Page<PeekedEntry> page;
  // Returns whether there is room for more.
  const auto add = [&](const MessageNode& message) {
    if (query.state && state_of(message) != *query.state) return true;
    if (page.items.size() == query.limit) {
      page.more = true;
      return false;
    }
    page.items.push_back(look(message));
    return true;
  };
  if (!query.key) {
    auto it = query.after ? queue.messages.upper_bound(*query.after) : queue.messages.begin();
    for (; it != queue.messages.end() && add(*it); ++it) {
    }
    return page;
  }
  const auto lane = queue.lanes.find(std::string_view(*query.key));
  if (lane == queue.lanes.end()) return page;
  std::vector<MessageNode*> messages = lane->second->free_messages();
  if (const LeaseNode* lease = lane->second->lease) {
    for (const LeaseNode::Carried& entry : lease->messages) {
      if (entry.message != nullptr) messages.push_back(entry.message);
    }
  }
  std::ranges::sort(messages, {}, &MessageNode::place);
  auto it = messages.begin();
  if (query.after) {
    it = std::ranges::find(messages, *query.after, &MessageNode::id);
    if (it == messages.end()) {
      return failure(
          Errc::not_found,
          fmt::format("message {} is not in the lane '{}' any more: start again",
                      static_cast<std::uint64_t>(*query.after), base::printable(*query.key)));
    }
    ++it;
  }
  for (; it != messages.end() && add(**it); ++it) {
  }
  return page;
}

}  // namespace strand::engine
