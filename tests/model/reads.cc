// What reads must show.

#include <algorithm>

#include "model/state.h"
#include "model/text.h"

namespace strand::model {
namespace {

// Cuts a list to a page.
template <class T>
Page<T> page_of(std::vector<T> items, std::size_t limit) {
  Page<T> page;
  page.more = items.size() > limit;
  if (page.more) items.resize(limit);
  page.items = std::move(items);
  return page;
}

template <class T>
Result<T> refused(const Refused& why) {
  return failure(why.code, why.why);
}

History history_of(const ExecutionState& execution, std::uint64_t from, std::size_t limit) {
  History history;
  history.execution = execution.execution;
  history.first = std::max(from, execution.execution.first);
  for (std::uint64_t i = history.first; i < execution.events.size(); ++i) {
    if (history.events.size() == limit) break;
    history.events.push_back(execution.events[i]);
  }
  return history;
}

Refused bad_limit(std::size_t limit, std::size_t most) {
  return limit > most ? Refused{Errc::limit_exceeded, "a page is too long", Errc::invalid_argument}
                      : Refused{Errc::invalid_argument, "a page must have room"};
}

bool bad(std::size_t limit, std::size_t most) { return limit == 0 || limit > most; }

}  // namespace

Result<QueueStats> State::stats(std::string_view queue) const {
  const auto it = queues_.find(std::string(queue));
  if (it == queues_.end()) return failure(Errc::not_found, "no such queue");
  const QueueState& q = it->second;
  QueueStats s;
  s.accepted = q.accepted;
  s.acked = q.acked;
  s.expired = q.expired;
  s.dropped = q.dropped;
  s.moved = q.moved;
  s.purged = q.purged;
  s.dead = q.dead.size();
  for (const auto& [key, lane] : q.lanes) {
    if (lane.holder != Epoch{}) ++s.leases;
    if (lane.turn) {
      ++s.lanes_ready;
      if (!s.oldest_ready || lane.turn->since < *s.oldest_ready) s.oldest_ready = lane.turn->since;
    }
    for (const Item& item : lane.items) {
      switch (state_of(lane, item)) {
        case MessageState::ready:
          ++s.ready;
          break;
        case MessageState::delayed:
          ++s.delayed;
          break;
        case MessageState::backoff:
          ++s.delayed;
          ++s.backoff;
          break;
        case MessageState::waiting:
          ++s.waiting;
          break;
        case MessageState::leased:
          ++s.leased;
          break;
        case MessageState::parked:
          ++s.parked;
          break;
      }
    }
  }
  return s;
}

std::vector<QueueInfo> State::queue_infos() const {
  std::vector<QueueInfo> out;
  for (const auto& [name, queue] : queues_)
    out.push_back({name, queue.settings, queue.paused});
  return out;
}

std::vector<Subscription> State::subscriptions() const {
  std::vector<Subscription> out;
  for (const auto& [name, queue] : queues_) {
    if (queue.pattern) out.push_back({name, *queue.pattern});
  }
  return out;
}

std::vector<Topic> State::topics() const {
  std::vector<Topic> out;
  for (const auto& [name, settings] : topics_)
    out.push_back({name, settings});
  return out;
}

Result<Page<PeekedMessage>> State::peek(const PeekQuery& query,
                                        const Result<Page<PeekedMessage>>& seen,
                                        std::vector<std::pair<Uid, MessageId>>& learned) {
  if (bad(query.limit, limits_.page_max)) {
    return refused<Page<PeekedMessage>>(bad_limit(query.limit, limits_.page_max));
  }
  const auto it = queues_.find(query.queue);
  if (it == queues_.end()) return failure(Errc::not_found, "no such queue");
  struct Row {
    std::pair<Time, Uid> place;
    Item* item;
    PeekedMessage message;
  };
  std::vector<Row> rows;
  for (auto& [key, lane] : it->second.lanes) {
    if (query.key && key.key != query.key) continue;
    for (Item& item : lane.items) {
      PeekedMessage peeked;
      static_cast<Message&>(peeked) = item.message;
      peeked.key = key.key;
      peeked.label = lane.label;
      peeked.state = state_of(lane, item);
      if (peeked.state == MessageState::backoff) peeked.retry_at = item.retry_at;
      if (!item.failures.empty()) peeked.last_reason = item.failures.back().reason;
      peeked.park_reason = lane.parked;
      // By lane order within a lane, else by id.
      rows.push_back({query.key ? item.place() : std::pair(Time{}, item.uid), &item, peeked});
    }
  }
  std::ranges::sort(rows, {}, &Row::place);
  std::vector<PeekedMessage> out;
  bool behind = !query.after;
  for (Row& row : rows) {
    const bool wanted = !query.state || row.message.state == *query.state;
    if (query.after && !query.key) behind = row.message.id > *query.after;
    if (behind && wanted) {
      if (seen && out.size() < seen->items.size() && row.message.id == MessageId{}) {
        bind(*row.item, seen->items[out.size()].id);
        row.message.id = row.item->message.id;
        learned.emplace_back(row.item->uid, row.message.id);
      }
      out.push_back(row.message);
    }
    if (query.after && query.key && row.message.id == *query.after) behind = true;
  }
  // In lane order a message that is gone marks no place.
  if (!behind && query.key) return failure(Errc::not_found, "no such message in the lane");
  return page_of(std::move(out), query.limit);
}

Result<State::DeadPage> State::dead_letters(const DeadLettersQuery& query) const {
  if (bad(query.limit, limits_.page_max)) {
    return refused<DeadPage>(bad_limit(query.limit, limits_.page_max));
  }
  const auto it = queues_.find(query.queue);
  if (it == queues_.end()) return failure(Errc::not_found, "no such queue");
  std::vector<DeadLetter> out;
  DeadPage answer;
  for (const auto& [uid, dead] : it->second.dead) {
    if (!query.after || dead.item.message.id > *query.after) {
      DeadLetter letter;
      static_cast<Message&>(letter) = dead.item.message;
      letter.queue = query.queue;
      letter.key = dead.key;
      letter.label = dead.item.label;
      letter.dead_at = dead.dead_at;
      letter.reason = dead.reason;
      letter.failures = dead.item.failures;
      out.push_back(std::move(letter));
      answer.uids.push_back(uid);
    }
  }
  answer.page = page_of(std::move(out), query.limit);
  return answer;
}

Result<History> State::history(const HistoryQuery& query) const {
  if (bad(query.limit, limits_.page_max)) {
    return refused<History>(bad_limit(query.limit, limits_.page_max));
  }
  const auto q = queues_.find(query.queue);
  if (q == queues_.end()) return failure(Errc::not_found, "no such queue");
  const auto instance = q->second.instances.find(query.key);
  if (instance == q->second.instances.end()) return failure(Errc::not_found, "no such instance");
  const auto execution = query.execution == 0 ? std::prev(instance->second.end())
                                              : instance->second.find(query.execution);
  if (execution == instance->second.end()) return failure(Errc::not_found, "no such execution");
  return history_of(execution->second, query.from, query.limit);
}

History State::current_history(const LeaseRequest& request, const std::string& key) const {
  History none;
  none.first = *request.history_from;
  none.execution.queue = request.queue;
  none.execution.key = key;
  const auto q = queues_.find(request.queue);
  if (q == queues_.end()) return none;
  const auto instance = q->second.instances.find(key);
  if (instance == q->second.instances.end()) return none;
  return history_of(instance->second.rbegin()->second, *request.history_from,
                    request.history_limit);
}

Result<Page<Execution>> State::instances(const InstancesQuery& query) const {
  if (bad(query.limit, limits_.page_max)) {
    return refused<Page<Execution>>(bad_limit(query.limit, limits_.page_max));
  }
  const auto q = queues_.find(query.queue);
  if (q == queues_.end()) return failure(Errc::not_found, "no such queue");
  std::vector<Execution> out;
  for (const auto& [key, executions] : q->second.instances) {
    const Execution& last = executions.rbegin()->second.execution;
    const bool open = !last.outcome;
    if (key > query.after && (!query.open || *query.open == open)) out.push_back(last);
  }
  return page_of(std::move(out), query.limit);
}

std::optional<Record> State::record(const std::string& space, const std::string& key) const {
  const auto it = records_.find({space, key});
  if (it == records_.end()) return std::nullopt;
  return Record{space, key, it->second.first, it->second.second};
}

Page<Record> State::read_records(const RecordsQuery& query) const {
  std::vector<Record> out;
  for (const auto& [name, value] : records_) {
    if (name.first != query.space || name.second <= query.after) continue;
    if (!name.second.starts_with(query.prefix)) continue;
    out.push_back({name.first, name.second, value.first, value.second});
  }
  return page_of(std::move(out), query.limit);
}

std::map<std::string, std::vector<std::uint64_t>> State::executions(
    const std::string& queue) const {
  std::map<std::string, std::vector<std::uint64_t>> out;
  const auto q = queues_.find(queue);
  if (q == queues_.end()) return out;
  for (const auto& [key, executions] : q->second.instances) {
    for (const auto& entry : executions)
      out[key].push_back(entry.first);
  }
  return out;
}

std::vector<std::string> State::queues_with_unseen_ids() const {
  std::vector<std::string> out;
  for (const auto& [name, queue] : queues_) {
    const bool some = std::ranges::any_of(queue.lanes, [](const auto& entry) {
      return std::ranges::any_of(entry.second.items,
                                 [](const Item& item) { return item.message.id == MessageId{}; });
    });
    if (some) out.push_back(name);
  }
  return out;
}

std::string State::dump() const {
  std::string out;
  for (const auto& [name, queue] : queues_) {
    out += "queue " + quote(name) + (queue.paused ? " paused" : "") + "\n";
    for (const auto& [key, lane] : queue.lanes) {
      out += "  lane " + (key.key ? quote(*key.key) : "uid " + std::to_string(key.uid)) +
             " label=" + quote(lane.label) + " held by e" +
             std::to_string(static_cast<std::uint64_t>(lane.holder)) +
             (lane.parked ? " parked" : "") + (lane.isolate ? " isolate" : "") +
             (lane.hint ? " hint " + lane.hint->owner + text(lane.hint->until) : "") +
             (lane.turn
                  ? " ready" + text(lane.turn->since) + " turn " + std::to_string(lane.turn->order)
                  : "") +
             "\n";
      for (const Item& item : lane.items) {
        out += "    uid " + std::to_string(item.uid) + " " + text(state_of(lane, item)) + " " +
               text(item.message) + "\n";
      }
    }
    for (const auto& [uid, dead] : queue.dead) {
      out += "    uid " + std::to_string(uid) + " dead " + text(dead.item.message) + "\n";
    }
  }
  return out;
}

std::set<std::string> State::spaces() const {
  std::set<std::string> out;
  for (const auto& entry : records_)
    out.insert(entry.first.first);
  return out;
}

void State::learn(Uid uid, MessageId id) {
  for (auto& [name, queue] : queues_) {
    for (auto& [key, lane] : queue.lanes) {
      for (Item& item : lane.items) {
        if (item.uid == uid) bind(item, id);
      }
    }
    const auto dead = queue.dead.find(uid);
    if (dead != queue.dead.end()) bind(dead->second.item, id);
  }
}

}  // namespace strand::model
