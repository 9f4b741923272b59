#include "model/recorder.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "model/evidence.h"
#include "model/text.h"
#include "model/violation.h"

namespace strand::model {
namespace {

using Stamp = std::chrono::steady_clock::time_point;

// --- I6: ids ---

void check_transaction_ids(const Evidence& evidence) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, const Receipt*> receipts;
  for (const Recorder::Applied& applied : evidence.sends) {
    if (!applied.transaction.id || !applied.answer) continue;
    const TransactionId& id = *applied.transaction.id;
    const auto [known, first] = receipts.try_emplace({id.client, id.number}, &*applied.answer);
    expect(first || *known->second == *applied.answer, Invariant::exactly_once_id, [&] {
      return "the repeat of a transaction got another receipt: " + text(*applied.answer) +
             // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): loses a binding that is captured
             " instead of " + text(*known->second);
    });
  }
}

// Calls fn(transaction, send, answer) for each send that was answered, repeats of a transaction
// apart.
template <class Fn>
void for_each_send(const Evidence& evidence, Fn fn) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, bool> seen;
  for (const Recorder::Applied& applied : evidence.sends) {
    if (!applied.answer) continue;
    if (const auto& id = applied.transaction.id;
        id && !seen.try_emplace({id->client, id->number}).second) {
      continue;
    }
    for (std::size_t i = 0; i < applied.transaction.sends.size(); ++i) {
      fn(applied, applied.transaction.sends[i], applied.answer->sent[i]);
    }
  }
}

void check_dedup_ids(const Evidence& evidence) {
  struct Seen {
    MessageId id{};
    bool accepted = false;
  };
  std::map<std::pair<std::string, std::string>, Seen> seen;
  std::map<MessageId, bool> used;
  for_each_send(evidence, [&](const Recorder::Applied&, const Send& send, const Sent& sent) {
    if (!sent.duplicate) {
      expect(used.try_emplace(sent.id).second, Invariant::exactly_once_id,
             [&] { return "two messages got the id " + text(sent.id); });
    }
    if (!send.dedup_id) {
      expect(!sent.duplicate, Invariant::exactly_once_id,
             [&] { return "a duplicate without a dedup id: " + quote(send.body); });
      return;
    }
    Seen& first = seen.try_emplace({send.queue, *send.dedup_id}, Seen{.id = sent.id}).first->second;
    expect(first.id == sent.id && !(first.accepted && !sent.duplicate), Invariant::exactly_once_id,
           [&] { return "the dedup id " + quote(*send.dedup_id) + " was accepted twice"; });
    first.accepted = first.accepted || !sent.duplicate;
  });
  for (const auto& [id, first] : seen) {
    expect(first.accepted, Invariant::nothing_lost, [&] {
      // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): it loses a binding that is captured
      return "only duplicates, no first message, of the dedup id " + quote(id.second);
    });
  }
}

// --- The order of things that do not overlap ---

// `calls`: each with a number that must grow from any call to those that began after its end.
template <class Number>
void check_growth(std::vector<std::pair<Call, Number>> calls, Invariant invariant,
                  const char* what) {
  std::vector<std::pair<Stamp, Number>> ended;
  for (const auto& [call, number] : calls)
    ended.emplace_back(call.end, number);
  std::ranges::sort(ended);
  std::ranges::sort(calls, {}, [](const auto& entry) { return entry.first.begin; });
  auto next = ended.begin();
  std::optional<Number> highest;
  for (const auto& [call, number] : calls) {
    for (; next != ended.end() && next->first < call.begin; ++next) {
      highest = std::max(highest.value_or(next->second), next->second);
    }
    expect(!highest || *highest < number, invariant, [&] {
      return std::string(what) + " " + std::to_string(static_cast<std::uint64_t>(number)) +
             " was given after " + std::to_string(static_cast<std::uint64_t>(*highest));
    });
  }
}

void check_numbers(const Evidence& evidence) {
  std::vector<std::pair<Call, MessageId>> ids;
  for (const auto& [id, fate] : evidence.fates)
    ids.emplace_back(fate.sent, id);
  check_growth(std::move(ids), Invariant::lane_order, "the message id");
  // Leases of one call share its span, so only their order against other calls is checked.
  std::vector<std::pair<Call, Epoch>> epochs;
  for (const auto& [name, tenures] : evidence.lanes) {
    for (const auto& [epoch, tenure] : tenures)
      epochs.emplace_back(tenure.granted, epoch);
  }
  check_growth(std::move(epochs), Invariant::current_epoch, "the epoch");
}

// --- I5: counting ---

// How many things had surely happened, and may have happened, at a call.
class Tally {
 public:
  void add(const Call& call) {
    begins_.push_back(call.begin);
    ends_.push_back(call.end);
  }
  void sort() {
    std::ranges::sort(begins_);
    std::ranges::sort(ends_);
  }
  [[nodiscard]] bool allows(std::uint64_t count, const Call& at) const {
    const auto surely = std::ranges::lower_bound(ends_, at.begin) - ends_.begin();
    const auto at_most = std::ranges::upper_bound(begins_, at.end) - begins_.begin();
    return static_cast<std::uint64_t>(surely) <= count &&
           count <= static_cast<std::uint64_t>(at_most);
  }

