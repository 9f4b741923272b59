#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "workflow_sim/world.h"

namespace strand::workflow_sim {
namespace {

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Every run ends, and what it leaves is what it should be.
TEST(WorkflowSim, Whatever_happens_every_instance_ends_and_replays) {
  const bool full = number_from("STRAND_TEST_FULL", 0) > 0;
  const std::uint64_t one = number_from("STRAND_WORKFLOW_SEED", 0);
  const std::uint64_t first = one > 0 ? one : 1;
  const std::uint64_t count =
      one > 0 ? 1 : number_from("STRAND_WORKFLOW_SEEDS", full ? 20'000 : 250);
  World::Tally sum;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    World world(seed);
    const auto complaints = world.run();
    for (const std::string& complaint : complaints)
      ADD_FAILURE() << complaint << "\n  STRAND_WORKFLOW_SEED=" << seed
                    << " build/release/workflow_sim_tests";
    if (!complaints.empty()) return;
    const World::Tally& tally = world.tally();
    sum.turns += tally.turns;
    sum.lost_turns += tally.lost_turns;
    sum.late_commits += tally.late_commits;
    sum.attempts += tally.attempts;
    sum.restarts += tally.restarts;
    sum.parked += tally.parked;
    sum.sagas_completed += tally.sagas_completed;
    sum.sagas_undone += tally.sagas_undone;
    sum.children += tally.children;
    sum.completed += tally.completed;
    sum.failed += tally.failed;
    sum.cancelled += tally.cancelled;
    sum.terminated += tally.terminated;
    sum.events += tally.events;
    sum.prefixes += tally.prefixes;
    sum.cache_hits += tally.cache_hits;
    sum.unleased_hits += tally.unleased_hits;
    sum.cache_misses += tally.cache_misses;
    sum.stale += tally.stale;
    sum.checkpoints += tally.checkpoints;
    sum.trimmed += tally.trimmed;
    sum.hints += tally.hints;
    sum.hidden += tally.hidden;
    sum.deaths += tally.deaths;
  }
  if (one > 0) return;
  // A run in which nothing happens proves nothing.
  for (const std::uint64_t each :
       {sum.lost_turns,      sum.late_commits, sum.restarts,   sum.parked,
        sum.sagas_completed, sum.sagas_undone, sum.children,   sum.completed,
        sum.failed,          sum.cancelled,    sum.terminated, sum.cache_hits,
        sum.unleased_hits,   sum.cache_misses, sum.stale,      sum.checkpoints,
        sum.trimmed,         sum.hints,        sum.hidden,     sum.deaths}) {
    EXPECT_GT(each, count / 50);
  }
  fmt::print(
      "{} seeds: {} turns, {} lost, {} commits too late, {} attempts, {} restarts, {} parked, {} "
      "sagas completed, {} undone, {} children, {} completed, {} failed, {} cancelled, {} "
      "terminated, {} events, {} prefixes; instances in memory: {} hits under the same lease, {} "
      "under another, {} misses, {} stale; {} checkpoints, {} histories trimmed; {} hints, {} "
      "lanes hidden by one, {} workers dead\n",
      count, sum.turns, sum.lost_turns, sum.late_commits, sum.attempts, sum.restarts, sum.parked,
      sum.sagas_completed, sum.sagas_undone, sum.children, sum.completed, sum.failed, sum.cancelled,
      sum.terminated, sum.events, sum.prefixes, sum.cache_hits, sum.unleased_hits, sum.cache_misses,
      sum.stale, sum.checkpoints, sum.trimmed, sum.hints, sum.hidden, sum.deaths);
}

}  // namespace
}  // namespace strand::workflow_sim
