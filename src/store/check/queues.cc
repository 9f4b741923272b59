#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/text.h"
#include "store/check/inspector.h"
#include "store/contract/check.h"

// Queues, their names, counters and subscriptions.

namespace strand::check {

using engine::CountersRecord;
using engine::Family;
using engine::QueueId;
using engine::QueueRecord;

namespace {

// Whether a store would have taken the operation, whatever its limits are.
Result<void> check_operation(Administration operation) {
  Transaction transaction;
  transaction.admin = std::move(operation);
  return check_transaction(transaction, widest_limits());
}

}  // namespace

bool Inspector::queue_exists(QueueId queue) const {
  const auto found = queues_.find(static_cast<std::uint32_t>(queue));
  return found != queues_.end() && found->second.exists();
}

// The queue of something that must not be lost: it has to exist, and is made if it does not.
QueueSeen& Inspector::want_queue(QueueId queue) {
  QueueSeen& seen = queues_[static_cast<std::uint32_t>(queue)];
  seen.wanted = true;
  return seen;
}

std::string Inspector::queue_text(std::uint32_t id) const {
  const auto found = queues_.find(id);
  if (found == queues_.end() || found->second.name.empty()) return fmt::format("queue {}", id);
  return fmt::format("queue '{}'", base::printable(found->second.name));
}

Result<void> Inspector::read_queues() {
  return each(Family::queue, [&](std::string_view key, std::string_view value) {
    const auto id = engine::decode_lane_key(key);
    if (!id || !id->key.empty() || id->queue == QueueId{0}) {
      unreadable(Family::queue, key, true, "no queue has such an id; repair drops it");
      repairs_.erase(Family::queue, key);
      return;
    }
    const auto number = static_cast<std::uint32_t>(id->queue);
    QueueSeen& queue = queues_[number];
    const auto record = decode_exactly<QueueRecord>(value);
    if (!record) {
      unreadable(Family::queue, key, true,
                 "its settings are lost; repair gives the queue those of a new one");
      queue.entry = QueueSeen::Entry::unreadable;
      return;
    }
    queue.entry = QueueSeen::Entry::present;
    queue.name = record->name;
    const auto sane = check_operation(ConfigureQueue{record->name, record->settings});
    if (!sane) {
      found(Kind::bad_queue, false,
            fmt::format("queue {} has a name or settings that no store would take: {}; configure "
                        "it again",
                        number, sane.error().message));
    }
  });
}

Result<void> Inspector::read_queue_names() {
  return each(Family::queue_name, [&](std::string_view key, std::string_view value) {
    const auto id = engine::decode_lane_key(value);
    if (!id || !id->key.empty()) {
      unreadable(Family::queue_name, key, true, "repair writes it anew, or drops it");
      repairs_.erase(Family::queue_name, key);
      return;
    }
    queue_names_.emplace(key, static_cast<std::uint32_t>(id->queue));
  });
}

Result<void> Inspector::read_counters() {
  return each(Family::counters, [&](std::string_view key, std::string_view value) {
    const auto id = engine::decode_lane_key(key);
    if (!id || !id->key.empty()) {
      unreadable(Family::counters, key, true, "no queue has such an id; repair drops it");
      repairs_.erase(Family::counters, key);
      return;
    }
    QueueSeen& queue = queues_[static_cast<std::uint32_t>(id->queue)];
    queue.has_counters = true;
    queue.counters = decode_exactly<CountersRecord>(value);
    if (queue.counters) return;
    unreadable(Family::counters, key, true,
               "how many messages ended how is lost; repair counts those that are there");
  });
}

Result<void> Inspector::read_subscriptions() {
  return each(Family::subscription, [&](std::string_view key, std::string_view value) {
    const auto id = engine::decode_lane_key(key);
    if (!id || !id->key.empty()) {
      unreadable(Family::subscription, key, true, "no queue has such an id; repair drops it");
      repairs_.erase(Family::subscription, key);
      return;
    }
    const auto number = static_cast<std::uint32_t>(id->queue);
    const auto valid = check_operation(Subscribe{"queue", std::string(value), std::nullopt});
    if (!valid) {
      found(Kind::bad_subscription, true,
            fmt::format("{} is subscribed to what is no pattern: {}; repair drops the "
                        "subscription, the queue stays; subscribe it again",
                        queue_text(number), valid.error().message));
      repairs_.erase(Family::subscription, key);
      return;
    }
    queues_[number].subscribed = true;
  });
}

Result<void> Inspector::judge_queues() {
  // Names that the entries of queues say; the first queue keeps one that several have, unless the
  // name leads to another of them.
  for (const auto& [id, queue] : queues_) {
    if (queue.entry != QueueSeen::Entry::present) continue;
    const auto [place, free] = final_names_.try_emplace(queue.name, id);
    const auto leads_to = queue_names_.find(queue.name);
    if (!free && leads_to != queue_names_.end() && leads_to->second == id) place->second = id;
  }
  for (auto& [id, queue] : queues_) {
    if (!queue.exists()) {
      drop_of_missing_queue(id, queue);
    } else if (auto done = judge_queue(id, queue); !done) {
      return done;
    }
  }
  judge_names();
  return {};
}

void Inspector::drop_of_missing_queue(std::uint32_t id, QueueSeen& queue) {
  // A message that cannot be read might belong to it.
  const bool sure = unreadable_messages_.empty();
  if (queue.has_counters) {
    const bool droppable = sure || !queue.counters;  // what cannot be read helps nobody
    found(
        Kind::orphan_counters, droppable,
        fmt::format("there are counters of queue {}, which does not exist; repair drops them", id));
    if (droppable) repairs_.erase(Family::counters, engine::queue_key(QueueId{id}));
  }
  if (queue.subscribed) {
    found(Kind::orphan_subscription, sure,
          fmt::format("there is a subscription of queue {}, which does not exist; repair drops it",
                      id));
    if (sure) repairs_.erase(Family::subscription, engine::queue_key(QueueId{id}));
  }
}

Result<void> Inspector::judge_queue(std::uint32_t id, QueueSeen& queue) {
  if (meta_ && id >= meta_->next_queue) {
    queue_ids_low_ = true;
    found(Kind::queue_id_not_reserved, id < std::numeric_limits<std::uint32_t>::max(),
          fmt::format("{} has the id {}, and the next queue would get {}; repair goes on above",
                      queue_text(id), id, meta_->next_queue));
  }
  if (queue.entry != QueueSeen::Entry::present) {
    rebuild_queue(id, queue);
  } else if (final_names_.at(queue.name) != id) {
    if (auto done = rename_queue(id, queue); !done) return done;
  }
  judge_counters(id, queue);
  return {};
}

std::string Inspector::free_queue_name(std::uint32_t id) const {
  std::string name = fmt::format("recovered-{}", id);
  while (final_names_.contains(name))
    name += "-again";
  return name;
}

void Inspector::rebuild_queue(std::uint32_t id, QueueSeen& queue) {
  const auto named =
      std::ranges::find(queue_names_, id, [](const auto& name) { return name.second; });
  const bool known = named != queue_names_.end() && !final_names_.contains(named->first);
  queue.name = known ? named->first : free_queue_name(id);
  if (queue.entry == QueueSeen::Entry::absent) {
    found(Kind::missing_queue, true,
          fmt::format("messages, dead letters or histories belong to queue {}, which does not "
                      "exist; repair makes it, as '{}' with the settings of a new queue",
                      id, base::printable(queue.name)));
  }
  queue.remade = true;
  final_names_.emplace(queue.name, id);
  repairs_.put_record(
      Family::queue, engine::queue_key(QueueId{id}),
      QueueRecord{.id = QueueId{id}, .name = queue.name, .settings = {}, .paused = false});
}

Result<void> Inspector::rename_queue(std::uint32_t id, QueueSeen& queue) {
  const std::string name = free_queue_name(id);
  found(Kind::queue_name_taken, true,
        fmt::format("queues {} and {} are both named '{}'; repair names the first '{}'", id,
                    final_names_.at(queue.name), base::printable(queue.name), name));
  const std::string key = engine::queue_key(QueueId{id});
  const auto entry = archive_.get(Family::queue, key);
  if (!entry) return std::unexpected(entry.error());
  auto record = *entry ? engine::decode<QueueRecord>(**entry) : std::nullopt;
  if (!record) return failure(Errc::io_error, "the archive changed while it was checked");
  record->name = name;
  repairs_.put_record(Family::queue, key, *record);
  queue.name = name;
  queue.remade = true;
  final_names_.emplace(name, id);
  return {};
}

// The table of names follows the queues.
void Inspector::judge_names() {
  for (const auto& [name, id] : final_names_) {
    const auto there = queue_names_.find(name);
    if (there != queue_names_.end() && there->second == id) continue;
    if (!queues_.at(id).remade) {  // which has been reported
      found(Kind::missing_queue_name, true,
            fmt::format("the name '{}' does not lead to queue {}; repair leads it there",
                        base::printable(name), id));
    }
    repairs_.put(Family::queue_name, name, engine::queue_key(QueueId{id}));
  }
  for (const auto& [name, id] : queue_names_) {
    if (final_names_.contains(name)) continue;
    found(Kind::orphan_queue_name, true,
          fmt::format("the name '{}' leads to queue {}, which does not have it; repair drops it",
                      base::printable(name), id));
    repairs_.erase(Family::queue_name, name);
  }
}

// S16: everything that was accepted has ended in one way, or is there.
void Inspector::judge_counters(std::uint32_t id, const QueueSeen& queue) {
  CountersRecord right = queue.counters.value_or(CountersRecord{});
  right.dead = queue.dead;
  right.accepted = right.acked + right.expired + right.dropped + right.moved + right.purged +
                   right.dead + queue.live;
  const std::string key = engine::queue_key(QueueId{id});
  if (!queue.counters) {
    if (!queue.has_counters && queue.entry == QueueSeen::Entry::present) {
      found(Kind::missing_counters, true,
            fmt::format("{} has no counters; repair counts the messages that are there",
                        queue_text(id)));
    }
    repairs_.put_record(Family::counters, key, right);
    return;
  }
  const CountersRecord& counters = *queue.counters;
  if (counters.dead != right.dead) {
    found(Kind::wrong_dead_count, true,
          fmt::format("{} counts {} dead letters and has {}; repair corrects the count",
                      queue_text(id), counters.dead, right.dead));
  }
  // Messages that cannot be read are somebody's: they may be what is missing here.
  const std::uint64_t missing = counters.accepted - right.accepted;
  const bool conserved = missing <= unreadable_messages_.size();
  if (!conserved) {
    found(Kind::not_conserved, true,
          fmt::format("{} has accepted {} messages, and {} have ended or are there; repair takes "
                      "the second for right",
                      queue_text(id), counters.accepted, right.accepted));
  } else {
    right.accepted = counters.accepted;
  }
  if (!conserved || counters.dead != right.dead) repairs_.put_record(Family::counters, key, right);
}

}  // namespace strand::check
