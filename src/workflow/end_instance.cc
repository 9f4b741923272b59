#include "workflow/end_instance.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <strand/workflows.h>

#include "base/text.h"
#include "workflow/records.h"
#include "workflow/stored_history.h"
#include "workflow/turn.h"
#include "workflow/wire.h"

// What administrators do to instances by force: terminate, remove, prune. Their means is a seized
// lane: from then on no turn of the instance can be committed.

namespace strand {

using namespace workflow;

namespace workflow {

Result<SeizedLane> SeizedLane::take(Store& store, const std::string& queue, std::string_view id) {
  const auto parked = store.peek(
      {.queue = queue, .key = std::string(id), .state = MessageState::parked, .limit = 1});
  if (!parked) return std::unexpected(parked.error());
  LeaseRequest request;
  request.queue = queue;
  request.key = std::string(id);
  request.seize = true;
  request.lease = std::chrono::seconds{30};
  request.history_from = 0;
  request.messages = 20'000;  // all of them, unless there is something wrong
  request.bytes = std::size_t{64} << 20U;
  auto leases = store.lease(request);
  if (!leases) return std::unexpected(std::move(leases.error()));
  if (leases->empty()) {
    return failure(
        Errc::unavailable,
        fmt::format("the lane of instance '{}' could not be taken; is queue '{}' paused?",
                    base::printable(id), queue));
  }
  std::optional<std::string> reason;
  if (!parked->items.empty()) reason = parked->items.front().park_reason.value_or("");
  return SeizedLane(store, std::move(leases->front()), std::move(reason));
}

Settle SeizedLane::give_back() const {
  Settle settle;
  settle.token = lease_.token;
  if (parked_) {
    settle.then = Settle::Then::park;
    settle.park_reason = *parked_;
  }
  return settle;
}

SeizedLane::~SeizedLane() {
  if (store_ == nullptr) return;
  Transaction transaction;
  transaction.durability = Durability::async;
  transaction.settles.push_back(give_back());
  std::ignore = store_->apply(transaction);
}

Settle settle_all(const Lease& lease) {
  Settle settle;
  settle.token = lease.token;
  for (const Message& message : lease.messages)
    settle.outcomes.push_back({.id = message.id});
  return settle;
}

namespace {

// What is under way for an execution that ends.
void call_off(const Lease& lease, const HistoryEvent& started,
              const std::vector<HistoryEvent>& events, Transaction& transaction) {
  const std::string run(started.detail("run"));
  for (const Underway& one : underway(events)) {
    const std::string name = fmt::format("{}.{}", run, one.call);
    if (one.kind != EventKind::child_started) {
      const std::string& queue = one.queue.empty() ? lease.queue : one.queue;
      transaction.cancels.push_back({.queue = queue, .name = name, .quiet = true});
      if (one.has_progress) transaction.records.push_back(drop_record(progress_space, name));
      continue;
    }
    if (one.when_parent_ends == "keep") continue;
    Send& send = transaction.sends.emplace_back();
    send.queue = lease.queue;
    send.key = one.name;
    send.label = one.label;
    send.body = fmt::format("its parent '{}' was terminated", *lease.key);
    wire::add(send.headers, wire::kind_header, wire::cancel_kind);
    if (one.when_parent_ends == "terminate") {
      wire::add(send.headers, wire::reason_header, "terminate");
    }
  }
  for (const std::string_view suffix : {".deadline", ".begin"}) {
    transaction.cancels.push_back(
        {.queue = lease.queue, .name = run + std::string(suffix), .quiet = true});
  }
}

}  // namespace

Result<void> add_end(const Lease& lease, const std::string& reason, const std::string& status,
                     Time now, Transaction& transaction) {
  if (!lease.history || lease.history->execution.number == 0 || lease.history->execution.outcome) {
    return {};
  }
  auto events = decode_history(*lease.history);
  if (!events) return std::unexpected(std::move(events.error()));
  const auto first = started_of(*events);
  if (!first) return std::unexpected(first.error());
  HistoryEvent end{.kind = EventKind::terminated, .at = now};
  end.add("error", reason);
  const HistoryEvent& started = *first;
  const Execution& execution = lease.history->execution;
  Append append{.token = lease.token,
                .execution = execution.number,
                .expected_length = execution.length,
                .events = {encode_event(end)}};
  append.close = to_string(end.kind);
  transaction.appends.push_back(std::move(append));
  call_off(lease, started, *events, transaction);
  const Identity identity{.id = *lease.key, .queue = lease.queue, .execution = execution.number};
  transaction.records.push_back(
      put_record(instances_space, *lease.key,
                 encode_record(record_of(identity, execution.label, started, status, &end))));
  transaction.records.push_back(drop_record(checkpoints_space, *lease.key));
  tell_parent({identity, execution.label, started, end, {}}, transaction);
  return {};
}

}  // namespace workflow

namespace {

constexpr int tries_max = 10;

// Somebody else was at it meanwhile: look again.
bool worth_another_try(const Error& error) {
  return error.code == Errc::lease_lost || error.code == Errc::history_mismatch ||
         error.code == Errc::version_mismatch || error.code == Errc::message_not_leased;
}

// Nobody has begun with it: its start says who waits for it.
void tell_parent_of_pending(const Lease& lease, const std::string& reason,
                            Transaction& transaction) {
  const auto start = std::ranges::find_if(lease.messages, [](const Message& message) {
    return wire::header(message.headers, wire::kind_header) == wire::start_kind;
  });
  if (start == lease.messages.end()) return;
  Ending ending{.identity = {.id = *lease.key, .queue = lease.queue}};
  const auto copy = [&](std::string_view header, std::string name) {
    ending.started.add(std::move(name), std::string(wire::header(start->headers, header)));
  };
  copy(wire::parent_header, "parent");
  copy(wire::parent_call_header, "parent_call");
  copy(wire::parent_label_header, "parent_label");
  ending.end.kind = EventKind::terminated;
  ending.end.add("error", reason);
  tell_parent(ending, transaction);
}

}  // namespace

Result<bool> Workflows::terminate(std::string_view id, const std::string& reason) {
  Error last;
  for (int i = 0; i < tries_max; ++i) {
    if (const auto before = get(id); !before || has_ended(before->state)) {
      if (!before) return std::unexpected(before.error());
      return false;
    }
    auto lane = SeizedLane::take(*store_, options_.queue, id);
    if (!lane) return std::unexpected(lane.error());
    // Again: nothing changes any more.
    const auto info = get(id);
    if (!info) return std::unexpected(info.error());
    Transaction transaction;
    transaction.settles.push_back(settle_all(lane->lease()));
    if (auto ended = add_end(lane->lease(), reason, info->status, store_->now(), transaction);
        !ended) {
      return std::unexpected(ended.error());
    }
    if (transaction.appends.empty()) {
      // It was started, and nobody has begun with it.
      const auto found = store_->record(instances_space, id);
      if (!found) return std::unexpected(found.error());
      if (!*found) continue;
      auto record = decode_record(id, (*found)->value);
      if (!record) return std::unexpected(record.error());
      if (has_ended(record->state)) return false;
      record->state = InstanceState::terminated;
      record->ended_at = store_->now();
      record->error = reason;
      WriteRecord write = put_record(instances_space, std::string(id), encode_record(*record));
      write.expected = (*found)->version;
      transaction.records.push_back(std::move(write));
      tell_parent_of_pending(lane->lease(), reason, transaction);
    }
    const auto done = store_->apply(transaction);
    if (done) {
      lane->committed();
      return true;
    }
    if (!worth_another_try(done.error())) return std::unexpected(done.error());
    last = done.error();
  }
  return std::unexpected(last);
}

// --- Removing ---

namespace {

Result<std::vector<std::string>> keys_of(Store& store, std::string_view space,
                                         const std::string& prefix) {
  std::vector<std::string> keys;
  std::string after;
  while (true) {
    const auto page = store.records(
        {.space = std::string(space), .prefix = prefix, .after = after, .limit = 500});
    if (!page) return std::unexpected(page.error());
    for (const Record& record : page->items)
      keys.push_back(after = record.key);
    if (!page->more || page->items.empty()) return keys;
  }
}

// Everything that there is of one instance.
Result<void> add_removal(Store& store, const Lease& lease, const std::optional<std::string>& parent,
                         Transaction& transaction) {
  const std::string& id = *lease.key;
  if (lease.history && lease.history->execution.number > 0) {
    transaction.remove_histories.push_back({.token = lease.token});
  }
  transaction.settles.push_back(settle_all(lease));
  transaction.records.push_back(drop_record(instances_space, id));
  transaction.records.push_back(drop_record(checkpoints_space, id));
  if (parent) transaction.records.push_back(drop_record(children_space, joined(*parent, id)));
  for (const std::string_view space :
       {children_space, state_space, sagas_space, saga_steps_space, answers_space}) {
    auto keys = keys_of(store, space, joined(id, ""));
    if (!keys) return std::unexpected(std::move(keys.error()));
    for (std::string& key : *keys)
      transaction.records.push_back(drop_record(space, std::move(key)));
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> Workflows::remove(std::string_view id, RemoveOptions options) {
  Error last;
  for (int i = 0; i < tries_max; ++i) {
    auto ids = tree(id);
    if (!ids) return ids;
    if (ids->size() > 1 && !options.children) {
      return failure(Errc::in_use,
                     fmt::format("instance '{}' has children; remove them with it, or first",
                                 base::printable(id)));
    }
    // Those that run are ended first: they tell each other.
    std::vector<InstanceInfo> infos;
    for (const std::string& each : *ids) {
      auto info = get(each);
      if (!info && info.error().code == Errc::not_found && each != id) continue;
      if (!info) return std::unexpected(info.error());
      if (!has_ended(info->state) && !options.force) {
        return failure(Errc::in_use, fmt::format("instance '{}' runs; terminate it first, or "
                                                 "remove it by force",
                                                 base::printable(each)));
      }
      infos.push_back(*std::move(info));
    }
    for (const InstanceInfo& info : infos) {
      if (has_ended(info.state)) continue;
      if (auto ended = terminate(info.id, "removed by force"); !ended) {
        return std::unexpected(ended.error());
      }
    }
    Transaction transaction;
    std::vector<SeizedLane> seized;
    for (const InstanceInfo& info : infos) {
      auto lane = SeizedLane::take(*store_, options_.queue, info.id);
      if (!lane) return std::unexpected(lane.error());
      seized.push_back(*std::move(lane));
      if (auto added = add_removal(*store_, seized.back().lease(), info.parent, transaction);
          !added) {
        return std::unexpected(added.error());
      }
    }
    // Now that none of them can go on: has one of them started another one meanwhile?
    const auto again = tree(id);
    if (!again) return again;
    if (std::set<std::string>(again->begin(), again->end()) !=
        std::set<std::string>(ids->begin(), ids->end())) {
      continue;
    }
    // The same key may be named by a child and by its parent.
    std::set<std::pair<std::string, std::string>> seen;
    std::erase_if(transaction.records, [&](const WriteRecord& write) {
      return !seen.insert({write.space, write.key}).second;
    });
    const auto done = store_->apply(transaction);
    if (done) {
      std::vector<std::string> removed;
      for (SeizedLane& lane : seized) {
        lane.committed();
        removed.push_back(*lane.lease().key);
      }
      return removed;
    }
    if (!worth_another_try(done.error())) return std::unexpected(done.error());
    last = done.error();
  }
  if (last.message.empty()) {
    return failure(Errc::unavailable,
                   fmt::format("instance '{}' keeps starting children; terminate it first",
                               base::printable(id)));
  }
  return std::unexpected(last);
}

namespace {

// Executions before the last one that are still there: earlier prunings have removed some.
std::uint64_t count_old_executions(Store& store, const std::string& queue, const std::string& id,
                                   std::uint64_t last) {
  std::uint64_t count = 0;
  for (std::uint64_t number = last; number > 1; --number, ++count) {
    const HistoryQuery query{.queue = queue, .key = id, .execution = number - 1, .limit = 1};
    if (!store.history(query)) break;
  }
  return count;
}

}  // namespace

// How many instances go with this one, itself included; none if one of them is in the way.
Result<std::optional<std::size_t>> Workflows::prune_one(const std::string& id, bool dry_run) {
  if (!dry_run) {
    const auto removed = remove(id);
    if (removed) return removed->size();
    const bool in_the_way =  // a child still runs, or somebody else was here
        removed.error().code == Errc::in_use || removed.error().code == Errc::not_found;
    if (in_the_way) return std::nullopt;
    return std::unexpected(removed.error());
  }
  const auto ids = tree(id);
  if (!ids) return std::unexpected(ids.error());
  for (const std::string& each : *ids) {
    const auto info = get(each);
    if (!info || !has_ended(info->state)) return std::nullopt;
  }
  return ids->size();
}

Result<PruneReport> Workflows::prune(const PruneOptions& options) {
  PruneReport report;
  const Time before = store_->now() - options.older_than;
  InstanceFilter filter{.state = options.state, .name = options.name, .limit = 500};
  if (!options.old_executions) filter.ended = true;
  while (report.ids.size() < options.limit) {
    const auto page = list(filter);
    if (!page) return std::unexpected(page.error());
    for (const InstanceInfo& info : page->items) {
      filter.after = info.id;
      if (report.ids.size() >= options.limit) break;
      if (options.old_executions) {
        if (info.execution <= 1) continue;
        const auto removed = options.dry_run
                                 ? Result<std::uint64_t>(count_old_executions(
                                       *store_, options_.queue, info.id, info.execution))
                                 : remove_old_executions(info.id);
        if (!removed) return std::unexpected(removed.error());
        if (*removed == 0) continue;
        report.executions += *removed;
      } else {
        // Children go with their parents.
        if (!info.ended_at || *info.ended_at > before || info.parent) continue;
        const auto removed = prune_one(info.id, options.dry_run);
        if (!removed) return std::unexpected(removed.error());
        if (!*removed) continue;
        report.instances += **removed;
      }
      report.ids.push_back(info.id);
    }
    if (!page->more || page->items.empty()) break;
  }
  return report;
}

Result<std::uint64_t> Workflows::remove_old_executions(const std::string& id) {
  for (int i = 0; i < tries_max; ++i) {
    auto lane = SeizedLane::take(*store_, options_.queue, id);
    if (!lane) return std::unexpected(lane.error());
    const Lease& lease = lane->lease();
    const std::uint64_t last = lease.history ? lease.history->execution.number : 0;
    const std::uint64_t count = count_old_executions(*store_, options_.queue, id, last);
    if (count == 0) return 0;
    Transaction transaction;
    transaction.remove_histories.push_back({.token = lease.token, .through_execution = last - 1});
    transaction.settles.push_back(lane->give_back());
    const auto done = store_->apply(transaction);
    if (done) {
      lane->committed();
      return count;
    }
    if (!worth_another_try(done.error())) return std::unexpected(done.error());
  }
  return failure(Errc::unavailable,
                 fmt::format("instance '{}' is too busy to be pruned now", base::printable(id)));
}

}  // namespace strand
