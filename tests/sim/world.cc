#include "sim/world.h"

#include <algorithm>

#include "model/text.h"

namespace strand::sim {
namespace {

// Where virtual time begins: any time will do, but a small one reads well in traces.
constexpr Time first_wall{std::chrono::seconds{1'000'000}};

}  // namespace

World::World(const Plan& plan, bool tracing)
    : plan_(plan),
      tracing_(tracing),
      random_(Random(plan.seed).fork(2)),
      base_store_(first_wall),
      last_known_(first_wall),
      last_decided_(first_wall),
      model_(plan.limits) {}

World::~World() = default;

void World::add_trace(std::string line) {
  lines_.push_back(std::to_string(now_ms_) + "ms " + std::move(line));
}

void World::mix(std::uint64_t number) { fingerprint_ = Random(fingerprint_ ^ number).next(); }

// --- Events ---

void World::after(std::int64_t delay_ms, std::function<void()> call) {
  events_.push(Event{now_ms_ + delay_ms, next_event_++, std::move(call)});
}

bool World::step() {
  if (events_.empty()) return false;
  const Event event = events_.top();
  events_.pop();
  now_ms_ = std::max(now_ms_, event.at_ms);
  mix(static_cast<std::uint64_t>(now_ms_));
  event.call();
  return true;
}

// --- Clocks ---

Duration World::monotonic() const {
  if (frozen_at_) return *frozen_at_;
  return Duration{now_ms_ + monotonic_offset_ms_};
}

Time World::wall() const { return first_wall + Duration{now_ms_ + wall_offset_ms_}; }

Time World::store_now() const { return base_store_ + (monotonic() - base_monotonic_); }

void World::set_store_now(Time now) {
  base_store_ = now;
  base_monotonic_ = monotonic();
}

void World::skip(Duration duration) {
  now_ms_ += duration.count();
  // Events that were to come meanwhile come late, which the world is used to.
}

Duration World::until_due() const {
  const std::optional<Time> due = pipeline_->engine().next_due();
  return due ? *due - store_now() : Duration{1000};
}

void World::draw_accidents() {
  const auto happens = [&](Fault fault) { return plan_.happens(fault, random_) && accidents_; };
  if (happens(Fault::wall_jump)) {
    wall_offset_ms_ += random_.between(-600'000, 600'000);
    trace([&] { return "the wall clock jumps to " + model::text(wall()); });
  }
  if (happens(Fault::clock_jump)) {
    const std::int64_t by = random_.pick(std::vector<std::int64_t>{1, 900, 12'000, 400'000});
    monotonic_offset_ms_ += by;
    trace([&] { return "the clock jumps by " + std::to_string(by) + "ms"; });
    armed_.reset();
    if (serves()) arm_timer();
  }
  if (happens(Fault::clock_freeze) && !frozen_at_) {
    frozen_at_ = monotonic();
    const std::int64_t length = random_.between(1, 20'000);
    trace([&] { return "the clock stands still for " + std::to_string(length) + "ms"; });
    after(length, [this] { thaw(); });
  }
  if (happens(Fault::read_fails)) backend_.fail_reads(random_.below(3) + 1);
  if (happens(Fault::crash) && pipeline_) crash(false);
  if (happens(Fault::power_loss) && pipeline_) crash(true);
}

void World::thaw() {
  if (!frozen_at_) return;
  monotonic_offset_ms_ = frozen_at_->count() - now_ms_;
  frozen_at_.reset();
  trace([] { return "the clock goes on"; });
  armed_.reset();
  if (serves()) arm_timer();
}

void World::calm() {
  trace([] { return "--- no more accidents ---"; });
  accidents_ = false;
  backend_.fail_reads(0);
  backend_.fail_reopens(0);
  thaw();
}

bool World::at_rest() const {
  return serves() && pipeline_->all_written() && pending_.empty() && jobs_.empty();
}

bool World::serves() const { return pipeline_ && !pipeline_->broken(); }

}  // namespace strand::sim
