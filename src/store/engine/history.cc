#include <algorithm>

#include <fmt/format.h>

#include "base/planted.h"
#include "base/text.h"
#include "store/engine/state.h"

// Histories of instances, and records.

namespace strand::engine {

namespace {

// So many events are trimmed one by one. More are erased as a range, which is one mutation however
// many there are, but costs some backends at every read until they have cleaned up: it must be
// rare.
constexpr std::uint64_t trimmed_singly_max = 256;

std::string_view state_text(const InstanceState& instance) {
  if (!instance.exists) return "there is none";
  return instance.record.last.outcome ? "closed" : "open";
}

}  // namespace

// The open execution of an instance, which is always in memory; nothing if there is none.
InstanceState* Engine::State::open_instance(QueueId queue, std::string_view key) {
  if (instances_.empty()) return nullptr;
  const auto found = instances_.find(lane_key(queue, key));
  if (found == instances_.end()) return nullptr;
  InstanceState& instance = found->second;
  return instance.exists && !instance.record.last.outcome ? &instance : nullptr;
}

Result<InstanceState> Engine::State::find_instance(const std::string& key) const {
  const auto found = instances_.find(key);
  if (found != instances_.end()) return found->second;
  const auto entry = archive_.get(Family::instance, key);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry) return InstanceState{};
  auto record = decode<InstanceRecord>(**entry);
  if (!record) return std::unexpected(damaged(Family::instance, key));
  return InstanceState{.record = std::move(*record), .exists = true, .touched = 0};
}

Result<Plan::Instance*> Engine::State::plan_instance(const Token& token, Plan& plan) {
  const auto lease = find_lease(token);
  if (!lease) return std::unexpected(lease.error());
  const Lane* lane = (*lease)->lane;
  if (lane == nullptr) {
    return failure(Errc::invalid_argument,
                   "an unkeyed message has no history: send it with the key of its instance");
  }
  std::string key = lane_key(lane->queue->id, lane->key);
  const auto planned = std::ranges::find(plan.instances, key, &Plan::Instance::key);
  if (planned != plan.instances.end()) return &*planned;
  auto state = find_instance(key);
  if (!state) return std::unexpected(state.error());
  plan.instances.push_back(
      {.key = std::move(key), .lease = *lease, .before = *state, .after = *state});
  return &plan.instances.back();
}

Result<void> Engine::State::check_histories(const Transaction& transaction, Plan& plan) {
  // Pointers into the plan must stay good while it is filled.
  plan.instances.reserve(transaction.remove_histories.size() + transaction.appends.size() +
                         transaction.trim_histories.size());
  for (const RemoveHistory& removal : transaction.remove_histories) {
    const auto instance = plan_instance(removal.token, plan);
    if (!instance) return std::unexpected(instance.error());
    InstanceState& after = (*instance)->after;
    if (removal.through_execution == 0) {
      after = {};
    } else if (!after.exists || removal.through_execution >= after.record.last.number) {
      return failure(Errc::history_mismatch,
                     fmt::format("executions up to {} cannot be removed: the last one is {}; 0 "
                                 "removes the whole history",
                                 removal.through_execution, after.record.last.number));
    }
  }
  for (const Append& append : transaction.appends) {
    const auto instance = plan_instance(append.token, plan);
    if (!instance) return std::unexpected(instance.error());
    if (auto checked = check_append(append, **instance); !checked) return checked;
  }
  for (const TrimHistory& trim : transaction.trim_histories) {
    const auto instance = plan_instance(trim.token, plan);
    if (!instance) return std::unexpected(instance.error());
    if (auto checked = check_trim(trim, **instance); !checked) return checked;
  }
  return {};
}

