#include "workflow_sim/world.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <strand/history.h>

#include "workflow/activity_runner.h"
#include "workflow/instance.h"
#include "workflow/stored_history.h"
#include "workflow/wire.h"

namespace strand::workflow_sim {

using namespace std::chrono_literals;
using namespace workflow;

namespace {

constexpr unsigned depth = 3;
constexpr int chaos_steps = 400;
constexpr int calm_rounds_max = 3000;

template <class T>
T must(Result<T> result) {
  return std::move(result).value();
}

// A replay asks nothing of the world.
class NobodyOutside final : public Outside {
 public:
  Known look_up(const std::string&) override { std::abort(); }
  ActivityContext& local_context(const ActivityDefinition&) override { std::abort(); }
  bool checkpoint_is_due(const SinceCheckpoint&, const CheckpointOptions&) override {
    std::abort();
  }
};

}  // namespace

World::World(std::uint64_t seed)
    : seed_(seed), random_(seed), url_("memory:workflow-sim-" + std::to_string(seed)) {
  draw_workers();
  open();
}

// Usually all are told the same about routing; sometimes each something else.
void World::draw_workers() {
  constexpr Routing strategies[] = {Routing::none, Routing::automatic, Routing::affinity,
                                    Routing::cache_aware, Routing::consistent_hash};
  const auto draw = [&] {
    return RoutingOptions{.strategy = strategies[random_.below(std::size(strategies))],
                          .max_age = Duration{random_.between(1, 60'000)},
                          .grace = Duration{random_.between(1, 1000)}};
  };
  const RoutingOptions common = draw();
  const bool alike = !random_.one_in(4);
  for (std::size_t i = 0; i < workers; ++i) {
    InstanceCacheOptions options;
    if (random_.one_in(3)) options.max_instances = 1;  // it evicts all the time
    crew_[i].owner = "worker-" + std::to_string(i);
    crew_[i].routing = alike ? common : draw();
    crew_[i].cache = std::make_unique<InstanceCache>(options, clock_);
  }
}

void World::make_router(std::size_t worker) {
  Worker& one = crew_[worker];
  one.router =
      std::make_unique<Router>(*store_, one.routing, InstanceCacheOptions{}, one.owner, clock_);
  if (one.routing.strategy == Routing::consistent_hash) one.router->beat();
}

World::~World() = default;

void World::open() {
  for (Worker& one : crew_)
    one.router.reset();
  turns_.reset();
  workflows_.reset();
  store_.reset();
  OpenOptions options;
  options.clock = clock_;
  store_ = must(strand::open(url_, options));
  Registry registry;
  registry[program.definition()->label()] = program.definition();
  Turns::Options turns{.verify = random_.one_in(4)};
  turns.checkpoints.when.every_events = 1 + random_.below(12);
  turns.checkpoints.prune = !random_.one_in(4);
  turns_ = std::make_unique<Turns>(*store_, registry, turns);
  workflows_ = std::make_unique<Workflows>(must(Workflows::open(*store_)));
  for (std::size_t i = 0; i < workers; ++i)
    make_router(i);
}

void World::complain(std::string text) {
  complaints_.push_back("seed " + std::to_string(seed_) + ": " + std::move(text));
}

std::vector<std::string> World::run() {
  start_instances();
  chaos();
  calm();
  if (complaints_.empty()) check();
  return std::move(complaints_);
}

void World::start_instances() {
  for (std::uint64_t i = 0; i < 1 + random_.below(3); ++i) {
    const std::string input = std::to_string(random_.below(1'000'000)) + " " +
                              std::to_string(1 + random_.below(depth)) + " 1";
    StartOptions options;
    if (random_.one_in(4)) options.delay = Duration{random_.between(1, 3000)};
    static_cast<void>(must(workflows_->start(program, "i" + std::to_string(i), input, options)));
  }
}

// --- Workers ---

bool World::lease_turn() {
  const std::size_t worker = random_.below(workers);
  auto leases = lease_as(crew_[worker].owner, 1);
  for (Lease& lease : leases)
    turns_held_.push_back({.lease = std::move(lease), .worker = worker});
  if (leases.empty()) tally_.hidden += ready_instances().size();
  return !leases.empty();
}

std::vector<Lease> World::lease_as(const std::string& owner, std::uint32_t lanes) {
  LeaseRequest request{.queue = "workflow"};
  request.labels = {program.definition()->label()};
  request.owner = owner;
  request.lanes = lanes;
  const std::uint64_t messages = lanes > 1 || calm_ ? 1000 : 1 + random_.below(4);
  request.messages = static_cast<std::uint32_t>(messages);
  request.lease = 5s;
  request.history_from = 0;
  return must(store_->lease(request));
}

std::set<std::string> World::ready_instances() {
  std::set<std::string> ids;
  const auto ready =
      must(store_->peek({.queue = "workflow", .state = MessageState::ready, .limit = 1000}));
  for (const PeekedMessage& message : ready.items) {
    if (message.label == program.definition()->label()) ids.insert(message.key.value_or(""));
  }
  return ids;
}

void World::check_grace() {
  constexpr std::uint32_t all = 1000;
  const std::set<std::string> ready = ready_instances();
  clock_->advance(Limits{}.owner_grace_max);
  for (Lease& lease : lease_as("a stranger", all))
    turns_held_.push_back({.lease = std::move(lease), .worker = random_.below(workers)});
  for (std::size_t i = 0; i < workers; ++i) {
    // What has become ready meanwhile may wait a little longer.
    for (Lease& lease : lease_as(crew_[i].owner, all)) {
      if (ready.contains(*lease.key)) {
        complain(fmt::format("the lane of {} waits for {} beyond its grace", *lease.key,
                             crew_[i].owner));
      }
      turns_held_.push_back({.lease = std::move(lease), .worker = i});
    }
  }
  // Nor does anything wait for those who are dead.
  for (const std::string& id : ready_instances()) {
    if (ready.contains(id)) complain("nobody can have the lane of " + id);
  }
}

void World::pass(Duration time) {
  clock_->advance(time);
  for (const Worker& one : crew_) {
    if (one.routing.strategy == Routing::consistent_hash && !random_.one_in(4)) one.router->beat();
  }
}

// Another one comes in its place. It has another name: what waits for this one waits in vain.
void World::kill_worker(std::size_t worker) {
  Worker& one = crew_[worker];
  one.cache->clear();
  one.owner = fmt::format("worker-{}-{}", worker, ++tally_.deaths);
  make_router(worker);
}

bool World::lease_activity() {
  auto leases = store_->lease({.queue = "activities", .lease = 5s});
  if (!leases) return false;  // nobody has called one yet
  for (Lease& lease : *leases)
    activities_held_.push_back({.lease = std::move(lease)});
  return !leases->empty();
}

void World::decide_turn(Held& held) {
  if (held.lease.messages.empty()) return;
  Worker& worker = crew_[held.worker];
  auto resident = worker.cache->take(*held.lease.key);
  if (resident && !is_current(*resident, held.lease, held.first)) {
    ++tally_.stale;
    if (ran_elsewhere(*resident, held.lease)) worker.router->note_moved();
    resident.reset();
  }
  Result<TurnResult> turn;
  if (resident) {
    ++(held.first ? tally_.unleased_hits : tally_.cache_hits);
    turn = turns_->go_on(held.lease, held.lease.messages, std::move(resident->instance),
                         random_.one_in(2));
  } else {
    ++tally_.cache_misses;
    const auto history = held.first && !random_.one_in(3)
                             ? Result<History>(held.lease.history.value_or(History{}))
                             : read_to_replay(*store_, "workflow", *held.lease.key);
    if (!history) return complain("a history cannot be read: " + history.error().message);
    turn = turns_->run(held.lease, held.lease.messages, *history);
  }
  if (!turn || turn->refused) {
    // A turn that has lost its lease may see what somebody else has appended meanwhile.
    if (!store_->renew(std::vector{held.lease.token}, 5s).front()) return;
    return complain(!turn ? "a turn failed: " + turn.error().message
                          : "a turn was refused: " + *turn->refused);
  }
  for (const auto& [id, reason] : turn->dead)
    complain("a message was not understood: " + reason);
  ++tally_.turns;
  if (turn->park) ++tally_.parked;
  const bool keeps = turn->instance && turn->left.empty() && !held.lease.isolated && !calm_;
  held.decided = settle_turn(*turn, held.lease);
  if (keeps && random_.one_in(2)) held.decided->settles.front().then = Settle::Then::keep;
  held.after = std::move(turn->instance);
  if (held.after) note_hint(held.worker, held, turn->left.empty());
}

// As a worker does, but that some leave a hint on lanes that they keep.
void World::note_hint(std::size_t worker, Held& held, bool in_memory) {
  Settle& settle = held.decided->settles.front();
  settle.owner_hint = crew_[worker].router->hint_for(*held.lease.key, in_memory);
  if (!settle.owner_hint) return;
  if (settle.then == Settle::Then::keep && random_.one_in(2)) settle.owner_hint->valid_for = 0ms;
  tally_.hints += settle.owner_hint->valid_for > 0ms ? 1 : 0;
}

void World::pull_turn(Held& held) {
  auto pulled = store_->pull(held.lease.token, held.lease.cursor,
                             {.messages = static_cast<std::uint32_t>(1 + random_.below(4))});
  if (!pulled) return;
  held.lease.cursor = pulled->cursor;
  std::ranges::move(pulled->messages, std::back_inserter(held.lease.messages));
}

bool World::commit_turn(Held& held) {
  const bool kept = held.decided->settles.front().then == Settle::Then::keep;
  if (!commit(held)) return true;
  if (held.after) {
    crew_[held.worker].cache->put(
        *held.lease.key, std::make_unique<Resident>(std::move(held.after), held.lease.token));
  }
  if (!kept) return true;
  held.decided.reset();
  held.first = false;
  held.tried = false;
  held.lease.messages.clear();
  return false;
}

void World::decide_activity(Held& held) {
  ++tally_.attempts;
  const Message& message = held.lease.messages.front();
  const std::string name(wire::header(message.headers, wire::activity_header));
  Transaction transaction;
  Settle& settle = transaction.settles.emplace_back();
  settle.token = held.lease.token;
  Outcome& outcome = settle.outcomes.emplace_back(Outcome{.id = message.id});
  const std::uint64_t failing = name == "undo" ? 400 : 200;
  if (!random_.permille(calm_ ? failing / 4 : failing)) {
    add_result(message, name + " of " + message.body, transaction);
  } else {
    const AttemptFailure failure{
        .type = "planned", .text = "it failed", .final = random_.one_in(8)};
    if (const auto wait = next_attempt_in(message, failure)) {
      outcome.kind = Outcome::Kind::retry;
      outcome.delay = *wait;
    } else {
      add_error(message, failure, transaction);
    }
  }
  held.decided = std::move(transaction);
}

// A turn, or an answer, that comes too late must leave no trace; nothing else may keep it away.
bool World::commit(Held& held) {
  const auto done = store_->apply(*held.decided);
  if (done) return held.tried = true;
  ++tally_.late_commits;
  const Errc code = done.error().code;
  // A second commit under a lease that goes on finds that its events are there already.
  const bool again = held.tried && code == Errc::history_mismatch;
  if (code != Errc::lease_lost && code != Errc::message_not_leased && !again) {
    complain("a commit was refused: " + done.error().message);
  }
  return false;
}

// --- Chaos ---

void World::some_accident() {
  switch (random_.below(6)) {
    case 0:  // time passes, and leases run out
      pass(Duration{random_.between(1, 7000)});
      break;
    case 1:
      pass(Duration{random_.between(1, 300)});
      break;
    case 2:  // the store is restarted, or its process killed
      if (!random_.one_in(4)) break;
      ++tally_.restarts;
      open();
      break;
    case 3:  // a worker dies, with all it has in its hands
      tally_.lost_turns += turns_held_.size();
      turns_held_.clear();
      activities_held_.clear();
      kill_worker(random_.below(workers));
      break;
    case 4:
      if (random_.one_in(4)) check_grace();
      break;
    default:
      resume_parked();
      break;
  }
}

void World::client_does_something() {
  const std::string id = "i" + std::to_string(random_.below(3));
  switch (random_.below(12)) {
    case 0:
      std::ignore = workflows_->cancel(id, "by chance");
      break;
    case 1:
      if (random_.one_in(6)) std::ignore = workflows_->terminate(id, "by chance");
      break;
    case 2:
      if (random_.one_in(6)) {
        StartRequest again;
        again.name = "program";
        again.id = id;
        again.input = std::to_string(random_.below(1'000'000)) + " 1 1";
        again.if_exists = random_.one_in(2) ? IfExists::replace : IfExists::reuse;
        std::ignore = workflows_->start(again);
      }
      break;
    default:
      std::ignore =
          workflows_->send_event(id, "e" + std::to_string(random_.below(3)), std::string("hello"));
      break;
  }
}

void World::chaos() {
  for (int i = 0; i < chaos_steps && complaints_.empty(); ++i) {
    switch (random_.below(8)) {
      case 0:
      case 1:
        lease_turn();
        break;
      case 2:
        lease_activity();
        break;
      case 3:
      case 4: {
        if (turns_held_.empty()) break;
        Held& held = turns_held_[random_.below(turns_held_.size())];
        if (held.lease.messages.empty()) pull_turn(held);
        if (!held.decided) decide_turn(held);
        if (!held.decided || random_.one_in(4)) break;  // slow: it commits later, or never
        // A worker that does not know that it is done tries again.
        if (random_.one_in(10)) {
          commit(held);
        } else if (commit_turn(held)) {
          turns_held_.erase(turns_held_.begin() + (&held - turns_held_.data()));
        }
        break;
      }
      case 5: {
        if (activities_held_.empty()) break;
        const std::size_t which = random_.below(activities_held_.size());
        Held& held = activities_held_[which];
        if (!held.decided) decide_activity(held);
        if (random_.one_in(4)) break;
        commit(held);
        activities_held_.erase(activities_held_.begin() + static_cast<std::ptrdiff_t>(which));
        break;
      }
      case 6:
        some_accident();
        break;
      default:
        client_does_something();
        break;
    }
  }
}

// --- Calm: everything must come to its end ---

void World::resume_parked() {
  for (const InstanceInfo& info : instances()) {
    if (has_ended(info.state)) continue;
    const auto seen = workflows_->get(info.id);
    if (seen && seen->parked) std::ignore = workflows_->resume(info.id);
  }
}

void World::send_events() {
  for (const InstanceInfo& info : instances()) {
    if (has_ended(info.state)) continue;
    for (const char* name : {"e0", "e1", "e2"})
      std::ignore = workflows_->send_event(info.id, name, std::string("at last"));
  }
}

void World::calm() {
  calm_ = true;
  int idle = 0;  // rounds; the leases of those who have died run out, with the grace of a restart
  for (int round = 0; round < calm_rounds_max && complaints_.empty(); ++round) {
    bool busy = false;
    while (complaints_.empty() && (lease_turn() || lease_activity())) {
      busy = true;
      for (Held& held : turns_held_) {
        if (!held.decided) decide_turn(held);
        if (held.decided) commit_turn(held);
      }
      turns_held_.clear();
      for (Held& held : activities_held_) {
        if (!held.decided) decide_activity(held);
        commit(held);
      }
      activities_held_.clear();
    }
    resume_parked();
    const auto all = instances();
    const bool over =
        std::ranges::all_of(all, [](const InstanceInfo& info) { return has_ended(info.state); });
    idle = over && !busy ? idle + 1 : 0;
    if (idle > 3) return;
    if (round % 4 == 0) send_events();
    pass(6s);
  }
  if (!complaints_.empty()) return;
  for (const InstanceInfo& info : instances()) {
    if (!has_ended(info.state)) complain("instance " + info.id + " does not end");
  }
}

std::vector<InstanceInfo> World::instances() {
  return must(workflows_->list({.limit = 10'000})).items;
}

// --- What must hold ---

void World::check() {
  for (const InstanceInfo& info : instances()) {
    check_histories(info.id);
    const bool forced =
        info.state == InstanceState::terminated || info.state == InstanceState::timed_out;
    check_sagas(info.id, forced, info.execution);
    check_parent(info);
    if (info.parent) ++tally_.children;
    tally_.completed += info.state == InstanceState::completed ? 1 : 0;
    tally_.failed += info.state == InstanceState::failed ? 1 : 0;
    tally_.cancelled += info.state == InstanceState::cancelled ? 1 : 0;
    tally_.terminated += info.state == InstanceState::terminated ? 1 : 0;
  }
  check_leftovers();
}

// From each checkpoint that is left, the rest replays.
void World::check_checkpoints(const std::string& id, const HistoryPage& page) {
  NobodyOutside nobody;
  for (std::size_t i = 0; i < page.events.size(); ++i) {
    if (page.events[i].kind != EventKind::checkpoint) continue;
    ++tally_.checkpoints;
    Instance instance(program.definition(),
                      {.id = id, .queue = "workflow", .execution = page.execution}, nobody);
    const auto replayed = instance.replay(std::span(page.events).subspan(i), page.first + i);
    if (!replayed) complain("from a checkpoint: " + replayed.error().message);
  }
}

// Wherever a history is cut, between two things that came in, it replays.
void World::check_histories(const std::string& id) {
  NobodyOutside nobody;
  for (std::uint64_t execution = 1;; ++execution) {
    const auto page = workflows_->history(id, execution, 0, 10'000);
    if (!page) return;  // there are no more, or it was ended before it began
    const std::vector<HistoryEvent>& events = page->events;
    tally_.events += events.size();
    tally_.trimmed += page->first > 0 ? 1 : 0;
    check_checkpoints(id, *page);
    const std::size_t every = 1 + events.size() / 20;
    for (std::size_t end = 1; end <= events.size(); ++end) {
      const bool boundary = end == events.size() || !is_decision(events[end].kind);
      if (!boundary || (end % every != 0 && end != events.size())) continue;
      // What was refused at once stands where decisions stand.
      if (end < events.size() && events[end].kind == EventKind::child_failed) continue;
      Instance instance(program.definition(),
                        {.id = id, .queue = "workflow", .execution = execution}, nobody);
      ++tally_.prefixes;
      const auto replayed = instance.replay(std::span(events).first(end), page->first);
      if (!replayed) {
        complain("a prefix of " + std::to_string(end) + " events: " + replayed.error().message);
        return;
      }
    }
    if (!ends_execution(events.back().kind)) complain("the history of " + id + " has no end");
  }
}

void World::check_sagas(const std::string& id, bool ended_by_force, std::uint64_t last_execution) {
  for (const SagaInfo& saga : must(workflows_->sagas(id))) {
    const bool completed = saga.status == SagaStatus::completed;
    const bool undone = saga.status == SagaStatus::failed;
    tally_.sagas_completed += completed ? 1 : 0;
    tally_.sagas_undone += undone ? 1 : 0;
    std::vector<std::string> done;
    std::vector<std::string> reversed;
    for (const SagaStep& each : saga.steps) {
      if (each.compensates) {
        if (each.status == StepStatus::completed) reversed.push_back(each.data);
      } else if (each.status == StepStatus::completed || each.status == StepStatus::compensated) {
        done.push_back("step of " + each.data);
      }
    }
    std::ranges::reverse(reversed);
    if (completed && !reversed.empty()) complain("a saga of " + id + " is completed and undone");
    if (undone && done != reversed) {
      std::string steps;
      for (const SagaStep& each : saga.steps)
        steps += "\n    " + each.name + " " + each.data + " " + std::string(to_string(each.status));
      complain(fmt::format("a saga of {} was not undone in reverse:{}", id, steps));
    }
    // Only what was ended by force may leave a saga as it was.
    if (!completed && !undone && !ended_by_force && saga.execution == last_execution) {
      complain("a saga of " + id + " is " + std::string(to_string(saga.status)));
    }
  }
}

void World::check_parent(const InstanceInfo& info) {
  if (!info.parent) return;
  const auto own = workflows_->wait(info.id, 0ms);
  if (!own || !*own) return;
  for (std::uint64_t execution = 1;; ++execution) {
    const auto page = workflows_->history(*info.parent, execution, 0, 10'000);
    if (!page) return;
    std::map<std::uint64_t, std::string> calls;
    for (const HistoryEvent& event : page->events) {
      if (const auto checkpoint = read_checkpoint(event)) {
        for (const Underway& one : checkpoint->underway) {
          if (one.kind == EventKind::child_started && one.name == info.id)
            calls[one.call] = info.id;
        }
      }
      if (event.kind == EventKind::child_started && event.name == info.id)
        calls[event.call] = info.id;
      if (!calls.contains(event.call)) continue;
      if (event.kind == EventKind::child_completed && event.data != (*own)->result) {
        complain("the parent of " + info.id + " has seen another result");
      }
      if (event.kind == EventKind::child_completed && info.state != InstanceState::completed) {
        complain("the parent of " + info.id + " has seen it complete, and it did not");
      }
    }
  }
}

void World::check_leftovers() {
  for (const QueueInfo& queue : must(store_->queues())) {
    if (queue.name == "out") continue;
    const QueueStats stats = must(store_->stats(queue.name));
    // An activity whose workers have died too often is one; the workflow was told.
    if (stats.dead > 0 && queue.name != "activities") complain("dead letters in " + queue.name);
    // Events that came before an instance wait for it.
    const auto left = must(store_->peek({.queue = queue.name}));
    for (const PeekedMessage& message : left.items) {
      const bool early = message.label.empty() &&
                         wire::header(message.headers, wire::kind_header) == wire::event_kind;
      if (!early) {
        complain("left in " + queue.name + ": " +
                 std::string(wire::header(message.headers, wire::kind_header)) + " for " +
                 message.key.value_or("nobody") + ", " + std::string(to_string(message.state)) +
                 ", label '" + message.label + "'");
      }
    }
  }
}

}  // namespace strand::workflow_sim
