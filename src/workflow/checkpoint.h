#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <strand/error.h>
#include <strand/history.h>
#include <strand/message.h>

// What an execution has at one of its events, so that it can go on from there: as an event.

namespace strand::workflow {

// Something that an execution has under way, by its history.
struct Underway {
  EventKind kind{};  // that began it
  std::uint64_t call = 0;
  std::string name = {};
  std::string queue = {};
  std::string label = {};
  std::string when_parent_ends = {};
  bool has_progress = false;
  // Of a checkpoint: whether a future stood for it, and what tells it from other calls.
  bool held = false;
  std::uint64_t input_hash = 0;

  friend bool operator==(const Underway&, const Underway&) = default;
};

struct Checkpoint {
  std::uint32_t version = 1;
  Bytes state = {};  // of the code
  HistoryEvent started = {};
  std::uint64_t calls = 0;  // counters
  std::uint64_t random_numbers = 0;
  std::uint64_t sagas = 0;
  std::string status = {};
  std::map<std::string, Bytes> shown = {};  // by Workflow::set
  std::map<std::string, bool, std::less<>> patches = {};
  std::vector<std::pair<std::string, Bytes>> mail = {};  // events that nobody has awaited
  std::vector<Underway> underway = {};

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

HistoryEvent to_event(const Checkpoint& checkpoint);
// `corrupt`: it is none, or not a whole one.
Result<Checkpoint> read_checkpoint(const HistoryEvent& event);

// Stands for one that cannot be read at all: a replay passes through it, and cannot begin there.
HistoryEvent unreadable_checkpoint();

// Of what a call passes on.
[[nodiscard]] std::uint64_t hash_of_input(std::string_view input);

// With what an execution was started; `events`: as many of its history as are left.
Result<HistoryEvent> started_of(std::span<const HistoryEvent> events);
std::vector<Underway> underway(std::span<const HistoryEvent> events);

}  // namespace strand::workflow
