#pragma once

#include <optional>
#include <span>
#include <vector>

#include <strand/store.h>

#include "pq/connection.h"

// How calls of the contract become statements: calls of the functions in sql/.

namespace strand::postgres {

// A place in the ready order: the more urgent first, then the lower number.
struct Turn {
  std::int32_t priority = 0;
  std::int64_t number = 0;
};

// The statements of one transaction, and which of them answers for which part.
struct TransactionPlan {
  Group statements = {};
  std::optional<std::size_t> cancels = {};
  std::optional<std::size_t> sends = {};
  std::optional<std::size_t> publishes = {};
  std::optional<std::size_t> records = {};
  std::optional<std::size_t> admin = {};
  std::size_t time = 0;
};

// `nearly_full`: the database has to look whether what is sent still fits the store.
TransactionPlan plan(const Transaction& transaction, const Limits& limits, bool nearly_full);

// The first statement of a transaction that has an id.
Statement begin_statement(const Transaction& transaction, const Limits& limits);

// Locks all lanes that the transactions will touch, in one order for everybody.
Statement lock_lanes(std::span<const Transaction* const> transactions);

// `granted`: leases that this handle has given from the queue; `bound`: nothing of its priority
// waits in front of it.
Statement lease_statement(const LeaseRequest& request, const Limits& limits, std::uint64_t granted,
                          const Turn& bound);
Statement pull_statement(const Token& token, Cursor cursor, const PullLimits& limits);
Statement renew_statement(std::span<const Token> tokens, Duration lease);

// Headers as a column keeps them: each name and value with its length in front.
std::string encode_headers(const Headers& headers);
Headers decode_headers(std::string_view bytes);

// All patterns that match a topic, separated by newlines; nothing if they would be too many.
std::optional<std::string> patterns_of(std::string_view topic);

inline std::int64_t milliseconds(Time time) { return time.time_since_epoch().count(); }
inline Time time_at(std::int64_t milliseconds) { return Time{Duration{milliseconds}}; }

}  // namespace strand::postgres