Result<void> Engine::State::check_append(const Append& append, Plan::Instance& instance) const {
  InstanceState& after = instance.after;
  Execution& last = after.record.last;
  const bool open = after.exists && !last.outcome;
  const bool opens = append.execution == last.number + 1 && !open;
  const bool continues = open && append.execution == last.number;
  const std::uint64_t length = opens ? 0 : last.length;
  const bool forks = STRAND_PLANTED("history-forks") && append.expected_length < length;
  if ((!opens && !continues) || (append.expected_length != length && !forks)) {
    return failure(
        Errc::history_mismatch,
        fmt::format("instance '{}': execution {} at length {} was expected, but the last execution "
                    "is {} ({}) at length {}; lease it again and replay",
                    base::printable(instance.lease->lane->key), append.execution,
                    append.expected_length, last.number, state_text(after), last.length));
  }
  if (opens) {
    after.exists = true;
    last.number = append.execution;
    last.outcome.reset();
  }
  last.length = length + append.events.size();
  if (append.close) last.outcome = append.close;
  return {};
}

Result<void> Engine::State::check_trim(const TrimHistory& trim, const Plan::Instance& instance) {
  const InstanceState& after = instance.after;
  const Execution& last = after.record.last;
  const bool open = after.exists && !last.outcome && trim.execution == last.number;
  if (open && trim.before <= last.length) return {};
  return failure(
      Errc::history_mismatch,
      fmt::format("instance '{}': execution {} cannot be trimmed to event {}: the last execution "
                  "is {} ({}) at length {}",
                  base::printable(instance.lease->lane->key), trim.execution, trim.before,
                  last.number, state_text(after), last.length));
}

void Engine::State::perform_histories(const Transaction& transaction, Plan& plan) {
  const auto planned = [&](const Token& token) -> Plan::Instance& {
    return *std::ranges::find_if(plan.instances, [&](const Plan::Instance& instance) {
      return instance.lease->epoch == token.epoch();
    });
  };
  for (const RemoveHistory& op : transaction.remove_histories)
    remove_history(op, planned(op.token));
  for (const Append& op : transaction.appends)
    append(op, planned(op.token));
  for (const TrimHistory& op : transaction.trim_histories)
    trim_history(op, planned(op.token));
  for (Plan::Instance& instance : plan.instances) {
    // A label that the open execution has kept is the lane's own from now on.
    if (!instance.before.exists || instance.before.record.last.outcome) {
      LaneEdit edit(*this, *instance.lease->lane);
      instance.lease->lane->changed = true;
    }
    keep_instance(instance.key, std::move(instance.before));
  }
}

// Works on `before`, which so becomes what is now.
void Engine::State::append(const Append& append, Plan::Instance& instance) {
  InstanceState& state = instance.before;
  Execution& last = state.record.last;
  Queue& queue = *instance.lease->queue;
  if (append.execution != last.number) {
    if (!state.exists) {
      state.record.number = next_number();
      state.record.first_execution = 1;
      state.exists = true;
    } else {
      put(Family::execution, execution_key(state.record.number, last.number), state.record);
    }
    last = Execution{.queue = {},
                     .key = {},
                     .number = append.execution,
                     .length = 0,
                     .first = STRAND_PLANTED("next-execution-is-trimmed-too") ? last.first : 0,
                     .label = instance.lease->lane->label,
                     .outcome = std::nullopt,
                     .opened_at = now_,
                     .updated_at = now_};
    decisions_.mutations.put(Family::open, instance.key, {});
    ++queue.open_executions;
  }
  for (const Bytes& event : append.events) {
    decisions_.mutations.put(Family::event,
                             event_key(state.record.number, last.number, last.length++), event);
  }
  last.updated_at = now_;
  if (append.close) {
    last.outcome = append.close;
    erase(Family::open, instance.key);
    --queue.open_executions;
  }
  put(Family::instance, instance.key, state.record);
}

