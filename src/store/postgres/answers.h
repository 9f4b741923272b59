#pragma once

#include <vector>

#include <strand/store.h>

#include "pq/connection.h"
#include "store/postgres/places.h"
#include "store/postgres/requests.h"

// How rows become answers of the contract.

namespace strand::postgres {

// What the functions of the schema refuse, and what the server does, as an error of the contract.
// `what` is for errors that name nothing themselves, such as "the transaction".
Error error_of(const Failure& failure, std::string_view what);
// Whether it says that the transaction was applied before: then its receipt is to be read.
bool was_applied(const Failure& failure);

Receipt read_receipt(const TransactionPlan& plan, std::span<const Rows> rows);
// Of a row of the table `receipts`; nothing if there is none.
std::optional<Receipt> read_stored_receipt(const Rows& rows);

// What lease() returned.
struct Granted {
  std::vector<Lease> leases = {};
  bool fresh = false;              // not those of an earlier request with the same id
  std::optional<Turn> first = {};  // the one that was served first
  // Every transaction below `low` had ended before the claim looked, and one whose turn is lower
  // than what it found, but was not there yet, is below `high`.
  std::int64_t low = 0;
  std::int64_t high = 0;
};
Granted read_granted(const Rows& rows, std::string_view queue, const Identity& identity);
Pulled read_pulled(const Rows& rows);

std::vector<PeekedMessage> read_peeked(const Rows& rows);
std::vector<DeadLetter> read_dead_letters(const Rows& rows, const std::string& queue);
QueueStats read_stats(const Rows& rows);
std::vector<QueueInfo> read_queues(const Rows& rows);

}  // namespace strand::postgres
