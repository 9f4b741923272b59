#include "differential/lockstep.h"

#include <sstream>
#include <tuple>
#include <utility>

#include "differential/reasons.h"
#include "model/text.h"

namespace strand::differential {
namespace {

using model::quote;
using model::text;

// Answers for which the model has no text of its own.

template <class T>
std::string shown(const T& answer) {
  return text(answer);
}
std::string shown(const PulledFor& answer) { return text(answer.pulled); }
std::string shown(const std::optional<Record>& record) { return record ? text(*record) : "none"; }
template <class T>
std::string shown(const std::vector<T>& items) {
  std::string out = "[";
  for (const T& item : items)
    out += "\n    " + text(item);
  return out + "]";
}
template <class T>
std::string shown(const Result<T>& result) {
  return result ? shown(*result) : text(result.error());
}

std::string page_of(std::size_t limit) { return " limit=" + std::to_string(limit); }
std::string number(std::uint64_t value) { return std::to_string(value); }

// Of answers with many lines, the one to look at.
std::string first_difference(const std::string& reference, const std::string& other) {
  std::istringstream left{reference};
  std::istringstream right{other};
  std::string one;
  std::string two;
  for (std::size_t lines = 1;; ++lines) {
    const bool has_one = static_cast<bool>(std::getline(left, one));
    const bool has_two = static_cast<bool>(std::getline(right, two));
    if (!has_one && !has_two) return "\nonly in what the texts do not show";
    if (has_one && has_two && one == two) continue;
    if (lines == 1) return "";
    return "\nfirst different line:\n  reference: " + (has_one ? one : "(no more)") +
           "\n  other:     " + (has_two ? two : "(no more)");
  }
}

constexpr auto never = [](Errc, Errc) { return false; };

}  // namespace

Lockstep::Lockstep(Openers openers, const Limits& limits, bool traced)
    : openers_(std::move(openers)), clock_(std::make_shared<ManualClock>()), traced_(traced) {
  options_.clock = clock_;
  options_.limits = limits;
  options_.cache_bytes = std::size_t{4} << 20U;  // little is stored, and buffers take time to make
  open();
}

void Lockstep::open() {
  reference_ = openers_.reference(options_);
  other_ = openers_.other(options_);
}

void Lockstep::reopen() {
  // What is due happens before: otherwise it would depend on the threads of the stores whether a
  // lease has run out by now, or is open still and gets its grace.
  std::ignore = queues();
  if (traced_) trace_.emplace_back("reopen");
  reference_.reset();
  other_.reset();
  try {
    open();
  } catch (const std::runtime_error& error) {
    throw Difference(std::string("a store that was closed does not open again: ") + error.what());
  }
  ++coverage_["reopen"];
}

void Lockstep::heading(const std::string& text) {
  if (traced_) trace_.push_back(text);
}

// --- Comparing ---

template <class T, class Call, class Accept>
void Lockstep::compare(const char* what, const Call& call, const Result<T>& reference,
                       const Result<T>& other, const Accept& accept) {
  ++coverage_[std::string(what) + (reference ? " ok" : " " + text(reference.error().code))];
  if (traced_) trace_.push_back(std::string(what) + " " + call() + " -> " + shown(reference));

  Result<T> renamed = other;
  bool equal = reference.has_value() == other.has_value();
  if (equal && reference) {
    renaming_.learn(*reference, *other);
    renamed = renaming_.to_reference(*other);
    equal = *renamed == *reference;
  } else if (equal && reference.error().code != other.error().code) {
    equal = accept(reference.error().code, other.error().code);
    if (equal) ++coverage_["another reason accepted"];
  }
  if (equal) return;
  const std::string expected = shown(reference);
  const std::string got = shown(renamed);
  std::string message = "the stores differ in the answer to\n  " + std::string(what) + " " +
                        call() + "\nreference: " + expected + "\nother:     " + got;
  if (other) message += "\n  in its own names: " + shown(other);
  message += first_difference(expected, got);
  throw Difference(message);
}

template <class T, class Call>
Result<T> Lockstep::same(const char* what, const Call& call, Result<T> reference,
                         const Result<T>& other) {
  compare(what, call, reference, other, never);
  return reference;
}

void Lockstep::check_epochs(const std::vector<Lease>& leases, std::set<Epoch>& seen,
                            const char* whose) {
  for (const Lease& lease : leases) {
    const Epoch epoch = lease.token.epoch();
    // A repeated request brings known leases.
    if (seen.contains(epoch)) continue;
    if (!seen.empty() && epoch < *seen.rbegin()) {
      throw Difference(std::string("the lease ") + text(lease) + " of the " + whose +
                       " store has a lower epoch than one before it, e" +
                       number(static_cast<std::uint64_t>(*seen.rbegin())));
    }
    seen.insert(epoch);
  }
}

// --- Calls that change something ---

std::vector<Result<Receipt>> Lockstep::apply(const std::vector<Transaction>& transactions) {
  std::vector<Transaction> renamed;
  for (const Transaction& transaction : transactions)
    renamed.push_back(renaming_.to_other(transaction));
  std::vector<Result<Receipt>> reference = reference_->apply(std::span(transactions));
  const std::vector<Result<Receipt>> other = other_->apply(std::span(renamed));
  if (other.size() != reference.size()) {
    throw Difference("the stores give " + number(reference.size()) + " and " +
                     number(other.size()) + " results to one call of apply");
  }
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const auto call = [&] {
      const std::string place = transactions.size() == 1 ? ""
                                                         : "(" + number(i + 1) + " of " +
                                                               number(transactions.size()) + ") ";
      return place + text(transactions[i]);
    };
    compare("apply", call, reference[i], other[i],
            [&](Errc one, Errc two) { return either_may_be_named(transactions[i], one, two); });
  }
  return reference;
}

