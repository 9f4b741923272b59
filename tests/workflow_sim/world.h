#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <strand/workflows.h>

#include "sim/random.h"
#include "workflow/instance_cache.h"
#include "workflow/routing.h"
#include "workflow/turn.h"
#include "workflow_sim/program.h"

namespace strand::workflow_sim {

// A store, workers with accidents, and clients. One thread; everything follows from the seed.
class World {
 public:
  explicit World(std::uint64_t seed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Chaos, then calm. What went wrong, or nothing.
  std::vector<std::string> run();

  // What the run was like, to see that it was worth it.
  struct Tally {
    std::uint64_t turns = 0;
    std::uint64_t lost_turns = 0;
    std::uint64_t late_commits = 0;
    std::uint64_t attempts = 0;
    std::uint64_t restarts = 0;
    std::uint64_t parked = 0;
    std::uint64_t sagas_completed = 0;
    std::uint64_t sagas_undone = 0;
    std::uint64_t children = 0;
    std::uint64_t completed = 0;
    std::uint64_t failed = 0;
    std::uint64_t cancelled = 0;
    std::uint64_t terminated = 0;
    std::uint64_t events = 0;
    std::uint64_t prefixes = 0;
    std::uint64_t cache_hits = 0;  // under the same lease, and under another
    std::uint64_t unleased_hits = 0;
    std::uint64_t cache_misses = 0;
    std::uint64_t stale = 0;        // was in memory, and true no more
    std::uint64_t checkpoints = 0;  // that are left at the end
    std::uint64_t trimmed = 0;      // histories
    std::uint64_t hints = 0;        // given to a worker
    std::uint64_t hidden = 0;       // lanes that a worker did not get because of one
    std::uint64_t deaths = 0;       // of workers, to whom hints are left
  };
  [[nodiscard]] const Tally& tally() const { return tally_; }

 private:
  // A turn, or an activity, in somebody's hands.
  struct Held {
    Lease lease;
    std::optional<Transaction> decided = {};
    std::size_t worker = 0;  // which one, of those that run turns
    bool first = true;       // nothing was committed under this lease
    bool tried = false;      // what was decided was committed, and its worker may not know
    std::unique_ptr<workflow::Instance> after = {};  // the turn, once it is committed
  };

  void open();
  void draw_workers();
  void make_router(std::size_t worker);
  void start_instances();
  void chaos();
  void calm();
  void check();
  void check_histories(const std::string& id);
  void check_checkpoints(const std::string& id, const HistoryPage& page);
  void check_sagas(const std::string& id, bool ended_by_force, std::uint64_t last_execution);
  void check_parent(const InstanceInfo& info);
  void check_leftovers();

  bool lease_turn();
  std::vector<Lease> lease_as(const std::string& owner, std::uint32_t lanes);
  // Those that could be leased, but for hints.
  std::set<std::string> ready_instances();
  void note_hint(std::size_t worker, Held& held, bool in_memory);
  // Time passes, and workers say that they live, if they are not too slow for it.
  void pass(Duration time);
  void kill_worker(std::size_t worker);
  // However dead or slow the one is for whom a lane waits: after the grace anybody has it.
  void check_grace();
  bool lease_activity();
  // A worker that has kept a lane looks whether it has messages.
  void pull_turn(Held& held);
  // Whether the worker is done with the lane.
  bool commit_turn(Held& held);
  void decide_turn(Held& held);
  void decide_activity(Held& held);
  // Whether it was.
  bool commit(Held& held);
  void some_accident();
  void client_does_something();
  void resume_parked();
  void send_events();
  std::vector<InstanceInfo> instances();
  void complain(std::string text);

  const std::uint64_t seed_;
  sim::Random random_;
  std::string url_;
  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  std::unique_ptr<Store> store_;
  std::unique_ptr<workflow::Turns> turns_;
  std::unique_ptr<Workflows> workflows_;
  // Each worker that runs turns has instances in memory, as many as there are.
  static constexpr std::size_t workers = 3;
  struct Worker {
    std::string owner = {};
    RoutingOptions routing = {};
    std::unique_ptr<workflow::InstanceCache> cache = {};
    std::unique_ptr<workflow::Router> router = {};
  };
  std::array<Worker, workers> crew_;
  std::vector<Held> turns_held_;
  std::vector<Held> activities_held_;
  bool calm_ = false;
  Tally tally_;
  std::vector<std::string> complaints_;
};

}  // namespace strand::workflow_sim
