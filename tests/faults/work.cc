#include "faults/work.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <optional>

#include <fmt/format.h>

namespace strand::faults {

using namespace std::chrono_literals;
using Fact = Ledger::Fact;

namespace {

constexpr std::size_t keys = 7;
constexpr std::size_t page = 1'000;

std::string message_place(std::uint64_t number) { return fmt::format("message {:08}", number); }

// Errors that are about the request, not about the disk.
bool explained(const Error& error) {
  return error.code == Errc::lease_lost || error.code == Errc::not_found ||
         error.code == Errc::message_not_leased;
}

}  // namespace

std::uint64_t number_in(std::string_view body) {
  return std::strtoull(std::string(body.substr(0, body.find(' '))).c_str(), nullptr, 10);
}

// The number, and then letters that follow from it and from the length.
bool intact(std::string_view body) {
  const std::uint64_t number = number_in(body);
  for (std::size_t i = body.find(' ') + 1; i < body.size(); ++i) {
    if (body[i] != static_cast<char>('a' + (number + i + body.size()) % 26)) return false;
  }
  return true;
}

// --- The ledger ---

void Ledger::confirmed(Durability durability) {
  tail_.push_back(std::exchange(intended_, {}));
  if (durability == Durability::async) return;
  for (const auto& facts : tail_) {
    for (const Fact& fact : facts)
      certain_[fact.place] = fact.value;
  }
  tail_.clear();
}

void Ledger::shown(std::string_view kind, std::uint64_t number) {
  std::uint64_t& last = last_[std::string(kind)];
  if (number <= last) {
    wrong_.push_back(fmt::format("{} {} was given out after {}", kind, number, last));
  }
  last = std::max(last, number);
}

std::vector<std::string> Ledger::compare(Store& store, bool lossy) {
  std::vector<std::string> wrong = std::exchange(wrong_, {});
  const State found = read(store, wrong);
  State state = certain_;
  const auto matches = [&] {
    std::erase_if(state, [](const auto& entry) { return entry.second.empty(); });
    return state == found;
  };
  bool fits = false;
  const std::size_t first = lossy ? 0 : tail_.size();
  if (!intended_.empty()) tail_.push_back(std::exchange(intended_, {}));
  for (std::size_t i = 0; i <= tail_.size() && !fits; ++i) {
    fits = i >= first && matches();
    if (i == tail_.size()) break;
    for (const Fact& fact : tail_[i])
      state[fact.place] = fact.value;
  }
  if (!fits) {
    wrong.push_back(
        fmt::format("the store shows what no client was told ({} calls not synced)", tail_.size()));
    for (const auto& [place, value] : certain_) {
      const auto entry = found.find(place);
      const std::string shows = entry == found.end() ? "" : entry->second;
      if (shows != value) {
        wrong.push_back(fmt::format("{}: \"{}\" was synced, \"{}\" is there", place, value, shows));
      }
    }
  }
  certain_ = found;
  tail_.clear();
  return wrong;
}

std::vector<std::string> Ledger::compare_numbers(Store& store) {
  Transaction transaction;
  Send& send = transaction.sends.emplace_back();
  send.queue = "numbers";
  send.key = "k";
  const auto sent = store.apply(transaction);
  LeaseRequest request;
  request.queue = "numbers";
  const auto leases = sent ? store.lease(request) : std::vector<Lease>{};
  if (!sent || !leases || leases->empty()) {
    return {fmt::format("the store does not serve: {}", !sent     ? sent.error().message
                                                        : !leases ? leases.error().message
                                                                  : "no lease")};
  }
  shown("id", static_cast<std::uint64_t>(sent->sent.front().id));
  shown("epoch", static_cast<std::uint64_t>(leases->front().token.epoch()));
  return std::exchange(wrong_, {});
}

Ledger::State Ledger::read(Store& store, std::vector<std::string>& wrong) const {
  State state;
  for (const std::string queue : {"in", "out"}) {
    read_queue(store, queue, state, wrong);
    read_dead(store, queue, state, wrong);
    const auto stats = store.stats(queue);
    if (!stats) {
      if (stats.error().code != Errc::not_found) wrong.push_back(stats.error().message);
      continue;
    }
    const std::uint64_t gone =
        stats->acked + stats->expired + stats->dropped + stats->moved + stats->purged + stats->dead;
    if (stats->accepted != gone + stats->live()) {
      wrong.push_back(fmt::format("queue {}: {} accepted, {} gone, {} live", queue, stats->accepted,
                                  gone, stats->live()));
    }
  }
  read_records(store, state, wrong);
  read_histories(store, state, wrong);
  return state;
}

void Ledger::read_queue(Store& store, const std::string& queue, State& state,
                        std::vector<std::string>& wrong) {
  std::map<std::string, std::uint64_t> last;
  PeekQuery query{.queue = queue, .limit = page};
  while (true) {
    const auto found = store.peek(query);
    if (!found) {
      if (found.error().code != Errc::not_found) wrong.push_back(found.error().message);
      return;
    }
    for (const PeekedMessage& message : found->items) {
      const std::uint64_t number = number_in(message.body);
      if (!intact(message.body)) wrong.push_back(fmt::format("body {} was changed", number));
      if (!state.emplace(message_place(number), queue).second) {
        wrong.push_back(fmt::format("message {} is there twice", number));
      }
      if (!message.key) continue;
      if (last[*message.key] >= number) {
        wrong.push_back(fmt::format("lane {} of {} shows {} behind {}", *message.key, queue, number,
                                    last[*message.key]));
      }
      last[*message.key] = number;
    }
    if (!found->more) return;
    query.after = found->items.back().id;
  }
}

void Ledger::read_dead(Store& store, const std::string& queue, State& state,
                       std::vector<std::string>& wrong) {
  const auto found = store.dead_letters({.queue = queue, .limit = page});
  if (!found) {
    if (found.error().code != Errc::not_found) wrong.push_back(found.error().message);
    return;
  }
  for (const DeadLetter& letter : found->items) {
    const std::uint64_t number = number_in(letter.body);
    if (!intact(letter.body)) wrong.push_back(fmt::format("dead body {} was changed", number));
    if (!state.emplace(message_place(number), "dead: " + letter.reason).second) {
      wrong.push_back(fmt::format("message {} is dead and there", number));
    }
  }
}

void Ledger::read_records(Store& store, State& state, std::vector<std::string>& wrong) {
  const auto found = store.records({.space = "moved", .limit = page});
  if (!found) return wrong.push_back(found.error().message);
  for (const Record& record : found->items)
    state.emplace("record " + record.key, record.value);
}

void Ledger::read_histories(Store& store, State& state, std::vector<std::string>& wrong) {
  const auto found = store.instances({.queue = "in", .limit = page});
  if (!found) {
    if (found.error().code != Errc::not_found) wrong.push_back(found.error().message);
    return;
  }
  for (const Execution& execution : found->items) {
    const auto history = store.history({.queue = "in", .key = execution.key});
    if (!history) {
      wrong.push_back(history.error().message);
      continue;
    }
    for (std::size_t i = 0; i < history->events.size(); ++i) {
      const std::uint64_t number = history->first + i;
      if (history->events[i] != fmt::format("{} {}", execution.key, number)) {
        wrong.push_back(fmt::format("event {} of {} was changed", number, execution.key));
      }
    }
    state.emplace("history " + execution.key,
                  fmt::format("{} to {}", history->first, history->first + history->events.size()));
  }
}

// --- The work ---

Work::Work(std::uint64_t seed, bool heavy, std::shared_ptr<ManualClock> clock, Ledger& ledger)
    : random_(seed), heavy_(heavy), clock_(std::move(clock)), ledger_(ledger) {}

Bytes Work::body(std::uint64_t number) {
  Bytes body = fmt::format("{} ", number);
  const std::uint64_t kind = random_() % 10;
  std::size_t size = body.size();
  if (kind >= 6) size += random_() % 3'000;
  if (kind == 9) size += random_() % (heavy_ ? 700'000 : 20'000);
  const std::size_t begin = body.size();
  body.resize(size);
  for (std::size_t i = begin; i < size; ++i)
    body[i] = static_cast<char>('a' + (number + i + size) % 26);
  return body;
}

Result<void> Work::step(Store& store) {
  const std::uint64_t what = random_() % 100;
  if (what < 45 || (held_.empty() && what < 55)) return send(store);
  if (what < 70 || held_.empty()) return lease(store);
  if (what < 95) return settle(store);
  return let_time_pass(store);
}

Result<void> Work::commit(Store& store, Transaction& transaction, std::vector<Fact> facts) {
  transaction.durability = random_() % 4 == 0 ? Durability::async : Durability::sync;
  ledger_.intend(std::move(facts));
  const auto done = store.apply(transaction);
  if (done) {
    ledger_.confirmed(transaction.durability);
    for (const Sent& sent : done->sent)
      ledger_.shown("id", static_cast<std::uint64_t>(sent.id));
    return {};
  }
  if (done.error().code != Errc::unknown_outcome) ledger_.refused();
  if (explained(done.error())) return {};
  return std::unexpected(done.error());
}

Result<void> Work::send(Store& store) {
  Transaction transaction;
  std::vector<Fact> facts;
  const std::uint64_t count = 1 + random_() % 4;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t number = ++last_number_;
    Send& send = transaction.sends.emplace_back();
    send.queue = "in";
    if (random_() % 6 != 0) send.key = fmt::format("key-{}", random_() % keys);
    if (random_() % 8 == 0) send.dedup_id = fmt::format("d-{}", number);
    if (random_() % 8 == 0) send.delay = 2s;
    // Within a lane, order is by due time first.
    if (send.key) send.delay = 0s;
    send.body = body(number);
    facts.push_back({message_place(number), "in"});
  }
  return commit(store, transaction, std::move(facts));
}

