#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "store/engine/nodes.h"
#include "store/engine/ready_index.h"

namespace strand::engine {

// Live messages by where they stand; see QueueStats. `ready` counts those behind a block too:
// stats() tells them apart.
struct Tally {
  std::uint64_t ready = 0;
  std::uint64_t delayed = 0;
  std::uint64_t backoff = 0;  // of `delayed`
  std::uint64_t waiting = 0;
  std::uint64_t leased = 0;
  std::uint64_t parked = 0;

  [[nodiscard]] std::uint64_t live() const { return ready + delayed + waiting + leased + parked; }
};

struct Queue {
  QueueId id{};
  std::string name;
  QueueSettings settings;
  bool paused = false;
  CountersRecord counters;
  bool counters_changed = false;  // in the decisions gathered now
  bool woken = false;             // in the decisions gathered now

  MessagesById messages;                                                     // all live ones
  boost::unordered_flat_map<std::string_view, std::unique_ptr<Lane>> lanes;  // by Lane::key
  std::unordered_map<std::string, MessageNode*, TransparentHash, std::equal_to<>> names;
  std::optional<std::string> pattern;  // it is a subscription

  ReadyIndex ready;  // for everyone
  // For one owner, until the grace of the lane's hint is over.
  std::unordered_map<std::string, std::unique_ptr<ReadyIndex>, TransparentHash, std::equal_to<>>
      hinted;
  std::size_t listed = 0;             // entries in all of them
  std::uint64_t grants = 0;           // leases given in the ready order, for S13
  std::unordered_set<Lane*> blocked;  // free lanes with a block

  WaitingSet unkeyed_waiting;
  std::optional<Time> wake_timer;  // of unkeyed_waiting, as registered
  MessageId wake_id{};

  // The live message of that name; none if there is none.
  [[nodiscard]] MessageNode* find_name(std::string_view message_name) const {
    const auto found = names.find(message_name);
    return found == names.end() ? nullptr : found->second;
  }

  Tally tally;
  std::uint64_t leases = 0;
  std::uint64_t open_executions = 0;
};

}  // namespace strand::engine
