// Sends, publishes (S14, S15) and records.

#include <algorithm>

#include "model/state.h"
#include "model/text.h"

namespace strand::model {
namespace {

constexpr Duration topic_dedup_window = std::chrono::minutes{5};

bool is_full(const QueueSettings& settings, std::uint64_t live) {
  return settings.max_length != 0 && live >= settings.max_length;
}

void expect_duplicate(bool duplicate, bool seen, const std::optional<std::string>& id) {
  expect(duplicate == seen, Invariant::exactly_once_id, [&] {
    return "dedup id " + text(id) + (duplicate ? " is a duplicate" : " is not a duplicate") +
           ", but the receipt says otherwise";
  });
}

}  // namespace

Item State::new_item(const Content& content, const QueueSettings& settings, Duration delay) {
  Item item;
  item.uid = next_uid_++;
  item.message.body = content.body;
  item.message.headers = content.headers;
  item.message.priority = content.priority;
  item.message.enqueued_at = now_;
  item.message.due = now_ + delay;
  const std::optional<Duration> ttl = content.ttl ? content.ttl : settings.ttl;
  if (ttl) item.message.expires_at = now_ + *ttl;
  return item;
}

void State::accept(const std::string& queue, const std::optional<std::string>& key,
                   const std::string& label, Item item) {
  QueueState& q = queue_at(queue);
  ++q.accepted;
  const LaneKey where = key ? LaneKey{key, 0} : LaneKey{std::nullopt, item.uid};
  LaneState& lane = lane_at(q, where);
  if (lane.label.empty() && !label.empty()) {
    lane.label = label;
    if (ExecutionState* open = key ? open_execution(q, *key) : nullptr) {
      open->execution.label = label;
    }
  }
  item.label = label;
  insert(lane, std::move(item));
  // This lane alone: a notice arrives before anything else follows from what it tells of.
  refresh_lane(queue, where);
}

// Names and room are those before the transaction, less what it acks, makes dead or cancels. What
// it ends in other ways is not foreseen, nor are notices.
void State::foresee(const Transaction& transaction) {
  rooms_.clear();
  if (transaction.sends.empty()) return;
  for (const auto& [name, queue] : queues_) {
    Room& room = rooms_[name];
    for (const auto& [key, lane] : queue.lanes) {
      for (const Item& item : lane.items) {
        ++room.live;
        if (item.message.name) room.names.insert(*item.message.name);
      }
    }
  }
  std::set<Uid> freed;
  const auto free = [&](const std::string& queue, const Item& item) {
    if (!freed.insert(item.uid).second) return;
    --rooms_[queue].live;
    if (item.message.name) rooms_[queue].names.erase(*item.message.name);
  };
  for (const Settle& settle : transaction.settles) {
    const auto hold = holds_.find(settle.token.epoch());
    if (hold == holds_.end() || hold->second.token != settle.token) continue;
    const LaneState& lane = queue_at(hold->second.queue).lanes.at(hold->second.lane);
    for (const Outcome& outcome : settle.outcomes) {
      if (outcome.kind != Outcome::Kind::ack && outcome.kind != Outcome::Kind::dead) continue;
      for (const Item& item : lane.items) {
        if (item.message.id == outcome.id) free(hold->second.queue, item);
      }
    }
  }
  for (const Cancel& cancel : transaction.cancels) {
    const auto queue = queues_.find(cancel.queue);
    if (queue == queues_.end()) continue;
    for (const auto& [key, lane] : queue->second.lanes) {
      for (const Item& item : lane.items) {
        if (item.message.name == cancel.name) free(cancel.queue, item);
      }
    }
  }
}

Sent State::send(const Send& send, const Sent* seen) {
  const bool fresh = !queues_.contains(send.queue);
  if (fresh && queues_.size() >= limits_.queues_max) {
    throw Refused{Errc::store_full, "too many queues", Errc::limit_exceeded};
  }
  QueueState& queue = queue_at(send.queue);
  if (send.dedup_id) {
    const auto known = queue.dedup.find(*send.dedup_id);
    const bool duplicate = known != queue.dedup.end() && known->second.until > now_;
    if (seen != nullptr) expect_duplicate(duplicate, seen->duplicate, send.dedup_id);
    if (duplicate) return Sent{known->second.id, true};
  }
  Room& room = rooms_[send.queue];
  if (send.name && !room.names.insert(*send.name).second) {
    refuse({Errc::name_taken, quote(*send.name) + " is taken"});
  }
  if (is_full(queue.settings, room.live++)) {
    refuse({Errc::queue_full, quote(send.queue) + " is full"});
  }
  Item item = new_item(send, queue.settings, send.delay);
  item.message.name = send.name;
  item.max_attempts = send.max_attempts;
  item.notice_to = send.dead_notice_to;
  if (seen != nullptr) bind(item, seen->id);
  const MessageId id = item.message.id;
  if (send.dedup_id && queue.settings.dedup_window.count() > 0) {
    queue.dedup[*send.dedup_id] = Dedup{id, now_ + queue.settings.dedup_window};
  }
  accept(send.queue, send.key, send.label, std::move(item));
  return Sent{id, false};
}

Published State::publish(const Publish& publish, const Published* seen) {
  if (publish.dedup_id) {
    const auto known = topic_dedup_.find({publish.topic, *publish.dedup_id});
    const bool duplicate = known != topic_dedup_.end() && known->second.until > now_;
    if (seen != nullptr) expect_duplicate(duplicate, seen->duplicate, publish.dedup_id);
    if (duplicate) return Published{known->second.id, true, 0};
  }
  const Uid uid = next_uid_++;
  Published mine;
  if (seen != nullptr) {
    note_id(uid, seen->id);
    mine.id = seen->id;
  }
  if (publish.dedup_id) {
    topic_dedup_[{publish.topic, *publish.dedup_id}] = Dedup{mine.id, now_ + topic_dedup_window};
  }
  const auto topic = topics_.find(publish.topic);
  if (topic != topics_.end() && topic->second.retain.count() > 0) {
    retained_.push_back({publish.topic, static_cast<const Content&>(publish), now_});
  }
  std::vector<std::string> subscribers;
  for (const auto& [name, queue] : queues_) {
    if (queue.pattern && matches(*queue.pattern, publish.topic)) subscribers.push_back(name);
  }
  for (const std::string& queue : subscribers) {
    deliver_copy(queue, publish.topic, publish, publish.delay);
    ++mine.matched;
  }
  return mine;
}

void State::deliver_copy(const std::string& queue, const std::string& topic, const Content& content,
                         Duration delay) {
  QueueState& q = queue_at(queue);
  Item item = new_item(content, q.settings, delay);
  item.message.topic = topic;
  if (!is_full(q.settings, live_in(q))) {
    accept(queue, content.key, "", std::move(item));
    return;
  }
  ++q.accepted;
  q.dead.emplace(item.uid, DeadItem{item, content.key, now_, "queue full"});
  send_notice(queue, item, "dead", "queue full");
}

Version State::write(const WriteRecord& write, const Version* seen) {
  const auto it = records_.find({write.space, write.key});
  const Version there = it == records_.end() ? Version{0} : it->second.first;
  if (write.expected && *write.expected != there) {
    throw Refused{Errc::version_mismatch, quote(write.space) + "/" + quote(write.key) +
                                              " is at version " +
                                              std::to_string(static_cast<std::uint64_t>(there))};
  }
  const bool changes = write.value || it != records_.end();
  if (changes) stirred.records.emplace(write.space, write.key);
  if (!write.value) {
    if (it != records_.end()) records_.erase(it);
    return Version{0};
  }
  // A number that no client can expect, while the store's own is not known.
  Version version{~std::uint64_t{0}};
  if (seen != nullptr) {
    version = *seen;
    const Version before = replaying ? version_max_ : std::max(version_max_, shown->version_max);
    expect(version > before, Invariant::record_versions, [&] {
      return "versions must grow: " + std::to_string(static_cast<std::uint64_t>(version)) +
             " came after " + std::to_string(static_cast<std::uint64_t>(before));
    });
    version_max_ = version;
  }
  records_[{write.space, write.key}] = {version, *write.value};
  return version;
}

}  // namespace strand::model
