#include "store/engine/state.h"

#include <fmt/format.h>

#include "base/planted.h"
#include "base/siphash.h"
#include "base/text.h"

namespace strand::engine {

namespace {

// How many numbers one synced reservation covers.
constexpr std::uint64_t numbers_block = std::uint64_t{1} << 20U;

}  // namespace

Engine::State::~State() {
  // Hooks must be free before what they link is destroyed.
  for (auto& [name, queue] : queues_) {
    for (auto& [key, lane] : queue->lanes) {
      for (VisibleSet& set : lane->visible)
        set.clear();
      lane->waiting.clear();
      if (lane->listed()) ReadyIndex::remove(*lane);
    }
    queue->unkeyed_waiting.clear();
    queue->messages.clear_and_dispose([](MessageNode* message) {
      if (message->listed()) ReadyIndex::remove(*message);
      delete message;
    });
  }
}

std::uint64_t Engine::State::next_number() {
  if (next_number_ == meta_.numbers_reserved) {
    meta_.numbers_reserved += numbers_block;
    put(Family::meta, meta_key(), meta_);
    // Until the reservation is synced, nothing that uses its numbers may be seen.
    if (!STRAND_PLANTED("reservation-not-synced")) decisions_.durability = Durability::sync;
  }
  return next_number_++;
}

Turn Engine::State::next_turn() {
  last_turn_ = std::max(last_turn_ + 1, first_turn_at(loading_turn_.value_or(now_)));
  return last_turn_;
}

CountersRecord& Engine::State::count(Queue& queue) {
  if (!queue.counters_changed) {
    queue.counters_changed = true;
    counters_changed_.push_back(&queue);
  }
  return queue.counters;
}

void Engine::State::wake(Queue& queue) {
  if (queue.woken) return;
  queue.woken = true;
  woken_queues_.push_back(&queue);
}

void Engine::State::wake(LeaseNode& lease) {
  if (lease.woken) return;
  lease.woken = true;
  decisions_.wakes.lanes.push_back(lease.epoch);
}

Queue* Engine::State::find_queue(std::string_view name) const {
  const auto found = queues_.find(name);
  return found == queues_.end() ? nullptr : found->second.get();
}

Result<Queue*> Engine::State::known_queue(std::string_view name) const {
  Queue* queue = find_queue(name);
  if (queue == nullptr) {
    return failure(Errc::not_found,
                   fmt::format("there is no queue '{}': sending to it, configuring it or "
                               "subscribing it creates it",
                               base::printable(name)));
  }
  return queue;
}

Queue& Engine::State::ensure_queue(std::string_view name) {
  if (Queue* queue = find_queue(name)) return *queue;
  auto queue = std::make_unique<Queue>();
  Queue& result = *queue;
  result.id = QueueId{meta_.next_queue++};
  result.name = std::string(name);
  queues_by_id_.emplace(static_cast<std::uint32_t>(result.id), &result);
  queues_.emplace(result.name, std::move(queue));
  persist(result);
  decisions_.mutations.put(Family::queue_name, result.name, queue_key(result.id));
  count(result);
  return result;
}

void Engine::State::persist(const Queue& queue) {
  put(Family::queue, queue_key(queue.id),
      QueueRecord{
          .id = queue.id, .name = queue.name, .settings = queue.settings, .paused = queue.paused});
}

Token Engine::State::seal(const LeaseNode& lease) const {
  const std::uint64_t words[] = {meta_.identity.store, static_cast<std::uint64_t>(lease.epoch),
                                 static_cast<std::uint64_t>(lease.queue->id)};
  return {lease.epoch, words[2], base::siphash(meta_.identity.secret, words)};
}

Result<LeaseNode*> Engine::State::find_lease(const Token& token) const {
  const std::uint64_t words[] = {meta_.identity.store, static_cast<std::uint64_t>(token.epoch()),
                                 token.place()};
  if (base::siphash(meta_.identity.secret, words) != token.seal()) {
    return failure(Errc::invalid_token,
                   fmt::format("the token {} was not made by this store", token.to_string()));
  }
  const auto found = leases_.find(static_cast<std::uint64_t>(token.epoch()));
  if (STRAND_PLANTED("token-of-the-queue-is-enough") && found == leases_.end()) {
    for (const auto& [epoch, lease] : leases_) {
      if (static_cast<std::uint64_t>(lease->queue->id) == token.place()) return lease.get();
    }
  }
  if (found == leases_.end()) {
    return failure(Errc::lease_lost,
                   fmt::format("the lease with epoch {} is over: it was ended, ran out, or was "
                               "taken away; drop the work and lease again",
                               static_cast<std::uint64_t>(token.epoch())));
  }
  return found->second.get();
}

bool Engine::State::is_current(const Token& token) const { return find_lease(token).has_value(); }

bool Engine::State::has_decisions() const {
  return !decisions_.mutations.empty() || !counters_changed_.empty() || !woken_queues_.empty() ||
         !decisions_.wakes.empty();
}

Decisions Engine::State::take() {
  for (Queue* queue : counters_changed_) {
    queue->counters_changed = false;
    put(Family::counters, queue_key(queue->id), queue->counters);
  }
  counters_changed_.clear();
  for (Queue* queue : woken_queues_) {
    queue->woken = false;
    decisions_.wakes.queues.push_back(queue->name);
  }
  woken_queues_.clear();
  for (const Epoch epoch : decisions_.wakes.lanes) {
    const auto lease = leases_.find(static_cast<std::uint64_t>(epoch));
    if (STRAND_PLANTED("holder-woken-once")) continue;
    if (lease != leases_.end()) lease->second->woken = false;
  }
  decisions_.commit = ++last_commit_;
  if (!decisions_.mutations.empty()) {
    meta_.commit = last_commit_;
    meta_.time = now_;
    if (last_commit_ >= next_low_water_) raise_low_water();
    put(Family::meta, meta_key(), meta_);
  }
  Decisions result = std::move(decisions_);
  decisions_ = {};
  return result;
}

// Looks at every queue, so it is done after as many commits as there are queues, and not too often.
void Engine::State::raise_low_water() {
  constexpr CommitNumber commits_between = 64;
  next_low_water_ = last_commit_ + std::max<CommitNumber>(commits_between, queues_.size());
  std::uint64_t lowest = next_number_;
  for (const auto& [name, queue] : queues_) {
    if (queue->messages.empty()) continue;
    auto first = queue->messages.begin();
    while (STRAND_PLANTED("low-water-above-leased") && first->where == Where::leased) {
      if (++first == queue->messages.end()) break;
    }
    if (first == queue->messages.end()) continue;
    lowest = std::min(lowest, static_cast<std::uint64_t>(first->id));
  }
  meta_.lowest_message = lowest;
}

void Engine::State::written(CommitNumber commit) {
  while (!recent_record_order_.empty() && recent_record_order_.front().first <= commit) {
    const auto found = recent_records_.find(recent_record_order_.front().second);
    if (found != recent_records_.end() && found->second.second <= commit) {
      recent_records_.erase(found);
    }
    recent_record_order_.pop_front();
  }
  while (!closed_instances_.empty() && closed_instances_.front().first <= commit) {
    const auto found = instances_.find(closed_instances_.front().second);
    if (found != instances_.end() && found->second.touched <= commit) {
      const InstanceState& instance = found->second;
      if (!instance.exists || instance.record.last.outcome) instances_.erase(found);
    }
    closed_instances_.pop_front();
  }
}

// --- Engine: the state behind a pointer ---

Engine::Engine(const Limits& limits, const Archive& archive)
    : state_(std::make_unique<State>(limits, archive)) {}
Engine::~Engine() = default;

Result<void> Engine::load(Time wall, const Identity& identity, CommitNumber commit_after,
                          Loading why) {
  return state_->load(wall, identity, commit_after, why);
}
Time Engine::now() const { return state_->now(); }
CommitNumber Engine::loaded_commit() const { return state_->loaded_commit(); }
Result<Receipt> Engine::apply(const Transaction& transaction, Time now) {
  return state_->apply(transaction, now);
}
Result<std::vector<Grant>> Engine::lease(const LeaseRequest& request, Time now) {
  return state_->lease(request, now);
}
Result<PullGrant> Engine::pull(const Token& token, Cursor cursor, PullLimits limits, Time now) {
  return state_->pull(token, cursor, limits, now);
}
Result<Time> Engine::renew(const Token& token, Duration lease, Time now) {
  return state_->renew(token, lease, now);
}
void Engine::advance(Time now) { state_->advance(now); }
bool Engine::advance(Time now, std::size_t items_max) { return state_->advance(now, items_max); }
bool Engine::needs_all_written(const Transaction& transaction) {
  return transaction.admin.has_value();
}
std::optional<Time> Engine::next_due() const { return state_->next_due(); }
bool Engine::has_decisions() const { return state_->has_decisions(); }
CommitNumber Engine::gathering() const { return state_->gathering(); }
Decisions Engine::take() { return state_->take(); }
void Engine::written(CommitNumber commit) { state_->written(commit); }
Result<QueueStats> Engine::stats(std::string_view queue) const { return state_->stats(queue); }
std::vector<QueueInfo> Engine::queues() const { return state_->queues(); }
std::vector<Subscription> Engine::subscriptions() const { return state_->subscriptions(); }
std::vector<Topic> Engine::topics() const { return state_->topics(); }
Result<Page<PeekedEntry>> Engine::peek(const PeekQuery& query) const { return state_->peek(query); }
void Engine::set_free_bytes(std::optional<std::uint64_t> bytes) { state_->set_free_bytes(bytes); }
std::size_t Engine::memory_bytes() const { return state_->memory_bytes(); }
bool Engine::is_current(const Token& token) const { return state_->is_current(token); }

}  // namespace strand::engine
