#include "store/postgres/upkeep.h"

#include <algorithm>
#include <charconv>
#include <future>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "store/postgres/postgres_store.h"

namespace strand::postgres {

namespace {

using namespace std::chrono_literals;

// How long to sleep at most: what other processes have made due sooner is seen then.
constexpr Duration poll = 1s;
// A lane with an owner hint became ready: how soon it is looked up when its grace ends. So often at
// most, whatever the traffic.
constexpr Duration glance_after = 100ms;
// Backstop for notifications that went astray, and the pace of cleaning up.
constexpr auto clean_every = 10s;
// Waiting for the first connection of the listener.
constexpr Duration patience = 15s;

std::string from_hex(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    unsigned value = 0;
    std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    bytes.push_back(static_cast<char>(value));
  }
  return bytes;
}

std::uint64_t to_number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

Upkeep::Upkeep(PostgresStore& store, const Location& location)
    : store_(store), location_(location) {}

Upkeep::~Upkeep() {
  listener_.reset();
  clock_handle_.reset();
  alarm_.stop();
  if (thread_.joinable()) thread_.join();
  // The server would let go of the lock a little later by itself; whoever opens the store next
  // should not have to wonder.
  if (connection_ && connection_->usable()) {
    std::ignore = connection_->run(Group{Statement{.sql = "select pg_advisory_unlock_all()"}});
  }
}

// Whoever finds that nobody else has the store open has reopened it: its leases get their grace.
Result<void> Upkeep::connect() {
  auto opened = Connection::open(location_.conninfo);
  if (!opened) return std::unexpected(opened.error());
  connection_ = std::move(*opened);
  if (auto done = connection_->script(session_script(location_)); !done) {
    return std::unexpected(error_of(done.error(), "the setup of the session"));
  }
  Group group;
  store_.tell_time(group);
  group.push_back(Statement{.sql = "select take_part()"});
  if (auto done = connection_->run(group); !done) {
    return std::unexpected(error_of(done.error(), "the opening of the store"));
  }
  return {};
}

Result<void> Upkeep::start() {
  if (auto connected = connect(); !connected) return connected;
  const auto heard = std::make_shared<std::promise<void>>();
  auto first = heard->get_future();
  listener_ = std::make_unique<Listener>(
      ListenerOptions{.conninfo = location_.conninfo, .channel = location_.schema},
      [this](std::string_view payload) { hear(payload); },
      [this, heard, again = false]() mutable {
        if (!again) heard->set_value();
        again = true;
        store_.watches_.wake_all();
        const std::lock_guard lock(mutex_);
        urgent_ = true;
        alarm_.ring();
      });
  if (first.wait_for(patience) != std::future_status::ready) {
    return failure(Errc::unavailable, fmt::format("PostgreSQL does not let this process listen: {}",
                                                  listener_->last_trouble()));
  }
  if (store_.clock_) {
    clock_handle_ = store_.clock_->on_advance([this] { alarm_.ring(); });
  }
  thread_ = std::thread([this] { run(); });
  return {};
}

void Upkeep::hear(std::string_view payload) {
  if (payload.empty()) return;
  const std::string_view rest = payload.substr(1);
  store::Wakes wakes;
  switch (payload.front()) {
    case 'q': {
      wakes.queues.emplace_back(rest);
      const std::lock_guard lock(mutex_);
      if (hinted_ && !glance_at_) {
        glance_at_ = std::chrono::steady_clock::now() + glance_after;
        alarm_.ring();
      }
      break;
    }
    case 'l':
      wakes.lanes.push_back(Epoch{to_number(rest)});
      break;
    case 'r': {
      const std::size_t colon = rest.find(':');
      if (colon == std::string_view::npos) return;
      wakes.records.emplace_back(from_hex(rest.substr(0, colon)), from_hex(rest.substr(colon + 1)));
      break;
    }
    case 'd': {
      const std::lock_guard lock(mutex_);
      const Time due = time_at(static_cast<std::int64_t>(to_number(rest)));
      if (!sooner_ || due < *sooner_) sooner_ = due;
      urgent_ = true;
      alarm_.ring();
      return;
    }
    default:
      return;
  }
  store_.watches_.wake(wakes);
}

void Upkeep::run() {
  if (store_.clock_) {
    // Every call applies what is due at the time that it tells: those who wait need only look.
    while (alarm_.sleep(std::nullopt))
      store_.watches_.wake_all();
    return;
  }
  while (sleep(serve())) {
  }
}

bool Upkeep::sleep(Duration nap) {
  using Clock = std::chrono::steady_clock;
  auto end = Clock::now() + nap;
  while (true) {
    const auto left = std::chrono::ceil<Duration>(end - Clock::now());
    if (!alarm_.sleep(std::max(left, Duration{0}))) return false;
    const std::lock_guard lock(mutex_);
    if (std::exchange(urgent_, false)) return true;
    if (glance_at_) end = std::min(end, *glance_at_);
    if (Clock::now() >= end) return true;
  }
}

Duration Upkeep::serve() {
  if (!connection_ || !connection_->usable()) {
    if (!connect()) return poll;
    store_.watches_.wake_all();
  }
  {
    const std::lock_guard lock(mutex_);
    sooner_.reset();
    glance_at_.reset();
  }
  const std::int64_t from = store_.due_from();
  std::vector<Group> groups = {store_.catch_up(from)};
  Group look;
  store_.tell_time(look);
  // Nothing else tells of lanes that were hidden by their hints until now.
  Statement next{.sql =
                     "select next_due($1), now_ms(), "
                     "exists (select 1 from lanes where hint_until is not null), "
                     "array(select distinct q.name from lanes l join queues q on q.id = l.queue "
                     "where l.turn is not null and l.hint_owner is not null "
                     "and l.ready_since + l.hint_grace > $2 "
                     "and l.ready_since + l.hint_grace <= now_ms())"};
  next.params.int8(from).int8(shown_until_);
  look.push_back(std::move(next));
  groups.push_back(std::move(look));
  const auto now = std::chrono::steady_clock::now();
  const bool clean = now - cleaned_at_ >= clean_every;
  if (clean) {
    cleaned_at_ = now;
    Group upkeep;
    store_.tell_time(upkeep);
    upkeep.push_back(Statement{.sql = "select upkeep()"});
    groups.push_back(std::move(upkeep));
  }
  const auto before = std::chrono::system_clock::now();
  const auto results = connection_->run(groups);
  if (clean) {
    if (results.back()) store_.taken_bytes_ = results.back()->back().int8(0, 0);
    store_.watches_.wake_all();
  }
  if (!results[1]) return poll;
  const Rows& rows = results[1]->back();
  const std::int64_t store_now = rows.int8(0, 1);
  const auto here = std::chrono::floor<Duration>(before).time_since_epoch().count();
  store_.ahead_ms_ = store_now - here;
  shown_until_ = store_now;
  if (auto shown = rows.bytes_array(0, 3); !shown.empty()) {
    store::Wakes wakes;
    wakes.queues = std::move(shown);
    store_.watches_.wake(wakes);
  }
  store_.note_caught_up(results[0]);
  const bool all = results[0] && !results[0]->back().is_null(0, 0);
  const std::lock_guard lock(mutex_);
  hinted_ = rows.boolean(0, 2);
  if (!all) return 1ms;
  Duration nap = poll;
  if (const auto due = rows.maybe_int8(0, 0)) nap = std::min(nap, Duration{*due - store_now});
  if (sooner_) nap = std::min(nap, Duration{milliseconds(*sooner_) - store_now});
  return std::max(nap, Duration{1});
}

}  // namespace strand::postgres
