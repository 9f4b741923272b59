#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include <strand/store.h>

#include "model/recorder.h"

namespace strand::server_chaos {

// A transaction of which nobody said whether it was applied.
struct Doubtful {
  model::Call call = {};  // until the client gave up; it may have been applied later
  Transaction transaction = {};
};

// Several transactions that one call applied, in order, all with success.
struct Together {
  std::vector<MessageId> sent = {};
};

struct Totals {
  std::uint64_t applied = 0;   // transactions that were confirmed
  std::uint64_t sent = 0;      // messages of those
  std::uint64_t settled = 0;   // messages of those
  std::uint64_t refused = 0;   // transactions, because the lease was lost
  std::uint64_t leased = 0;    // lanes
  std::uint64_t pulled = 0;    // calls
  std::uint64_t renewed = 0;   // leases
  std::uint64_t repeated = 0;  // calls that needed more than one attempt of their client
  std::uint64_t doubtful = 0;  // transactions of unknown outcome
  std::uint64_t woken = 0;     // by a watch

  Totals& operator+=(const Totals& other);
};

// What one client asked of the store and was told. Belongs to one thread.
struct ClientRecord {
  std::string client = {};
  std::vector<model::Recorder::Entry> entries = {};
  std::vector<Doubtful> doubtful = {};
  std::vector<Together> together = {};
  std::vector<std::string> wrong = {};  // answers that no client may get
  Totals totals = {};
};

// Whether any order of all these calls explains what the clients were told, and what is left in the
// store: nothing confirmed is lost, nothing applied twice, lanes are in order and have one holder,
// the counts add up. Throws a model::Violation that says what contradicts what.
//
// How doubt is removed: every body is sent once, so that a message which anybody was shown, or
// which is left, proves that its transaction was applied, and then whole; a transaction of which
// nothing was ever seen was not applied. So a doubtful transaction must send something.
//
// What the clients may do otherwise: see model::Recorder. Every queue is among `remains`.
void judge(std::span<const ClientRecord> records, std::span<const model::Remains> remains);

}  // namespace strand::server_chaos
