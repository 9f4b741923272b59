#include "workflow/routing.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include <xxhash.h>

#include "workflow/records.h"
#include "workflow/wire.h"

namespace strand::workflow {

namespace {

std::uint64_t weight(std::string_view worker, std::string_view id) {
  return XXH3_64bits_withSeed(id.data(), id.size(), XXH3_64bits(worker.data(), worker.size()));
}

}  // namespace

const std::string* choose_worker(const std::vector<std::string>& names, std::string_view id) {
  const auto found = std::ranges::max_element(
      names, {}, [&](const std::string& name) { return weight(name, id); });
  return found == names.end() ? nullptr : &*found;
}

Router::Router(Store& store, const RoutingOptions& options, const InstanceCacheOptions& cache,
               std::string owner, std::shared_ptr<Clock> clock)
    : store_(store),
      options_(options),
      cache_(cache),
      owner_(std::move(owner)),
      clock_(std::move(clock)) {}

Router::~Router() { stop(); }

void Router::start() {
  if (options_.strategy != Routing::consistent_hash) return;
  beat();
  clock_handle_ = clock_->on_advance([this] { alarm_.ring(); });
  thread_ = std::thread([this, first = clock_->monotonic() + options_.heartbeat] { run(first); });
}

void Router::stop() {
  if (!thread_.joinable()) return;
  alarm_.stop();
  thread_.join();
  clock_handle_.reset();
  Transaction leave;
  leave.durability = Durability::async;
  leave.records.push_back(drop_record(workers_space, owner_));
  // If that fails, the others find out by its silence.
  std::ignore = store_.apply(leave);
}

void Router::run(Duration next) {
  while (true) {
    std::optional<Duration> nap = std::max(next - clock_->monotonic(), Duration{0});
    if (clock_->manual()) nap.reset();  // it rings when it moves
    if (!alarm_.sleep(nap)) return;
    const Duration reached = clock_->monotonic();
    if (reached < next) continue;
    beat();
    next = reached + options_.heartbeat;
  }
}

void Router::beat() {
  const Time now = store_.now();
  Transaction transaction;
  transaction.durability = Durability::async;
  transaction.records.push_back(
      put_record(workers_space, owner_, std::to_string(now.time_since_epoch().count())));
  std::vector<std::string> alive;
  RecordsQuery query{.space = std::string(workers_space), .limit = 1000};
  while (true) {
    const auto page = store_.records(query);
    if (!page) return;
    for (const Record& record : page->items) {
      const Time heard{Duration{static_cast<std::int64_t>(wire::number(record.value).value_or(0))}};
      if (record.key == owner_ || heard + 3 * options_.heartbeat > now) {
        alive.push_back(record.key);
      } else if (heard + 30 * options_.heartbeat < now) {
        transaction.records.push_back(drop_record(workers_space, record.key));
      }
    }
    if (!page->more || page->items.empty()) break;
    query.after = page->items.back().key;
  }
  if (std::ranges::find(alive, owner_) == alive.end()) alive.push_back(owner_);
  {
    const std::lock_guard lock(mutex_);
    workers_ = std::move(alive);
  }
  std::ignore = store_.apply(transaction);  // the next one may succeed
}

std::vector<std::string> Router::workers() const {
  const std::lock_guard lock(mutex_);
  return workers_;
}

std::optional<OwnerHint> Router::hint_for(std::string_view id, bool in_memory) const {
  const Duration kept = cache_.idle_timeout + cache_.unleased_timeout;
  const auto hint = [&](const std::string& owner, Duration valid_for) {
    return OwnerHint{.owner = owner, .valid_for = valid_for, .grace = options_.grace};
  };
  switch (options_.strategy) {
    case Routing::none:
      return std::nullopt;
    case Routing::affinity:
      return hint(owner_, options_.max_age);
    case Routing::automatic:
      if (!has_company_) return std::nullopt;
      [[fallthrough]];
    case Routing::cache_aware:
      if (in_memory) return hint(owner_, kept);
      return OwnerHint{.owner = owner_};  // nobody any more
    case Routing::consistent_hash:
      break;
  }
  const std::lock_guard lock(mutex_);
  const std::string* const chosen = choose_worker(workers_, id);
  if (chosen == nullptr) return std::nullopt;
  return hint(*chosen, kept);
}

}  // namespace strand::workflow