 private:
  std::vector<Stamp> begins_;
  std::vector<Stamp> ends_;
};

void check_balance(const std::string& queue, const QueueStats& stats) {
  expect(stats.accepted == stats.acked + stats.expired + stats.dropped + stats.moved +
                               stats.purged + stats.dead + stats.live(),
         Invariant::conservation,
         [&] { return "the counts of " + quote(queue) + " do not add up: " + text(stats); });
}

void check_counts(const Evidence& evidence) {
  std::map<std::string, Tally> accepted;
  std::map<std::string, Tally> acked;
  for (const auto& [id, fate] : evidence.fates)
    accepted[fate.queue].add(fate.sent);
  for (const auto& [name, tenures] : evidence.lanes) {
    for (const auto& [epoch, tenure] : tenures) {
      for (const Step& step : tenure.steps) {
        const auto* settled = std::get_if<Settled>(&step);
        if (settled == nullptr || settled->error) continue;
        for (const Outcome& outcome : settled->settle.outcomes) {
          if (outcome.kind == Outcome::Kind::ack) acked[name.queue].add(settled->call);
        }
      }
    }
  }
  for (auto& [queue, tally] : accepted)
    tally.sort();
  for (auto& [queue, tally] : acked)
    tally.sort();
  for (const Recorder::Counted& counted : evidence.counts) {
    check_balance(counted.queue, counted.stats);
    const bool possible = accepted[counted.queue].allows(counted.stats.accepted, counted.call) &&
                          acked[counted.queue].allows(counted.stats.acked, counted.call);
    expect(possible, Invariant::conservation, [&] {
      return "the counts of " + quote(counted.queue) +
             " are not those of the calls before: " + text(counted.stats);
    });
  }
}

// --- I1 and I4: ends ---

struct Ends {
  std::uint64_t acked = 0;
  std::uint64_t dropped = 0;
  std::uint64_t accepted = 0;
};

void check_remains(const Remains& remains, const Ends& ends) {
  const QueueStats& stats = remains.stats;
  check_balance(remains.queue, stats);
  const bool exact = stats.accepted == ends.accepted && stats.acked == ends.acked &&
                     stats.dropped == ends.dropped && stats.dead == remains.dead.size() &&
                     stats.live() == remains.left.size();
  expect(exact, Invariant::conservation, [&] {
    return "in the end " + quote(remains.queue) + " counts " + text(stats) + ", but accepted " +
           std::to_string(ends.accepted) + ", acked " + std::to_string(ends.acked) +
           ", cancelled " + std::to_string(ends.dropped) + ", dead " +
           std::to_string(remains.dead.size()) + ", left " + std::to_string(remains.left.size());
  });
}

void check_ends(const Evidence& evidence, std::span<const Remains> remains) {
  std::map<MessageId, std::uint64_t> found;
  for (const Remains& queue : remains) {
    for (const DeadLetter& letter : queue.dead)
      ++found[letter.id];
    for (const PeekedMessage& message : queue.left)
      ++found[message.id];
  }
  std::map<std::string, Ends> totals;
  for (const auto& [id, fate] : evidence.fates) {
    const std::uint64_t ends = fate.acks + fate.cancels.size() + found[id];
    const auto what = [&] {
      // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it loses a binding that is captured
      return text(id) + " " + quote(fate.body) + ": acked " + std::to_string(fate.acks) +
             ", cancelled " + std::to_string(fate.cancels.size()) + ", still there " +
             std::to_string(found[id]) + " times";
    };
    expect(ends > 0, Invariant::nothing_lost, what);
    expect(ends == 1, Invariant::one_end, what);
    Ends& total = totals[fate.queue];
    ++total.accepted;
    total.acked += fate.acks;
    total.dropped += fate.cancels.size();
  }
  for (const auto& [id, times] : found) {
    expect(evidence.fates.contains(id), Invariant::contract,
           // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): loses a binding that is captured
           [&] { return "there is a message that no confirmed send sent: " + text(id); });
  }
  for (const Remains& queue : remains)
    check_remains(queue, totals[queue.queue]);
}

}  // namespace

Recorder::Log& Recorder::log() {
  const std::lock_guard lock(mutex_);
  return logs_.emplace_back();
}

void Recorder::check(std::span<const Remains> remains) const {
  Evidence evidence(logs_);
  check_transaction_ids(evidence);
  check_dedup_ids(evidence);
  check_numbers(evidence);
  for (const auto& [name, tenures] : evidence.lanes) {
    check_lane(name, tenures, evidence.messages[name], evidence.fates, max_attempts_);
  }
  check_ends(evidence, remains);
  check_counts(evidence);
}

}  // namespace strand::model
