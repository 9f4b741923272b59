#include "server_chaos/client.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace strand::server_chaos {

using namespace std::chrono_literals;

namespace {

constexpr auto repeat_for = 60s;
constexpr auto pause_before_repeat = 5ms;

// The server runs on this machine: its store's time is that of this clock when the store was
// opened, and passes as the steady one does. What a call did happened at this time or before.
Time store_time() {
  return std::chrono::ceil<Duration>(std::chrono::system_clock::now()) + Duration{5};
}

bool is_lost(const Error& error) {
  return error.code == Errc::unknown_outcome || error.code == Errc::unavailable;
}

}  // namespace

Client::Client(Store& store, std::string name, Manner manner, std::uint64_t client,
               std::atomic<std::uint64_t>& confirmed)
    : store_(&store), manner_(manner), client_(client), confirmed_(confirmed) {
  record_.client = std::move(name);
}

model::Call Client::call_since(Stamp begin) {
  return {.begin = begin, .end = std::chrono::steady_clock::now(), .store_time = store_time()};
}

void Client::complain(const char* what, const Error& error) {
  record_.wrong.push_back(fmt::format("{}: {} ({})", what, error.message, to_string(error.code)));
}

bool Client::may_repeat(const char* what, Stamp begin, const Error& error) {
  if (!is_lost(error) || manner_ == Manner::trusting ||
      std::chrono::steady_clock::now() - begin > repeat_for) {
    complain(what, error);
    return false;
  }
  std::this_thread::sleep_for(pause_before_repeat);
  return true;
}

template <class Ask>
auto Client::ask(const char* what, const Ask& ask) {
  const Stamp begin = std::chrono::steady_clock::now();
  for (bool first = true;; first = false) {
    auto answer = ask();
    if (answer || answer.error().code == Errc::lease_lost) {
      if (!first) ++record_.totals.repeated;
      return answer;
    }
    if (!may_repeat(what, begin, answer.error())) return answer;
  }
}

// --- Transactions ---

void Client::give_ids(std::vector<Transaction>& transactions) {
  // One call at a time, so all before it are answered.
  const std::uint64_t lowest = numbers_ + 1;
  for (Transaction& transaction : transactions) {
    transaction.id = TransactionId{.client = client_,
                                   .number = ++numbers_,
                                   .time = store_->now(),
                                   .lowest_unanswered = lowest};
  }
}

bool Client::apply(Transaction transaction) {
  return apply(std::vector<Transaction>{std::move(transaction)});
}

bool Client::apply(std::vector<Transaction> transactions) {
  if (manner_ == Manner::repeating) give_ids(transactions);
  const Stamp begin = std::chrono::steady_clock::now();
  Results results = store_->apply(std::span<const Transaction>(transactions));
  if (manner_ == Manner::repeating) {
    const auto lost = [](const Result<Receipt>& result) {
      return !result && is_lost(result.error());
    };
    bool again = false;
    while (std::ranges::any_of(results, lost)) {
      const Error error = std::ranges::find_if(results, lost)->error();
      if (!may_repeat("apply", begin, error)) return false;
      // Those that were answered get the same answer again.
      results = store_->apply(std::span<const Transaction>(transactions));
      again = true;
    }
    if (again) ++record_.totals.repeated;
  }
  const model::Call call = call_since(begin);
  for (std::size_t i = 0; i < results.size(); ++i)
    note(call, transactions[i], results[i]);
  note_together(results);
  return std::ranges::all_of(results,
                             [](const Result<Receipt>& result) { return result.has_value(); });
}

void Client::note(const model::Call& call, const Transaction& transaction,
                  const Result<Receipt>& result) {
  if (!result && is_lost(result.error()) && manner_ == Manner::doubting) {
    // Otherwise it said that nothing was done, and is taken at its word.
    if (result.error().code == Errc::unknown_outcome) {
      ++record_.totals.doubtful;
      record_.doubtful.push_back({.call = call, .transaction = transaction});
    }
    return;
  }
  if (!result && result.error().code != Errc::lease_lost) return complain("apply", result.error());
  record_.entries.emplace_back(
      model::Recorder::Applied{.call = call, .transaction = transaction, .answer = result});
  if (!result) {
    ++record_.totals.refused;
    return;
  }
  ++confirmed_;
  ++record_.totals.applied;
  record_.totals.sent += transaction.sends.size();
  for (const Settle& settle : transaction.settles)
    record_.totals.settled += settle.outcomes.size();
}

void Client::note_together(std::span<const Result<Receipt>> results) {
  if (results.size() < 2) return;
  Together together;
  for (const Result<Receipt>& result : results) {
    if (!result) return;
    for (const Sent& sent : result->sent)
      together.sent.push_back(sent.id);
  }
  record_.together.push_back(std::move(together));
}

// --- Leases ---

std::vector<Lease> Client::lease(LeaseRequest request) {
  if (manner_ != Manner::trusting) {
    request.request = RequestId{.client = client_, .number = ++requests_};
  }
  const Stamp begin = std::chrono::steady_clock::now();
  auto leases = ask("lease", [&] { return store_->lease(request); });
  if (!leases) return {};
  const model::Call call = call_since(begin);
  for (const Lease& lease : *leases) {
    ++confirmed_;
    ++record_.totals.leased;
    record_.entries.emplace_back(model::Recorder::Leased{.call = call, .lease = lease});
  }
  return *std::move(leases);
}

std::optional<Pulled> Client::pull(const Lease& lease, PullLimits limits) {
  const Stamp begin = std::chrono::steady_clock::now();
  auto pulled = ask("pull", [&] { return store_->pull(lease.token, lease.cursor, limits); });
  if (!pulled) return std::nullopt;
  ++record_.totals.pulled;
  record_.entries.emplace_back(model::Recorder::PulledMore{
      .call = call_since(begin), .token = lease.token, .messages = pulled->messages});
  return *std::move(pulled);
}

void Client::renew(const Lease& lease, Duration length) {
  const Stamp begin = std::chrono::steady_clock::now();
  const auto renewed = ask("renew", [&] {
    return std::move(store_->renew(std::span(&lease.token, 1), length).front());
  });
  if (!renewed) return;
  ++record_.totals.renewed;
  record_.entries.emplace_back(model::Recorder::Renewed{
      .call = call_since(begin), .token = lease.token, .expires_at = *renewed});
}

// --- Reads ---

std::optional<QueueStats> Client::stats(const std::string& queue) {
  const Stamp begin = std::chrono::steady_clock::now();
  auto stats = ask("stats", [&] { return store_->stats(queue); });
  if (!stats) return std::nullopt;
  record_.entries.emplace_back(
      model::Recorder::Counted{.call = call_since(begin), .queue = queue, .stats = *stats});
  return *stats;
}

void Client::wait(const std::string& queue, Duration at_most) {
  std::mutex mutex;
  std::condition_variable woken;
  bool rung = false;
  const Watch watch = store_->watch(WatchQueue{queue}, [&] {
    const std::lock_guard lock(mutex);
    rung = true;
    woken.notify_all();
  });
  std::unique_lock lock(mutex);
  if (woken.wait_for(lock, at_most, [&] { return rung; })) ++record_.totals.woken;
  lock.unlock();
}

}  // namespace strand::server_chaos
