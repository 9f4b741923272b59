#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <strand/limits.h>
#include <strand/settings.h>

#include "sim/random.h"

namespace strand::sim {

// What can go wrong. Each has a rate, drawn from the seed, and can be switched off when a failure
// is made smaller.
enum class Fault : std::uint8_t {
  write_fails_before,  // nothing of the batch is written
  write_fails_after,   // all of it is, but the answer is a failure
  sync_fails,          // written to the cache of the system, perhaps lost again
  slow_write,
  reopen_fails,  // the backend cannot be read after a failure, a few times
  read_fails,    // one read of the archive
  crash,         // of the process, with a write under way
  power_loss,    // loses what was not synced, tears the last write
  wall_jump,     // of the wall clock, in either direction
  clock_jump,    // of the monotonic clock
  clock_freeze,  // the process stands still
  late_timer,    // what is due is not applied by the timer
  lost_reply,
  late_reply,
};
inline constexpr std::size_t fault_count = 14;

// What clients do.
enum class Action : std::uint8_t {
  send,
  publish,
  lease,
  lease_key,
  seize,
  pull,
  renew,
  settle,
  cancel,
  write_record,
  turn,  // of a workflow: append, settle and send at once
  repeat,
  administer,
  read,
  mischief,  // requests that must be refused
};
inline constexpr std::size_t action_count = 15;

std::string_view name(Fault fault);
std::string_view name(Action action);

// What kinds of clients there are: they do the same things, but not equally often.
enum class Role : std::uint8_t { producer, consumer, workflow, operator_, onlooker };

// All that a run depends on. Two runs of the same plan are the same to the last byte.
struct Plan {
  explicit Plan(std::uint64_t the_seed);

  std::uint64_t seed;
  // These make a run smaller without changing the rest of it.
  std::uint64_t steps_max;                      // so many calls before the faults are switched off
  std::array<bool, fault_count> faults = {};    // false: never
  std::array<bool, action_count> actions = {};  // false: never
  std::vector<bool> clients;                    // false: not there

  // Drawn from the seed.
  std::array<std::uint64_t, fault_count> rates{};  // in 1,000
  std::vector<Role> roles;
  std::uint64_t pace_ms = 0;  // between two calls of one client, about
  std::uint64_t queue_count = 0;
  std::uint64_t key_count = 0;
  std::uint64_t portion = 0;  // of what is due, applied at a time; 0: all of it
  Limits limits;

  // For tests of the simulator itself: the disk loses what it has confirmed.
  bool disk_lies = false;

  [[nodiscard]] bool happens(Fault fault, Random& random) const;

  // The words that repeat this plan: "--seed 7 --steps 40 --without crash,send --clients 1,3".
  [[nodiscard]] std::string arguments() const;
};

// Settings of a queue for tests: everything short, so that it happens within a run.
QueueSettings draw_settings(Random& random);

}  // namespace strand::sim
