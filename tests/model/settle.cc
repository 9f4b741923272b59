// S4, S8, S9: the outcomes of leased messages; cancels.

#include <algorithm>
#include <set>

#include "model/state.h"
#include "model/text.h"

namespace strand::model {
namespace {

Duration backoff_step(const QueueSettings& settings, std::uint32_t attempts) {
  if (settings.backoff.empty()) return Duration{0};
  const std::size_t step = std::min<std::size_t>(attempts, settings.backoff.size());
  return settings.backoff[step - 1];
}

// By the formula of settings.h.
Duration with_jitter(Duration step, std::uint32_t percent, MessageId id, std::uint32_t attempts) {
  std::uint64_t x = static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15ULL + attempts;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  x = x ^ (x >> 31U);
  const auto longer = static_cast<std::uint64_t>(step.count()) * percent * (x % 1001) / 100'000;
  return step + Duration{static_cast<std::int64_t>(longer)};
}

}  // namespace

bool State::is_current(const Token& token) const {
  const auto it = holds_.find(token.epoch());
  return it != holds_.end() && it->second.token == token;
}

Hold& State::current(const Token& token) {
  const auto it = holds_.find(token.epoch());
  if (it != holds_.end() && it->second.token == token) return it->second;
  // The store's own secret tells a genuine token; the model only knows those it has seen.
  if (shown->tokens.contains(token)) {
    throw Refused{Errc::lease_lost, text(token) + " is not current"};
  }
  throw Refused{Errc::invalid_token, text(token) + " was never given out"};
}

void State::settle(const Settle& settle) {
  const Hold hold = current(settle.token);
  const Epoch epoch = hold.token.epoch();
  const std::vector<Uid> held = carried(hold);
  LaneState& lane = queue_at(hold.queue).lanes.at(hold.lane);
  for (const Outcome& outcome : settle.outcomes) {
    const bool is_held = std::ranges::any_of(
        held, [&](Uid uid) { return item_at(lane, uid).message.id == outcome.id; });
    if (!is_held) throw Refused{Errc::message_not_leased, text(outcome.id) + " is not carried"};
  }
  if (!hold.lane.key && (settle.label || settle.owner_hint)) {
    throw Refused{Errc::invalid_argument, "an unkeyed message takes no label and no hint"};
  }

  bool goes_on = true;
  for (const Outcome& outcome : settle.outcomes)
    goes_on = settle_one(hold, outcome) && goes_on;
  if (settle.label) {
    lane.label = *settle.label;
    if (ExecutionState* open = open_execution(queue_at(hold.queue), *hold.lane.key)) {
      open->execution.label = *settle.label;
    }
  }
  if (settle.owner_hint) {
    lane.hint.reset();
    if (settle.owner_hint->valid_for.count() > 0) {
      lane.hint = Hint{settle.owner_hint->owner, now_ + settle.owner_hint->valid_for,
                       settle.owner_hint->grace};
    }
  }
  if (settle.then == Settle::Then::park && !lane.parked) lane.parked = settle.park_reason;
  // An unkeyed message is all of its lane: without it there is nothing to keep.
  if (!hold.lane.key && carried(hold).empty()) goes_on = false;
  if (settle.then != Settle::Then::keep || !goes_on) {
    end_hold(epoch);
  } else {
    tidy(hold.queue, hold.lane);
    refresh(hold.queue);
  }
}

bool State::settle_one(const Hold& hold, const Outcome& outcome) {
  QueueState& queue = queue_at(hold.queue);
  LaneState& lane = queue.lanes.at(hold.lane);
  const auto found = std::ranges::find_if(
      lane.items, [&](const Item& item) { return item.message.id == outcome.id; });
  if (found == lane.items.end()) throw Refused{Errc::message_not_leased, "settled before"};
  const Uid uid = found->uid;
  switch (outcome.kind) {
    case Outcome::Kind::ack:
      take(lane, uid);
      ++queue.acked;
      return true;
    case Outcome::Kind::release:
      give_back(hold.queue, hold.lane, uid);
      return true;
    case Outcome::Kind::dead:
      charge(*found, outcome.reason);
      bury(hold.queue, hold.lane, uid, outcome.reason, "dead");
      return true;
    case Outcome::Kind::retry:
      return fail(hold, uid, outcome);
  }
  return true;
}

bool State::fail(const Hold& hold, Uid uid, const Outcome& outcome) {
  QueueState& queue = queue_at(hold.queue);
  LaneState& lane = queue.lanes.at(hold.lane);
  Item& item = item_at(lane, uid);
  charge(item, outcome.reason);
  if (!is_over(item) && exhausted(queue, item)) {
    if (queue.settings.on_exhausted == OnExhausted::dead) {
      bury(hold.queue, hold.lane, uid, outcome.reason, "dead");
      return true;
    }
    if (!lane.parked) lane.parked = outcome.reason;
    give_back(hold.queue, hold.lane, uid);
    return false;
  }
  const Duration step = backoff_step(queue.settings, item.message.attempts);
  const Time again =
      now_ + outcome.delay.value_or(with_jitter(step, queue.settings.backoff_jitter_percent,
                                                item.message.id, item.message.attempts));
  if (again > now_) {
    item.retry_at = again;
    item.blocks = queue.settings.retry_policy == RetryPolicy::block;
  }
  give_back(hold.queue, hold.lane, uid);
  return true;
}

bool State::cancel(const Cancel& cancel) {
  const auto q = queues_.find(cancel.queue);
  if (q == queues_.end()) return false;
  for (auto& [key, lane] : q->second.lanes) {
    for (const Item& item : lane.items) {
      if (item.message.name != cancel.name) continue;
      const Epoch holder = item.holder;
      const LaneKey where = key;
      const Item ended = take(lane, item.uid);
      ++q->second.dropped;
      if (!cancel.quiet) send_notice(cancel.queue, ended, "cancelled", "");
      if (holder != Epoch{}) end_hold(holder);
      tidy(cancel.queue, where);
      refresh(cancel.queue);
      return true;
    }
  }
  return false;
}

}  // namespace strand::model