Result<void> Work::lease(Store& store) {
  LeaseRequest request;
  request.queue = random_() % 3 == 0 ? "out" : "in";
  request.lanes = 1 + random_() % 2;
  request.messages = 1 + random_() % 5;
  request.lease = 30s;
  request.history_from = 0;
  auto leases = store.lease(request);
  if (!leases) {
    if (explained(leases.error())) return {};
    return std::unexpected(std::move(leases).error());
  }
  for (Lease& lease : *leases) {
    ledger_.shown("epoch", static_cast<std::uint64_t>(lease.token.epoch()));
    held_.push_back(std::move(lease));
  }
  return {};
}

Result<void> Work::settle(Store& store) {
  const auto chosen = held_.begin() + static_cast<std::ptrdiff_t>(random_() % held_.size());
  const Lease lease = std::move(*chosen);
  held_.erase(chosen);
  Transaction transaction;
  std::vector<Fact> facts;
  Settle& settle = transaction.settles.emplace_back();
  settle.token = lease.token;
  const std::uint64_t what = random_() % 10;
  for (const Message& message : lease.messages) {
    Outcome outcome{.id = message.id};
    if (what == 0) {
      outcome = {.id = message.id, .kind = Outcome::Kind::retry, .delay = 1s, .reason = "no luck"};
    } else if (what == 1) {
      outcome = {.id = message.id, .kind = Outcome::Kind::dead, .reason = "bad"};
      facts.push_back({message_place(number_in(message.body)), "dead: bad"});
    } else if (what == 2) {
      outcome.kind = Outcome::Kind::release;
    } else {
      facts.push_back({message_place(number_in(message.body)), ""});
    }
    settle.outcomes.push_back(std::move(outcome));
  }
  if (what > 2 && lease.queue == "in") move_on(lease, transaction, facts);
  if (what > 5 && lease.queue == "in" && lease.key) add_history(lease, transaction, facts);
  return commit(store, transaction, std::move(facts));
}

