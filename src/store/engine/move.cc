#include "base/planted.h"
#include "store/engine/state.h"

// Linking messages and lanes: where they stand, in which order, and what wakes them.

namespace strand::engine {

namespace {

// What a lane and a message take of memory, beside their strings.
constexpr std::size_t lane_bytes = sizeof(Lane) + 64;

}  // namespace

Lane* Engine::State::find_lane(Queue& queue, std::string_view key) const {
  const auto found = queue.lanes.find(key);
  return found == queue.lanes.end() ? nullptr : found->second.get();
}

Lane& Engine::State::ensure_lane(Queue& queue, std::string_view key) {
  if (Lane* lane = find_lane(queue, key)) return *lane;
  auto lane = std::make_unique<Lane>();
  Lane& result = *lane;
  result.is_lane = true;
  result.queue = &queue;
  result.key = std::string(key);
  // An open execution keeps its label, also while its lane had nothing in it.
  if (const InstanceState* instance = open_instance(queue.id, key)) {
    result.label = instance->record.last.label;
  }
  queue.lanes.emplace(std::string_view(result.key), std::move(lane));
  memory_bytes_ += lane_bytes + result.key.size();
  return result;
}

void Engine::State::destroy(Lane& lane) {
  STRAND_ASSERT(lane.empty() && lane.lease == nullptr && !lane.listed(),
                "only a lane with nothing in it may go");
  if (lane.persisted) erase(Family::lane, lane_key(lane.queue->id, lane.key));
  if (lane.wake_timer) wakes_.erase({*lane.wake_timer, lane.wake_id});
  if (lane.hint_timer) hint_ends_.erase({*lane.hint_timer, lane.queue->id, lane.key});
  lane.queue->blocked.erase(&lane);
  memory_bytes_ -= lane_bytes + lane.key.size();
  const auto found = lane.queue->lanes.find(std::string_view(lane.key));
  lane.queue->lanes.erase(found);
}

// Adds (sign 1) or takes away (sign -1, modulo 2^64) what a lane contributes to its queue's counts.
void Engine::State::tally(Lane& lane, std::uint64_t sign) {
  Tally& sum = lane.queue->tally;
  if (lane.parked()) {
    sum.parked += sign * (lane.visible_count + lane.waiting_count);
    return;
  }
  (lane.lease == nullptr ? sum.ready : sum.waiting) += sign * lane.visible_count;
  sum.delayed += sign * lane.waiting_count;
  sum.backoff += sign * lane.backoff_count;
  if (lane.lease != nullptr) sum.leased += sign * lane.lease->carried;
}

void Engine::State::tally_unkeyed(MessageNode& message, std::uint64_t sign) {
  Tally& sum = message.queue->tally;
  const bool free = message.where == Where::visible || message.where == Where::waiting;
  if (free && message.parked_alone()) {
    sum.parked += sign;
    return;
  }
  switch (message.where) {
    case Where::nowhere:
      break;
    case Where::visible:
      sum.ready += sign;
      break;
    case Where::waiting:
      sum.delayed += sign;
      if (message.in_backoff()) sum.backoff += sign;
      break;
    case Where::leased:
      sum.leased += sign;
      break;
  }
}

void Engine::State::link(MessageNode& message) {
  STRAND_ASSERT(message.where == Where::nowhere && message.lease == nullptr,
                "a message is linked in one place");
  if (message.in_backoff() && *message.extras->not_before <= now_) clear_backoff(message);
  const bool waits = message.wakes_at() > now_;
  message.where = waits ? Where::waiting : Where::visible;
  if (message.lane == nullptr) {
    if (waits) {
      message.queue->unkeyed_waiting.insert(message.queue->unkeyed_waiting.end(), message);
      set_wake_timer(*message.queue);
    } else if (!message.parked_alone()) {
      list_unkeyed(message);
    }
    tally_unkeyed(message, 1);
    return;
  }
  Lane& lane = *message.lane;
  STRAND_ASSERT(lane.edits > 0, "a lane changes only while it is edited");
  if (waits) {
    lane.waiting.insert(lane.waiting.end(), message);
    ++lane.waiting_count;
    if (message.in_backoff()) ++lane.backoff_count;
    if (message.blocks()) {
      if (!lane.blocks) lane.blocks = std::make_unique<std::set<Place>>();
      lane.blocks->insert(message.place());
    }
    return;
  }
  VisibleSet& set = lane.visible[message.priority];
  set.insert(set.end(), message);
  ++lane.visible_count;
  if (lane.lease != nullptr) wake(*lane.lease);
}

void Engine::State::unlink(MessageNode& message) {
  if (message.lane == nullptr) {
    tally_unkeyed(message, ~std::uint64_t{0});
    switch (message.where) {
      case Where::nowhere:
        break;
      case Where::visible:
        if (message.listed()) unlist(message, *message.queue);
        break;
      case Where::waiting:
        message.queue->unkeyed_waiting.erase(message.queue->unkeyed_waiting.iterator_to(message));
        message.where = Where::nowhere;
        set_wake_timer(*message.queue);
        break;
      case Where::leased:
        message.lease->remove(message);
        break;
    }
    message.where = Where::nowhere;
    return;
  }
  Lane& lane = *message.lane;
  STRAND_ASSERT(lane.edits > 0, "a lane changes only while it is edited");
  switch (message.where) {
    case Where::nowhere:
      break;
    case Where::visible: {
      VisibleSet& set = lane.visible[message.priority];
      set.erase(set.iterator_to(message));
      --lane.visible_count;
      break;
    }
    case Where::waiting:
      lane.waiting.erase(lane.waiting.iterator_to(message));
      --lane.waiting_count;
      if (STRAND_PLANTED("backoff-count-leaks") && message.in_backoff() &&
          message.wakes_at() > now_) {
        ++lane.backoff_count;
      }
      if (message.in_backoff()) --lane.backoff_count;
      if (message.blocks()) {
        lane.blocks->erase(message.place());
        // What stood behind it is visible now, and nothing else tells the holder.
        if (lane.lease != nullptr) wake(*lane.lease);
      }
      break;
    case Where::leased:
      message.lease->remove(message);
      break;
  }
  message.where = Where::nowhere;
}

void Engine::State::clear_backoff(MessageNode& message) {
  STRAND_ASSERT(message.where == Where::nowhere, "its wake time is part of the order it stands in");
  if (!message.extras) return;
  message.extras->not_before.reset();
  message.extras->blocks = false;
}

ReadyIndex& Engine::State::index_for(Lane& lane) {
  if (lane.hint && now_ < lane.hint->until && now_ < time_of(lane.turn) + lane.hint->grace) {
    std::unique_ptr<ReadyIndex>& index = lane.queue->hinted[lane.hint->owner];
    if (!index) index = std::make_unique<ReadyIndex>();
    return *index;
  }
  return lane.queue->ready;
}

void Engine::State::unlist(ReadyEntry& entry, Queue& queue) {
  ReadyIndex& index = entry.group->index();
  ReadyIndex::remove(entry);
  --queue.listed;
  if (&index == &queue.ready || !index.empty()) return;
  std::erase_if(queue.hinted, [&](const auto& hinted) { return hinted.second.get() == &index; });
}

void Engine::State::list_unkeyed(MessageNode& message) {
  if (loading_) return;
  message.turn = next_turn();
  message.queue->ready.insert(
      message, message.extras ? std::string_view(message.extras->label) : std::string_view{});
  ++message.queue->listed;
  wake(*message.queue);
}

// Gives a free lane with visible messages its turn in the ready order, or takes it away.
void Engine::State::list(Lane& lane) {
  const auto priority =
      lane.lease != nullptr || lane.parked() ? std::nullopt : lane.best_priority();
  if (!priority) {
    if (lane.listed()) unlist(lane, *lane.queue);
    return;
  }
  if (!lane.listed()) {
    if (loading_) return;
    lane.turn = next_turn();
    lane.priority = *priority;
    index_for(lane).insert(lane, lane.label);
    ++lane.queue->listed;
    wake(*lane.queue);
    return;
  }
  ReadyIndex& index = index_for(lane);
  if (&lane.group->index() != &index || lane.group->label() != lane.label) {
    unlist(lane, *lane.queue);
    lane.priority = *priority;
    index_for(lane).insert(lane, lane.label);
    ++lane.queue->listed;
    wake(*lane.queue);
  } else if (lane.priority != *priority) {
    ReadyIndex::change_priority(lane, *priority);
  }
}

void Engine::State::refresh(Lane& lane) {
  if (lane.empty() && (lane.lease == nullptr || lane.lease->carried == 0) && lane.isolate_next) {
    lane.isolate_next = false;
    lane.changed = true;
  }
  tally(lane, 1);
  list(lane);
  if (lane.empty() && lane.lease == nullptr && !lane.parked() && !lane.hint) {
    destroy(lane);
    return;
  }
  if (lane.barrier() && lane.lease == nullptr && !lane.parked()) {
    lane.queue->blocked.insert(&lane);
  } else if (!lane.queue->blocked.empty()) {
    lane.queue->blocked.erase(&lane);
  }
  set_timers(lane);
  if (lane.changed) persist(lane);
}

void Engine::State::set_timers(Lane& lane) {
  std::optional<Time> wake_at;
  MessageId wake_id{};
  if (!lane.waiting.empty()) {
    wake_at = lane.waiting.begin()->wakes_at();
    wake_id = lane.waiting.begin()->id;
  }
  if (wake_at != lane.wake_timer || wake_id != lane.wake_id) {
    if (lane.wake_timer) wakes_.erase({*lane.wake_timer, lane.wake_id});
    if (wake_at)
      wakes_.emplace(std::pair{*wake_at, wake_id}, Waker{.lane = &lane, .queue = nullptr});
    lane.wake_timer = wake_at;
    lane.wake_id = wake_id;
  }
  std::optional<Time> hint_at;
  if (lane.hint) {
    hint_at = lane.hint->until;
    const bool hidden = lane.listed() && &lane.group->index() != &lane.queue->ready;
    if (hidden) hint_at = std::min(*hint_at, time_of(lane.turn) + lane.hint->grace);
  }
  if (hint_at != lane.hint_timer) {
    if (lane.hint_timer) hint_ends_.erase({*lane.hint_timer, lane.queue->id, lane.key});
    if (hint_at) hint_ends_.emplace(std::tuple{*hint_at, lane.queue->id, lane.key}, &lane);
    lane.hint_timer = hint_at;
  }
}

void Engine::State::set_wake_timer(Queue& queue) {
  std::optional<Time> wake_at;
  MessageId wake_id{};
  if (!queue.unkeyed_waiting.empty()) {
    wake_at = queue.unkeyed_waiting.begin()->wakes_at();
    wake_id = queue.unkeyed_waiting.begin()->id;
  }
  if (wake_at == queue.wake_timer && wake_id == queue.wake_id) return;
  if (queue.wake_timer) wakes_.erase({*queue.wake_timer, queue.wake_id});
  if (wake_at)
    wakes_.emplace(std::pair{*wake_at, wake_id}, Waker{.lane = nullptr, .queue = &queue});
  queue.wake_timer = wake_at;
  queue.wake_id = wake_id;
}

void Engine::State::persist(Lane& lane) {
  lane.changed = false;
  const std::string key = lane_key(lane.queue->id, lane.key);
  LaneRecord record{.label = lane.label,
                    .park_reason = std::nullopt,
                    .isolate_next = lane.isolate_next,
                    .hint = std::nullopt};
  if (lane.parked()) record.park_reason = *lane.park_reason;
  if (lane.hint) record.hint = *lane.hint;
  const bool plain =
      record.label.empty() && !record.park_reason && !record.isolate_next && !record.hint;
  if (!plain) {
    put(Family::lane, key, record);
  } else if (lane.persisted) {
    erase(Family::lane, key);
  }
  lane.persisted = !plain;
}

void Engine::State::set_label(Lane& lane, std::string_view label) {
  if (lane.label == label) return;
  lane.label = std::string(label);
  lane.changed = true;
  if (InstanceState* instance = open_instance(lane.queue->id, lane.key)) {
    instance->record.last.label = lane.label;
    put(Family::instance, lane_key(lane.queue->id, lane.key), instance->record);
  }
}

}  // namespace strand::engine
