// S17: what is due happens by itself, in the order of time.

#include <algorithm>

#include "model/state.h"
#include "model/text.h"

namespace strand::model {
namespace {

constexpr Duration open_grace = std::chrono::seconds{10};

}  // namespace

std::optional<Time> State::next_due() const {
  std::optional<Time> next;
  const auto consider = [&](const std::optional<Time>& time) {
    if (time && *time > now_ && (!next || *time < *next)) next = time;
  };
  for (const auto& [epoch, hold] : holds_)
    consider(hold.expires_at);
  for (const auto& [name, queue] : queues_) {
    for (const auto& [key, lane] : queue.lanes) {
      if (lane.hint) {
        consider(lane.hint->until);
        if (lane.turn) consider(lane.turn->since + lane.hint->grace);
      }
      for (const Item& item : lane.items) {
        consider(item.message.due);
        consider(item.retry_at);
        if (item.holder == Epoch{}) consider(item.message.expires_at);
      }
    }
  }
  return next;
}

void State::advance(Time to) {
  if (to < now_) throw std::logic_error("the harness let time go back");
  while (const std::optional<Time> due = next_due()) {
    if (*due > to) break;
    now_ = *due;
    happen();
  }
  now_ = to;
  forget_publications();
}

void State::forget_publications() {
  std::erase_if(retained_, [&](const Publication& publication) {
    const auto topic = topics_.find(publication.topic);
    return topic == topics_.end() || publication.published_at + topic->second.retain <= now_;
  });
}

// At one instant: first delays and backoffs, by message; then lease ends, by epoch; then TTL ends,
// by message.
void State::happen() {
  become_visible();
  end_hints();
  std::vector<Epoch> over;
  for (const auto& [epoch, hold] : holds_) {
    if (hold.expires_at <= now_) over.push_back(epoch);
  }
  for (const Epoch epoch : over)
    expire_lease(epoch);

  struct Ended {
    Uid uid;
    std::string queue;
    LaneKey key;
  };
  std::vector<Ended> ended;
  for (const auto& [name, queue] : queues_) {
    for (const auto& [key, lane] : queue.lanes) {
      for (const Item& item : lane.items) {
        if (item.holder == Epoch{} && is_over(item)) ended.push_back({item.uid, name, key});
      }
    }
  }
  std::ranges::sort(ended, {}, &Ended::uid);
  for (const Ended& e : ended) {
    expire(e.queue, e.key, e.uid);
    refresh(e.queue);
  }
}

void State::become_visible() {
  struct Due {
    Uid uid;
    std::string queue;
    LaneKey key;
  };
  std::vector<Due> due;
  for (const auto& [name, queue] : queues_) {
    for (const auto& [key, lane] : queue.lanes) {
      for (const Item& item : lane.items) {
        if (item.message.due == now_ || item.retry_at == now_) due.push_back({item.uid, name, key});
      }
    }
  }
  std::ranges::sort(due, {}, &Due::uid);
  for (const Due& d : due)
    refresh_lane(d.queue, d.key);
}

void State::end_hints() {
  for (auto& [name, queue] : queues_) {
    std::vector<LaneKey> ended;
    for (auto& [key, lane] : queue.lanes) {
      if (!lane.hint) continue;
      // Others find the lane when its grace or the hint is over, whichever comes first.
      if (lane.turn && std::min(lane.hint->until, lane.turn->since + lane.hint->grace) == now_) {
        stirred.lanes.emplace(name, key);
      }
      if (lane.hint->until <= now_) ended.push_back(key);
    }
    for (const LaneKey& key : ended) {
      queue.lanes.at(key).hint.reset();
      tidy(name, key);
    }
  }
}

void State::expire_lease(Epoch epoch) {
  const Hold hold = holds_.at(epoch);
  QueueState& queue = queue_at(hold.queue);
  LaneState& lane = queue.lanes.at(hold.lane);
  const std::vector<Uid> uids = carried(hold);
  if (!uids.empty()) {
    Item& oldest = item_at(lane, uids.front());
    charge(oldest, "lease expired");
    if (hold.lane.key) lane.isolate = true;
    if (!is_over(oldest) && exhausted(queue, oldest)) {
      if (queue.settings.on_exhausted == OnExhausted::park) {
        lane.parked = "lease expired";
      } else {
        bury(hold.queue, hold.lane, uids.front(), "lease expired", "dead");
      }
    }
  }
  end_hold(epoch);
}

void State::reload(Time at, bool opened) {
  for (auto& [epoch, hold] : holds_) {
    // The process that has only failed to write has not been away.
    if (hold.graced || !opened) continue;
    hold.expires_at = std::max(hold.expires_at, at + open_grace);
    hold.graced = true;
  }
  struct Ready {
    std::pair<Time, Uid> place;
    LaneState* lane;
  };
  std::vector<Ready> ready;
  for (auto& [name, queue] : queues_) {
    queue.granted = 0;
    for (auto& [key, lane] : queue.lanes)
      lane.turn.reset();
  }
  wanted_ = at;
  // What became due meanwhile has happened at its own time.
  now_ = std::min(now_, at);
  refresh();
  advance(at);
  for (auto& [name, queue] : queues_) {
    for (auto& [key, lane] : queue.lanes) {
      if (lane.turn) ready.push_back({visible(lane).front()->place(), &lane});
    }
  }
  std::ranges::sort(ready, {}, &Ready::place);
  for (const Ready& r : ready)
    r.lane->turn = Turn{r.place.first, next_order_++};
  // Who waits is woken after every open.
  stirred = Stirred{};
}

}  // namespace strand::model
