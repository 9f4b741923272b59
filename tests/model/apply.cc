// A transaction: all of it or nothing, and its id (S18).

#include <algorithm>

#include "model/state.h"
#include "model/text.h"

namespace strand::model {
namespace {

// What a store did although the rules forbid it, by the rule that forbids it.
Invariant guard_of(Errc code) {
  switch (code) {
    case Errc::lease_lost:
    case Errc::invalid_token:
    case Errc::message_not_leased:
      return Invariant::current_epoch;
    case Errc::version_mismatch:
      return Invariant::record_versions;
    case Errc::history_mismatch:
      return Invariant::one_chain;
    case Errc::transaction_conflict:
    case Errc::transaction_expired:
      return Invariant::exactly_once_id;
    default:
      return Invariant::contract;
  }
}

void expect_sizes(const Transaction& transaction, const Receipt& seen) {
  expect(seen.sent.size() == transaction.sends.size() &&
             seen.published.size() == transaction.publishes.size() &&
             seen.cancelled.size() == transaction.cancels.size() &&
             seen.versions.size() == transaction.records.size(),
         Invariant::contract,
         [&] { return "a receipt has one entry for each part: " + text(seen); });
}

}  // namespace

void State::apply(const Transaction& transaction, Time at, const Result<Receipt>& seen) {
  advance(at);
  if (seen) {
    try {
      perform(transaction, &*seen);
    } catch (const Refused& refused) {
      violate(guard_of(refused.code), "applied " + text(transaction) + "\n  which had to fail: " +
                                          text(refused.code) + ", " + refused.why);
    }
    return;
  }
  // A failure must leave no trace, so the model tries on a copy.
  State scratch = *this;
  std::vector<Refused> reasons;
  scratch.refusals_ = &reasons;
  scratch.attempt([&] { scratch.perform(transaction, nullptr); });
  const Errc code = seen.error().code;
  expect(!reasons.empty(), guard_of(code), [&] {
    return text(transaction) + "\n  had to succeed, but the answer was " + text(seen.error());
  });
  // Of several reasons to fail, any may be named.
  const bool named = std::ranges::any_of(reasons, [&](const Refused& reason) {
    return reason.code == code || reason.or_code == code;
  });
  expect(named, guard_of(reasons.front().code), [&] {
    return text(transaction) + "\n  had to fail with " + text(reasons.front().code) + ", " +
           reasons.front().why + ", but the answer was " + text(seen.error());
  });
}

void State::perform(const Transaction& transaction, const Receipt* seen) {
  if (seen != nullptr) expect_sizes(transaction, *seen);
  if (transaction.id && perform_known(transaction, seen)) return;
  const std::size_t reasons = refusals_ == nullptr ? 0 : refusals_->size();
  attempt([&] { validate(transaction, limits_); });
  if (refusals_ != nullptr && refusals_->size() > reasons) return;
  attempt([&] { validate_settled_once(transaction); });

  Receipt mine;
  mine.time = now_;
  foresee(transaction);
  for (const RemoveHistory& x : transaction.remove_histories)
    attempt([&] { remove_history(x); });
  for (const Append& x : transaction.appends)
    attempt([&] { append(x); });
  for (const TrimHistory& x : transaction.trim_histories)
    attempt([&] { trim_history(x); });
  for (const Settle& x : transaction.settles)
    attempt([&] { settle(x); });
  for (const Cancel& x : transaction.cancels)
    mine.cancelled.push_back(cancel(x));
  for (std::size_t i = 0; i < transaction.sends.size(); ++i) {
    const Sent* answer = seen == nullptr ? nullptr : &seen->sent[i];
    attempt([&] { mine.sent.push_back(send(transaction.sends[i], answer)); });
  }
  for (std::size_t i = 0; i < transaction.publishes.size(); ++i) {
    const Published* answer = seen == nullptr ? nullptr : &seen->published[i];
    mine.published.push_back(publish(transaction.publishes[i], answer));
  }
  for (std::size_t i = 0; i < transaction.records.size(); ++i) {
    const Version* answer = seen == nullptr ? nullptr : &seen->versions[i];
    attempt([&] { mine.versions.push_back(write(transaction.records[i], answer)); });
  }
  if (transaction.admin) attempt([&] { mine.affected = administer(*transaction.admin); });

  if (seen == nullptr) return;
  expect(mine.time == seen->time, Invariant::not_early, [&] {
    return "accepted " + text(mine.time) + ", but the receipt says " + text(seen->time);
  });
  expect(mine == *seen, Invariant::contract, [&] {
    return text(transaction) + "\n  had to return " + text(mine) + "\n  but returned   " +
           text(*seen);
  });
  const bool accepted = std::ranges::any_of(mine.sent, [](const Sent& s) { return !s.duplicate; });
  if (accepted) accepted_at_ = now_;
  if (transaction.id) remember(transaction, mine);
}

// Looked up before any other check. True: it is a repeat, and there is nothing to do.
bool State::perform_known(const Transaction& transaction, const Receipt* seen) {
  const TransactionId& id = *transaction.id;
  if (const auto client = clients_.find(id.client); client != clients_.end()) {
    const auto stored = client->second.receipts.find(id.number);
    if (stored != client->second.receipts.end() &&
        stored->second.time + limits_.transaction_window > now_) {
      if (stored->second.content != content(transaction)) {
        throw Refused{Errc::transaction_conflict, "other content under the same id"};
      }
      if (seen != nullptr) {
        expect(stored->second.receipt == *seen, Invariant::exactly_once_id, [&] {
          return "the repeat of " + text(transaction) + "\n  had to return the first receipt " +
                 text(stored->second.receipt) + "\n  but returned " + text(*seen);
        });
      }
      return true;
    }
    const bool remembered = client->second.latest + limits_.transaction_window > now_;
    const bool must = remembered && id.number < client->second.lowest_unanswered;
    const bool may = seen == nullptr && id.number < client->second.lowest_perhaps;
    if (must || may) {
      refuse({Errc::transaction_expired, "below the client's lowest unanswered number"});
    }
  }
  if (id.time + limits_.transaction_window <= now_) {
    refuse({Errc::transaction_expired, "older than the window"});
  }
  if (id.time > std::max(now_, wanted_) + limits_.transaction_window) {
    refuse({Errc::invalid_argument, "from the future"});
  }
  if (id.lowest_unanswered > id.number || id.number == 0) {
    refuse({Errc::invalid_argument, "a number below the lowest unanswered one"});
  }
  return false;
}

void State::remember(const Transaction& transaction, const Receipt& receipt) {
  ClientState& client = clients_[transaction.id->client];
  if (client.latest + limits_.transaction_window <= now_) client.lowest_unanswered = 0;
  client.lowest_perhaps = std::max(client.lowest_perhaps, transaction.id->lowest_unanswered);
  client.lowest_unanswered = std::max(client.lowest_unanswered, transaction.id->lowest_unanswered);
  client.latest = std::max(client.latest, transaction.id->time);
  client.receipts[transaction.id->number] = {content(transaction), transaction.id->time, receipt};
  std::erase_if(client.receipts,
                [&](const auto& entry) { return entry.first < client.lowest_unanswered; });
}

}  // namespace strand::model
