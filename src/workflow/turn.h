#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <strand/lease.h>
#include <strand/store.h>
#include <strand/transaction.h>

#include "workflow/checkpoint.h"
#include "workflow/instance.h"
#include "workflow/records.h"
#include "workflow/replay_costs.h"

namespace strand::workflow {

// The kinds of workflows that a program can run, by label.
using Registry = std::map<std::string, std::shared_ptr<const WorkflowDefinition>, std::less<>>;

// What a turn was about, for those who count.
struct TurnReport {
  std::uint64_t replayed_events = 0;
  std::uint64_t new_events = 0;
  std::uint64_t history_length = 0;
  std::uint64_t checkpoints = 0;             // taken
  std::uint64_t unreadable_checkpoints = 0;  // that were tried
  bool opened = false;
  std::optional<EventKind> ended = {};
  bool differs = false;  // from its history
};

// What is to be committed; or why nothing is.
struct TurnResult {
  Transaction transaction = {};  // all but the settle
  std::optional<std::string> label = {};
  std::optional<std::string> park = {};     // with the commit
  std::optional<std::string> refused = {};  // nothing is committed: the lane parks with this
  std::vector<MessageId> left = {};         // messages that are for a later turn
  std::vector<std::pair<MessageId, std::string>> dead = {};  // that are no messages for workflows
  TurnReport report = {};
  // The execution after this turn, if it goes on: true once the turn is committed.
  std::unique_ptr<Instance> instance = {};
};

// The whole transaction, with what becomes of the lease's messages.
Transaction settle_turn(TurnResult& result, const Lease& lease);

// Runs turns: what is in the lane of an instance, and its history, become one transaction.
//
// Threads: every method may be called concurrently.
class Turns {
 public:
  struct Options {
    bool verify = false;  // replay each turn again, and compare
    CheckpointPolicy checkpoints = {};
  };
  // `store` is only read from, and must outlive this.
  Turns(Store& store, Registry registry, Options options)
      : store_(store), registry_(std::move(registry)), options_(std::move(options)) {}

  [[nodiscard]] const Registry& registry() const { return registry_; }

  // An error: something could not be read; the turn can be tried again.
  Result<TurnResult> run(const Lease& lease, std::span<const Message> messages,
                         const History& history) const;
  // The same with an instance that is what a replay would yield; `audit`: which is to be checked.
  Result<TurnResult> go_on(const Lease& lease, std::span<const Message> messages,
                           std::unique_ptr<Instance> instance, bool audit) const;

 private:
  class Run;
  Store& store_;
  Registry registry_;
  Options options_;
  mutable ReplayCosts costs_;  // has a lock of its own
};

// What ends an execution from outside: everything under way is called off, its parent told, its
// record written.
struct Ending {
  Identity identity = {};
  std::string label = {};
  HistoryEvent started = {};
  HistoryEvent end = {};
  std::string status = {};
};
// The record of an instance as its execution says it.
InstanceRecord record_of(const Identity& identity, const std::string& label,
                         const HistoryEvent& started, const std::string& status,
                         const HistoryEvent* end);
void tell_parent(const Ending& ending, Transaction& transaction);

}  // namespace strand::workflow
