#pragma once

#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include <strand/strand.h>

#include "conformance/suite.h"

// All that a store shows of itself, to prove that a refused request left no trace.
//
// Records cannot be listed over all spaces: tests that use snapshots keep theirs in `state_space`.

namespace strand::conformance {

inline constexpr std::string_view state_space = "state";

struct QueueSnapshot {
  QueueInfo info;
  QueueStats stats;
  std::vector<PeekedMessage> messages;
  std::vector<DeadLetter> dead_letters;
  std::vector<History> histories;  // of every execution

  friend bool operator==(const QueueSnapshot&, const QueueSnapshot&) = default;
};

struct Snapshot {
  Time now{};
  std::vector<QueueSnapshot> queues;
  std::vector<Subscription> subscriptions;
  std::vector<Topic> topics;
  std::vector<Record> records;

  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

Snapshot snapshot(Store& store);

// Fails, part by part, where the two differ.
void expect_same(const Snapshot& before, const Snapshot& after);

// What the refusal must be: its code, and a word of its message (an error says what was wrong).
struct Refusal {
  ::testing::Matcher<Errc> code;
  std::string word = {};
};
// A value that is wrong in itself and beyond a named limit as well: either code is clear.
Refusal out_of_range(std::string word = {});

// The request fails so, says why, and leaves the store as it was.
void expect_refused(Store& store, const Transaction& transaction, const Refusal& refusal,
                    std::source_location where = std::source_location::current());
void expect_refused(Store& store, const LeaseRequest& request, const Refusal& refusal,
                    std::source_location where = std::source_location::current());
void expect_pull_refused(Store& store, const Token& token, Cursor cursor, PullLimits limits,
                         const Refusal& refusal,
                         std::source_location where = std::source_location::current());
void expect_renew_refused(Store& store, const Token& token, Duration lease, const Refusal& refusal,
                          std::source_location where = std::source_location::current());

}  // namespace strand::conformance
