// Leasing: which lanes (S12, S13), with which messages (S3, S4, S6); pull and renew.

#include <algorithm>

#include "model/state.h"
#include "model/text.h"

namespace strand::model {
namespace {

constexpr std::uint64_t starvation_turn = 8;

Priority most_urgent(const std::vector<const Item*>& visible) {
  Priority best = Priority::low;
  for (const Item* item : visible)
    best = std::min(best, item->message.priority);
  return best;
}

template <class T, class Try>
auto judge(const Result<T>& seen, const std::string& request, const Try& attempt) {
  using Answer = decltype(attempt());
  std::optional<Answer> answer;
  try {
    answer = attempt();
  } catch (const Refused& refused) {
    const bool stale = refused.code == Errc::lease_lost || refused.code == Errc::invalid_token;
    expect(!seen && (seen.error().code == refused.code || seen.error().code == refused.or_code),
           stale ? Invariant::current_epoch : Invariant::contract, [&] {
             return request + " had to fail with " + text(refused.code) + ", " + refused.why +
                    ", but the answer was " + text(seen);
           });
    return Answer{};
  }
  expect(seen.has_value(), Invariant::contract,
         [&] { return request + " had to succeed, but the answer was " + text(seen.error()); });
  return *answer;
}

}  // namespace

bool State::Budget::fits(const Item& item) const {
  return first || (messages > 0 && bytes_of(item.message) <= bytes);
}

bool State::Budget::take(const Item& item) {
  if (!fits(item)) return false;
  first = false;
  messages -= std::min<std::uint64_t>(messages, 1);
  bytes -= std::min<std::uint64_t>(bytes, bytes_of(item.message));
  return true;
}

std::vector<Lease> State::lease(const LeaseRequest& request, Time at,
                                const Result<std::vector<Lease>>& seen) {
  advance(at);
  // Grants change the state as they follow the answer; refusals come before any change.
  const std::vector<Lease> none;
  return judge(seen, seen ? "lease" : "lease " + text(request), [&]() -> std::vector<Lease> {
    validate(request, limits_);
    const std::vector<Lease>& answer = seen ? *seen : none;
    if (request.request && seen) {
      const auto known = requests_.find(*request.request);
      if (known != requests_.end()) {
        const bool live = std::ranges::any_of(known->second.epochs,
                                              [&](Epoch epoch) { return holds_.contains(epoch); });
        if (live || known->second.until > now_) {
          return lease_known(request, answer, known->second);
        }
        requests_.erase(known);
      }
    }
    const QueueState& queue = existing(request.queue);
    if (!seen) return {};
    std::vector<Lease> mine;
    if (request.seize) {
      mine = {seize(request, answer)};
    } else if (!queue.paused) {
      mine = request.key ? lease_key(request, answer) : lease_next(request, answer);
    }
    expect(mine.size() == answer.size(), Invariant::contract, [&] {
      return text(request) + "\n  had to be answered by " + text(mine) +
             "\n  but was answered by " + text(answer);
    });
    if (request.request && !mine.empty()) {
      RememberedRequest remembered{now_ + limits_.request_window, {}};
      for (const Lease& lease : mine)
        remembered.epochs.push_back(lease.token.epoch());
      requests_[*request.request] = remembered;
    }
    return mine;
  });
}

std::vector<Lease> State::lease_known(const LeaseRequest& request, const std::vector<Lease>& seen,
                                      const RememberedRequest& remembered) {
  std::vector<Lease> mine;
  for (const Epoch epoch : remembered.epochs) {
    const auto hold = holds_.find(epoch);
    if (hold == holds_.end()) continue;
    const std::vector<Uid> uids = carried(hold->second);
    if (mine.size() < seen.size()) {
      LaneState& lane = queue_at(hold->second.queue).lanes.at(hold->second.lane);
      match_messages(hold->second.queue, uids, lane, seen[mine.size()].messages);
    }
    Lease lease = describe(hold->second, uids);
    if (mine.size() < seen.size()) lease.more = seen[mine.size()].more;
    mine.push_back(std::move(lease));
  }
  const bool same = std::ranges::equal(mine, seen, {}, &Lease::token, &Lease::token);
  expect(same, Invariant::exactly_once_id, [&] {
    return "the repeat of " + text(request) + "\n  had to return " + text(mine) +
           "\n  but returned " + text(seen);
  });
  return mine;
}

bool State::eligible(const LaneState& lane, const LeaseRequest& request) const {
  if (!lane.turn) return false;
  if (!request.labels.empty() &&
      std::ranges::find(request.labels, lane.label) == request.labels.end()) {
    return false;
  }
  if (lane.hint && lane.hint->owner != request.owner) {
    return now_ - lane.turn->since >= lane.hint->grace;
  }
  return true;
}

std::vector<LaneKey> State::next_lanes(const QueueState& queue, const LeaseRequest& request) const {
  using Rank = std::pair<Priority, std::uint64_t>;
  std::optional<Rank> best;
  std::vector<LaneKey> first;
  std::optional<Turn> longest;
  std::vector<LaneKey> waited;
  for (const auto& [key, lane] : queue.lanes) {
    if (!eligible(lane, request)) continue;
    const Rank rank{most_urgent(visible(lane)), lane.turn->order};
    if (!best || rank < *best) {
      best = rank;
      first.clear();
    }
    if (rank == *best) first.push_back(key);
    if (!longest || lane.turn->order < longest->order) {
      longest = lane.turn;
      waited.clear();
    }
    if (lane.turn->order == longest->order) waited.push_back(key);
  }
  const bool starving = queue.granted % starvation_turn == starvation_turn - 1 && longest &&
                        now_ - longest->since >= queue.settings.starvation_after;
  return starving ? waited : first;
}

LaneKey State::identify(const std::string& queue, const Lease& seen,
                        const std::vector<LaneKey>& candidates) {
  if (seen.key) return LaneKey{seen.key, 0};
  QueueState& q = queue_at(queue);
  const MessageId id = seen.messages.empty() ? MessageId{} : seen.messages.front().id;
  std::optional<LaneKey> unnamed;
  for (const auto& [key, lane] : q.lanes) {
    if (key.key || lane.items.empty()) continue;
    if (lane.items.front().message.id == id) return key;
    if (!unnamed && lane.items.front().message.id == MessageId{} &&
        std::ranges::find(candidates, key) != candidates.end()) {
      unnamed = key;
    }
  }
  expect(unnamed.has_value(), Invariant::one_end,
         [&] { return "leased an unkeyed message that is not live: " + text(seen); });
  return *unnamed;
}

std::vector<Lease> State::lease_next(const LeaseRequest& request, const std::vector<Lease>& seen) {
  QueueState& queue = queue_at(request.queue);
  Budget budget{request.messages, request.bytes};
  std::vector<Lease> mine;
  while (mine.size() < request.lanes && (budget.first || budget.messages > 0)) {
    const std::vector<LaneKey> next = next_lanes(queue, request);
    if (next.empty()) break;
    if (mine.size() == seen.size()) {
      // Which of several equals would have been next is the store's choice.
      const bool may_end = std::ranges::any_of(next, [&](const LaneKey& key) {
        return !budget.fits(*visible(queue.lanes.at(key)).front());
      });
      expect(may_end, Invariant::fair_order, [&] {
        return "there was a ready lane " + text(next.front().key) + " for " + text(request) +
               "\n  but the answer was " + text(seen);
      });
      break;
    }
    const Lease& answer = seen[mine.size()];
    const LaneKey key = identify(request.queue, answer, next);
    const LaneState* lane = find_lane(request.queue, key);
    expect(lane != nullptr && lane->holder == Epoch{}, Invariant::lane_order,
           [&] { return "leased a lane that is held or has no messages: " + text(answer); });
    expect(std::ranges::find(next, key) != next.end(), Invariant::fair_order, [&] {
      return "the lane to be served next (lease " + std::to_string(queue.granted + 1) + ") was " +
             text(next.front().key) + " #" + std::to_string(next.front().uid) + ", not that of " +
             text(answer);
    });
    mine.push_back(grant(request, key, budget, answer));
    ++queue.granted;
  }
  return mine;
}

std::vector<Lease> State::lease_key(const LeaseRequest& request, const std::vector<Lease>& seen) {
  const LaneKey key{request.key, 0};
  const LaneState* lane = find_lane(request.queue, key);
  const bool due = lane != nullptr && eligible(*lane, request);
  if (!due) {
    expect(seen.empty(), Invariant::lane_order, [&] {
      return "the lane " + text(request.key) + " could not be leased, but the answer was " +
             text(seen);
    });
    return {};
  }
  expect(seen.size() == 1, Invariant::contract, [&] {
    return "the lane " + text(request.key) + " was ready, but the answer was " + text(seen);
  });
  Budget budget{request.messages, request.bytes};
  return {grant(request, key, budget, seen.front())};
}

Lease State::seize(const LeaseRequest& request, const std::vector<Lease>& seen) {
  expect(seen.size() == 1, Invariant::contract,
         [&] { return "a seize always gets its lane, but the answer was " + text(seen); });
  const LaneKey key{request.key, 0};
  LaneState& lane = lane_at(queue_at(request.queue), key);
  // One holder follows the other: the lane, and its label, are not forgotten in between.
  lane.changes_hands = true;
  if (lane.holder != Epoch{}) end_hold(lane.holder);
  lane.changes_hands = false;
  lane.parked.reset();
  Budget budget{request.messages, request.bytes};
  return grant(request, key, budget, seen.front());
}

Lease State::grant(const LeaseRequest& request, const LaneKey& key, Budget& budget,
                   const Lease& seen) {
  QueueState& queue = queue_at(request.queue);
  LaneState& lane = queue.lanes.at(key);
  const Epoch epoch = seen.token.epoch();
  const Epoch before = replaying ? epoch_max_ : std::max(epoch_max_, shown->epoch_max);
  expect(epoch > before, Invariant::current_epoch, [&] {
    return "epochs must grow: " + text(seen.token) + " came after e" +
           std::to_string(static_cast<std::uint64_t>(before));
  });
  epoch_max_ = epoch;

  const bool isolated = lane.isolate && !request.seize;
  std::vector<Uid> uids;
  const std::vector<const Item*> all = visible(lane);
  for (const Item* item : all) {
    if (isolated && uids.size() == 1) break;
    if (!budget.take(*item)) break;
    uids.push_back(item->uid);
  }
  const bool more = uids.size() < all.size();
  for (const Uid uid : uids) {
    Item& item = item_at(lane, uid);
    ++item.message.deliveries;
    item.holder = epoch;
    item.retry_at.reset();
    item.blocks = false;
  }
  match_messages(request.queue, uids, lane, seen.messages);

  Hold hold;
  hold.token = seen.token;
  hold.queue = request.queue;
  hold.lane = key;
  hold.expires_at = now_ + request.lease.value_or(queue.settings.lease);
  hold.isolated = isolated;
  hold.cursor = seen.cursor;
  lane.holder = epoch;
  lane.turn.reset();
  if (!request.seize) lane.isolate = false;
  lane.offered.clear();
  for (const Item* item : visible(lane))
    lane.offered.insert(item->uid);
  holds_[epoch] = hold;
  shown->tokens.insert(seen.token);

  Lease mine = describe(hold, uids);
  mine.more = more;
  Lease bare = mine;
  bare.messages = seen.messages;
  bare.history = seen.history;
  expect(bare == seen, Invariant::contract,
         [&] { return "the lease had to be " + text(bare) + "\n  but was " + text(seen); });
  return mine;
}

Lease State::describe(const Hold& hold, const std::vector<Uid>& uids) {
  Lease lease;
  lease.token = hold.token;
  lease.queue = hold.queue;
  lease.key = hold.lane.key;
  LaneState& lane = queue_at(hold.queue).lanes.at(hold.lane);
  lease.label = lane.label;
  for (const Uid uid : uids)
    lease.messages.push_back(item_at(lane, uid).message);
  lease.expires_at = hold.expires_at;
  lease.cursor = hold.cursor;
  lease.isolated = hold.isolated;
  return lease;
}

void State::match_messages(const std::string& queue, const std::vector<Uid>& due, LaneState& lane,
                           const std::vector<Message>& seen) {
  bool same = due.size() == seen.size();
  for (std::size_t i = 0; same && i < due.size(); ++i) {
    const Message& mine = item_at(lane, due[i]).message;
    same = (mine.id == seen[i].id || mine.id == MessageId{}) &&
           mine.deliveries == seen[i].deliveries && mine.attempts == seen[i].attempts;
  }
  if (!same) explain_mismatch(queue, lane, due, seen);
  for (std::size_t i = 0; i < due.size(); ++i)
    bind(item_at(lane, due[i]), seen[i].id);
}

// Says which rule is broken when an answer does not carry the messages that were due.
void State::explain_mismatch(const std::string& queue, const LaneState& lane,
                             const std::vector<Uid>& due, const std::vector<Message>& seen) {
  std::vector<Message> expected;
  for (const Item& item : lane.items) {
    if (std::ranges::find(due, item.uid) != due.end()) expected.push_back(item.message);
  }
  const std::string both = "in " + quote(queue) + " the messages had to be " + text(expected) +
                           "\n  but were " + text(seen);
  for (const Message& message : seen) {
    const auto item =
        std::ranges::find_if(lane.items, [&](const Item& i) { return i.message.id == message.id; });
    if (item == lane.items.end()) {
      const bool ended =
          std::ranges::find(ids_, message.id, &std::pair<Uid, MessageId>::second) != ids_.end();
      if (ended)
        violate(Invariant::one_end, text(message.id) + " has ended or is elsewhere; " + both);
      continue;
    }
    if (item->message.due > now_ || (item->retry_at && *item->retry_at > now_)) {
      violate(Invariant::not_early, text(message.id) + " is not due yet; " + both);
    }
  }
  for (const Message& message : expected) {
    if (message.id != MessageId{} &&
        std::ranges::find(seen, message.id, &Message::id) == seen.end()) {
      violate(Invariant::lane_order, text(message.id) + " was passed over; " + both);
    }
  }
  violate(Invariant::lane_order, both);
}

Pulled State::pull(const Token& token, Cursor cursor, PullLimits limits, Time at,
                   const Result<Pulled>& seen) {
  advance(at);
  return judge(seen, "pull " + text(token), [&]() -> Pulled {
    validate(limits, limits_);
    Hold& hold = current(token);
    if (cursor != hold.cursor && cursor != hold.cursor_before) {
      throw Refused{Errc::invalid_cursor, "neither the cursor nor the one before"};
    }
    if (!seen) return {};
    QueueState& queue = queue_at(hold.queue);
    LaneState& lane = queue.lanes.at(hold.lane);
    std::vector<Uid> uids;
    Pulled mine;
    mine.more = seen->more;
    if (cursor != hold.cursor) {
      for (const Uid uid : carried(hold)) {
        if (std::ranges::find(hold.last_pull, uid) != hold.last_pull.end()) uids.push_back(uid);
      }
    } else if (!queue.paused && !hold.isolated && hold.lane.key) {
      Budget budget{limits.messages, limits.bytes};
      const std::vector<const Item*> all = visible(lane);
      for (const Item* item : all) {
        if (!budget.take(*item)) break;
        uids.push_back(item->uid);
      }
      mine.more = uids.size() < all.size();
      for (const Uid uid : uids) {
        Item& item = item_at(lane, uid);
        ++item.message.deliveries;
        item.holder = token.epoch();
        item.retry_at.reset();
        item.blocks = false;
      }
      if (!uids.empty()) {
        expect(seen->cursor != hold.cursor, Invariant::contract,
               [&] { return "a pull that adds messages must move the cursor: " + text(*seen); });
        hold.cursor_before = cursor;
        hold.cursor = seen->cursor;
        hold.last_pull = uids;
      }
    }
    match_messages(hold.queue, uids, lane, seen->messages);
    for (const Uid uid : uids)
      mine.messages.push_back(item_at(lane, uid).message);
    mine.cursor = hold.cursor;
    expect(mine.cursor == seen->cursor && mine.more == seen->more, Invariant::contract, [&] {
      return "the pull had to return " + text(mine) + "\n  but returned " + text(*seen);
    });
    return mine;
  });
}

void State::renew(const Token& token, Duration lease, Time at, const Result<Time>& seen) {
  advance(at);
  const Time end = judge(seen, "renew " + text(token), [&] {
    validate_lease_length(lease, limits_);
    Hold& hold = current(token);
    if (seen) hold.expires_at = now_ + lease;
    return now_ + lease;
  });
  if (seen) {
    expect(end == *seen, Invariant::not_early,
           [&] { return "renewed until " + text(end) + ", but the answer was " + text(*seen); });
  }
}

}  // namespace strand::model
