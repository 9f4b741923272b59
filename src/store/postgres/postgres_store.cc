#include "store/postgres/postgres_store.h"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/planted.h"
#include "pq/backoff.h"
#include "store/contract/check.h"
#include "store/postgres/requests.h"
#include "store/postgres/upkeep.h"

namespace strand::postgres {

namespace {

using namespace std::chrono_literals;

// How long a call waits for a connection before it is `unavailable`.
constexpr Duration patience = 30s;
// Deadlocks are rare and short: this many in a row are something else.
constexpr int attempts_max = 20;
// Things that are due and are applied in front of a call. The rest is left to the upkeep.
constexpr std::int32_t slice = 1000;

// From taking its turn to its commit, a message is on its way for as long as this, at most. One
// that takes longer is found when everything is looked at.
constexpr auto on_its_way_max = 1s;
// The same for something that will be due.
constexpr Duration due_lag = 5s;
constexpr auto look_at_all_every = 15s;

std::uint64_t random_word() {
  std::random_device device;
  return std::uint64_t{device()} << 32U | device();
}

}  // namespace

Result<std::unique_ptr<Store>> PostgresStore::open(const Location& location, OpenOptions options) {
  auto connection = Connection::open(location.conninfo);
  if (!connection) return std::unexpected(connection.error());
  if (auto checked = check_server(**connection, location); !checked) {
    return std::unexpected(checked.error());
  }
  // The clock of this machine is no better than the database's, which all others use.
  if (options.clock && !options.clock->manual()) options.clock.reset();
  const bool own_clock = options.clock != nullptr;
  if (location.migrate && options.create) {
    const Identity fresh{.store = random_word(), .secret = {random_word(), random_word()}};
    if (auto done = migrate(**connection, location, own_clock, fresh); !done) {
      return std::unexpected(done.error());
    }
  }
  const auto info = read_store(**connection, location);
  if (!info) return std::unexpected(info.error());
  if (info->own_clock != own_clock) {
    return failure(Errc::invalid_argument,
                   own_clock ? fmt::format("the store in schema {} takes its time from the "
                                           "database: it cannot be opened with another clock",
                                           location.schema)
                             : fmt::format("the store in schema {} was made with a clock of its "
                                           "own, as tests do: use another schema",
                                           location.schema));
  }
  std::unique_ptr<PostgresStore> store(new PostgresStore(location, std::move(options), *info));
  store->upkeep_ = std::make_unique<Upkeep>(*store, location);
  if (auto started = store->upkeep_->start(); !started) return std::unexpected(started.error());
  if (!own_clock) {
    const auto time = store->ask({.sql = "select now_ms()"}, "asking for the time");
    if (!time) return std::unexpected(time.error());
    const auto here = std::chrono::floor<Duration>(std::chrono::system_clock::now());
    store->ahead_ms_ = time->int8(0, 0) - milliseconds(here);
  }
  return store;
}

PostgresStore::PostgresStore(const Location& location, OpenOptions options, const StoreInfo& info)
    : limits_(options.limits),
      clock_(std::move(options.clock)),
      identity_(info.identity),
      pool_(location.conninfo, location.connections_max, session_script(location)) {
  if (!clock_) return;
  opened_at_ = std::max(time_at(info.time), clock_->wall());
  opened_at_monotonic_ = clock_->monotonic();
}

PostgresStore::~PostgresStore() {
  upkeep_.reset();
  pool_.close();
}

Time PostgresStore::now() {
  if (clock_) return opened_at_ + (clock_->monotonic() - opened_at_monotonic_);
  return std::chrono::floor<Duration>(std::chrono::system_clock::now()) + Duration{ahead_ms_};
}

Watch PostgresStore::watch(WatchTarget target, std::function<void()> callback) {
  return watches_.add(std::move(target), std::move(callback));
}

// --- Calls of the database ---

void PostgresStore::tell_time(Group& group) {
  if (!clock_) return;
  Statement statement{.sql = "select begin_at($1)"};
  statement.params.int8(milliseconds(now()));
  group.insert(group.begin(), std::move(statement));
}

// Where to begin to look for what is due.
std::int64_t PostgresStore::due_from() {
  if (clock_) return 0;
  const std::lock_guard lock(due_mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - due_whole_at_ < look_at_all_every) return due_from_ms_;
  due_whole_at_ = now;
  return 0;
}

// Everything up to then was done, but for what is on its way in transactions that began before.
void PostgresStore::note_caught_up(const GroupResult& done) {
  if (clock_ || !done) return;
  const auto until = done->back().maybe_int8(0, 0);
  if (!until) return;
  const std::lock_guard lock(due_mutex_);
  due_from_ms_ = std::max(due_from_ms_, *until - due_lag.count());
}

Group PostgresStore::catch_up(std::int64_t from) {
  Group group;
  Statement statement{.sql = "select catch_up($1, $2, $3)"};
  statement.params.int8(from).int4(slice).int4(
      static_cast<std::int32_t>(limits_.failures_kept_max));
  group.push_back(std::move(statement));
  tell_time(group);
  return group;
}

// With a clock of our own, all that is due must have happened before anything else does.
void PostgresStore::catch_up_wholly(Connection& connection) {
  while (true) {
    const GroupResult done = connection.run(catch_up(due_from()));
    if (!done || !done->back().is_null(0, 0)) return;
  }
}

std::vector<GroupResult> PostgresStore::run(std::vector<Group> groups) {
  const std::size_t count = groups.size();
  std::vector<GroupResult> results;
  results.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    results.emplace_back(
        std::unexpected(Failure{.kind = Failure::Kind::not_sent, .message = "it was not tried"}));
  }
  std::vector<std::size_t> waiting(count);
  for (std::size_t i = 0; i < count; ++i)
    waiting[i] = i;
  // Two that met in a deadlock must not meet again.
  Backoff backoff;
  for (int attempt = 0; !waiting.empty() && attempt < attempts_max; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(backoff.next());
    auto connection = pool_.acquire(patience);
    if (!connection) {
      for (const std::size_t i : waiting) {
        results[i] = std::unexpected(
            Failure{.kind = Failure::Kind::not_sent, .message = connection.error().message});
      }
      return results;
    }
    // The time is told anew with each attempt, behind what is due by then.
    if (clock_) catch_up_wholly(**connection);
    std::vector<Group> sent = {catch_up(due_from())};
    for (const std::size_t i : waiting) {
      sent.push_back(std::move(groups[i]));
      tell_time(sent.back());
    }
    auto answers = (*connection)->run(sent);
    note_caught_up(answers.front());
    std::vector<std::size_t> again;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      GroupResult& answer = answers[i + 1];
      const bool repeat = !answer && (answer.error().repeatable() ||
                                      answer.error().kind == Failure::Kind::not_sent);
      results[waiting[i]] = std::move(answer);
      if (!repeat) continue;
      Group& group = groups[waiting[i]];
      group = std::move(sent[i + 1]);
      if (clock_) group.erase(group.begin());
      again.push_back(waiting[i]);
    }
    waiting = std::move(again);
  }
  return results;
}

