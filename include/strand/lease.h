#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <strand/ids.h>
#include <strand/message.h>
#include <strand/time.h>

namespace strand {

// Asks for lanes to work on.
struct LeaseRequest {
  std::string queue = {};
  // Only lanes with one of these labels; "" stands for unlabelled; empty: any lane.
  std::vector<std::string> labels = {};
  // Only this lane.
  std::optional<std::string> key = {};
  // With `key`: take the lane even if it is leased, parked, blocked or empty. Its current lease is
  // lost, uncharged. For administration: terminating or replacing an instance.
  bool seize = false;
  // Who asks; lanes with a hint for this owner are found without waiting.
  std::string owner = {};
  // Asking again with the same id returns those of its leases that are still live, never new ones.
  std::optional<RequestId> request = {};
  std::uint32_t lanes = 1;                    // at most so many leases
  std::uint32_t messages = 1000;              // at most so many messages, over all leases
  std::size_t bytes = std::size_t{4} << 20U;  // of bodies and headers; the first always fits
  std::optional<Duration> lease = {};         // none: the queue's setting
  // Bring the instance's open execution with its events from this one (0 = first) on.
  std::optional<std::uint64_t> history_from = {};
  // At most so many of those events, for each lane; the rest is read with Store::history().
  std::size_t history_limit = std::numeric_limits<std::size_t>::max();
};

// The current execution of an instance.
struct Execution {
  std::string queue = {};
  std::string key = {};
  std::uint64_t number = 0;                 // of the execution; 0: the instance does not exist
  std::uint64_t length = 0;                 // events in its history, trimmed ones included
  std::uint64_t first = 0;                  // events before this one were trimmed
  std::string label = {};                   // pinned while open
  std::optional<std::string> outcome = {};  // none while open
  Time opened_at{};
  Time updated_at{};  // its last append

  friend bool operator==(const Execution&, const Execution&) = default;
};

struct History {
  Execution execution = {};
  // Index of events.front(): what was asked for, or the first event that was not trimmed.
  std::uint64_t first = 0;
  std::vector<Bytes> events = {};

  friend bool operator==(const History&, const History&) = default;
};

// Exclusive, time-limited, fenced ownership of one lane, with a batch of its messages in order.
struct Lease {
  Token token = {};
  std::string queue = {};
  std::optional<std::string> key = {};  // none: one unkeyed message
  std::string label = {};
  std::vector<Message> messages = {};
  Time expires_at{};
  Cursor cursor{};        // for the next pull
  bool isolated = false;  // one message only, because the lease before it ran out
  bool more = false;      // the lane has visible messages beyond the limits
  std::optional<History> history = {};

  friend bool operator==(const Lease&, const Lease&) = default;
};

struct PullLimits {
  std::uint32_t messages = 1000;
  std::size_t bytes = std::size_t{4} << 20U;
};

struct Pulled {
  std::vector<Message> messages = {};
  Cursor cursor{};  // for the next pull
  bool more = false;

  friend bool operator==(const Pulled&, const Pulled&) = default;
};

}  // namespace strand
