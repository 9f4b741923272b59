#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "store/engine/state.h"

// Removing a queue with everything in it.

namespace strand::engine {

Result<std::uint64_t> Engine::State::run(const RemoveQueue& op) {
  const auto found = known_queue(op.queue);
  if (!found) return std::unexpected(found.error());
  Queue& queue = **found;
  if (!op.force && (queue.leases > 0 || queue.open_executions > 0)) {
    return failure(
        Errc::in_use,
        fmt::format("queue '{}' has {} leases and {} open executions: end them first, or "
                    "remove it by force",
                    base::printable(op.queue), queue.leases, queue.open_executions));
  }
  auto on_disk = find_on_disk(queue);
  if (!on_disk) return std::unexpected(on_disk.error());
  const std::uint64_t dead = on_disk->dead.size();
  foresee_dead(queue, *on_disk);
  const std::uint64_t removed = empty_queue(queue) + dead;
  erase_on_disk(queue, *on_disk);
  erase_ids(queue);
  if (queue.pattern) {
    subscriptions_.remove(*queue.pattern, queue);
    erase(Family::subscription, queue_key(queue.id));
  }
  erase(Family::queue, queue_key(queue.id));
  erase(Family::queue_name, queue.name);
  erase(Family::counters, queue_key(queue.id));
  // Whoever waits for the queue should look again.
  decisions_.wakes.queues.push_back(queue.name);
  std::erase(woken_queues_, &queue);
  std::erase(counters_changed_, &queue);
  queues_by_id_.erase(static_cast<std::uint32_t>(queue.id));
  queues_.erase(queues_.find(op.queue));
  return removed;
}

Result<Engine::State::OnDisk> Engine::State::find_on_disk(Queue& queue) const {
  OnDisk result;
  const std::string prefix = queue_key(queue.id);
  std::optional<Error> wrong;
  auto scanned = archive_.scan(Family::dead, prefix, behind_prefix(prefix),
                               [&](std::string_view key, std::string_view value) {
                                 const auto id = decode_dead_key(key);
                                 auto entry = decode<DeadEntry>(value);
                                 if (!id || !entry) {
                                   wrong = damaged(Family::dead, key);
                                   return false;
                                 }
                                 entry->message.body.clear();
                                 result.dead.emplace_back(id->second, std::move(*entry));
                                 return true;
                               });
  if (!scanned) return std::unexpected(scanned.error());
  scanned = archive_.scan(Family::instance, prefix, behind_prefix(prefix),
                          [&](std::string_view key, std::string_view value) {
                            const auto record = decode<InstanceRecord>(value);
                            if (!record) {
                              wrong = damaged(Family::instance, key);
                              return false;
                            }
                            result.instances.push_back(record->number);
                            return true;
                          });
  if (!scanned) return std::unexpected(scanned.error());
  if (wrong) return std::unexpected(*wrong);
  return result;
}

// A message that outlived its TTL under a lease is buried when empty_queue() ends the lease: a dead
// letter that nobody sees, and that has to go with the others.
void Engine::State::foresee_dead(const Queue& queue, OnDisk& found) const {
  if (queue.settings.on_expired != OnExpired::dead) return;
  for (const MessageNode& message : queue.messages) {
    if (message.lease == nullptr || !message.expired(now_)) continue;
    DeadEntry entry;
    if (message.own_body) entry.message.body_at = message.id;
    if (message.extras->body_at) entry.message.body_at = message.extras->body_at;
    found.dead.emplace_back(message.id, std::move(entry));
  }
}

// Ends all leases, messages and lanes; returns how many messages there were.
std::uint64_t Engine::State::empty_queue(Queue& queue) {
  removing_ = &queue;
  std::vector<LeaseNode*> leases;
  for (const auto& [key, lane] : queue.lanes) {
    if (lane->lease != nullptr) leases.push_back(lane->lease);
  }
  for (MessageNode& message : queue.messages) {
    if (message.lane == nullptr && message.lease != nullptr) leases.push_back(message.lease);
  }
  std::ranges::sort(leases, {}, &LeaseNode::epoch);  // not in the order of a hash table
  for (LeaseNode* lease : leases)
    revoke(*lease);
  std::vector<MessageNode*> messages;
  for (MessageNode& message : queue.messages)
    messages.push_back(&message);
  for (MessageNode* message : messages)
    end(*message, End::purged);
  std::vector<Lane*> lanes;
  for (const auto& [key, lane] : queue.lanes)
    lanes.push_back(lane.get());
  for (Lane* lane : lanes) {
    LaneEdit edit(*this, *lane);
    lane->park_reason.reset();
    lane->hint.reset();
  }
  removing_ = nullptr;
  STRAND_ASSERT(queue.lanes.empty() && queue.messages.empty() && queue.listed == 0,
                "nothing is left of a removed queue");
  return messages.size();
}

void Engine::State::erase_on_disk(Queue& queue, const OnDisk& found) {
  for (const auto& [id, entry] : found.dead)
    erase_dead(queue, id, entry);
  for (const std::uint64_t instance : found.instances) {
    decisions_.mutations.erase_prefix(Family::event, number_key(instance));
    decisions_.mutations.erase_prefix(Family::execution, number_key(instance));
  }
  const std::string prefix = queue_key(queue.id);
  decisions_.mutations.erase_prefix(Family::instance, prefix);
  decisions_.mutations.erase_prefix(Family::open, prefix);
}

void Engine::State::erase_ids(Queue& queue) {
  const std::string prefix = queue_key(queue.id);
  decisions_.mutations.erase_prefix(Family::dedup, prefix);
  const auto of_queue = [&](const auto& entry) { return entry.first.starts_with(prefix); };
  std::erase_if(dedup_, of_queue);
  std::erase_if(instances_, of_queue);
}

}  // namespace strand::engine