Result<std::vector<Rows>> PostgresStore::run(Group group, std::string_view what) {
  const bool told = clock_ != nullptr;
  std::vector<Group> groups;
  groups.push_back(std::move(group));
  auto results = run(std::move(groups));
  if (!results.front()) return std::unexpected(error_of(results.front().error(), what));
  auto rows = std::move(*results.front());
  if (told) rows.erase(rows.begin());
  return rows;
}

Result<Rows> PostgresStore::ask(Statement statement, std::string_view what) {
  Group group;
  group.push_back(std::move(statement));
  auto rows = run(std::move(group), what);
  if (!rows) return std::unexpected(rows.error());
  return std::move(rows->front());
}

// --- Transactions ---

// Adding up all messages with each send would cost too much: the upkeep does it now and then, and
// near the limit, or if that is small, each send does.
bool PostgresStore::nearly_full() const {
  constexpr std::size_t small = std::size_t{64} << 20U;
  return limits_.memory_bytes_max < small ||
         static_cast<std::uint64_t>(taken_bytes_) > limits_.memory_bytes_max / 8 * 7;
}

Result<void> PostgresStore::check_tokens(const Transaction& transaction) const {
  for (const RemoveHistory& removal : transaction.remove_histories) {
    if (auto checked = check_seal(identity_, removal.token); !checked) return checked;
  }
  for (const Append& append : transaction.appends) {
    if (auto checked = check_seal(identity_, append.token); !checked) return checked;
  }
  for (const TrimHistory& trim : transaction.trim_histories) {
    if (auto checked = check_seal(identity_, trim.token); !checked) return checked;
  }
  for (const Settle& settle : transaction.settles) {
    if (auto checked = check_seal(identity_, settle.token); !checked) return checked;
  }
  return {};
}

// What is known of a transaction's id goes before all that is wrong with the transaction.
Result<Receipt> PostgresStore::refuse(const Transaction& transaction, Error error,
                                      std::initializer_list<std::string_view> stronger) {
  if (!transaction.id) return std::unexpected(std::move(error));
  std::vector<Group> groups(1);
  groups.front().push_back(begin_statement(transaction, limits_));
  groups.front().push_back(Statement{.sql = "select refuse('STARG', 'malformed')"});
  const auto answers = run(std::move(groups));
  const Failure& refusal = answers.front().error();
  const bool of_id = refusal.kind == Failure::Kind::refused &&
                     std::ranges::find(stronger, refusal.sqlstate) != stronger.end();
  return std::unexpected(of_id ? error_of(refusal, "the transaction") : std::move(error));
}

