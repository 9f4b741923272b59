#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <strand/limits.h>

namespace strand::differential {

// What a step does. All that it needs besides is drawn from the step's own seed, out of what the
// history has seen by then.
enum class Act : std::uint8_t {
  configure,
  send,
  publish,
  cancel,
  write_record,
  several,  // transactions in one call
  repeat,   // of a transaction, or of its id with other content
  lease,
  lease_key,
  seize,
  repeat_request,
  pull,
  renew,
  settle,
  turn,  // of a workflow: append, settle and send at once
  administer,
  redrive,
  drop_dead,
  resume_lane,
  subscribe,
  configure_topic,
  read,
  survey,  // reads all there is
  flaw,    // a request that must be refused
  advance,
  reopen,
};
inline constexpr std::size_t act_count = 26;
std::string_view name(Act act);

struct Step {
  Act act{};
  std::uint64_t seed = 0;
};

// What a store that is compared allows.
struct Traits {
  // A message has the same id in both stores. If not, there is no jitter in the histories, because
  // jitter depends on the id, and waits could not be equal.
  bool same_ids = true;
  // Histories may close and open both stores. The reference then orders ready lanes anew, by the
  // place of their first message; a store whose line of lanes outlives a handle cannot agree.
  bool reopens = false;
};

// A history before it is run: all that it depends on, drawn from a seed.
struct Plan {
  Plan(std::uint64_t the_seed, Traits the_traits);

  std::uint64_t seed;
  Traits traits;
  std::vector<Step> steps;
  std::vector<bool> kept;  // false: left out, to make a history smaller

  Limits limits;
  std::uint64_t queue_count = 1;
  std::uint64_t key_count = 1;
  std::int64_t pace_ms = 1;

  // The numbers of the steps that are left, from 1: "1,4,17".
  [[nodiscard]] std::string kept_steps() const;
  // Leaves out all others.
  void keep_only(std::string_view wanted);
};

}  // namespace strand::differential
