#include "postgres_faults/journaled_store.h"

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace strand::postgres_faults {

using namespace std::chrono_literals;

namespace {

constexpr auto patience = 60s;
constexpr auto pause = 5ms;

bool settles_the_matter(const Error& error) {
  return error.code != Errc::unknown_outcome && error.code != Errc::unavailable &&
         error.code != Errc::io_error;
}

Stamp stamp() { return std::chrono::steady_clock::now(); }

// The database runs on this machine, so its clock is this one: what a call did happened at this
// time or before. It counts in milliseconds and rounds them.
Time store_time() {
  return std::chrono::ceil<Duration>(std::chrono::system_clock::now()) + Duration{1};
}

model::Call call_since(Stamp begin) {
  return {.begin = begin, .end = stamp(), .store_time = store_time()};
}

void wait_or_give_up(Stamp begin, const Error& error) {
  if (stamp() - begin > patience) {
    fmt::print(stderr, "no answer for a minute: {}\n", error.message);
    std::fflush(stderr);
    std::_Exit(9);
  }
  std::this_thread::sleep_for(pause);
}

}  // namespace

template <class Ask>
auto JournaledStore::until_answered(const Ask& ask) {
  for (const Stamp begin = stamp();;) {
    auto answer = ask();
    if (answer || settles_the_matter(answer.error())) return answer;
    journal_.write(Troubled{.code = answer.error().code});
    wait_or_give_up(begin, answer.error());
  }
}

void JournaledStore::give_id(Transaction& transaction) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = ++numbers_;
  unanswered_.insert(number);
  transaction.id = TransactionId{.client = client_,
                                 .number = number,
                                 .time = behind().now(),
                                 .lowest_unanswered = *unanswered_.begin()};
}

void JournaledStore::forget(const Transaction& transaction) {
  const std::lock_guard lock(mutex_);
  unanswered_.erase(transaction.id->number);
}

std::vector<Result<Receipt>> JournaledStore::apply(std::span<const Transaction> transactions) {
  std::vector<Transaction> mine(transactions.begin(), transactions.end());
  std::vector<Entry> intents;
  const Stamp begin = stamp();
  for (Transaction& transaction : mine) {
    give_id(transaction);
    intents.emplace_back(Intended{.begin = begin, .transaction = transaction});
  }
  journal_.write(intents);
  auto results = apply_until_answered(mine);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (results[i] && mine[i].id->number % repeat_every == 0) repeat(mine[i]);
    forget(mine[i]);
  }
  return results;
}

std::vector<Result<Receipt>> JournaledStore::apply_until_answered(
    std::vector<Transaction> transactions) {
  std::vector<Result<Receipt>> results(transactions.size());
  std::vector<std::size_t> places(transactions.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    places[i] = i;
  for (const Stamp begin = stamp(); !transactions.empty();) {
    auto answers = behind().apply(transactions);
    std::vector<Transaction> again;
    std::vector<std::size_t> again_places;
    std::vector<Entry> entries;
    Error trouble;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (!answers[i] && !settles_the_matter(answers[i].error())) {
        trouble = answers[i].error();
        entries.emplace_back(Troubled{.code = trouble.code});
        again.push_back(std::move(transactions[i]));
        again_places.push_back(places[i]);
        continue;
      }
      const TransactionId& id = *transactions[i].id;
      entries.emplace_back(Answered{.key = {id.client, id.number},
                                    .end = stamp(),
                                    .store_time = store_time(),
                                    .answer = answers[i]});
      results[places[i]] = std::move(answers[i]);
    }
    journal_.write(entries);
    transactions = std::move(again);
    places = std::move(again_places);
    if (!transactions.empty()) wait_or_give_up(begin, trouble);
  }
  return results;
}

void JournaledStore::repeat(const Transaction& transaction) {
  static_cast<void>(apply_until_answered({transaction}));
}

void JournaledStore::catch_up(std::span<const Transaction> transactions) {
  for (const Transaction& transaction : transactions)
    repeat(transaction);
  journal_.write(CaughtUp{.transactions = transactions.size()});
}

Result<std::vector<Lease>> JournaledStore::lease(const LeaseRequest& request) {
  LeaseRequest mine = request;
  mine.request = RequestId{.client = client_, .number = ++requests_};
  const Stamp begin = stamp();
  auto leases = until_answered([&] { return behind().lease(mine); });
  if (!leases) return leases;
  std::vector<Entry> entries;
  for (const Lease& lease : *leases)
    entries.emplace_back(model::Recorder::Leased{.call = call_since(begin), .lease = lease});
  if (!entries.empty()) journal_.write(entries);
  return leases;
}

Result<Pulled> JournaledStore::pull(const Token& token, Cursor cursor, PullLimits limits) {
  const Stamp begin = stamp();
  auto pulled = until_answered([&] { return behind().pull(token, cursor, limits); });
  if (pulled) {
    journal_.write(model::Recorder::PulledMore{
        .call = call_since(begin), .token = token, .messages = pulled->messages});
  }
  return pulled;
}

std::vector<Result<Time>> JournaledStore::renew(std::span<const Token> tokens, Duration lease) {
  const Stamp begin = stamp();
  auto results = behind().renew(tokens, lease);
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) continue;
    entries.emplace_back(model::Recorder::Renewed{
        .call = call_since(begin), .token = tokens[i], .expires_at = *results[i]});
  }
  if (!entries.empty()) journal_.write(entries);
  return results;
}

Result<QueueStats> JournaledStore::stats(std::string_view queue) {
  const Stamp begin = stamp();
  auto stats = until_answered([&] { return behind().stats(queue); });
  if (stats) {
    journal_.write(model::Recorder::Counted{
        .call = call_since(begin), .queue = std::string(queue), .stats = *stats});
  }
  return stats;
}

}  // namespace strand::postgres_faults
