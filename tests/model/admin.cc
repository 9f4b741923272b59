// Administration.

#include <algorithm>

#include "model/state.h"
#include "model/text.h"

namespace strand::model {

std::uint64_t State::administer(const Administration& administration) {
  const std::uint64_t affected =
      std::visit([&](const auto& x) { return administer(x); }, administration);
  refresh();
  return affected;
}

std::uint64_t State::administer(const ConfigureQueue& x) {
  queue_at(x.queue).settings = x.settings;
  return 0;
}

std::uint64_t State::administer(const PauseQueue& x) {
  existing(x.queue).paused = true;
  return 0;
}

std::uint64_t State::administer(const ResumeQueue& x) {
  QueueState& queue = existing(x.queue);
  if (!queue.paused) return 0;
  queue.paused = false;
  stirred.queues.insert(x.queue);
  for (auto& [key, lane] : queue.lanes)
    lane.offered.clear();
  return 0;
}

std::uint64_t State::administer(const ResumeLane& x) {
  QueueState& queue = existing(x.queue);
  for (auto& [key, lane] : queue.lanes) {
    const bool meant =
        x.key ? key.key == x.key
              : !key.key && !lane.items.empty() && lane.items.front().message.id == *x.id;
    if (!meant) continue;
    if (!lane.parked) break;
    lane.parked.reset();
    for (Item& item : lane.items) {
      item.message.attempts = 0;
      item.retry_at.reset();
      item.blocks = false;
    }
    const std::uint64_t affected = lane.items.size();
    tidy(x.queue, LaneKey(key));
    return affected;
  }
  throw Refused{Errc::not_found, "no such parked lane"};
}

std::uint64_t State::administer(const PurgeQueue& x) {
  QueueState& queue = existing(x.queue);
  struct Purged {
    Uid uid;
    LaneKey key;
  };
  std::vector<Purged> purged;
  for (const auto& [key, lane] : queue.lanes) {
    if (x.key && key.key != x.key) continue;
    for (const Item& item : lane.items) {
      if (item.holder == Epoch{}) purged.push_back({item.uid, key});
    }
  }
  std::ranges::sort(purged, {}, &Purged::uid);
  for (const Purged& p : purged) {
    const Item ended = take(queue.lanes.at(p.key), p.uid);
    ++queue.purged;
    send_notice(x.queue, ended, "purged", "");
    tidy(x.queue, p.key);
    refresh(x.queue);
  }
  return purged.size();
}

std::uint64_t State::administer(const RemoveQueue& x) {
  QueueState& queue = existing(x.queue);
  bool in_use =
      std::ranges::any_of(holds_, [&](const auto& entry) { return entry.second.queue == x.queue; });
  for (const auto& [key, executions] : queue.instances) {
    in_use = in_use || open_execution(queue, key) != nullptr;
  }
  if (in_use && !x.force) {
    throw Refused{Errc::in_use, quote(x.queue) + " has leases or open executions"};
  }
  std::vector<Epoch> leases;
  for (const auto& [epoch, hold] : holds_) {
    if (hold.queue == x.queue) leases.push_back(epoch);
  }
  const std::uint64_t dead = queue.dead.size();
  removing_ = x.queue;
  for (const Epoch epoch : leases)
    end_hold(epoch);
  std::vector<Item> ended;
  for (auto& [key, lane] : queue.lanes) {
    for (Item& item : lane.items)
      ended.push_back(item);
  }
  std::ranges::sort(ended, {}, &Item::uid);
  const std::uint64_t affected = ended.size() + dead;
  queues_.erase(x.queue);
  for (const Item& item : ended)
    send_notice(x.queue, item, "purged", "");
  removing_.reset();
  return affected;
}

Uid State::dead_by_id(const QueueState& queue, MessageId id) {
  for (const auto& [uid, dead] : queue.dead) {
    if (dead.item.message.id == id) return uid;
  }
  throw Refused{Errc::not_found, text(id) + " is not a dead letter"};
}

std::uint64_t State::administer(const Redrive& x) {
  QueueState& queue = existing(x.queue);
  std::vector<Uid> uids;
  uids.reserve(x.ids.size());
  for (const MessageId id : x.ids)
    uids.push_back(dead_by_id(queue, id));
  for (const Uid uid : uids) {
    if (x.to && *x.to != x.queue) {
      redrive_to(x.queue, uid, *x.to);
    } else {
      redrive_home(x.queue, uid);
    }
  }
  return uids.size();
}

void State::redrive_home(const std::string& queue, Uid uid) {
  QueueState& q = queue_at(queue);
  DeadItem dead = std::move(q.dead.at(uid));
  q.dead.erase(uid);
  Item item = std::move(dead.item);
  item.message.attempts = 0;
  item.message.expires_at.reset();
  for (const auto& [key, lane] : q.lanes) {
    for (const Item& other : lane.items) {
      if (other.message.name == item.message.name) {
        item.message.name.reset();
        break;
      }
    }
  }
  --q.accepted;  // accept() counts it again
  const std::string label = item.label;
  accept(queue, dead.key, label, std::move(item));
}

void State::redrive_to(const std::string& queue, Uid uid, const std::string& to) {
  QueueState& q = queue_at(queue);
  const DeadItem dead = std::move(q.dead.at(uid));
  q.dead.erase(uid);
  ++q.moved;
  Content content;
  content.body = dead.item.message.body;
  content.headers = dead.item.message.headers;
  content.priority = dead.item.message.priority;
  QueueState& target = queue_at(to);
  Item item = new_item(content, target.settings, Duration{0});
  item.message.topic = dead.item.message.topic;
  item.max_attempts = dead.item.max_attempts;
  item.notice_to = dead.item.notice_to;
  item.notice = dead.item.notice;
  accept(to, dead.key, dead.item.label, std::move(item));
}

std::uint64_t State::administer(const DropDead& x) {
  QueueState& queue = existing(x.queue);
  std::vector<Uid> uids;
  uids.reserve(x.ids.size());
  for (const MessageId id : x.ids)
    uids.push_back(dead_by_id(queue, id));
  for (const Uid uid : uids) {
    queue.dead.erase(uid);
    ++queue.dropped;
  }
  return uids.size();
}

std::uint64_t State::administer(const Subscribe& x) {
  QueueState& queue = queue_at(x.queue);
  if (queue.pattern) {
    if (*queue.pattern == x.pattern) return 0;
    throw Refused{Errc::already_exists, quote(x.queue) + " has another pattern"};
  }
  queue.pattern = x.pattern;
  if (!x.from) return 0;
  std::uint64_t copies = 0;
  // A copy: delivering may not change the list, but it is a reference into this state.
  const std::vector<Publication> retained = retained_;
  for (const Publication& publication : retained) {
    if (publication.published_at < *x.from || !matches(x.pattern, publication.topic)) {
      continue;
    }
    deliver_copy(x.queue, publication.topic, publication.content, Duration{0});
    ++copies;
  }
  return copies;
}

std::uint64_t State::administer(const Unsubscribe& x) {
  QueueState& queue = existing(x.queue);
  if (!queue.pattern) throw Refused{Errc::not_found, quote(x.queue) + " has no subscription"};
  queue.pattern.reset();
  return 0;
}

std::uint64_t State::administer(const ConfigureTopic& x) {
  topics_[x.topic] = x.settings;
  if (x.settings == TopicSettings{}) topics_.erase(x.topic);
  forget_publications();
  return 0;
}

}  // namespace strand::model
