// Lanes: what is in them, what of it is visible, and which of them are ready.

#include <algorithm>

#include "model/state.h"
#include "model/text.h"

namespace strand::model {

State::State(const Limits& the_limits) : limits_(the_limits) {}

QueueState& State::queue_at(const std::string& queue) { return queues_[queue]; }

QueueState& State::existing(const std::string& queue) {
  const auto it = queues_.find(queue);
  if (it == queues_.end()) throw Refused{Errc::not_found, "no queue " + quote(queue)};
  return it->second;
}

ExecutionState* State::open_execution(QueueState& queue, const std::string& key) {
  const auto instance = queue.instances.find(key);
  if (instance == queue.instances.end() || instance->second.empty()) return nullptr;
  ExecutionState& last = instance->second.rbegin()->second;
  return last.execution.outcome ? nullptr : &last;
}

LaneState& State::lane_at(QueueState& queue, const LaneKey& key) {
  const auto [it, fresh] = queue.lanes.try_emplace(key);
  if (fresh && key.key) {
    if (const ExecutionState* open = open_execution(queue, *key.key)) {
      it->second.label = open->execution.label;
    }
  }
  return it->second;
}

LaneState* State::find_lane(const std::string& queue, const LaneKey& key) {
  const auto q = queues_.find(queue);
  if (q == queues_.end()) return nullptr;
  const auto lane = q->second.lanes.find(key);
  return lane == q->second.lanes.end() ? nullptr : &lane->second;
}

Item& State::item_at(LaneState& lane, Uid uid) {
  const auto it = std::ranges::find(lane.items, uid, &Item::uid);
  if (it == lane.items.end()) throw std::logic_error("the model lost an item of its own");
  return *it;
}

void State::insert(LaneState& lane, Item item) {
  const auto at = std::ranges::upper_bound(lane.items, item.place(), {}, &Item::place);
  lane.items.insert(at, std::move(item));
}

Item State::take(LaneState& lane, Uid uid) {
  const auto found = lane.items.begin() + (&item_at(lane, uid) - lane.items.data());
  Item item = std::move(*found);
  lane.items.erase(found);
  item.holder = Epoch{};
  return item;
}

std::vector<const Item*> State::visible(const LaneState& lane) const {
  std::vector<const Item*> out;
  if (lane.parked) return out;
  for (const Item& item : lane.items) {
    if (item.retry_at && *item.retry_at > now_) {
      if (item.blocks) break;
      continue;
    }
    if (item.message.due <= now_ && item.holder == Epoch{}) out.push_back(&item);
  }
  return out;
}

MessageState State::state_of(const LaneState& lane, const Item& item) const {
  if (lane.parked) return MessageState::parked;
  if (item.holder != Epoch{}) return MessageState::leased;
  if (item.message.due > now_) return MessageState::delayed;
  if (item.retry_at && *item.retry_at > now_) return MessageState::backoff;
  if (lane.holder != Epoch{}) return MessageState::waiting;
  const std::vector<const Item*> all = visible(lane);
  return std::ranges::find(all, &item) != all.end() ? MessageState::ready : MessageState::waiting;
}

void State::tidy(const std::string& queue, const LaneKey& key) {
  const auto q = queues_.find(queue);
  if (q == queues_.end()) return;
  const auto it = q->second.lanes.find(key);
  if (it == q->second.lanes.end()) return;
  LaneState& lane = it->second;
  if (!lane.items.empty()) return;
  lane.isolate = false;
  lane.turn.reset();
  if (lane.holder != Epoch{} || lane.changes_hands) return;
  // A keyed lane stays parked when it is empty; an unkeyed message parks alone and is gone.
  if (key.key && (lane.parked || lane.hint)) return;
  if (key.key && open_execution(q->second, *key.key) != nullptr) return;
  q->second.lanes.erase(it);
}

void State::refresh() {
  for (const auto& entry : queues_)
    refresh(entry.first);
}

void State::refresh(const std::string& queue) {
  const auto q = queues_.find(queue);
  if (q == queues_.end()) return;
  for (const auto& entry : q->second.lanes)
    refresh_lane(queue, entry.first);
}

void State::refresh_lane(const std::string& queue, const LaneKey& key) {
  LaneState& lane = queues_.at(queue).lanes.at(key);
  if (lane.holder != Epoch{}) offer(lane);
  const bool ready = !lane.parked && lane.holder == Epoch{} && !visible(lane).empty();
  if (!ready) {
    lane.turn.reset();
  } else if (!lane.turn) {
    lane.turn = Turn{now_, next_order_++};
    stirred.lanes.emplace(queue, key);
  }
}

// What becomes visible in a leased lane is news for its holder.
void State::offer(LaneState& lane) {
  std::set<Uid> now;
  for (const Item* item : visible(lane)) {
    now.insert(item->uid);
    if (!lane.offered.contains(item->uid)) stirred.holds.insert(lane.holder);
  }
  lane.offered = std::move(now);
}

std::uint64_t State::live_in(const QueueState& queue) const {
  std::uint64_t count = 0;
  for (const auto& entry : queue.lanes)
    count += entry.second.items.size();
  return count;
}

std::uint64_t State::live_messages() const {
  std::uint64_t count = 0;
  for (const auto& entry : queues_)
    count += live_in(entry.second);
  return count;
}

std::size_t State::lane_count() const {
  std::size_t count = 0;
  for (const auto& entry : queues_)
    count += entry.second.lanes.size();
  return count;
}

bool State::exists_live(MessageId id) const {
  for (const auto& [name, queue] : queues_) {
    for (const auto& [key, lane] : queue.lanes) {
      for (const Item& item : lane.items) {
        if (item.message.id == id) return true;
      }
    }
  }
  return false;
}

bool State::is_ready(const std::string& queue, const LaneKey& key) const {
  const auto q = queues_.find(queue);
  if (q == queues_.end() || q->second.paused) return false;
  const auto lane = q->second.lanes.find(key);
  return lane != q->second.lanes.end() && lane->second.turn.has_value();
}

bool State::has_ready(const std::string& queue) const {
  const auto q = queues_.find(queue);
  if (q == queues_.end() || q->second.paused) return false;
  return std::ranges::any_of(q->second.lanes,
                             [](const auto& entry) { return entry.second.turn.has_value(); });
}

void State::note_id(Uid uid, MessageId id) {
  const auto at = std::ranges::lower_bound(ids_, uid, {}, &std::pair<Uid, MessageId>::first);
  const bool after_lower = at == ids_.begin() || std::prev(at)->second < id;
  const bool before_higher = at == ids_.end() || at->second > id;
  expect(id != MessageId{} && after_lower && before_higher, Invariant::lane_order, [&] {
    return "ids must grow in the order of commits, but " + text(id) + " is the " +
           std::to_string(uid) + "th message; its neighbours are " +
           (at == ids_.begin() ? "none" : text(std::prev(at)->second)) + " and " +
           (at == ids_.end() ? "none" : text(at->second));
  });
  ids_.insert(at, {uid, id});
}

void State::bind(Item& item, MessageId id) {
  if (item.message.id == id) return;
  expect(item.message.id == MessageId{}, Invariant::one_end,
         [&] { return "message " + text(item.message.id) + " was expected, not " + text(id); });
  note_id(item.uid, id);
  item.message.id = id;
  if (!item.notice) return;
  // A copy for a full queue dies before anybody has seen its id. The next number is its notice's.
  for (Header& header : item.message.headers) {
    if (header.name != notice_id_header || header.value != "0") continue;
    header.value = std::to_string(static_cast<std::uint64_t>(id) - 1);
  }
}

void State::check_itself() const {
  std::map<Epoch, const LaneState*> held;
  for (const auto& [name, queue] : queues_) {
    const std::uint64_t ended =
        queue.acked + queue.expired + queue.dropped + queue.moved + queue.purged;
    expect(queue.accepted == ended + queue.dead.size() + live_in(queue), Invariant::conservation,
           // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): loses a binding that is captured
           [&] { return "the model's own count of " + quote(name) + " does not add up"; });
    for (const auto& [key, lane] : queue.lanes) {
      if (lane.holder == Epoch{}) continue;
      expect(held.emplace(lane.holder, &lane).second && holds_.contains(lane.holder),
             Invariant::lane_order, [&] { return "the model leased a lane twice"; });
    }
  }
  expect(held.size() == holds_.size(), Invariant::lane_order,
         [&] { return "the model has a lease without a lane"; });
}

bool matches(std::string_view pattern, std::string_view topic) {
  for (;;) {
    if (pattern == "#") return true;
    const std::size_t p = pattern.find('.');
    const std::size_t t = topic.find('.');
    if (pattern.substr(0, p) != "*" && pattern.substr(0, p) != topic.substr(0, t)) return false;
    const bool pattern_ends = p == std::string_view::npos;
    const bool topic_ends = t == std::string_view::npos;
    if (pattern_ends || topic_ends) {
      // `a.#` matches `a` too: zero segments are left for it.
      return (pattern_ends && topic_ends) || (topic_ends && pattern.substr(p + 1) == "#");
    }
    pattern.remove_prefix(p + 1);
    topic.remove_prefix(t + 1);
  }
}

std::uint64_t bytes_of(const Message& message) {
  std::uint64_t bytes = message.body.size();
  for (const Header& header : message.headers)
    bytes += header.name.size() + header.value.size();
  return bytes;
}

}  // namespace strand::model