Result<Receipt> Lockstep::apply(const Transaction& transaction) {
  return apply(std::vector{transaction}).at(0);
}

Result<std::vector<Lease>> Lockstep::lease(const LeaseRequest& request) {
  Result<std::vector<Lease>> reference = reference_->lease(request);
  const Result<std::vector<Lease>> other = other_->lease(request);
  const auto call = [&] { return text(request); };
  compare("lease", call, reference, other, never);
  if (reference) {
    check_epochs(*reference, reference_epochs_, "reference");
    check_epochs(*other, other_epochs_, "other");
  }
  return reference;
}

Result<Pulled> Lockstep::pull(const Token& token, Cursor cursor, PullLimits limits) {
  const auto with = [](const Token& used, Result<Pulled> pulled) -> Result<PulledFor> {
    if (!pulled) return std::unexpected(pulled.error());
    return PulledFor{.token = used, .pulled = std::move(*pulled)};
  };
  Result<Pulled> reference = reference_->pull(token, cursor, limits);
  const Token renamed = renaming_.to_other(token);
  const Result<Pulled> other = other_->pull(renamed, renaming_.to_other(token, cursor), limits);
  const auto call = [&] {
    return text(token) + " cursor=" + number(static_cast<std::uint64_t>(cursor)) +
           " messages=" + number(limits.messages) + " bytes=" + number(limits.bytes);
  };
  compare("pull", call, with(token, reference), with(renamed, other), never);
  return reference;
}

std::vector<Result<Time>> Lockstep::renew(const std::vector<Token>& tokens, Duration lease) {
  std::vector<Token> renamed;
  for (const Token& token : tokens)
    renamed.push_back(renaming_.to_other(token));
  std::vector<Result<Time>> reference = reference_->renew(tokens, lease);
  const std::vector<Result<Time>> other = other_->renew(renamed, lease);
  if (other.size() != reference.size()) {
    throw Difference("the stores give " + number(reference.size()) + " and " +
                     number(other.size()) + " results to one call of renew");
  }
  for (std::size_t i = 0; i < reference.size(); ++i) {
    compare(
        "renew", [&] { return text(tokens[i]) + " " + text(lease); }, reference[i], other[i],
        never);
  }
  return reference;
}

// --- Reads ---

Result<History> Lockstep::history(const HistoryQuery& query) {
  const auto call = [&] {
    return quote(query.queue) + "/" + quote(query.key) + " execution=" + number(query.execution) +
           " from=" + number(query.from) + page_of(query.limit);
  };
  return same("history", call, reference_->history(query), other_->history(query));
}

Result<Page<Execution>> Lockstep::instances(const InstancesQuery& query) {
  const auto call = [&] {
    const std::string open = query.open ? (*query.open ? " open" : " closed") : "";
    return quote(query.queue) + open + " after=" + quote(query.after) + page_of(query.limit);
  };
  return same("instances", call, reference_->instances(query), other_->instances(query));
}

Result<std::optional<Record>> Lockstep::record(const std::string& space, const std::string& key) {
  return same(
      "record", [&] { return quote(space) + "/" + quote(key); }, reference_->record(space, key),
      other_->record(space, key));
}

Result<Page<Record>> Lockstep::records(const RecordsQuery& query) {
  const auto call = [&] {
    return quote(query.space) + " prefix=" + quote(query.prefix) + " after=" + quote(query.after) +
           page_of(query.limit);
  };
  return same("records", call, reference_->records(query), other_->records(query));
}

Result<Page<PeekedMessage>> Lockstep::peek(const PeekQuery& query) {
  const auto call = [&] {
    return quote(query.queue) + (query.key ? " key=" + quote(*query.key) : "") +
           (query.state ? " " + text(*query.state) : "") +
           (query.after ? " after=" + text(*query.after) : "") + page_of(query.limit);
  };
  return same("peek", call, reference_->peek(query), other_->peek(renaming_.to_other(query)));
}

Result<Page<DeadLetter>> Lockstep::dead_letters(const DeadLettersQuery& query) {
  const auto call = [&] {
    return quote(query.queue) + (query.after ? " after=" + text(*query.after) : "") +
           page_of(query.limit);
  };
  return same("dead_letters", call, reference_->dead_letters(query),
              other_->dead_letters(renaming_.to_other(query)));
}

Result<QueueStats> Lockstep::stats(const std::string& queue) {
  return same(
      "stats", [&] { return quote(queue); }, reference_->stats(queue), other_->stats(queue));
}

Result<std::vector<QueueInfo>> Lockstep::queues() {
  return same("queues", [] { return ""; }, reference_->queues(), other_->queues());
}

Result<std::vector<Subscription>> Lockstep::subscriptions() {
  return same(
      "subscriptions", [] { return ""; }, reference_->subscriptions(), other_->subscriptions());
}

Result<std::vector<Topic>> Lockstep::topics() {
  return same("topics", [] { return ""; }, reference_->topics(), other_->topics());
}

// --- Time ---

Time Lockstep::now() {
  const Time time = reference_->now();
  if (const Time other = other_->now(); other != time) {
    throw Difference("the stores differ in their time: " + text(time) + " and " + text(other));
  }
  return time;
}

void Lockstep::advance(Duration step) {
  clock_->advance(step);
  if (traced_) trace_.push_back("advance by " + text(step) + " to " + text(clock_->wall()));
  static_cast<void>(now());
}

void Lockstep::advance_to(Time time) {
  const Time present = now();
  advance(time > present ? time - present : Duration{0});
}

}  // namespace strand::differential
