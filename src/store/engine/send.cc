#include <algorithm>

#include "store/contract/check.h"
#include "store/engine/state.h"

// Acceptance of messages: sends, publications, dedup, retention.

namespace strand::engine {

namespace {

// The dedup window of publications; topics have no setting for it.
constexpr Duration topic_dedup_window = std::chrono::minutes{5};

}  // namespace

// Takes a message into a queue: its entry, its node, its place.
MessageNode& Engine::State::accept(Queue& queue, const Content& content, const Arrival& arrival) {
  const MessageId id{next_number()};
  MessageRecord record{.queue = queue.id,
                       .key = content.key,
                       .priority = content.priority,
                       .enqueued_at = now_,
                       .due = now_ + content.delay,
                       .expires_at = std::nullopt,
                       .name = std::nullopt,
                       .label = std::string(arrival.label),
                       .max_attempts = arrival.max_attempts,
                       .dead_notice_to = std::nullopt,
                       .notice = arrival.notice,
                       .topic = std::nullopt,
                       .headers = content.headers,
                       .body = {},
                       .body_bytes = 0,
                       .body_at = std::nullopt};
  if (const auto ttl = content.ttl ? content.ttl : queue.settings.ttl)
    record.expires_at = now_ + *ttl;
  if (arrival.name != nullptr) record.name = *arrival.name;
  if (arrival.dead_notice_to != nullptr) record.dead_notice_to = *arrival.dead_notice_to;
  if (arrival.topic != nullptr) record.topic = *arrival.topic;
  std::string_view inline_body;
  if (arrival.shared_body) {
    record.body_at = arrival.shared_body;
    record.body_bytes = arrival.shared_body_bytes;
    ++shared_bodies_[static_cast<std::uint64_t>(*arrival.shared_body)];
  } else if (content.body.size() > inline_body_bytes) {
    record.body_at = id;
    record.body_bytes = static_cast<std::uint32_t>(content.body.size());
    decisions_.mutations.put(Family::body, message_key(id), content.body);
  } else {
    inline_body = content.body;
    record.body_bytes = static_cast<std::uint32_t>(content.body.size());
  }
  scratch_.clear();
  encode(record, inline_body, scratch_);
  decisions_.mutations.put(Family::message, message_key(id), scratch_);
  ++count(queue).accepted;
  MessageNode& message = accept_node(queue, id, record);
  std::optional<LaneEdit> edit;
  if (message.lane != nullptr) {
    edit.emplace(*this, *message.lane);
    if (message.lane->label.empty() && !record.label.empty()) {
      set_label(*message.lane, record.label);
    }
  }
  link(message);
  return message;
}

// Makes the node of a message, linked nowhere but in the list of all.
MessageNode& Engine::State::accept_node(Queue& queue, MessageId id, const MessageRecord& record) {
  auto* message = new MessageNode;
  message->id = id;
  message->due = record.due;
  message->queue = &queue;
  message->priority = static_cast<std::uint8_t>(record.priority);
  std::size_t bytes = record.body_bytes;
  for (const Header& header : record.headers)
    bytes += header.name.size() + header.value.size();
  message->bytes = static_cast<std::uint32_t>(bytes);
  message->own_body = record.body_at == id;
  message->notice = record.notice;
  if (record.key) message->lane = &ensure_lane(queue, *record.key);
  add_extras(*message, record);
  queue.messages.insert(queue.messages.end(), *message);
  // A dead letter that comes back has its old id.
  meta_.lowest_message = std::min(meta_.lowest_message, static_cast<std::uint64_t>(id));
  memory_bytes_ += memory_of(message->bytes);
  return *message;
}

void Engine::State::add_extras(MessageNode& message, const MessageRecord& record) {
  if (record.expires_at) {
    message.more().expires_at = record.expires_at;
    ttl_ends_.emplace(std::pair{*record.expires_at, message.id}, &message);
  }
  if (record.name) {
    message.more().name = record.name;
    const bool free = message.queue->names.emplace(*record.name, &message).second;
    STRAND_ASSERT(free, "names are checked before they are taken");
  }
  if (!record.key && !record.label.empty()) message.more().label = record.label;
  if (record.max_attempts) message.more().max_attempts = record.max_attempts;
  if (record.dead_notice_to) {
    message.more().dead_notice_to = record.dead_notice_to;
    message.more().headers = record.headers;
  }
  if (record.body_at && *record.body_at != message.id) message.more().body_at = record.body_at;
}

const DedupRecord* Engine::State::find_dedup(const std::string& key) const {
  const auto found = dedup_.find(key);
  return found == dedup_.end() ? nullptr : &found->second;
}

void Engine::State::remember_dedup(std::string key, MessageId first, Duration window) {
  if (window == Duration::zero()) return;
  const DedupRecord record{.first = first, .ends_at = now_ + window};
  put(Family::dedup, key, record);
  dedup_ends_.emplace(record.ends_at, key);
  dedup_.insert_or_assign(std::move(key), record);
}

// Lanes are scattered over memory, and each send would wait for its own. Here the waits overlap:
// first the lanes, then the last message of each, beside which the new one goes.
void Engine::State::prefetch(const std::vector<Send>& sends) {
  constexpr std::size_t worthwhile = 8;
  if (sends.size() < worthwhile) return;
  prefetched_.clear();
  Queue* queue = nullptr;
  for (const Send& send : sends) {
    if (!send.key) continue;
    if (queue == nullptr || queue->name != send.queue) queue = find_queue(send.queue);
    if (queue == nullptr) continue;
    Lane* lane = find_lane(*queue, *send.key);
    if (lane == nullptr) continue;
    constexpr std::size_t cache_line_bytes = 64;
    for (std::size_t i = 0; i < sizeof(Lane); i += cache_line_bytes) {
      __builtin_prefetch(reinterpret_cast<const char*>(lane) + i);
    }
    prefetched_.emplace_back(lane, static_cast<std::uint8_t>(send.priority));
  }
  for (const auto& [lane, priority] : prefetched_) {
    const VisibleSet& visible = lane->visible[priority];
    if (!visible.empty()) __builtin_prefetch(&*visible.rbegin(), 1);
  }
}

Sent Engine::State::send(const Send& send) {
  Queue& queue = ensure_queue(send.queue);
  std::string dedup_key;
  if (send.dedup_id) {
    dedup_key = queue_dedup_key(queue.id, *send.dedup_id);
    if (const DedupRecord* seen = find_dedup(dedup_key)) {
      return {.id = seen->first, .duplicate = true};
    }
  }
  const MessageId id = accept(queue, send,
                              {.label = send.label,
                               .name = &send.name,
                               .max_attempts = send.max_attempts,
                               .dead_notice_to = &send.dead_notice_to})
                           .id;
  if (send.dedup_id) remember_dedup(std::move(dedup_key), id, queue.settings.dedup_window);
  return {.id = id, .duplicate = false};
}

Published Engine::State::publish(const Publish& publish) {
  std::string dedup_key;
  if (publish.dedup_id) {
    dedup_key = topic_dedup_key(publish.topic, *publish.dedup_id);
    if (const DedupRecord* seen = find_dedup(dedup_key)) {
      return {.id = seen->first, .duplicate = true, .matched = 0};
    }
  }
  const MessageId id{next_number()};
  const std::vector<Queue*> queues = subscriptions_.match(publish.topic);
  const auto topic = topics_.find(publish.topic);
  const bool retained = topic != topics_.end() && topic->second.settings.retain > Duration::zero();
  const std::optional<std::string> topic_name = publish.topic;
  Arrival arrival{.topic = &topic_name};
  // One queue alone takes the body as if it had been sent there.
  if (queues.size() > 1 || retained) {
    decisions_.mutations.put(Family::body, message_key(id), publish.body);
    arrival.shared_body = id;
    arrival.shared_body_bytes = static_cast<std::uint32_t>(publish.body.size());
  }
  if (retained) retain(publish, id);
  for (Queue* queue : queues)
    deliver(*queue, publish, arrival);
  if (publish.dedup_id) remember_dedup(std::move(dedup_key), id, topic_dedup_window);
  return {.id = id, .duplicate = false, .matched = static_cast<std::uint32_t>(queues.size())};
}

// A subscriber that is full gets it as a dead letter: its limit is not the publisher's business.
void Engine::State::deliver(Queue& queue, const Content& content, const Arrival& arrival) {
  const std::uint64_t limit = queue.settings.max_length;
  const bool full = limit != 0 && queue.tally.live() >= limit;
  MessageNode& message = accept(queue, content, arrival);
  if (full) end(message, End::dead, "queue full");
}

void Engine::State::retain(const Publish& publish, MessageId id) {
  PublicationRecord record{.at = now_, .content = {}, .body_bytes = 0};
  record.content.key = publish.key;
  record.content.headers = publish.headers;
  record.content.priority = publish.priority;
  record.content.ttl = publish.ttl;
  record.body_bytes = static_cast<std::uint32_t>(publish.body.size());
  put(Family::retained, retained_key(publish.topic, id), record);
  ++shared_bodies_[static_cast<std::uint64_t>(id)];
  TopicState& state = topics_[publish.topic];
  state.retained.push_back({.id = id, .at = now_});
  set_retention_timer(publish.topic, state);
}

void Engine::State::set_retention_timer(const std::string& topic, TopicState& state) {
  std::optional<Time> at;
  if (!state.retained.empty()) at = state.retained.front().at + state.settings.retain;
  if (at == state.timer) return;
  if (state.timer) retention_ends_.erase({*state.timer, topic});
  if (at) retention_ends_.emplace(*at, topic);
  state.timer = at;
}

void Engine::State::trim_retained(const std::string& topic, TopicState& state) {
  while (!state.retained.empty() && state.retained.front().at + state.settings.retain <= now_) {
    const MessageId id = state.retained.front().id;
    ++applied_;
    erase(Family::retained, retained_key(topic, id));
    release_shared(id);
    state.retained.pop_front();
  }
  set_retention_timer(topic, state);
}

}  // namespace strand::engine