std::vector<Result<Receipt>> PostgresStore::apply(std::span<const Transaction> transactions) {
  std::vector<Result<Receipt>> results(transactions.size());
  std::vector<const Transaction*> good;
  std::vector<Result<Receipt>*> answers;
  for (std::size_t i = 0; i < transactions.size(); ++i) {
    if (auto checked = check_transaction(transactions[i], limits_); !checked) {
      results[i] = refuse(transactions[i], std::move(checked).error(), {"STCON"});
      continue;
    }
    if (auto checked = check_tokens(transactions[i]); !checked) {
      results[i] = refuse(transactions[i], std::move(checked).error(), {"STCON", "STEXP"});
      continue;
    }
    good.push_back(&transactions[i]);
    answers.push_back(&results[i]);
  }
  if (good.empty()) return results;
  // Together they cost one commit. Mostly that works; else each is on its own.
  if (good.size() == 1 || !apply_together(good, answers)) apply_each(good, answers);
  for (std::size_t i = 0; i < good.size(); ++i) {
    if (!*answers[i]) continue;
    forget_removed(*good[i]);
    wake_settled(*good[i]);
  }
  return results;
}

// A queue that comes again under the name of a removed one has a line of its own.
void PostgresStore::forget_removed(const Transaction& transaction) {
  if (!transaction.admin) return;
  const auto* removed = std::get_if<RemoveQueue>(&*transaction.admin);
  if (removed == nullptr) return;
  const std::lock_guard lock(lines_mutex_);
  lines_.erase(removed->queue);
}

// Who settles a lease is mostly its holder, so others are not notified of its end; they look now
// and then.
void PostgresStore::wake_settled(const Transaction& transaction) {
  store::Wakes wakes;
  for (const Settle& settle : transaction.settles) {
    if (settle.then != Settle::Then::keep) wakes.lanes.push_back(settle.token.epoch());
  }
  if (!wakes.lanes.empty()) watches_.wake(wakes);
}

namespace {

void add_durability(Group& group, bool async) {
  if (!async) return;
  group.push_back(Statement{.sql = "select set_config('synchronous_commit', 'off', true)"});
}

}  // namespace

bool PostgresStore::apply_together(std::span<const Transaction* const> transactions,
                                   std::vector<Result<Receipt>*>& results) {
  Group group;
  const bool async = std::ranges::all_of(transactions, [](const Transaction* transaction) {
    return transaction->durability == Durability::async;
  });
  add_durability(group, async);
  // In one order for all of them: each would lock its own, and others the same the other way round.
  group.push_back(lock_lanes(transactions));
  std::vector<TransactionPlan> plans;
  std::vector<std::size_t> begins;
  for (const Transaction* transaction : transactions) {
    TransactionPlan made = plan(*transaction, limits_, nearly_full());
    begins.push_back(group.size() + (clock_ ? 1 : 0));
    for (Statement& statement : made.statements)
      group.push_back(std::move(statement));
    plans.push_back(std::move(made));
  }
  std::vector<Group> groups;
  groups.push_back(std::move(group));
  const auto answers = run(std::move(groups));
  const GroupResult& answer = answers.front();
  if (!answer) {
    if (answer.error().kind == Failure::Kind::refused) return false;
    for (Result<Receipt>* result : results)
      *result = std::unexpected(error_of(answer.error(), "the transaction"));
    return true;
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    *results[i] = read_receipt(plans[i], std::span(*answer).subspan(begins[i]));
  }
  return true;
}

void PostgresStore::apply_each(std::span<const Transaction* const> transactions,
                               std::vector<Result<Receipt>*>& results) {
  std::vector<Group> groups;
  std::vector<TransactionPlan> plans;
  std::vector<std::size_t> begins;
  for (const Transaction* transaction : transactions) {
    Group group;
    add_durability(group, transaction->durability == Durability::async);
    begins.push_back(group.size() + (clock_ ? 1 : 0));
    TransactionPlan made = plan(*transaction, limits_, nearly_full());
    for (Statement& statement : made.statements)
      group.push_back(std::move(statement));
    groups.push_back(std::move(group));
    plans.push_back(std::move(made));
  }
  const auto answers = run(std::move(groups));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (answers[i]) {
      *results[i] = read_receipt(plans[i], std::span(*answers[i]).subspan(begins[i]));
    } else if (was_applied(answers[i].error())) {
      *results[i] = stored_receipt(*transactions[i]->id);
    } else {
      *results[i] = std::unexpected(error_of(answers[i].error(), "the transaction"));
    }
  }
}