void Work::move_on(const Lease& lease, Transaction& transaction, std::vector<Fact>& facts) {
  facts.clear();
  for (const Message& message : lease.messages) {
    Send& send = transaction.sends.emplace_back();
    send.queue = "out";
    send.key = lease.key;
    send.body = message.body;
    facts.push_back({message_place(number_in(message.body)), "out"});
  }
  WriteRecord& record = transaction.records.emplace_back();
  record.space = "moved";
  record.key = lease.key.value_or("none");
  record.value = std::to_string(number_in(lease.messages.back().body));
  facts.push_back({"record " + record.key, *record.value});
}

void Work::add_history(const Lease& lease, Transaction& transaction, std::vector<Fact>& facts) {
  const std::uint64_t length = lease.history ? lease.history->execution.length : 0;
  std::uint64_t first = lease.history ? lease.history->execution.first : 0;
  Append& append = transaction.appends.emplace_back();
  append.token = lease.token;
  append.expected_length = length;
  append.events.push_back(fmt::format("{} {}", *lease.key, length));
  if (random_() % 3 == 0) {
    first += random_() % (length + 2 - first);
    transaction.trim_histories.push_back({.token = lease.token, .execution = 1, .before = first});
  }
  facts.push_back({"history " + *lease.key, fmt::format("{} to {}", first, length + 1)});
}

Result<void> Work::let_time_pass(Store& store) {
  clock_->advance(random_() % 8 == 0 ? 40s : 1500ms);
  // Seen to by this call, so that the timer of the store finds nothing left to do.
  const auto stats = store.stats("in");
  if (!stats && !explained(stats.error())) return std::unexpected(stats.error());
  return {};
}

}  // namespace strand::faults
