#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace strand::relay_chaos {

// A line of a trace, as docs/guide/relay.md has it.
struct Step {
  enum class Event : std::uint8_t { claim, publish, confirmed, released, marked, lost, poison };
  std::int64_t time_us = 0;
  Event event = Event::claim;
  std::string process = {};
  int worker = 0;
  std::string entity = {};
  std::int64_t epoch = 0;
  std::vector<std::string> rows = {};
};

// All lines of a text. The last one of a process that was killed may be cut off, and is left out;
// any other that is no step throws std::runtime_error.
std::vector<Step> parse_trace(std::string_view text);
std::vector<Step> read_trace(const std::filesystem::path& file);

// What befell a process, by the wall clock.
struct Fault {
  std::string process = {};  // empty: all of them
  std::int64_t from_us = 0;
  std::int64_t until_us = 0;
  bool fatal = false;  // it ended at `from_us`
};

struct TraceTotals {
  std::uint64_t holds = 0;      // times that a worker had an entity
  std::uint64_t takeovers = 0;  // overlaps of a hold with one that had been lost
  std::uint64_t lost = 0;       // holds that the worker itself saw lost
  std::uint64_t cut = 0;        // holds that ended with their process
  std::uint64_t published = 0;  // rows
  std::uint64_t marked = 0;     // rows
};

struct TraceJudgement {
  TraceTotals totals = {};
  std::vector<std::string> violations = {};  // a sentence each
};

// Whether the workers' own traces show that an entity was in one worker's hands at a time. A worker
// has an entity from `claim` to `released` or `lost`, or to the end of its process. What is proven:
//
// 1. Two holds of one entity overlap only if one of the two was taken from its worker: something
//    befell that process while it had the entity. Where epochs fence (`fenced`), it is the one with
//    the lower epoch. A loser marks nothing in that hold.
// 2. A worker publishes only what it holds, marks only what was confirmed to it in that hold, and
//    begins nothing after `released` or `lost`.
// 3. No row is marked twice, by whomever.
// 4. Where epochs fence, a hold that begins after another one has a higher epoch, if it is another
//    worker's.
//
// `steps` has the steps of each process in their order.
TraceJudgement judge_traces(const std::vector<Step>& steps, const std::vector<Fault>& faults,
                            bool fenced);

}  // namespace strand::relay_chaos
