#include <algorithm>
#include <utility>

#include "base/planted.h"
#include "store/engine/state.h"

// Outcomes of leased messages, leases that run out, and parking.

namespace strand::engine {

namespace {

// How much longer than its step a message waits: the formula is in settings.h.
Duration jitter(const MessageNode& message, Duration step, std::uint32_t percent) {
  std::uint64_t x = static_cast<std::uint64_t>(message.id) * 0x9E3779B97F4A7C15U + message.attempts;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  x = x ^ (x >> 31U);
  if (STRAND_PLANTED("jitter-the-same-for-all")) x = message.attempts;
  // In two parts, so that no step is too long to be multiplied.
  const auto share = static_cast<std::int64_t>(percent * (x % 1001));
  return step / 100'000 * share + step % 100'000 * share / 100'000;
}

}  // namespace

void Engine::State::settle(LeaseNode& lease, const Settle& settle, MessageNode* const* outcomes) {
  Lane* const lane = lease.lane;
  std::optional<LaneEdit> edit;
  if (lane != nullptr) edit.emplace(*this, *lane);
  park_wanted_.reset();
  bool given_back = false;
  // A failure that exhausts the message has the better reason, and replaces this one.
  if (lane == nullptr && lease.carried > 0 && settle.then == Settle::Then::park) {
    park_unkeyed(*lease.messages.front().message, settle.park_reason);
  }
  for (std::size_t i = 0; i < settle.outcomes.size(); ++i) {
    given_back = given_back || settle.outcomes[i].kind != Outcome::Kind::ack;
    take_outcome(*outcomes[i], settle.outcomes[i]);
  }
  if (lane == nullptr) {
    if (lease.carried > 0 && settle.then == Settle::Then::keep) return;
    release_all(lease);
    end_lease(lease);
    return;
  }
  if (settle.label) set_label(*lane, *settle.label);
  if (const auto& hint = settle.owner_hint) {
    lane->hint.reset();
    if (hint->valid_for > Duration::zero()) {
      lane->hint = std::make_unique<HintRecord>(
          HintRecord{.owner = hint->owner, .until = now_ + hint->valid_for, .grace = hint->grace});
      if (STRAND_PLANTED("owner-grace-from-hint-time")) lane->hint->until = now_ + hint->grace;
    }
    lane->changed = true;
  }
  if (settle.then == Settle::Then::park && !park_wanted_) park_wanted_ = settle.park_reason;
  if (settle.then == Settle::Then::keep && !park_wanted_) {
    if (given_back) persist(lease);
    return;
  }
  const bool all_acked = !given_back && lease.carried == 0;
  if (STRAND_PLANTED("ack-takes-late-arrivals") && all_acked) {
    for (MessageNode* message : lane->free_messages())
      end(*message, End::acked);
  }
  release_all(lease);
  end_lease(lease);
  if (park_wanted_) park(*lane, *park_wanted_);
  Queue& queue = *lane->queue;
  if (STRAND_PLANTED("no-wake-at-lease-end-with-late-arrival") && all_acked && !queue.woken) {
    edit.reset();
    if (std::exchange(queue.woken, false)) woken_queues_.pop_back();
  }
}

void Engine::State::take_outcome(MessageNode& message, const Outcome& outcome) {
  message.settling = false;
  switch (outcome.kind) {
    case Outcome::Kind::ack:
      end(message, End::acked);
      break;
    case Outcome::Kind::retry:
      fail(message, outcome.reason, outcome.delay, false);
      break;
    case Outcome::Kind::dead:
      add_failure(message, outcome.reason);
      end(message, End::dead, outcome.reason);
      break;
    case Outcome::Kind::release:
      unlink(message);
      give_back(message);
      break;
  }
}

// Puts a message that no lease carries any more back into its place.
void Engine::State::give_back(MessageNode& message) {
  if (message.expired(now_)) {
    end_expired(message);
    return;
  }
  persist_state(message);
  link(message);
  if (const auto expires_at = message.expires_at()) {
    ttl_ends_.emplace(std::pair{*expires_at, message.id}, &message);
  }
}

void Engine::State::persist_state(MessageNode& message) {
  StateRecord record{.attempts = message.attempts,
                     .deliveries = message.deliveries,
                     .not_before = std::nullopt,
                     .blocks = false,
                     .park_reason = std::nullopt,
                     .failures = {}};
  if (message.extras) {
    record.not_before = message.extras->not_before;
    record.blocks = message.extras->blocks;
    record.park_reason = message.extras->park_reason;
    record.failures = message.extras->failures;
  }
  put(Family::state, message_key(message.id), record);
  message.has_state = true;
}

void Engine::State::add_failure(MessageNode& message, std::string_view reason) {
  ++message.attempts;
  std::vector<Failure>& failures = message.more().failures;
  if (failures.size() >= limits_.failures_kept_max) failures.erase(failures.begin());
  failures.push_back({.at = now_, .reason = std::string(reason)});
}

bool Engine::State::exhausted(const MessageNode& message) const {
  const std::uint32_t allowed = message.extras && message.extras->max_attempts
                                    ? *message.extras->max_attempts
                                    : message.queue->settings.max_attempts;
  return allowed != 0 && message.attempts >= allowed;
}

Duration Engine::State::backoff(const MessageNode& message) {
  const QueueSettings& settings = message.queue->settings;
  const std::vector<Duration>& steps = settings.backoff;
  if (steps.empty()) return Duration::zero();
  if (STRAND_PLANTED("backoff-one-step-ahead"))
    return steps[std::min<std::size_t>(message.attempts, steps.size() - 1)];
  const Duration step = steps[std::min<std::size_t>(message.attempts, steps.size()) - 1];
  return step + jitter(message, step, settings.backoff_jitter_percent);
}

// Charges one attempt and decides at once what follows.
void Engine::State::fail(MessageNode& message, std::string_view reason,
                         std::optional<Duration> delay, bool expiry) {
  add_failure(message, reason);
  unlink(message);
  if (!message.expired(now_) && exhausted(message)) {
    if (message.queue->settings.on_exhausted == OnExhausted::dead) {
      end(message, End::dead, reason);
      return;
    }
    if (message.lane == nullptr) {
      park_unkeyed(message, reason);
    } else if (!park_wanted_) {
      park_wanted_ = std::string(reason);
    }
  } else if (!expiry) {
    const Duration wait = delay ? *delay : backoff(message);
    if (wait > Duration::zero()) {
      message.more().not_before = now_ + wait;
      message.extras->blocks =
          message.lane != nullptr && message.queue->settings.retry_policy == RetryPolicy::block;
      if (STRAND_PLANTED("retry-moves-back")) message.due = now_ + wait;
      if (STRAND_PLANTED("blocked-head-ttl-keeps-block") && message.blocks() &&
          message.expires_at()) {
        message.extras->expires_at = std::max(*message.expires_at(), now_ + wait);
      }
    }
  }
  give_back(message);
}

// The oldest message is charged: it is the one that the holder was working on, most likely. The
// next lease brings one message only, so that a message that kills its holders is found out alone.
void Engine::State::expire_lease(LeaseNode& lease) {
  Lane* const lane = lease.lane;
  std::optional<LaneEdit> edit;
  if (lane != nullptr) edit.emplace(*this, *lane);
  park_wanted_.reset();
  MessageNode* oldest = nullptr;
  for (const LeaseNode::Carried& entry : lease.messages) {
    MessageNode* message = entry.message;
    if (message == nullptr) continue;
    if (oldest == nullptr || message->place() < oldest->place()) oldest = message;
    if (STRAND_PLANTED("expiry-charges-the-newest") && message->place() > oldest->place())
      oldest = message;
  }
  if (oldest != nullptr) {
    if (lane != nullptr) {
      lane->isolate_next = true;
      lane->changed = true;
    }
    fail(*oldest, "lease expired", std::nullopt, true);
  }
  release_all(lease);
  end_lease(lease);
  if (lane != nullptr && park_wanted_) park(*lane, *park_wanted_);
}

void Engine::State::park(Lane& lane, std::string_view reason) {
  STRAND_ASSERT(lane.lease == nullptr && lane.edits > 0,
                "a lane is parked when its lease has ended");
  lane.park_reason = std::make_unique<std::string>(reason);
  lane.changed = true;
}

// Only marks it: it takes effect when the message is given back.
void Engine::State::park_unkeyed(MessageNode& message, std::string_view reason) {
  message.more().park_reason = std::string(reason);
}

}  // namespace strand::engine
