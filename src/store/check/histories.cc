#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "store/check/inspector.h"

// Instances, their executions and events: S20, one unbroken chain each.

namespace strand::check {

using engine::Family;
using engine::InstanceRecord;
using engine::QueueId;

namespace {

constexpr std::string_view restore = "restore the store from a backup, or remove the instance";

struct EventPlace {
  std::uint64_t instance = 0;
  std::uint64_t execution = 0;
  std::uint64_t index = 0;
};

std::optional<EventPlace> decode_event_key(std::string_view key) {
  if (key.size() != 24) return std::nullopt;
  const auto execution = engine::decode_pair_key(key.substr(0, 16));
  const auto index = engine::decode_number_key(key.substr(16));
  if (!execution || !index) return std::nullopt;
  return EventPlace{.instance = execution->first, .execution = execution->second, .index = *index};
}

}  // namespace

InstanceSeen* Inspector::find_instance(std::string_view key) {
  const auto place = std::ranges::lower_bound(
      instances_, key, {}, [](const InstanceSeen& seen) { return std::string_view(seen.key); });
  return place == instances_.end() || place->key != key ? nullptr : &*place;
}

const InstanceSeen* Inspector::find_instance(std::uint64_t number) const {
  const auto place = std::ranges::lower_bound(instances_by_number_, number, {},
                                              [](const auto& entry) { return entry.first; });
  if (place == instances_by_number_.end() || place->first != number) return nullptr;
  return &instances_[place->second];
}

std::string Inspector::instance_text(const InstanceSeen& instance) const {
  const auto place = engine::decode_lane_key(instance.key);
  return fmt::format("instance '{}' of {}", base::printable(place->key),
                     queue_text(static_cast<std::uint32_t>(place->queue)));
}

Result<void> Inspector::read_instances() {
  auto done = each(Family::instance, [&](std::string_view key, std::string_view value) {
    const auto place = engine::decode_lane_key(key);
    const auto record = decode_exactly<InstanceRecord>(value);
    if (place && place->queue != QueueId{0}) want_queue(place->queue);
    if (place && !place->key.empty() && place->queue != QueueId{0} && record) {
      read_instance(key, *record);
      return;
    }
    unreadable(Family::instance, key, false,
               "restore the store from a backup; its history is kept meanwhile");
    unreadable_instances_.emplace(key);
  });
  if (!done) return done;
  for (std::size_t i = 0; i < instances_.size(); ++i)
    instances_by_number_.emplace_back(instances_[i].number, i);
  std::ranges::sort(instances_by_number_);
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  for (auto at = std::ranges::adjacent_find(instances_by_number_, same);
       at != instances_by_number_.end();
       at = std::adjacent_find(std::next(at), instances_by_number_.end(), same)) {
    found(Kind::instance_number_taken, false,
          fmt::format("{} and {} have one number ({}), and so one history: {}",
                      instance_text(instances_[at->second]),
                      instance_text(instances_[std::next(at)->second]), at->first, restore));
    instances_[at->second].bad = instances_[std::next(at)->second].bad = true;
  }
  return {};
}

void Inspector::read_instance(std::string_view key, const InstanceRecord& record) {
  const Execution& last = record.last;
  instances_.push_back({.key = std::string(key),
                        .number = record.number,
                        .first = record.first_execution,
                        .last = last.number,
                        .first_event = last.first,
                        .length = last.length,
                        .open = !last.outcome,
                        .has_open = false,
                        .bad = false});
  const std::string what = instance_text(instances_.back());
  check_number(record.number, what);
  check_past(last.opened_at, what);
  check_past(last.updated_at, what);
  if (record.number == 0 || record.first_execution == 0 || record.first_execution > last.number ||
      last.first > last.length) {
    found(Kind::bad_instance, false,
          fmt::format("{} has the number {}, executions from {} to {}, and of the last one events "
                      "from {} on at a length of {}: {}",
                      what, record.number, record.first_execution, last.number, last.first,
                      last.length, restore));
    instances_.back().bad = true;
  }
  if (last.outcome) return;
  if (const auto lane = lanes_.find(key); lane != lanes_.end()) {
    lane->second.execution_label = last.label;
  }
}

Result<void> Inspector::read_open() {
  auto done = each(Family::open, [&](std::string_view key, std::string_view value) {
    if (unreadable_instances_.contains(key)) return;
    InstanceSeen* instance = find_instance(key);
    if (instance == nullptr || !instance->open) {
      found(Kind::orphan_open, true,
            fmt::format("{} is marked as open and is not; repair takes the mark away",
                        instance != nullptr ? instance_text(*instance)
                                            : "an instance that does not exist"));
      repairs_.erase(Family::open, key);
      return;
    }
    instance->has_open = true;
    if (value.empty()) return;
    unreadable(Family::open, key, true, "repair empties it");
    repairs_.put(Family::open, key, {});
  });
  if (!done) return done;
  for (const InstanceSeen& instance : instances_) {
    if (!instance.open || instance.has_open) continue;
    found(Kind::missing_open, true,
          fmt::format("{} has an open execution and is not marked as open; repair marks it",
                      instance_text(instance)));
    repairs_.put(Family::open, instance.key, {});
  }
  return {};
}

Result<void> Inspector::read_executions() {
  auto done = each(Family::execution, [&](std::string_view key, std::string_view value) {
    const auto place = engine::decode_pair_key(key);
    if (place) return judge_execution(key, place->first, place->second, value);
    unreadable(Family::execution, key, true, "no execution has such a key; repair drops it");
    repairs_.erase(Family::execution, key);
  });
  if (!done) return done;
  judge_chains();
  return {};
}

void Inspector::judge_execution(std::string_view key, std::uint64_t instance,
                                std::uint64_t execution, std::string_view value) {
  const InstanceSeen* owner = find_instance(instance);
  if (owner == nullptr) {
    strays_.emplace_back(Family::execution, key);
    return;
  }
  if (owner->bad) return;
  if (execution < owner->first || execution >= owner->last) {
    orphan_of_history(Family::execution, key, true);
    return;
  }
  const std::string what = fmt::format("execution {} of {}", execution, instance_text(*owner));
  const auto record = decode_exactly<InstanceRecord>(value);
  const bool possible = record && record->last.first <= record->last.length;
  if (!record) {
    unreadable(Family::execution, key, false, restore);
  } else {
    const Execution& last = record->last;
    check_past(last.opened_at, what);
    check_past(last.updated_at, what);
    if (record->number != instance || last.number != execution || !last.outcome || !possible) {
      found(Kind::bad_execution, false,
            fmt::format("{} says that it is execution {} of instance number {}, {}, with events "
                        "from {} on at a length of {}: {}",
                        what, last.number, record->number, last.outcome ? "closed" : "open",
                        last.first, last.length, restore));
    }
  }
  // Of one that cannot be read, or cannot be, any number of events may be right.
  executions_.push_back({.instance = instance,
                         .number = execution,
                         .first = possible ? record->last.first : 0,
                         .length = possible ? record->last.length : unknown_length,
                         .seen = 0});
}

// Every execution from the first that is kept to the last one has to be there.
void Inspector::judge_chains() {
  std::vector<ExecutionSeen> last;
  for (const auto& [number, index] : instances_by_number_) {
    const InstanceSeen& instance = instances_[index];
    if (instance.bad) continue;
    const auto first = std::ranges::lower_bound(
        executions_, ExecutionSeen{.instance = number, .number = instance.first});
    const auto end = std::ranges::lower_bound(
        executions_, ExecutionSeen{.instance = number, .number = instance.last});
    const auto there = static_cast<std::uint64_t>(end - first);
    if (there != instance.last - instance.first) {
      found(Kind::missing_execution, false,
            fmt::format("{} should have {} executions before the last one and has {}: {}",
                        instance_text(instance), instance.last - instance.first, there, restore));
    }
    last.push_back({.instance = number,
                    .number = instance.last,
                    .first = instance.first_event,
                    .length = instance.length,
                    .seen = 0});
  }
  executions_.insert(executions_.end(), last.begin(), last.end());
  std::ranges::sort(executions_);
}

Result<void> Inspector::read_events() {
  ExecutionSeen* current = nullptr;
  auto done = each(Family::event,
                   [&](std::string_view key, std::string_view) { judge_event(key, current); });
  if (!done) return done;
  for (const ExecutionSeen& execution : executions_) {
    const std::uint64_t expected = execution.length - execution.first;
    if (execution.seen == expected || execution.length == unknown_length) continue;
    const InstanceSeen* owner = find_instance(execution.instance);
    found(Kind::missing_event, false,
          fmt::format("execution {} of {} should have {} events from {} on and has {} of them: {}",
                      execution.number, instance_text(*owner), expected, execution.first,
                      execution.seen, restore));
  }
  executions_ = {};
  judge_strays();
  return {};
}

// They may be the history of an instance that cannot be read, or that misses some of its own.
void Inspector::judge_strays() {
  bool sure = unreadable_instances_.empty();
  for (const Kind kind : {Kind::bad_instance, Kind::instance_number_taken, Kind::missing_execution,
                          Kind::missing_event}) {
    sure = sure && report_.count(kind).found == 0;
  }
  for (const auto& [family, key] : strays_)
    orphan_of_history(family, key, sure);
  strays_ = {};
}

void Inspector::orphan_of_history(Family family, std::string_view key, bool sure) {
  const auto place = engine::decode_pair_key(key.substr(0, 16));
  const bool event = family == Family::event;
  found(event ? Kind::orphan_event : Kind::orphan_execution, sure,
        fmt::format(
            "there is {} execution {} of instance number {}, which does not have it{}",
            event ? fmt::format("an event {} in", decode_event_key(key)->index) : "an entry of",
            place->second, place->first,
            sure ? "; repair drops it" : ", unless it is one that cannot be read or has gaps"));
  if (sure) repairs_.erase(family, key);
}

void Inspector::judge_event(std::string_view key, ExecutionSeen*& current) {
  const auto place = decode_event_key(key);
  if (!place) {
    unreadable(Family::event, key, true, "no event has such a key; repair drops it");
    repairs_.erase(Family::event, key);
    return;
  }
  const auto is_current = [&] {
    return current != nullptr && current->instance == place->instance &&
           current->number == place->execution;
  };
  if (!is_current()) {
    const auto at = std::ranges::lower_bound(
        executions_, ExecutionSeen{.instance = place->instance, .number = place->execution});
    current = at == executions_.end() ? nullptr : &*at;
  }
  if (is_current() && place->index >= current->first && place->index < current->length) {
    ++current->seen;
    return;
  }
  const InstanceSeen* owner = find_instance(place->instance);
  if (owner == nullptr) {
    strays_.emplace_back(Family::event, key);
    return;
  }
  // Of an execution that is reported as missing, any event may be right.
  const bool in_gap =
      !is_current() && place->execution >= owner->first && place->execution < owner->last;
  if (!owner->bad && !in_gap) orphan_of_history(Family::event, key, true);
}

}  // namespace strand::check
