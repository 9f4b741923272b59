#include "workflow/instance_cache.h"

#include <iterator>
#include <utility>

#include "base/planted.h"
#include "workflow/wire.h"

namespace strand::workflow {

namespace {

// An instance that was removed and started again counts its executions anew: only the name of the
// run is never used again.
bool same_run(const Instance& instance, const History& history) {
  const auto first = decode_event(history.events.front());
  return first && first->detail("run") == instance.run();
}

}  // namespace

bool is_current(const Resident& resident, const Lease& lease, bool first_of_lease) {
  const Instance& instance = *resident.instance;
  // Under one lease nobody else can append.
  if (!first_of_lease) return resident.token == lease.token;
  if (!lease.history || lease.history->events.empty()) return false;
  const Execution& execution = lease.history->execution;
  if (STRAND_PLANTED("cache-trusts-the-length")) return execution.length == instance.length();
  if (execution.outcome || execution.number != instance.identity().execution ||
      execution.length != instance.length()) {
    return STRAND_PLANTED("cache-trusts-everybody") && execution.length >= instance.length();
  }
  return same_run(instance, *lease.history);
}

bool ran_elsewhere(const Resident& resident, const Lease& lease) {
  const Instance& instance = *resident.instance;
  if (!lease.history || lease.history->events.empty()) return false;
  const Execution& execution = lease.history->execution;
  return !execution.outcome && execution.number == instance.identity().execution &&
         execution.length > instance.length() && same_run(instance, *lease.history);
}

std::unique_ptr<Resident> InstanceCache::take(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  auto resident = std::move(found->second->resident);
  bytes_ -= found->second->bytes;
  places_.erase(found->second);
  by_id_.erase(found);
  return resident;
}

bool InstanceCache::accepts(const Instance& instance) {
  if (instance.replay_length() <= options_.max_history_size) return true;
  count(Eviction::size);
  return false;
}

std::vector<std::string> InstanceCache::put(const std::string& id,
                                            std::unique_ptr<Resident> resident) {
  Places gone;  // destroyed outside the lock: their coroutines may do anything then
  std::vector<std::string> ids;
  {
    const std::lock_guard lock(mutex_);
    const auto before = by_id_.find(id);
    if (before != by_id_.end()) move_out(before->second, gone);
    Place place{.id = id, .resident = std::move(resident), .used = clock_->monotonic()};
    place.bytes = place.resident->instance->bytes() + id.size() + sizeof(Place);
    const bool too_large = place.bytes > options_.max_memory;
    places_.push_front(std::move(place));
    bytes_ += places_.front().bytes;
    by_id_[id] = places_.begin();
    if (too_large) {
      count(Eviction::size);
      move_out(places_.begin(), gone);
    }
    evict(gone);
    for (const Place& one : gone)
      ids.push_back(one.id);
  }
  return ids;
}

void InstanceCache::evict(Places& gone) {
  const Duration now = clock_->monotonic();
  while (!places_.empty()) {
    const auto oldest = std::prev(places_.end());
    if (oldest->used + options_.idle_timeout + options_.unleased_timeout <= now) {
      count(Eviction::idle);
    } else if (places_.size() > options_.max_instances) {
      count(Eviction::lru);
    } else if (bytes_ > options_.max_memory) {
      count(Eviction::size);
    } else {
      return;
    }
    move_out(oldest, gone);
  }
}

void InstanceCache::move_out(Places::iterator place, Places& gone) {
  bytes_ -= place->bytes;
  by_id_.erase(place->id);
  gone.splice(gone.end(), places_, place);
}

bool InstanceCache::has(const Lease& lease) {
  if (!lease.key || !lease.history) return false;
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(*lease.key);
  return found != by_id_.end() && is_current(*found->second->resident, lease, true);
}

void InstanceCache::clear() {
  Places gone;  // outlives the lock
  const std::lock_guard lock(mutex_);
  gone.swap(places_);
  by_id_.clear();
  bytes_ = 0;
}

std::size_t InstanceCache::size() const {
  const std::lock_guard lock(mutex_);
  return places_.size();
}

std::size_t InstanceCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace strand::workflow