Result<Receipt> PostgresStore::stored_receipt(const TransactionId& id) {
  Statement statement{
      .sql =
          "select time, sent, duplicate::int[]::bigint[], published, "
          "republished::int[]::bigint[], matched::bigint[], cancelled::int[]::bigint[], "
          "versions, affected from receipts where client = $1 and number = $2"};
  statement.params.int8(static_cast<std::int64_t>(id.client))
      .int8(static_cast<std::int64_t>(id.number));
  const auto rows = ask(std::move(statement), "reading the receipt");
  if (!rows) return std::unexpected(rows.error());
  auto receipt = read_stored_receipt(*rows);
  if (!receipt) {
    return failure(Errc::transaction_expired,
                   fmt::format("transaction {} of client {} was applied, and its receipt has just "
                               "been forgotten",
                               id.number, id.client));
  }
  return std::move(*receipt);
}

// --- Leases ---

PostgresStore::Line PostgresStore::line(const std::string& queue) {
  const std::lock_guard lock(lines_mutex_);
  const auto known = lines_.find(queue);
  if (known == lines_.end()) return {};
  Line& line = known->second;
  const auto now = std::chrono::steady_clock::now();
  if (now - line.whole_at < look_at_all_every) return line;
  line.whole_at = now;
  Line whole = line;
  whole.bound = {};
  return whole;
}

void PostgresStore::note_granted(const std::string& queue, const Granted& granted) {
  const std::lock_guard lock(lines_mutex_);
  Line& line = lines_[queue];
  line.granted += granted.leases.size();
  const auto now = std::chrono::steady_clock::now();
  // A clock by hand may stand still for longer than anything is on its way.
  if (clock_ || !granted.first) return;
  const bool complete =
      granted.low >= line.served_high || STRAND_PLANTED("postgres-bound-passes-a-slow-sender");
  if (!complete && now - line.served_at < on_its_way_max) return;
  if (line.served.priority == granted.first->priority) {
    line.bound = line.served;
    line.bound.number = std::min(line.bound.number, granted.first->number);
  }
  line.served = *granted.first;
  line.served_high = granted.high;
  line.served_at = now;
}

Result<std::vector<Lease>> PostgresStore::lease(const LeaseRequest& request) {
  if (auto checked = check_lease_request(request, limits_); !checked) {
    return std::unexpected(checked.error());
  }
  const Line known = line(request.queue);
  const auto rows =
      ask(lease_statement(request, limits_, known.granted, known.bound), "the lease request");
  if (!rows) return std::unexpected(rows.error());
  Granted granted = read_granted(*rows, request.queue, identity_);
  if (granted.fresh && !request.key) {
    // With labels, what was served first is not the first that waits.
    if (!request.labels.empty()) granted.first.reset();
    note_granted(request.queue, granted);
  }
  if (request.history_from) {
    if (auto added = add_histories(granted.leases, request); !added) {
      return std::unexpected(added.error());
    }
  }
  return std::move(granted.leases);
}

Result<Pulled> PostgresStore::pull(const Token& token, Cursor cursor, PullLimits limits) {
  if (auto checked = check_pull_limits(limits, limits_); !checked) {
    return std::unexpected(checked.error());
  }
  if (auto checked = check_seal(identity_, token); !checked) {
    return std::unexpected(checked.error());
  }
  const auto rows = ask(pull_statement(token, cursor, limits), "the pull");
  if (!rows) return std::unexpected(rows.error());
  return read_pulled(*rows);
}

std::vector<Result<Time>> PostgresStore::renew(std::span<const Token> tokens, Duration lease) {
  std::vector<Result<Time>> results(tokens.size(), Time{});
  if (auto checked = check_lease_duration(lease, limits_); !checked) {
    for (Result<Time>& result : results)
      result = std::unexpected(checked.error());
    return results;
  }
  std::vector<Token> genuine;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (auto checked = check_seal(identity_, tokens[i]); !checked) {
      results[i] = std::unexpected(checked.error());
      continue;
    }
    genuine.push_back(tokens[i]);
    places.push_back(i);
  }
  if (genuine.empty()) return results;
  const auto rows = ask(renew_statement(genuine, lease), "the renewal");
  std::vector<std::int64_t> ends;
  if (rows) ends = rows->int8s(0, 0);
  for (std::size_t i = 0; i < genuine.size(); ++i) {
    if (!rows) {
      results[places[i]] = std::unexpected(rows.error());
    } else if (ends[i] == 0) {
      results[places[i]] = failure(
          Errc::lease_lost,
          fmt::format("the lease with epoch {} is over: it was ended, ran out, or was taken "
                      "away; drop the work and lease again",
                      static_cast<std::uint64_t>(genuine[i].epoch())));
    } else {
      results[places[i]] = time_at(ends[i]);
    }
  }
  return results;
}

}  // namespace strand::postgres
