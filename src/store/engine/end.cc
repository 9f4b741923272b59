#include "base/planted.h"
#include "store/engine/state.h"

// How messages leave, and who is told.

namespace strand::engine {

namespace {

std::string_view name_of(End how) {
  switch (how) {
    case End::acked:
      return "acked";
    case End::expired:
      return "expired";
    case End::cancelled:
      return "cancelled";
    case End::purged:
      return "purged";
    case End::dead:
      return "dead";
  }
  return "";
}

}  // namespace

void Engine::State::end(MessageNode& message, End how, std::string_view reason) {
  std::optional<LaneEdit> edit;
  if (message.lane != nullptr) edit.emplace(*this, *message.lane);
  unlink(message);
  CountersRecord& counters = count(*message.queue);
  switch (how) {
    case End::acked:
      ++counters.acked;
      break;
    case End::expired:
      ++counters.expired;
      break;
    case End::cancelled:
      ++counters.dropped;
      break;
    case End::purged:
      ++counters.purged;
      break;
    case End::dead:
      ++counters.dead;
      break;
  }
  if (how == End::dead) {
    bury(message, reason);
  } else {
    erase(Family::message, message_key(message.id));
    erase_body(message);
  }
  const bool silent = STRAND_PLANTED("no-notice-on-expiry") && how == End::expired;
  if (how != End::acked && !silent) send_notice(message, how, reason);
  forget(message);
}

void Engine::State::end_expired(MessageNode& message) {
  const bool parked = message.lane != nullptr ? message.lane->parked() : message.parked_alone();
  if (STRAND_PLANTED("parked-ttl-not-counted") && parked && message.where != Where::nowhere) {
    ++message.queue->tally.parked;
    --message.queue->tally.ready;
  }
  if (message.queue->settings.on_expired == OnExpired::dead) {
    end(message, End::dead, "expired");
  } else {
    end(message, End::expired);
  }
}

// The message entry moves to the dead letters as it is; the backend does it, because the engine
// does not hold bodies.
void Engine::State::bury(MessageNode& message, std::string_view reason) {
  DeadRecord dead{.attempts = message.attempts,
                  .deliveries = message.deliveries,
                  .dead_at = now_,
                  .reason = std::string(reason),
                  .failures = {}};
  if (message.extras) dead.failures = message.extras->failures;
  scratch_.clear();
  encode(dead, scratch_);
  decisions_.mutations.bury(message_key(message.id), dead_key(message.queue->id, message.id),
                            scratch_);
  // The dead letter goes on sharing the body.
  if (message.extras && message.extras->body_at) {
    decisions_.mutations.put(Family::pin, pin_key(*message.extras->body_at, message.id), {});
  }
}

void Engine::State::erase_body(MessageNode& message) {
  if (message.own_body) erase(Family::body, message_key(message.id));
  if (message.extras && message.extras->body_at) release_shared(*message.extras->body_at);
}

void Engine::State::release_shared(MessageId body) {
  const auto shared = shared_bodies_.find(static_cast<std::uint64_t>(body));
  // A dead letter whose pin the disk has lost is not counted. The body stays, until a check of the
  // store finds that nobody has it.
  if (shared == shared_bodies_.end()) return;
  if (--shared->second > 0) return;
  shared_bodies_.erase(shared);
  erase(Family::body, message_key(body));
}

// Removes the last traces of a message that is linked nowhere any more.
void Engine::State::forget(MessageNode& message) {
  if (message.has_state) erase(Family::state, message_key(message.id));
  if (message.extras) {
    if (message.extras->expires_at) ttl_ends_.erase({*message.extras->expires_at, message.id});
    if (message.extras->name) {
      const auto found = message.queue->names.find(*message.extras->name);
      if (found != message.queue->names.end() && found->second == &message) {
        message.queue->names.erase(found);
      }
    }
  }
  memory_bytes_ -= memory_of(message.bytes);
  message.queue->messages.erase(message.queue->messages.iterator_to(message));
  delete &message;
}

// The message itself says who is told of its end, or else its queue who is told of dead letters.
// For the queue's sake no headers are kept: id, queue and reason lead to the dead letter, which has
// them. A notice is not told of by a setting, or queues that name each other would never be done.
void Engine::State::send_notice(const MessageNode& message, End how, std::string_view reason) {
  const bool asked_for = message.extras && message.extras->dead_notice_to;
  const auto& of_queue = message.queue->settings.dead_notice_to;
  const bool told_of = !message.notice || STRAND_PLANTED("notice-of-a-notice");
  const bool for_queue = how == End::dead && of_queue && told_of;
  if (!asked_for && !for_queue) return;
  const Address address = asked_for ? *message.extras->dead_notice_to : *of_queue;
  if (removing_ != nullptr && removing_->name == address.queue) return;
  Content content;
  content.key = address.key;
  if (asked_for) content.headers = message.extras->headers;
  const auto add = [&](std::string_view name, std::string_view value) {
    content.headers.push_back({.name = std::string(name), .value = std::string(value)});
  };
  add(notice_id_header, std::to_string(static_cast<std::uint64_t>(message.id)));
  add(notice_queue_header, message.queue->name);
  if (message.extras && message.extras->name) add(notice_name_header, *message.extras->name);
  add(notice_end_header, name_of(how));
  if (!reason.empty()) add(notice_reason_header, reason);
  accept(ensure_queue(address.queue), content, {.notice = true});
}

}  // namespace strand::engine