void Engine::State::trim_history(const TrimHistory& trim, Plan::Instance& instance) {
  InstanceRecord& record = instance.before.record;
  Execution& last = record.last;
  if (trim.before <= last.first) return;
  const auto key = [&](std::uint64_t index) {
    return event_key(record.number, last.number, index);
  };
  if (STRAND_PLANTED("trim-leaves-the-events")) {
    // Nobody is shown them any more.
  } else if (trim.before - last.first > trimmed_singly_max) {
    decisions_.mutations.erase_range(Family::event, key(last.first), key(trim.before));
  } else {
    for (std::uint64_t index = last.first; index < trim.before; ++index)
      erase(Family::event, key(index));
  }
  last.first = trim.before;
  put(Family::instance, instance.key, record);
}

void Engine::State::remove_history(const RemoveHistory& removal, Plan::Instance& instance) {
  InstanceState& state = instance.before;
  if (!state.exists) return;
  InstanceRecord& record = state.record;
  if (removal.through_execution != 0) {
    for (; record.first_execution <= removal.through_execution; ++record.first_execution) {
      const std::string key = execution_key(record.number, record.first_execution);
      decisions_.mutations.erase_prefix(Family::event, key);
      erase(Family::execution, key);
    }
    put(Family::instance, instance.key, record);
    return;
  }
  decisions_.mutations.erase_prefix(Family::event, number_key(record.number));
  decisions_.mutations.erase_prefix(Family::execution, number_key(record.number));
  erase(Family::instance, instance.key);
  if (!record.last.outcome) {
    erase(Family::open, instance.key);
    --instance.lease->queue->open_executions;
  }
  state = {};
}

// What is decided about a closed or removed instance stays in memory until it is written.
void Engine::State::keep_instance(const std::string& key, InstanceState state) {
  state.touched = gathering();
  if (!state.exists || state.record.last.outcome) closed_instances_.emplace_back(gathering(), key);
  instances_.insert_or_assign(key, std::move(state));
}

// --- Records ---

Result<Version> Engine::State::record_version(const std::string& key) const {
  const auto recent = recent_records_.find(key);
  if (recent != recent_records_.end()) return recent->second.first;
  const auto entry = archive_.get(Family::record, key);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry) return Version{0};
  const auto record = decode<RecordRecord>(**entry);
  if (!record) return std::unexpected(damaged(Family::record, key));
  return record->version;
}

Result<void> Engine::State::check_records(const Transaction& transaction) const {
  // Presence after the writes before, in this transaction: a version is not known yet, but that it
  // is none which anyone could expect.
  std::unordered_map<std::string, bool> present;
  for (const WriteRecord& write : transaction.records) {
    std::string key = record_key(write.space, write.key);
    if (write.expected) {
      Result<Version> version = Version{0};
      const auto earlier = present.find(key);
      if (earlier == present.end()) {
        version = record_version(key);
      } else if (earlier->second) {
        version = Version{UINT64_MAX};
      }
      if (!version) return std::unexpected(version.error());
      if (*version != *write.expected) {
        return failure(
            Errc::version_mismatch,
            fmt::format("record '{}' in space '{}' was expected at version {} and is at {}: read "
                        "it again",
                        base::printable(write.key), base::printable(write.space),
                        static_cast<std::uint64_t>(*write.expected),
                        earlier != present.end() && earlier->second
                            ? "one of this same transaction"
                            : std::to_string(static_cast<std::uint64_t>(*version))));
      }
    }
    present.insert_or_assign(std::move(key), write.value.has_value());
  }
  return {};
}

Version Engine::State::write_record(const WriteRecord& write) {
  std::string key = record_key(write.space, write.key);
  Version version{0};
  if (write.value) {
    version = Version{next_number()};
    put(Family::record, key, RecordRecord{.version = version, .value = *write.value});
  } else {
    erase(Family::record, key);
  }
  decisions_.wakes.records.emplace_back(write.space, write.key);
  recent_record_order_.emplace_back(gathering(), key);
  recent_records_.insert_or_assign(std::move(key), std::pair{version, gathering()});
  return version;
}

}  // namespace strand::engine
