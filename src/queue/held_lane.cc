#include "queue/held_lane.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/planted.h"

namespace strand::queue {

namespace {

// Smaller than what any store allows by default.
constexpr std::size_t reason_bytes_max = 4000;

std::size_t bytes_of(const Message& message) {
  std::size_t bytes = message.body.size();
  for (const Header& header : message.headers)
    bytes += header.name.size() + header.value.size();
  return bytes;
}

const Verdict* find(const Fates& fates, MessageId id) {
  const auto found = std::ranges::find(fates, id, &Fates::value_type::first);
  return found == fates.end() ? nullptr : &found->second;
}

Outcome outcome_of(MessageId id, const Verdict& verdict) {
  Outcome outcome{.id = id};
  switch (verdict.kind()) {
    case Verdict::Kind::ok:
      outcome.kind = Outcome::Kind::ack;
      break;
    case Verdict::Kind::retry:
      outcome.kind = Outcome::Kind::retry;
      outcome.delay = verdict.delay();
      outcome.reason = fit_reason(verdict.reason());
      break;
    case Verdict::Kind::dead:
      outcome.kind = Outcome::Kind::dead;
      outcome.reason = fit_reason(verdict.reason());
      break;
    case Verdict::Kind::release:
    case Verdict::Kind::park:  // of the whole lane: see settle_failure
      outcome.kind = Outcome::Kind::release;
      break;
  }
  return outcome;
}

// A message that is to be tried again, or was given back, stands before those behind it: they must
// not be handled under this lease.
bool holds_back(const Outcome& outcome) {
  if (STRAND_PLANTED("consumer-goes-on-behind-a-retry")) return false;
  return outcome.kind == Outcome::Kind::retry || outcome.kind == Outcome::Kind::release;
}

bool ends_with(const HeldLane& held, const Settle& settle) {
  const bool all = settle.outcomes.size() == held.lease.messages.size();
  return all || std::ranges::any_of(settle.outcomes, holds_back);
}

}  // namespace

std::span<const Message> HeldLane::hand_out(const BatchLimits& limits) {
  STRAND_ASSERT(!lease.messages.empty(), "a lane without messages is not handed out");
  const std::size_t messages_max =
      std::min<std::size_t>(singly ? 1 : limits.messages, lease.messages.size());
  std::size_t bytes = 0;
  for (count = 0; count < messages_max; ++count) {
    bytes += bytes_of(lease.messages[count]);
    if (count > 0 && bytes > limits.bytes) break;
  }
  return std::span(lease.messages).first(count);
}

void HeldLane::drop_settled() {
  const auto& outcomes = settle.outcomes;
  const auto first = lease.messages.begin();
  // Usually those that were handed out, in their order.
  const bool in_order = std::ranges::equal(
      std::span(lease.messages).first(std::min(outcomes.size(), lease.messages.size())), outcomes,
      {}, &Message::id, &Outcome::id);
  if (in_order) {
    lease.messages.erase(first, first + static_cast<std::ptrdiff_t>(outcomes.size()));
    return;
  }
  std::erase_if(lease.messages, [&](const Message& message) {
    return std::ranges::find(outcomes, message.id, &Outcome::id) != outcomes.end();
  });
}

Settle settle_success(const HeldLane& held, std::span<const Message> messages, const Fates& fates) {
  Settle settle = settle_nothing(held);
  settle.outcomes.reserve(messages.size());
  for (const Message& message : messages) {
    const Verdict* fate = fates.empty() ? nullptr : find(fates, message.id);
    settle.outcomes.push_back(fate ? outcome_of(message.id, *fate) : Outcome{.id = message.id});
  }
  const bool all_acked = std::ranges::none_of(settle.outcomes, holds_back);
  if (!ends_with(held, settle) || (held.keep && all_acked)) settle.then = Settle::Then::keep;
  settle.label = held.label;
  if (held.park) {
    settle.then = Settle::Then::park;
    settle.park_reason = fit_reason(*held.park);
  }
  // While the lease goes on, nobody else can have the lane anyhow. Should the holder die with it,
  // the lane must not wait for the lease, and then for the dead once more.
  if (held.hint && settle.then == Settle::Then::keep) {
    settle.owner_hint = OwnerHint{.owner = held.hint->owner};
  }
  return settle;
}

Settle settle_failure(HeldLane& held, std::span<const Message> messages, const Fates& fates,
                      const Verdict& verdict) {
  Settle settle = settle_nothing(held);
  if (verdict.kind() == Verdict::Kind::park) {
    settle.then = Settle::Then::park;
    settle.park_reason = fit_reason(verdict.reason());
    return settle;
  }
  std::vector<MessageId> undecided;
  for (const Message& message : messages) {
    const Verdict* fate = find(fates, message.id);
    const bool acks = STRAND_PLANTED("consumer-acks-what-was-not-committed");
    if (fate != nullptr && (acks || fate->kind() != Verdict::Kind::ok)) {
      settle.outcomes.push_back(outcome_of(message.id, *fate));
    } else {
      undecided.push_back(message.id);
    }
  }
  if (STRAND_PLANTED("consumer-charges-the-first")) undecided.resize(1);
  // Given back: whichever message it was.
  const bool all_alike = verdict.kind() == Verdict::Kind::release || undecided.size() == 1;
  if (all_alike) {
    for (const MessageId id : undecided)
      settle.outcomes.push_back(outcome_of(id, verdict));
  }
  if (!ends_with(held, settle)) settle.then = Settle::Then::keep;
  held.singly = held.singly || !all_alike;
  return settle;
}

Settle settle_nothing(const HeldLane& held) {
  Settle settle;
  settle.token = held.lease.token;
  settle.owner_hint = held.hint;
  return settle;
}

std::string fit_reason(std::string_view text) {
  if (text.size() <= reason_bytes_max) return std::string(text);
  std::size_t end = reason_bytes_max;
  const auto continues = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U;
  };
  while (end > 0 && continues(end))
    --end;
  return std::string(text.substr(0, end));
}

}  // namespace strand::queue
