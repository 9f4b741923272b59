#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "store/check/inspector.h"
#include "store/contract/check.h"

// Messages, their states, and dead letters.

namespace strand::check {

using engine::DeadEntry;
using engine::Family;
using engine::MessageRecord;
using engine::QueueId;
using engine::StateRecord;

namespace {

std::optional<std::string> why_bad(const MessageRecord& record) {
  if (record.queue == QueueId{0}) return "it belongs to queue 0";
  if (record.key && record.key->empty()) return "its key is empty";
  if (record.name && record.name->empty()) return "its name is empty";
  if (record.expires_at && *record.expires_at < record.enqueued_at)
    return "it expired before it came";
  if (const auto& notice = record.dead_notice_to) {
    if (auto checked = check_name("queue", notice->queue, widest_limits()); !checked) {
      return checked.error().message;
    }
  }
  return std::nullopt;
}

// Every failure took a delivery.
std::uint32_t deliveries_at_least(std::uint32_t attempts, const std::vector<Failure>& failures) {
  return std::max(attempts, static_cast<std::uint32_t>(failures.size()));
}

}  // namespace

MessageSeen* Inspector::find_message(std::uint64_t id) {
  const auto place = std::ranges::lower_bound(messages_, id, {}, &MessageSeen::id);
  return place == messages_.end() || place->id != id ? nullptr : &*place;
}

bool Inspector::is_dead(std::uint64_t id) const {
  const auto place = std::ranges::lower_bound(dead_, id, {}, &DeadSeen::id);
  return place != dead_.end() && place->id == id;
}

Result<void> Inspector::read_messages() {
  auto done = each(Family::message, [&](std::string_view key, std::string_view value) {
    const auto id = engine::decode_number_key(key);
    const auto record = decode_exactly<MessageRecord>(value);
    if (!id || !record) {
      unreadable(Family::message, key, false,
                 "restore the store from a backup; what belongs to the message is kept meanwhile");
      unreadable_messages_.push_back(id.value_or(0));
      if (id) check_number(*id, "an unreadable message");
      return;
    }
    read_message(*id, *record);
  });
  std::ranges::sort(unreadable_messages_);
  return done;
}

void Inspector::read_message(std::uint64_t id, const MessageRecord& record) {
  const std::string what = fmt::format("message {}", id);
  check_number(id, what);
  lowest_message_ = std::min(lowest_message_, id);
  if (meta_ && id < meta_->lowest_message) {
    found(Kind::hidden_message, true,
          fmt::format("{} is below {}, where the store begins to read, and so nobody would get it; "
                      "repair lets it begin earlier",
                      what, meta_->lowest_message));
  }
  if (const auto why = why_bad(record)) {
    found(Kind::bad_message, false,
          fmt::format("{} is not one that a store would have taken ({}): settle or purge it", what,
                      *why));
  }
  check_past(record.enqueued_at, what);
  check_time(record.due, what);
  if (record.expires_at) check_time(*record.expires_at, what);
  const auto queue = static_cast<std::uint32_t>(record.queue);
  if (queue != 0) ++want_queue(record.queue).live;
  MessageSeen seen{.id = id, .lane = 0, .queue = queue, .leased = false};
  if (record.key) {
    const std::string lane_key = engine::lane_key(record.queue, *record.key);
    seen.lane = hash_of(lane_key);
    if (const auto lane = lanes_.find(lane_key); lane != lanes_.end()) {
      lane->second.has_messages = true;
    }
  }
  messages_.push_back(seen);
  if (record.name) {
    names_.push_back({.hash = hash_of(engine::lane_key(record.queue, *record.name)), .id = id});
  }
  if (record.body_at) {
    uses_.push_back({.body = static_cast<std::uint64_t>(*record.body_at),
                     .user = id,
                     .bytes = record.body_bytes,
                     .by = BodyUse::By::message});
  }
}

Result<void> Inspector::judge_message_names() {
  std::ranges::sort(names_, {}, [](const NameSeen& seen) { return std::pair{seen.hash, seen.id}; });
  for (std::size_t begin = 0; begin < names_.size();) {
    std::size_t end = begin + 1;
    while (end < names_.size() && names_[end].hash == names_[begin].hash)
      ++end;
    if (end - begin > 1) {
      if (auto done = judge_same_hash(begin, end); !done) return done;
    }
    begin = end;
  }
  names_ = {};
  return {};
}

// Two names may have one hash, so the entries themselves decide. The oldest keeps the name.
Result<void> Inspector::judge_same_hash(std::size_t begin, std::size_t end) {
  std::map<std::string, std::uint64_t> holders;
  for (std::size_t i = begin; i < end; ++i) {
    const std::string key = engine::number_key(names_[i].id);
    const auto entry = archive_.get(Family::message, key);
    if (!entry) return std::unexpected(entry.error());
    auto record = *entry ? engine::decode<MessageRecord>(**entry) : std::nullopt;
    if (!record || !record->name) {
      return failure(Errc::io_error, "the archive changed while it was checked");
    }
    const auto [holder, free] =
        holders.try_emplace(engine::lane_key(record->queue, *record->name), names_[i].id);
    if (free) continue;
    found(Kind::message_name_taken, true,
          fmt::format(
              "messages {} and {} of {} are both named '{}'; repair takes the name from the "
              "second",
              holder->second, names_[i].id, queue_text(static_cast<std::uint32_t>(record->queue)),
              base::printable(*record->name)));
    record->name.reset();
    repairs_.replace_message(key, *record);
  }
  return {};
}

Result<void> Inspector::read_states() {
  return each(Family::state, [&](std::string_view key, std::string_view value) {
    const auto id = engine::decode_number_key(key);
    auto record = decode_exactly<StateRecord>(value);
    if (id && std::ranges::binary_search(unreadable_messages_, *id)) return;
    const MessageSeen* message = id ? find_message(*id) : nullptr;
    if (id && message == nullptr) {
      found(Kind::orphan_state, true,
            fmt::format("there is a state of message {}, which does not exist; repair drops it",
                        *id));
      repairs_.erase(Family::state, key);
    } else if (!record || message == nullptr) {
      unreadable(Family::state, key, true,
                 "attempts, backoff and failures of the message are lost; repair drops it, so that "
                 "they start again");
      repairs_.erase(Family::state, key);
    } else {
      judge_state(*message, std::move(*record));
    }
  });
}

void Inspector::judge_state(const MessageSeen& message, StateRecord record) {
  const std::string what = fmt::format("the state of message {}", message.id);
  bool good = true;
  const auto wrong = [&](std::string_view why) {
    found(Kind::bad_state, true, fmt::format("{} {}; repair corrects it", what, why));
    good = false;
  };
  const std::uint32_t deliveries = deliveries_at_least(record.attempts, record.failures);
  if (record.deliveries < deliveries) {
    wrong(fmt::format("has {} deliveries and {} failures", record.deliveries, deliveries));
    record.deliveries = deliveries;
  }
  if (record.not_before && !check_time(*record.not_before, what, true)) {
    record.not_before.reset();
    record.blocks = good = false;
  }
  if (record.blocks && (!record.not_before || message.lane == 0)) {
    wrong("blocks a lane without waiting in one");
    record.blocks = false;
  }
  if (record.park_reason && message.lane != 0) {
    wrong("parks a message alone that has a lane");
    record.park_reason.reset();
  }
  for (const Failure& failure : record.failures)
    check_past(failure.at, what);
  if (!good) repairs_.put_record(Family::state, engine::number_key(message.id), record);
}

Result<void> Inspector::read_dead() {
  auto done = each(Family::dead, [&](std::string_view key, std::string_view value) {
    const auto place = engine::decode_dead_key(key);
    const auto entry = decode_exactly<DeadEntry>(value);
    if (place && entry) {
      judge_dead(key, static_cast<std::uint32_t>(place->first),
                 static_cast<std::uint64_t>(place->second), *entry);
      return;
    }
    unreadable(
        Family::dead, key, false,
        "restore the store from a backup; what belongs to the dead letter is kept meanwhile");
    unreadable_dead_.insert(place ? static_cast<std::uint64_t>(place->second) : 0);
    if (place && place->first != QueueId{0}) ++want_queue(place->first).dead;
  });
  if (!done) return done;
  std::ranges::sort(dead_, {}, &DeadSeen::id);
  if (done = judge_misplaced_dead(); !done) return done;
  for (const DeadSeen& dead : dead_)
    keep_dead(dead);
  std::ranges::sort(pins_);
  return {};
}

void Inspector::judge_dead(std::string_view key, std::uint32_t queue, std::uint64_t id,
                           const DeadEntry& entry) {
  const std::string what = fmt::format("dead letter {}", id);
  check_number(id, what);
  const auto own_queue = static_cast<std::uint32_t>(entry.message.queue);
  if (find_message(id) != nullptr) {
    found(Kind::live_and_dead, true,
          fmt::format("message {} is live and a dead letter of {}; repair drops the dead letter",
                      id, queue_text(queue)));
    repairs_.erase(Family::dead, key);
    return;
  }
  if (queue != own_queue || queue == 0) {
    misplaced_dead_.emplace_back(key, id);
    return;
  }
  check_past(entry.dead.dead_at, what);
  check_past(entry.message.enqueued_at, what);
  for (const Failure& failure : entry.dead.failures)
    check_past(failure.at, what);
  const std::uint32_t deliveries = deliveries_at_least(entry.dead.attempts, entry.dead.failures);
  const auto why = why_bad(entry.message);
  if (entry.dead.deliveries < deliveries || why) {
    found(Kind::bad_dead_letter, false,
          fmt::format("{} of {} is not one that a store would have made ({}): redrive or drop it",
                      what, queue_text(queue),
                      why.value_or(fmt::format("{} deliveries, {} failures", entry.dead.deliveries,
                                               deliveries))));
  }
  dead_.push_back({.id = id,
                   .body = static_cast<std::uint64_t>(entry.message.body_at.value_or(MessageId{0})),
                   .queue = queue,
                   .body_bytes = entry.message.body_bytes});
}

// A dead letter is listed under the queue of its key, and belongs to that of its message.
Result<void> Inspector::judge_misplaced_dead() {
  for (const auto& [key, id] : misplaced_dead_) {
    const auto value = archive_.get(Family::dead, key);
    if (!value) return std::unexpected(value.error());
    const auto entry = *value ? engine::decode<DeadEntry>(**value) : std::nullopt;
    if (!entry) return failure(Errc::io_error, "the archive changed while it was checked");
    const QueueId queue = entry->message.queue;
    const bool there = is_dead(id) || unreadable_dead_.contains(id);
    found(Kind::dead_in_wrong_queue, queue != QueueId{0},
          fmt::format("dead letter {} is not where those of its {} are; repair {}", id,
                      queue_text(static_cast<std::uint32_t>(queue)),
                      there ? "drops it, because it is there as well" : "moves it there"));
    if (queue == QueueId{0}) continue;
    if (there) {
      repairs_.erase(Family::dead, key);
      continue;
    }
    repairs_.move(Family::dead, key, engine::dead_key(queue, MessageId{id}), **value);
    const DeadSeen seen{
        .id = id,
        .body = static_cast<std::uint64_t>(entry->message.body_at.value_or(MessageId{0})),
        .queue = static_cast<std::uint32_t>(queue),
        .body_bytes = entry->message.body_bytes};
    dead_.insert(std::ranges::lower_bound(dead_, id, {}, &DeadSeen::id), seen);
  }
  return {};
}

void Inspector::keep_dead(const DeadSeen& dead) {
  ++want_queue(QueueId{dead.queue}).dead;
  if (dead.body == 0) return;
  uses_.push_back({.body = dead.body,
                   .user = dead.id,
                   .bytes = dead.body_bytes,
                   .by = BodyUse::By::dead_letter});
  if (dead.body != dead.id) pins_.emplace_back(dead.body, dead.id);
}

}  // namespace strand::check
