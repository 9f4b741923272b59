#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/planted.h"
#include "queue/consumer_loop.h"

// What the leaser does: gets lanes as long as there is room for them, and more messages for those
// that wait for some.

namespace strand {

namespace {

// The work that is kept at hand: so much that nobody waits for a lease or a sync in between, and
// not so much that another consumer could have had it.
constexpr double seconds_at_hand = 0.01;
constexpr std::size_t lanes_at_hand_max = 128;
constexpr std::size_t lanes_gathering_max = 1000;

// What a store allows for one request by default.
constexpr std::size_t lanes_max = 10'000;
constexpr std::size_t messages_max = 100'000;
constexpr std::size_t bytes_max = std::size_t{64} << 20U;

constexpr std::chrono::milliseconds pause_first{50};
constexpr std::uint32_t pause_doublings_max = 6;

}  // namespace

void Consumer::Loop::run_leaser() {
  Lock lock(mutex_);
  while (true) {
    lease_.wait(lock, [&] { return stopping_ || wants_leaser() || next_to_gather(); });
    if (stopping_) return;
    while (const HeldPointer held = next_to_gather())
      gather_more(lock, held);
    if (!stopping_ && wants_leaser()) lease_from_all(lock);
    if (lease_failures_ > 0) pause(lock, lease_, lease_failures_ - 1, stopping_);
  }
}

std::size_t Consumer::Loop::lanes_wanted() const {
  if (options_.lanes_in_flight > 0) return options_.lanes_in_flight;
  const double quick = std::max(handler_seconds_, seconds_at_hand / lanes_at_hand_max);
  const double at_hand = options_.workers * seconds_at_hand / quick;
  const auto lanes = static_cast<std::size_t>(std::min<double>(at_hand, lanes_at_hand_max));
  return options_.workers + lanes;
}

std::size_t Consumer::Loop::room() const {
  if (gathering_ >= lanes_gathering_max) return 0;
  const std::size_t wanted =
      lanes_wanted() + (STRAND_PLANTED("consumer-leases-too-much") ? lanes_at_hand_max : 0);
  // A lane that waits for its old handler keeps no worker busy.
  const std::size_t taken = busy() - gathering_ - deferred_.size();
  return wanted > taken ? wanted - taken : 0;
}

// Not for each lane that leaves: a request for many costs little more than one for one.
bool Consumer::Loop::wants_lanes() const {
  const std::size_t free = room();
  if (free == 0) return false;
  const bool asked = idle_asked_ > idle_confirmed_ && busy() == 0 && poked_.empty();
  const bool may_have = std::ranges::any_of(queues_, &Queue::may_have);
  if (!asked && !may_have) return false;
  return waiting_.size() < options_.workers || free * 4 >= lanes_wanted();
}

// Workers with quick handlers lease for themselves, unless some of them sleep.
bool Consumer::Loop::wants_leaser() const {
  const bool workers_do = handlers_are_quick() && idle_workers_ == 0 && lease_failures_ == 0;
  return !leasing_ && !workers_do && wants_lanes();
}

void Consumer::Loop::lease_from_all(Lock& lock) {
  leasing_ = true;
  const std::uint64_t asked = idle_asked_;
  const bool look_everywhere = idle_asked_ > idle_confirmed_ && busy() == 0 && poked_.empty();
  const std::uint32_t failures = lease_failures_;
  for (std::size_t i = 0; i < queues_.size() && room() > 0 && !stopping_; ++i) {
    Queue& queue = queues_[next_queue_];
    next_queue_ = (next_queue_ + 1) % queues_.size();
    if (queue.may_have || look_everywhere) lease_from(lock, queue);
    if (lease_failures_ > failures) break;
  }
  const bool may_have = std::ranges::any_of(queues_, &Queue::may_have);
  leasing_ = false;
  const bool idle = look_everywhere && lease_failures_ == 0 && busy() == 0 && !may_have;
  if (idle && kept_have_nothing()) {
    idle_confirmed_ = asked;
    changed_.notify_all();
  }
}

void Consumer::Loop::lease_from(Lock& lock, Queue& queue) {
  const std::size_t lanes = std::min(room(), lanes_max);
  LeaseRequest request{.queue = queue.name};
  request.labels = options_.labels;
  request.owner = options_.owner;
  request.lanes = static_cast<std::uint32_t>(lanes);
  request.messages = static_cast<std::uint32_t>(
      std::min<std::size_t>(lanes * options_.batch_messages, messages_max));
  request.bytes = std::min(lanes * options_.batch_bytes, bytes_max);
  request.lease = options_.lease;
  if (options_.history) {
    request.history_from = 0;
    request.history_limit = options_.history_limit;
  }

  queue.may_have = false;  // first, so that a call of the watch meanwhile is not lost
  const Duration asked = now();
  lock.unlock();
  auto leases = store_.lease(request);
  const Time store_time = store_.now();
  lock.lock();
  // A queue that does not exist has nothing; the watch tells when there is one.
  const bool answered = leases || leases.error().code == Errc::not_found;
  if (answered) lease_failures_ = 0;
  if (leases) {
    std::size_t messages = 0;
    for (const Lease& lease : *leases)
      messages += lease.messages.size();
    // Less than was asked for was all there was; what comes later is told by the watch.
    if (leases->size() >= lanes || messages >= request.messages) queue.may_have = true;
    admit(lock, *std::move(leases), store_time, asked);
    return;
  }
  if (answered) return;
  queue.may_have = true;
  ++lease_failures_;
  lock.unlock();
  Afterwards afterwards;
  afterwards.troubles.push_back({.kind = Kind::store_failed,
                                 .queue = queue.name,
                                 .key = {},
                                 .reason = leases.error().message});
  tell(std::move(afterwards));
  lock.lock();
}

void Consumer::Loop::pause(Lock& lock, std::condition_variable& changed, std::uint32_t failures,
                           const bool& over) {
  const auto length = pause_first * (1U << std::min(failures, pause_doublings_max));
  changed.wait_for(lock, length, [&] { return over; });
}

void Consumer::Loop::admit(Lock& lock, std::vector<Lease> leases, Time store_time, Duration asked) {
  for (Lease& lease : leases) {
    auto held = std::make_shared<Held>();
    held->lease = std::move(lease);
    held->length =
        options_.lease.value_or(std::max(held->lease.expires_at - store_time, Duration{1}));
    held->singly = options_.hand_out == HandOut::messages;
    held->since = asked;
    held->renew_at = asked + held->length / 3;
    wake_renewer_by(held->renew_at);
    hold(held);
    if (worth_gathering(held->lease)) {
      begin_gathering(lock, held, asked);
    } else {
      make_wait(held);
    }
  }
}

// --- Gathering ---

bool Consumer::Loop::worth_gathering(const Lease& lease) const {
  return options_.coalesce && lease.key && !lease.isolated && !lease.more &&
         lease.messages.size() < options_.coalesce->messages &&
         (!options_.coalesce->worth || options_.coalesce->worth(lease));
}

void Consumer::Loop::begin_gathering(Lock& lock, const HeldPointer& held, Duration since) {
  held->stage = Stage::gathering;
  ++gathering_;
  held->gathered = Duration{0};
  held->ready_at = since + options_.coalesce->window;
  wake_renewer_by(*held->ready_at);
  lock.unlock();
  watch_lane(held);
  lock.lock();
  // Something may have come between the lease and the watch.
  held->poked = !STRAND_PLANTED("consumer-gathers-too-little");
  lease_.notify_one();
}

Consumer::Loop::HeldPointer Consumer::Loop::next_to_gather() const {
  if (gathering_ == 0) return nullptr;
  for (const HeldPointer& held : held_) {
    if (held->stage != Stage::gathering) continue;
    if (held->poked || *held->ready_at <= now()) return held;
  }
  return nullptr;
}

void Consumer::Loop::gather_more(Lock& lock, const HeldPointer& held) {
  const bool over = *held->ready_at <= now();
  held->poked = false;
  const std::size_t missing = options_.coalesce->messages - held->lease.messages.size();
  const PullLimits limits{.messages = static_cast<std::uint32_t>(missing),
                          .bytes = options_.batch_bytes};
  lock.unlock();
  auto pulled = store_.pull(held->lease.token, held->lease.cursor, limits);
  lock.lock();
  if (held->stage != Stage::gathering) return;  // lost meanwhile
  if (pulled) {
    held->lease.cursor = pulled->cursor;
    std::ranges::move(pulled->messages, std::back_inserter(held->lease.messages));
  }
  // A pull that failed keeps nothing from being handled: the commit will tell what is wrong.
  const bool enough = held->lease.messages.size() >= options_.coalesce->messages;
  if (!over && !enough && pulled) return;
  --gathering_;
  held->gathered = std::max(now() - (*held->ready_at - options_.coalesce->window), Duration{0});
  if (!options_.keep) old_watches_.push_back(std::exchange(held->watch, {}));
  make_wait(held);
  end_watches(lock);
}

}  // namespace strand
