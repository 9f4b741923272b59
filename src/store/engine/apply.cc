#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "base/planted.h"
#include "base/text.h"
#include "store/contract/check.h"
#include "store/engine/state.h"

// Transactions: everything that can be wrong is found out first, then all of it is done.

namespace strand::engine {

namespace {

// A name in a queue, as one string.
std::string in_queue(std::string_view queue, std::string_view name) {
  std::string result(queue);
  result.push_back('\0');  // no queue name has one
  result.append(name);
  return result;
}

bool ends_its_message(const Outcome& outcome) {
  return outcome.kind == Outcome::Kind::ack || outcome.kind == Outcome::Kind::dead;
}

}  // namespace

Result<Receipt> Engine::State::apply(const Transaction& transaction, Time now) {
  advance(now);
  auto known = find_receipt(transaction);
  if (!known) return std::unexpected(known.error());
  if (*known) return std::move(**known);
  if (auto checked = check_transaction(transaction, limits_); !checked) {
    return std::unexpected(checked.error());
  }
  if (transaction.id) {
    if (auto checked = check_transaction_id(*transaction.id); !checked) {
      return std::unexpected(checked.error());
    }
  }
  Receipt receipt;
  if (transaction.admin) {
    STRAND_ASSERT(!has_decisions(), "what reads the archive waits until all is there");
    const auto affected = administer(*transaction.admin);
    if (!affected) return std::unexpected(affected.error());
    receipt.affected = *affected;
  } else {
    Plan plan;
    auto checked = check(transaction, plan);
    if (!checked) {
      for (MessageNode* message : plan.outcomes)
        message->settling = false;
      for (const Plan::Settling& settling : plan.settles)
        settling.lease->settling = false;
      if (STRAND_PLANTED("dedup-kept-after-failed-transaction")) {
        for (const Send& send : transaction.sends) {
          const Queue* queue = find_queue(send.queue);
          if (queue == nullptr || !send.dedup_id) continue;
          const std::string key = queue_dedup_key(queue->id, *send.dedup_id);
          remember_dedup(key, MessageId{next_number()}, queue->settings.dedup_window);
        }
      }
      return std::unexpected(checked.error());
    }
    receipt = perform(transaction, plan);
  }
  receipt.time = now_;
  if (transaction.id) store_receipt(transaction, receipt);
  if (STRAND_PLANTED("ack-not-synced") && !transaction.settles.empty() &&
      transaction.sends.empty()) {
    return receipt;
  }
  if (transaction.durability == Durability::sync) decisions_.durability = Durability::sync;
  if (STRAND_PLANTED("mixed-batch-not-synced")) decisions_.durability = transaction.durability;
  return receipt;
}

// The guard against a full disk. What only settles always passes: it frees more than it takes.
Result<void> Engine::State::check_disk(const Transaction& transaction) const {
  const bool writes_record = std::ranges::any_of(
      transaction.records, [](const WriteRecord& record) { return record.value.has_value(); });
  const bool adds = !transaction.sends.empty() || !transaction.publishes.empty() ||
                    !transaction.appends.empty() || writes_record;
  if (!free_bytes_ || !adds) return {};
  if (STRAND_PLANTED("disk-guard-forgets-publications") && !transaction.publishes.empty())
    return {};
  const bool settles = !transaction.settles.empty();
  const std::size_t reserve =
      settles ? limits_.disk_settle_reserve_bytes : limits_.disk_reserve_bytes;
  if (*free_bytes_ >= reserve) return {};
  return failure(
      Errc::store_full,
      fmt::format("the disk of the store has {} bytes left, and {} are kept free ({}): make room, "
                  "or settle what waits",
                  *free_bytes_, reserve,
                  settles ? "disk_settle_reserve_bytes" : "disk_reserve_bytes"));
}

std::size_t Engine::State::cost(const Content& content) const {
  return memory_of(content_bytes(content.body, content.headers));
}

Result<void> Engine::State::check(const Transaction& transaction, Plan& plan) {
  if (auto checked = check_disk(transaction); !checked) return checked;
  if (auto checked = check_histories(transaction, plan); !checked) return checked;
  if (auto checked = check_settles(transaction, plan); !checked) return checked;
  if (auto checked = check_sends(transaction, plan); !checked) return checked;
  return check_records(transaction);
}

Result<void> Engine::State::check_settles(const Transaction& transaction, Plan& plan) {
  for (const Settle& settle : transaction.settles) {
    const auto found = find_lease(settle.token);
    if (!found) return std::unexpected(found.error());
    LeaseNode& lease = **found;
    if (lease.settling) {
      return failure(Errc::invalid_argument,
                     fmt::format("the transaction settles the lease with epoch {} twice; put all "
                                 "outcomes into one settle",
                                 static_cast<std::uint64_t>(lease.epoch)));
    }
    lease.settling = true;
    lease.next_guess = 0;
    plan.settles.push_back({.lease = &lease, .settle = &settle});
    if (lease.lane == nullptr && (settle.label || settle.owner_hint)) {
      return failure(Errc::invalid_argument,
                     "labels and owner hints belong to lanes; this lease is of an unkeyed message");
    }
    for (const Outcome& outcome : settle.outcomes) {
      MessageNode* message = lease.find(outcome.id);
      if (message == nullptr) {
        return failure(Errc::message_not_leased,
                       fmt::format("message {} is not carried by the lease with epoch {}; it was "
                                   "settled before, or never part of it",
                                   static_cast<std::uint64_t>(outcome.id),
                                   static_cast<std::uint64_t>(lease.epoch)));
      }
      if (message->settling) {
        return failure(Errc::invalid_argument,
                       fmt::format("message {} has two outcomes in one settle",
                                   static_cast<std::uint64_t>(outcome.id)));
      }
      message->settling = true;
      plan.outcomes.push_back(message);
    }
  }
  return {};
}

Result<void> Engine::State::check_sends(const Transaction& transaction, const Plan& plan) const {
  if (transaction.sends.empty() && transaction.publishes.empty()) return {};
  const Duplicates duplicates = find_duplicates(transaction);
  if (auto room = check_room(transaction, duplicates); !room) return room;
  if (auto checked = check_names(transaction, plan, duplicates); !checked) return checked;
  return check_lengths(transaction, plan, duplicates);
}

Result<void> Engine::State::check_room(const Transaction& transaction,
                                       const Duplicates& duplicates) const {
  std::size_t bytes = memory_bytes_;
  std::size_t dedup_ids = dedup_.size();
  for (std::size_t i = 0; i < transaction.sends.size(); ++i) {
    if (duplicates.send(i)) continue;
    bytes += cost(transaction.sends[i]);
    if (transaction.sends[i].dedup_id) ++dedup_ids;
  }
  for (std::size_t i = 0; i < transaction.publishes.size(); ++i) {
    if (duplicates.publish(i)) continue;
    bytes += cost(transaction.publishes[i]);
    if (transaction.publishes[i].dedup_id) ++dedup_ids;
  }
  // What settles may pass a little later, so that a full store can be drained by those who hand on
  // what they have done.
  const std::size_t limit = transaction.settles.empty()
                                ? limits_.memory_bytes_max
                                : limits_.memory_bytes_max + (limits_.memory_bytes_max / 8);
  if (bytes > limit) {
    return failure(Errc::store_full,
                   fmt::format("the store holds {} bytes of waiting messages, and {} are allowed "
                               "(memory_bytes_max): settle some first",
                               memory_bytes_, limits_.memory_bytes_max));
  }
  if (dedup_ids > dedup_.size() && dedup_ids > limits_.dedup_ids_max) {
    return failure(Errc::store_full,
                   fmt::format("the store remembers {} dedup ids, and {} are allowed "
                               "(dedup_ids_max): send without, or wait for their windows to end",
                               dedup_.size(), limits_.dedup_ids_max));
  }
  std::unordered_set<std::string_view> new_queues;
  for (const Send& send : transaction.sends) {
    if (find_queue(send.queue) == nullptr) new_queues.insert(send.queue);
  }
  if (!new_queues.empty() && queues_.size() + new_queues.size() > limits_.queues_max) {
    return failure(Errc::limit_exceeded,
                   fmt::format("the store has {} queues, its limit (queues_max); remove some, or "
                               "use keys instead of queues",
                               queues_.size()));
  }
  return {};
}

// Which sends and publications add nothing, because their dedup id was seen before or earlier in
// the transaction.
Duplicates Engine::State::find_duplicates(const Transaction& transaction) const {
  Duplicates duplicates;
  std::unordered_set<std::string> seen;
  for (std::size_t i = 0; i < transaction.sends.size(); ++i) {
    const Send& send = transaction.sends[i];
    if (!send.dedup_id) continue;
    const Queue* queue = find_queue(send.queue);
    const bool known =
        queue != nullptr && find_dedup(queue_dedup_key(queue->id, *send.dedup_id)) != nullptr;
    const Duration window =
        queue != nullptr ? queue->settings.dedup_window : QueueSettings{}.dedup_window;
    const bool repeated =
        window > Duration::zero() && !seen.insert(in_queue(send.queue, *send.dedup_id)).second;
    if (known || repeated) duplicates.sends.insert(i);
  }
  seen.clear();
  for (std::size_t i = 0; i < transaction.publishes.size(); ++i) {
    const Publish& publish = transaction.publishes[i];
    if (!publish.dedup_id) continue;
    std::string key = topic_dedup_key(publish.topic, *publish.dedup_id);
    if (find_dedup(key) != nullptr || !seen.insert(std::move(key)).second) {
      duplicates.publishes.insert(i);
    }
  }
  return duplicates;
}

Result<void> Engine::State::check_names(const Transaction& transaction, const Plan& plan,
                                        const Duplicates& duplicates) const {
  std::unordered_set<std::string> taken;
  std::optional<std::unordered_set<const MessageNode*>> ended;
  for (std::size_t i = 0; i < transaction.sends.size(); ++i) {
    const Send& send = transaction.sends[i];
    if (!send.name || duplicates.send(i)) continue;
    if (!ended) ended = find_ended(transaction, plan);
    std::string name = in_queue(send.queue, *send.name);
    const Queue* queue = find_queue(send.queue);
    const MessageNode* holder = queue == nullptr ? nullptr : queue->find_name(*send.name);
    const bool held = holder != nullptr && !ended->contains(holder);
    if (held || !taken.insert(std::move(name)).second) {
      return failure(Errc::name_taken,
                     fmt::format("queue '{}' has a live message named '{}': cancel it, or choose "
                                 "another name",
                                 base::printable(send.queue), base::printable(*send.name)));
    }
  }
  return {};
}

// The messages that the transaction acks, settles as dead or cancels.
std::unordered_set<const MessageNode*> Engine::State::find_ended(const Transaction& transaction,
                                                                 const Plan& plan) const {
  std::unordered_set<const MessageNode*> ended;
  std::size_t next = 0;
  for (const Plan::Settling& settling : plan.settles) {
    for (const Outcome& outcome : settling.settle->outcomes) {
      const MessageNode* message = plan.outcomes[next++];
      if (ends_its_message(outcome)) ended.insert(message);
    }
  }
  for (const Cancel& cancel : transaction.cancels) {
    const Queue* queue = find_queue(cancel.queue);
    if (queue == nullptr) continue;
    if (const MessageNode* message = queue->find_name(cancel.name)) ended.insert(message);
  }
  return ended;
}

Result<void> Engine::State::check_lengths(const Transaction& transaction, const Plan& plan,
                                          const Duplicates& duplicates) const {
  std::unordered_map<const Queue*, std::uint64_t> sent;
  for (std::size_t i = 0; i < transaction.sends.size(); ++i) {
    const Queue* queue = find_queue(transaction.sends[i].queue);
    if (queue == nullptr || queue->settings.max_length == 0 || duplicates.send(i)) continue;
    ++sent[queue];
  }
  if (sent.empty()) return {};
  std::unordered_map<const Queue*, std::uint64_t> ended;
  for (const MessageNode* message : find_ended(transaction, plan))
    ++ended[message->queue];
  // In the order of the sends, so that the queue named by the error does not depend on addresses.
  for (const Send& send : transaction.sends) {
    const Queue* queue = find_queue(send.queue);
    const auto count = queue == nullptr ? sent.end() : sent.find(queue);
    if (count == sent.end()) continue;
    const std::uint64_t live = queue->tally.live() - ended[queue];
    if (live + count->second > queue->settings.max_length) {
      return failure(Errc::queue_full,
                     fmt::format("queue '{}' has {} live messages, and {} are allowed (max_length)",
                                 base::printable(queue->name), queue->tally.live(),
                                 queue->settings.max_length));
    }
  }
  return {};
}

Receipt Engine::State::perform(const Transaction& transaction, Plan& plan) {
  Receipt receipt;
  perform_histories(transaction, plan);
  MessageNode* const* outcomes = plan.outcomes.data();
  for (const Plan::Settling& settling : plan.settles) {
    settling.lease->settling = false;
    settle(*settling.lease, *settling.settle, outcomes);
    outcomes += settling.settle->outcomes.size();
  }
  receipt.cancelled.reserve(transaction.cancels.size());
  for (const Cancel& op : transaction.cancels)
    receipt.cancelled.push_back(cancel(op));
  prefetch(transaction.sends);
  receipt.sent.reserve(transaction.sends.size());
  for (const Send& op : transaction.sends)
    receipt.sent.push_back(send(op));
  receipt.published.reserve(transaction.publishes.size());
  for (const Publish& op : transaction.publishes)
    receipt.published.push_back(publish(op));
  receipt.versions.reserve(transaction.records.size());
  for (const WriteRecord& op : transaction.records)
    receipt.versions.push_back(write_record(op));
  return receipt;
}

bool Engine::State::cancel(const Cancel& cancel) {
  Queue* queue = find_queue(cancel.queue);
  if (queue == nullptr) return false;
  MessageNode* const found = queue->find_name(cancel.name);
  if (found == nullptr) return false;
  MessageNode& message = *found;
  std::optional<LaneEdit> edit;
  if (message.lane != nullptr) edit.emplace(*this, *message.lane);
  LeaseNode* lease = message.lease;
  const bool quiet = cancel.quiet && !STRAND_PLANTED("quiet-cancel-is-told");
  if (quiet && message.extras) message.extras->dead_notice_to.reset();
  end(message, End::cancelled);
  const std::size_t others = lease != nullptr && lease->lane != nullptr ? lease->carried : 0;
  if (lease != nullptr) revoke(*lease);
  if (STRAND_PLANTED("cancel-leaks-leased-count")) {
    queue->tally.leased += others;
    queue->tally.ready -= others;
  }
  return true;
}

}  // namespace strand::engine
