#include "store/local/local_store.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "base/planted.h"
#include "store/engine/reads.h"

namespace strand::local {

using engine::Archive;
using engine::CommitNumber;
using engine::Engine;

namespace {

// How long the timer leaves a store alone whose write has failed.
constexpr Duration retry_after = std::chrono::seconds{1};

// How many things that are due a call applies before it does what it came for. What is more than
// that is left to the timer, which applies so many at a time, each slice in a batch of its own or
// with what callers decided meanwhile.
constexpr std::size_t call_items_max = 1000;
constexpr std::size_t slice_items = 128;

// What to say to somebody whose call changed nothing when the batch that it depended on failed.
Error no_trace(Error error) {
  if (error.code == Errc::unknown_outcome) error.code = Errc::unavailable;
  return error;
}

template <class T>
Result<T> as_read(Result<T> result) {
  if (!result) return std::unexpected(no_trace(std::move(result).error()));
  return result;
}

// Replaces the answers from `first` on if the batch that they belong to failed.
template <class T>
void hold_back(std::vector<Result<T>>& results, std::size_t first, const Result<void>& outcome) {
  if (outcome) return;
  for (std::size_t i = first; i < results.size(); ++i) {
    results[i] = std::unexpected(results[i] ? outcome.error() : no_trace(outcome.error()));
  }
}

}  // namespace

// --- Opening, closing, time ---

LocalStore::LocalStore(std::unique_ptr<engine::Backend> backend, std::shared_ptr<Clock> clock,
                       const Limits& limits, const engine::Identity& identity)
    : limits_(limits),
      clock_(std::move(clock)),
      commits_(std::move(backend), limits, identity, clock_, watches_) {}

Result<std::unique_ptr<Store>> LocalStore::open(std::unique_ptr<engine::Backend> backend,
                                                std::shared_ptr<Clock> clock, const Limits& limits,
                                                const engine::Identity& identity) {
  std::unique_ptr<LocalStore> store(
      new LocalStore(std::move(backend), std::move(clock), limits, identity));
  if (auto opened = store->commits_.open(); !opened) {
    return std::unexpected(std::move(opened).error());
  }
  store->start_timer();
  return store;
}

LocalStore::~LocalStore() {
  clock_handle_.reset();
  alarm_.stop();
  if (timer_.joinable()) timer_.join();
}

void LocalStore::start_timer() {
  // The callback must not block: the alarm's own lock is held for an instant only.
  clock_handle_ = clock_->on_advance([this] { alarm_.ring(); });
  // Served once by this thread, so that the timer's own does nothing before there is a reason.
  timer_ = std::thread([this, nap = serve_timer()] { run_timer(nap); });
}

void LocalStore::run_timer(std::optional<Duration> nap) {
  // Sleeping in shorter steps costs nothing and keeps arithmetic away from the ends of time.
  constexpr Duration nap_max = std::chrono::hours{1};
  while (true) {
    if (nap && *nap > Duration{0} && clock_->manual()) nap.reset();  // it rings when it moves
    if (nap) nap = std::clamp(*nap, Duration{0}, nap_max);
    if (!alarm_.sleep(nap)) return;
    nap = serve_timer();
  }
}

std::optional<Duration> LocalStore::serve_timer() {
  auto lock = commits_.enter();
  if (!lock) return std::nullopt;  // the first call that gets in will ring
  apply_due(Upkeep::timer);
  // What was decided is written even if nobody calls, and before the next slice.
  const Result<void> outcome = commits_.wait(*lock, commits_.decided());
  timer_wakes_at_ = Time::max();
  if (commits_.broken()) return std::nullopt;
  auto due = commits_.engine().next_due();
  if (!outcome) {
    // Whoever calls will see for himself whether the disk still fails; the timer must not insist.
    const Time retry_at = commits_.now() + retry_after;
    due = std::max(due.value_or(retry_at), retry_at);
  }
  if (!due) return std::nullopt;
  timer_wakes_at_ = *due;
  return *due - commits_.now();
}

void LocalStore::arm_timer() {
  if (commits_.broken()) {
    // The timer may find the store as it is, and then waits to be rung.
    timer_wakes_at_ = Time::max();
    return;
  }
  auto due = commits_.engine().next_due();
  // After a failed write: the engine that was read again may have decided something by itself.
  // While the store catches up: whatever the timer sleeps for, there is something to do now.
  if (commits_.unattended() || catching_up_) due = Time::min();
  const bool set = timer_wakes_at_ != Time::max();
  if (STRAND_PLANTED("timer-not-rearmed-for-earlier-due") && set) return;
  if (due && *due < timer_wakes_at_) {
    timer_wakes_at_ = *due;
    alarm_.ring();
  }
}

Time LocalStore::apply_due(Upkeep by) {
  const Time now = commits_.now();
  Engine& engine = commits_.engine();
  // A rebuilt engine has applied by itself what was due.
  if (std::exchange(rebuilds_, commits_.rebuilds()) != commits_.rebuilds()) {
    due_commit_ = commits_.decided();
    catching_up_ = false;
  }
  if (by == Upkeep::timer || !catching_up_) {
    const auto due = engine.next_due();
    catching_up_ = !engine.advance(now, by == Upkeep::timer ? slice_items : call_items_max);
    if (due && *due <= now) due_commit_ = commits_.decided();
  }
  // Nobody passes what is due and not applied yet: store time waits for it.
  return STRAND_PLANTED("calls-pass-the-upkeep") ? now : engine.now();
}

Result<void> LocalStore::wait(Lock& lock, CommitNumber commit) {
  auto outcome = commits_.wait(lock, commit);
  arm_timer();  // here, because a failed write changes what is due
  return outcome;
}

// --- Transactions and leases ---

std::vector<Result<Receipt>> LocalStore::apply(std::span<const Transaction> transactions) {
  std::vector<Result<Receipt>> results;
  results.reserve(transactions.size());
  if (transactions.empty()) return results;
  auto lock = commits_.enter();
  if (!lock) {
    results.assign(transactions.size(), std::unexpected(lock.error()));
    return results;
  }

  std::size_t unwritten = 0;  // the results before this one need not be held back any more
  Time now = apply_due();
  for (const Transaction& transaction : transactions) {
    std::optional<GroupCommit::Alone> alone;
    if (Engine::needs_all_written(transaction)) {
      const CommitNumber before = commits_.decided();
      alone.emplace(commits_);
      const Result<void> all_written = alone->wait_all_written(*lock);
      hold_back(results, unwritten, commits_.wait(*lock, before));
      unwritten = results.size();
      if (commits_.broken()) break;
      // Time has stood still meanwhile: whatever became due since is not on disk yet.
      now = commits_.engine().now();
      if (!all_written) {
        results.emplace_back(std::unexpected(all_written.error()));
        continue;
      }
    }
    results.push_back(commits_.engine().apply(transaction, now));
    if (results.back()) commits_.count_transaction();
  }
  if (STRAND_PLANTED("confirmed-before-written") && results.size() == transactions.size()) {
    commits_.flush_unattended(*lock);
    arm_timer();
    return results;
  }
  hold_back(results, unwritten, wait(*lock, commits_.decided()));
  if (results.size() < transactions.size()) {
    results.resize(transactions.size(),
                   failure(Errc::unavailable,
                           "not applied, because a write before it failed, and the store cannot be "
                           "read again at the moment; repeat it"));
  }
  return results;
}

template <class Answer, class Fill>
auto LocalStore::show(Lock& lock, const Result<Answer>& answer, Fill fill)
    -> std::invoke_result_t<Fill, const Archive&, const Answer&> {
  if (auto outcome = wait(lock, commits_.decided()); !outcome) {
    return std::unexpected(answer ? outcome.error() : no_trace(outcome.error()));
  }
  if (!answer) return std::unexpected(answer.error());
  const auto gate = commits_.open_archive(lock);
  lock.unlock();
  return fill(commits_.archive(), *answer);
}

Result<std::vector<Lease>> LocalStore::lease(const LeaseRequest& request) {
  auto lock = commits_.enter();
  if (!lock) return std::unexpected(std::move(lock).error());
  const Time now = apply_due();
  const auto grants = commits_.engine().lease(request, now);
  if (grants && grants->empty()) {
    // It shows nothing, so it need not wait.
    commits_.flush_unattended(*lock);
    arm_timer();
    return std::vector<Lease>{};
  }
  auto leases =
      show(*lock, grants, [&](const Archive& archive, const std::vector<engine::Grant>& found) {
        return engine::materialize(archive, found, request);
      });
  if (leases) leave_out_lost(*leases, *grants);
  return leases;
}

// A message that was gone when it was to be read was settled since by somebody with the same token,
// or the lease is over: cancelled, seized, run out. What is lost already is better not handed out.
void LocalStore::leave_out_lost(std::vector<Lease>& leases,
                                const std::vector<engine::Grant>& grants) {
  std::vector<Token> lost;
  for (std::size_t i = 0; i < leases.size(); ++i) {
    const bool whole = leases[i].messages.size() == grants[i].messages.size();
    if (!whole && !is_current(leases[i].token)) lost.push_back(leases[i].token);
  }
  if (lost.empty()) return;
  std::erase_if(leases, [&](const Lease& lease) {
    return std::ranges::find(lost, lease.token) != lost.end();
  });
}

bool LocalStore::is_current(const Token& token) {
  const auto lock = commits_.enter();
  return lock && commits_.engine().is_current(token);
}

Result<Pulled> LocalStore::pull(const Token& token, Cursor cursor, PullLimits limits) {
  auto lock = commits_.enter();
  if (!lock) return std::unexpected(std::move(lock).error());
  const Time now = apply_due();
  const auto grant = commits_.engine().pull(token, cursor, limits, now);
  auto pulled = show(*lock, grant, [](const Archive& archive, const engine::PullGrant& found) {
    return engine::materialize(archive, found);
  });
  if (pulled && pulled->messages.size() < grant->messages.size() && !is_current(token)) {
    return failure(Errc::lease_lost, "the lease was taken away while its messages were read");
  }
  return pulled;
}

std::vector<Result<Time>> LocalStore::renew(std::span<const Token> tokens, Duration lease) {
  std::vector<Result<Time>> results;
  results.reserve(tokens.size());
  if (tokens.empty()) return results;
  auto lock = commits_.enter();
  if (!lock) {
    results.assign(tokens.size(), std::unexpected(lock.error()));
    return results;
  }
  const Time now = apply_due();
  for (const Token& token : tokens)
    results.push_back(commits_.engine().renew(token, lease, now));
  hold_back(results, 0, wait(*lock, commits_.decided()));
  return results;
}

Watch LocalStore::watch(WatchTarget target, std::function<void()> callback) {
  const auto* lane = std::get_if<WatchLane>(&target);
  const std::optional<Token> token = lane ? std::optional(lane->token) : std::nullopt;
  Watch watch = watches_.add(std::move(target), std::move(callback));
  if (token) {
    // Registered first, so that the end of the lease is either seen here or tells the watch.
    const auto lock = commits_.enter();
    if (!lock || !commits_.engine().is_current(*token)) watches_.wake_lane(token->epoch());
  }
  return watch;
}

// --- Reads ---

template <class Read>
auto LocalStore::read_memory(Read read)
    -> Result<std::invoke_result_t<Read, const engine::Engine&>> {
  auto lock = commits_.enter();
  if (!lock) return std::unexpected(std::move(lock).error());
  apply_due();
  auto answer = read(std::as_const(commits_.engine()));
  if (STRAND_PLANTED("stats-before-written")) return answer;
  if (auto outcome = wait(*lock, commits_.decided()); !outcome) {
    return std::unexpected(no_trace(std::move(outcome).error()));
  }
  return answer;
}

template <class Read>
auto LocalStore::read_archive(Read read) -> std::invoke_result_t<Read, const Archive&> {
  auto lock = commits_.enter();
  if (!lock) return std::unexpected(std::move(lock).error());
  apply_due();
  // What is due by now must show; other batches on their way need not.
  if (!commits_.has_outcome(due_commit_)) {
    if (auto outcome = wait(*lock, due_commit_); !outcome) {
      return std::unexpected(no_trace(std::move(outcome).error()));
    }
  }
  const auto gate = commits_.open_archive(*lock);
  lock->unlock();
  return read(commits_.archive());
}

Result<History> LocalStore::history(const HistoryQuery& query) {
  return read_archive(
      [&](const Archive& archive) { return engine::read_history(archive, limits_, query); });
}

Result<Page<Execution>> LocalStore::instances(const InstancesQuery& query) {
  return read_archive(
      [&](const Archive& archive) { return engine::read_instances(archive, limits_, query); });
}

Result<std::optional<Record>> LocalStore::record(std::string_view space, std::string_view key) {
  return read_archive(
      [&](const Archive& archive) { return engine::read_record(archive, limits_, space, key); });
}

Result<Page<Record>> LocalStore::records(const RecordsQuery& query) {
  return read_archive(
      [&](const Archive& archive) { return engine::read_records(archive, limits_, query); });
}

Result<Page<DeadLetter>> LocalStore::dead_letters(const DeadLettersQuery& query) {
  return read_archive(
      [&](const Archive& archive) { return engine::read_dead_letters(archive, limits_, query); });
}

Result<Page<PeekedMessage>> LocalStore::peek(const PeekQuery& query) {
  auto lock = commits_.enter();
  if (!lock) return std::unexpected(std::move(lock).error());
  apply_due();
  const auto entries = commits_.engine().peek(query);
  return as_read(
      show(*lock, entries, [](const Archive& archive, const Page<engine::PeekedEntry>& found) {
        return engine::materialize(archive, found);
      }));
}

Result<QueueStats> LocalStore::stats(std::string_view queue) {
  auto stats = read_memory([&](const Engine& engine) { return engine.stats(queue); });
  if (!stats) return std::unexpected(std::move(stats).error());
  return *std::move(stats);
}

Result<std::vector<QueueInfo>> LocalStore::queues() {
  return read_memory([](const Engine& engine) { return engine.queues(); });
}

Result<std::vector<Subscription>> LocalStore::subscriptions() {
  return read_memory([](const Engine& engine) { return engine.subscriptions(); });
}

Result<std::vector<Topic>> LocalStore::topics() {
  return read_memory([](const Engine& engine) { return engine.topics(); });
}

}  // namespace strand::local
