#include <algorithm>

#include <fmt/format.h>

#include "base/planted.h"
#include "base/text.h"
#include "store/contract/check.h"
#include "store/engine/state.h"

// Granting, pulling, renewing and ending leases.

namespace strand::engine {

namespace {

// Of this many leases one goes to the lane that has waited longest (S13).
constexpr std::uint64_t starvation_period = 8;

GrantedMessage granted(const MessageNode& message) {
  return {.id = message.id, .deliveries = message.deliveries, .attempts = message.attempts};
}

}  // namespace

Result<std::vector<Grant>> Engine::State::lease(const LeaseRequest& request, Time now) {
  advance(now);
  if (auto checked = check_lease_request(request, limits_); !checked) {
    return std::unexpected(checked.error());
  }
  if (request.request) {
    const auto found = requests_.find(*request.request);
    if (found != requests_.end()) return repeat_request(found->second);
    if (requests_.size() >= limits_.request_ids_max) {
      return failure(Errc::store_full,
                     fmt::format("the store remembers {} request ids, its limit (request_ids_max); "
                                 "lease without one, or wait until older ones are forgotten",
                                 requests_.size()));
    }
  }
  const auto queue = known_queue(request.queue);
  if (!queue) return std::unexpected(queue.error());
  if ((*queue)->paused && !request.seize) return std::vector<Grant>{};
  auto grants = request.key ? lease_key(**queue, request) : lease_ready(**queue, request);
  if (grants && request.request && !grants->empty()) remember_request(*request.request, *grants);
  return grants;
}

ReadyEntry* Engine::State::pick(Queue& queue, const LeaseRequest& request) {
  ReadyIndex* own = nullptr;
  if (!request.owner.empty()) {
    const auto found = queue.hinted.find(request.owner);
    if (found != queue.hinted.end()) own = found->second.get();
  }
  if ((queue.grants + 1) % starvation_period == 0) {
    ReadyEntry* oldest = queue.ready.oldest(request.labels);
    if (own != nullptr) oldest = older(oldest, own->oldest(request.labels));
    if (oldest != nullptr && now_ - time_of(oldest->turn) >= queue.settings.starvation_after) {
      return oldest;
    }
  }
  ReadyEntry* best = queue.ready.best(request.labels);
  return own == nullptr ? best : better(best, own->best(request.labels));
}

Result<std::vector<Grant>> Engine::State::lease_ready(Queue& queue, const LeaseRequest& request) {
  std::vector<Grant> grants;
  PullLimits left{.messages = request.messages, .bytes = request.bytes};
  while (grants.size() < request.lanes && left.messages > 0) {
    ReadyEntry* entry = pick(queue, request);
    if (entry == nullptr) break;
    const bool first = grants.empty();
    LeaseNode* lease = entry->is_lane
                           ? grant_lane(static_cast<Lane&>(*entry), request, left, first)
                           : grant_unkeyed(static_cast<MessageNode&>(*entry), request, left, first);
    if (lease == nullptr) break;  // the next one does not fit any more
    if (first || !STRAND_PLANTED("starvation-count-per-request")) ++queue.grants;
    grants.push_back(grant(*lease));
  }
  return grants;
}

bool Engine::State::visible_to(const Lane& lane, const LeaseRequest& request) const {
  if (!lane.listed()) return false;
  if (!request.labels.empty() &&
      std::ranges::find(request.labels, lane.label) == request.labels.end()) {
    return false;
  }
  const bool hidden = &lane.group->index() != &lane.queue->ready;
  return !hidden || lane.hint->owner == request.owner;
}

Result<std::vector<Grant>> Engine::State::lease_key(Queue& queue, const LeaseRequest& request) {
  PullLimits left{.messages = request.messages, .bytes = request.bytes};
  std::vector<Grant> grants;
  if (!request.seize) {
    Lane* lane = find_lane(queue, *request.key);
    if (lane == nullptr || !visible_to(*lane, request)) return grants;
    if (LeaseNode* lease = grant_lane(*lane, request, left, true)) grants.push_back(grant(*lease));
    return grants;
  }
  Lane& lane = ensure_lane(queue, *request.key);
  LaneEdit edit(*this, lane);
  if (lane.lease != nullptr) revoke(*lane.lease);
  if (lane.parked()) {
    lane.park_reason.reset();
    lane.changed = true;
  }
  LeaseNode& lease = new_lease(queue, &lane, request.lease.value_or(queue.settings.lease));
  lease.request = request.request;
  carry_visible(lease, 0, left, true);
  persist(lease);
  grants.push_back(grant(lease));
  return grants;
}

LeaseNode& Engine::State::new_lease(Queue& queue, Lane* lane, Duration length) {
  auto node = std::make_unique<LeaseNode>();
  LeaseNode& lease = *node;
  lease.epoch = Epoch{next_number()};
  lease.queue = &queue;
  lease.lane = lane;
  leases_.emplace(static_cast<std::uint64_t>(lease.epoch), std::move(node));
  if (lane != nullptr) lane->lease = &lease;
  ++queue.leases;
  lease.expires_at = now_ + length;
  lease_ends_.emplace(std::pair{lease.expires_at, lease.epoch}, &lease);
  return lease;
}

// Nothing if the first message does not fit what is left of the request.
LeaseNode* Engine::State::grant_lane(Lane& lane, const LeaseRequest& request, PullLimits& left,
                                     bool first) {
  const MessageNode* head = lane.first_visible();
  STRAND_ASSERT(head != nullptr && !head->expired(now_),
                "a listed lane has a visible message, and what has expired is gone");
  if (!first && head->bytes > left.bytes) return nullptr;
  LaneEdit edit(*this, lane);
  Queue& queue = *lane.queue;
  LeaseNode& lease = new_lease(queue, &lane, request.lease.value_or(queue.settings.lease));
  lease.request = request.request;
  lease.isolated = lane.isolate_next;
  if (lane.isolate_next) {
    lane.isolate_next = false;
    lane.changed = true;
    PullLimits one{.messages = 1, .bytes = left.bytes};
    carry_visible(lease, 0, one, first);
    left = {.messages = left.messages - 1, .bytes = one.bytes};
  } else {
    carry_visible(lease, 0, left, first);
  }
  persist(lease);
  return &lease;
}

LeaseNode* Engine::State::grant_unkeyed(MessageNode& message, const LeaseRequest& request,
                                        PullLimits& left, bool first) {
  if (!first && message.bytes > left.bytes) return nullptr;
  Queue& queue = *message.queue;
  LeaseNode& lease = new_lease(queue, nullptr, request.lease.value_or(queue.settings.lease));
  lease.request = request.request;
  carry(lease, message, 0);
  --left.messages;
  left.bytes -= std::min<std::size_t>(left.bytes, message.bytes);
  persist(lease);
  return &lease;
}

// Adds visible messages to a keyed lease while they fit; returns how many.
std::size_t Engine::State::carry_visible(LeaseNode& lease, std::uint64_t pull, PullLimits& left,
                                         bool first_fits) {
  std::size_t count = 0;
  while (left.messages > 0) {
    MessageNode* message = lease.lane->first_visible();
    if (message == nullptr) break;
    const bool fits = message->bytes <= left.bytes || (first_fits && count == 0);
    if (!fits) break;
    carry(lease, *message, pull);
    --left.messages;
    left.bytes -= std::min<std::size_t>(left.bytes, message->bytes);
    ++count;
  }
  return count;
}

void Engine::State::carry(LeaseNode& lease, MessageNode& message, std::uint64_t pull) {
  unlink(message);
  // While it is leased, its deadline does not matter.
  if (const auto expires_at = message.expires_at()) ttl_ends_.erase({*expires_at, message.id});
  ++message.deliveries;
  lease.add(message, pull);
  if (message.lane == nullptr) tally_unkeyed(message, 1);
}

Grant Engine::State::grant(LeaseNode& lease) {
  Grant grant{.token = seal(lease),
              .queue = lease.queue->name,
              .key = std::nullopt,
              .label = {},
              .messages = {},
              .expires_at = lease.expires_at,
              .cursor = Cursor{lease.cursor},
              .isolated = lease.isolated,
              .more = false};
  std::vector<const MessageNode*> messages;
  messages.reserve(lease.carried);
  for (const LeaseNode::Carried& entry : lease.messages) {
    if (entry.message != nullptr) messages.push_back(entry.message);
  }
  const auto by_place = [](const MessageNode* a, const MessageNode* b) {
    return a->place() < b->place();
  };
  if (!std::ranges::is_sorted(messages, by_place)) std::ranges::sort(messages, by_place);
  grant.messages.reserve(messages.size());
  for (const MessageNode* message : messages)
    grant.messages.push_back(granted(*message));
  if (lease.lane != nullptr) {
    grant.key = lease.lane->key;
    grant.label = lease.lane->label;
    grant.more = lease.lane->first_visible() != nullptr;
  } else if (!messages.empty() && messages.front()->extras) {
    grant.label = messages.front()->extras->label;
  }
  return grant;
}

Result<PullGrant> Engine::State::pull(const Token& token, Cursor cursor, PullLimits limits,
                                      Time now) {
  advance(now);
  if (auto checked = check_pull_limits(limits, limits_); !checked) {
    return std::unexpected(checked.error());
  }
  const auto found = find_lease(token);
  if (!found) return std::unexpected(found.error());
  LeaseNode& lease = **found;
  const auto asked = static_cast<std::uint64_t>(cursor);
  const bool repeats = asked + 1 == lease.cursor && asked != 0;
  if (asked != lease.cursor && !repeats) {
    return failure(Errc::invalid_cursor,
                   fmt::format("cursor {} is neither the next one of this lease ({}) nor its last",
                               asked, lease.cursor));
  }
  if (!repeats) {
    if (lease.lane == nullptr || lease.isolated || lease.queue->paused) {
      return PullGrant{.messages = {}, .cursor = cursor, .more = false};
    }
    LaneEdit edit(*this, *lease.lane);
    if (carry_visible(lease, asked, limits, true) > 0) {
      ++lease.cursor;
      persist(lease);
    }
  }
  PullGrant grant{.messages = {}, .cursor = Cursor{lease.cursor}, .more = false};
  for (const LeaseNode::Carried& entry : lease.messages) {
    if (entry.message != nullptr && entry.pull == asked) {
      grant.messages.push_back(granted(*entry.message));
    }
  }
  grant.more = !lease.isolated && lease.lane != nullptr && lease.lane->first_visible() != nullptr;
  return grant;
}

Result<Time> Engine::State::renew(const Token& token, Duration lease, Time now) {
  advance(now);
  if (auto checked = check_lease_duration(lease, limits_); !checked) {
    return std::unexpected(checked.error());
  }
  const auto found = find_lease(token);
  if (!found) return std::unexpected(found.error());
  set_expiry(**found, now_ + lease);
  persist(**found);
  return (*found)->expires_at;
}

void Engine::State::set_expiry(LeaseNode& lease, Time expires_at) {
  lease_ends_.erase({lease.expires_at, lease.epoch});
  lease.expires_at = expires_at;
  lease_ends_.emplace(std::pair{expires_at, lease.epoch}, &lease);
}

void Engine::State::persist(const LeaseNode& lease) {
  LeaseRecord record{.queue = lease.queue->id,
                     .key = std::nullopt,
                     .expires_at = lease.expires_at,
                     .cursor = lease.cursor,
                     .isolated = lease.isolated,
                     .graced = lease.graced,
                     .request = lease.request,
                     .messages = {}};
  if (lease.lane != nullptr) record.key = lease.lane->key;
  record.messages.reserve(lease.carried);
  for (const LeaseNode::Carried& entry : lease.messages) {
    if (entry.message != nullptr) {
      record.messages.push_back({.id = entry.message->id, .pull = entry.pull});
    }
  }
  put(Family::lease, number_key(static_cast<std::uint64_t>(lease.epoch)), record);
}

// Gives back what the lease still carries, charging nothing.
void Engine::State::release_all(LeaseNode& lease) {
  std::vector<MessageNode*> messages;
  messages.reserve(lease.carried);
  for (const LeaseNode::Carried& entry : lease.messages) {
    if (entry.message != nullptr) messages.push_back(entry.message);
  }
  for (MessageNode* message : messages) {
    unlink(*message);
    give_back(*message);
  }
}

// A lease ends with nothing in it. If it was keyed, its lane is being edited.
void Engine::State::end_lease(LeaseNode& lease) {
  STRAND_ASSERT(lease.carried == 0, "no message may be lost with its lease");
  wake(lease);  // whoever watches the lane for the holder learns that it is over
  lease_ends_.erase({lease.expires_at, lease.epoch});
  erase(Family::lease, number_key(static_cast<std::uint64_t>(lease.epoch)));
  request_lease_ended(lease);
  --lease.queue->leases;
  if (lease.lane != nullptr) lease.lane->lease = nullptr;
  leases_.erase(static_cast<std::uint64_t>(lease.epoch));
}

void Engine::State::revoke(LeaseNode& lease) {
  std::optional<LaneEdit> edit;
  if (lease.lane != nullptr) edit.emplace(*this, *lease.lane);
  release_all(lease);
  end_lease(lease);
}

}  // namespace strand::engine
