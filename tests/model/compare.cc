// Reads: what the store shows against what the model knows.

#include <algorithm>

#include "model/model.h"
#include "model/text.h"

namespace strand::model {
namespace {

std::string said(const std::string& what, const std::string& due, const std::string& seen) {
  return what + " had to be " + due + "\n  but was " + seen;
}

// Both failed with the same code, or both succeeded.
template <class T>
bool alike(const Result<T>& due, const auto& seen) {
  if (due.has_value() != seen.has_value()) return false;
  return due.has_value() || due.error().code == seen.error().code;
}

template <class T>
std::string list(const std::vector<T>& items) {
  std::string out;
  for (const T& item : items)
    out += "\n    " + text(item);
  return out;
}

// What the engine knows of a message without its disk.
PeekedMessage bare(const PeekedMessage& message) {
  PeekedMessage out;
  out.id = message.id;
  out.deliveries = message.deliveries;
  out.attempts = message.attempts;
  out.label = message.label;
  out.state = message.state;
  out.retry_at = message.retry_at;
  out.last_reason = message.last_reason;
  out.park_reason = message.park_reason;
  return out;
}

}  // namespace

void Model::stats(const std::string& queue, const Result<QueueStats>& seen) const {
  const Result<QueueStats> due = decided_.stats(queue);
  const bool same = alike(due, seen) && (!due || *due == *seen);
  if (seen) {
    const QueueStats& s = *seen;
    expect(s.accepted == s.acked + s.expired + s.dropped + s.moved + s.purged + s.dead + s.live(),
           Invariant::conservation, [&] { return quote(queue) + ": " + text(s); });
  }
  expect(same, Invariant::conservation,
         [&] { return said("the count of " + quote(queue), text(due), text(seen)); });
}

void Model::queues(const std::vector<QueueInfo>& seen) const {
  const std::vector<QueueInfo> due = decided_.queue_infos();
  expect(due == seen, Invariant::contract,
         [&] { return said("the list of queues", list(due), list(seen)); });
}

void Model::subscriptions(const std::vector<Subscription>& seen) const {
  const std::vector<Subscription> due = decided_.subscriptions();
  expect(due == seen, Invariant::contract,
         [&] { return said("the list of subscriptions", list(due), list(seen)); });
}

void Model::topics(const std::vector<Topic>& seen) const {
  const std::vector<Topic> due = decided_.topics();
  expect(due == seen, Invariant::contract,
         [&] { return said("the list of topics", list(due), list(seen)); });
}

Page<PeekedMessage> Model::peek(const PeekQuery& query, const Result<Page<PeekedMessage>>& seen) {
  std::vector<std::pair<Uid, MessageId>> learned;
  const Result<Page<PeekedMessage>> due = decided_.peek(query, seen, learned);
  for (const auto& [uid, id] : learned)
    learn(uid, id);
  expect(alike(due, seen), Invariant::contract,
         [&] { return said("peek of " + quote(query.queue), text(due), text(seen)); });
  if (!due) return {};
  const bool same =
      due->more == seen->more && std::ranges::equal(due->items, seen->items, {}, bare, bare);
  const bool fewer = seen->items.size() < due->items.size();
  expect(same, fewer ? Invariant::nothing_lost : Invariant::contract,
         [&] { return said("peek of " + quote(query.queue), text(*due), text(*seen)); });
  return *due;
}

void Model::shown(const Page<PeekedMessage>& due, const Page<PeekedMessage>& seen) const {
  std::size_t at = 0;
  for (const PeekedMessage& message : due.items) {
    const bool there = at < seen.items.size() && seen.items[at].id == message.id;
    // What ended in the same batch is not on disk any more.
    if (!there && !written_.exists_live(message.id)) continue;
    expect(there && message == seen.items[at], Invariant::contract,
           [&] { return said("peek", text(due), text(seen)); });
    ++at;
  }
  expect(at == seen.items.size() && due.more == seen.more, Invariant::contract,
         [&] { return said("peek", text(due), text(seen)); });
}

void Model::current(const Token& token, bool seen) const {
  expect(decided_.is_current(token) == seen, Invariant::current_epoch, [&] {
    return text(token) + (seen ? " is not current" : " is current") +
           ", but the store says otherwise";
  });
}

void Model::memory(std::size_t bytes) const {
  expect(bytes == 0 || decided_.lane_count() > 0, Invariant::conservation,
         [&] { return "an empty store counts " + std::to_string(bytes) + " bytes"; });
}

void Model::next_due(const std::optional<Time>& seen) const {
  const std::optional<Time> due = decided_.next_due();
  expect(!due || (seen && *seen <= *due), Invariant::drains, [&] {
    return "something is due " + text(*due) + ", but the store's timer is set to " +
           (seen ? text(*seen) : "nothing");
  });
}

// The id belongs to the log, because later calls may name it.
void Model::learn(Uid uid, MessageId id) {
  decided_.learn(uid, id);
  log(log_.empty() ? written_commit_ : std::max(written_commit_, log_.back().commit),
      Call::Learn{uid, id});
}

void Model::dead_letters(const DeadLettersQuery& query, const Result<Page<DeadLetter>>& seen) {
  Result<State::DeadPage> due = written_.dead_letters(query);
  expect(alike(due, seen), Invariant::contract, [&] {
    return said("dead letters of " + quote(query.queue), due ? text(due->page) : text(due.error()),
                text(seen));
  });
  if (!due) return;
  for (std::size_t i = 0; i < due->page.items.size() && i < seen->items.size(); ++i) {
    DeadLetter& mine = due->page.items[i];
    if (mine.id != MessageId{}) continue;
    mine.id = seen->items[i].id;
    learn(due->uids[i], mine.id);
  }
  const bool fewer = seen->items.size() < due->page.items.size();
  expect(due->page == *seen, fewer ? Invariant::nothing_lost : Invariant::one_end, [&] {
    return said("dead letters of " + quote(query.queue), text(due->page), text(*seen));
  });
}

void Model::history(const HistoryQuery& query, const Result<History>& seen) const {
  const Result<History> due = written_.history(query);
  expect(alike(due, seen) && (!due || *due == *seen), Invariant::one_chain, [&] {
    return said("the history of " + quote(query.queue) + "/" + quote(query.key), text(due),
                text(seen));
  });
}

void Model::instances(const InstancesQuery& query, const Result<Page<Execution>>& seen) const {
  const Result<Page<Execution>> due = written_.instances(query);
  expect(alike(due, seen) && (!due || *due == *seen), Invariant::one_chain,
         [&] { return said("the instances of " + quote(query.queue), text(due), text(seen)); });
}

void Model::record(const std::string& space, const std::string& key,
                   const std::optional<Record>& seen) const {
  const std::optional<Record> due = written_.record(space, key);
  expect(due == seen, Invariant::record_versions, [&] {
    return said("record " + quote(space) + "/" + quote(key), due ? text(*due) : "absent",
                seen ? text(*seen) : "absent");
  });
}

void Model::records(const RecordsQuery& query, const Page<Record>& seen) const {
  const Page<Record> due = written_.read_records(query);
  expect(due == seen, Invariant::record_versions,
         [&] { return said("the records of " + quote(query.space), text(due), text(seen)); });
}

}  // namespace strand::model
