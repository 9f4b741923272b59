#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace strand {

// What went wrong, for programs. `Error::message` says it for people.
enum class Errc {
  // The request itself is wrong. Repeating it cannot help.
  invalid_argument,       // malformed, empty where a value is needed, out of range
  limit_exceeded,         // a named limit (see Limits) was passed
  transaction_too_large,  // more operations or bytes than one transaction may have
  invalid_token,          // not a token of this store
  unsupported,            // no such kind of store, or a feature it does not have
  forbidden,              // a server does not let this caller do that, or does not know the caller

  // The request does not fit the state of the store. Nothing was changed.
  not_found,             // no such queue, message, lane, topic, subscription
  already_exists,        // a subscription of that name has another pattern
  in_use,                // the queue has leases, or the store belongs to another process
  name_taken,            // another live message of the queue has that name
  lease_lost,            // the token is not current any more
  message_not_leased,    // the lease does not hold that message (any more)
  invalid_cursor,        // neither the cursor of the last pull nor the next one
  version_mismatch,      // the record is not at the expected version
  history_mismatch,      // the execution does not have the expected length
  transaction_conflict,  // the transaction id was used with other content
  transaction_expired,   // the transaction id is older than the window, or was answered

  // The store cannot take it now. Repeating it later may help. Nothing was changed.
  queue_full,   // the queue has its `max_length` of live messages
  store_full,   // memory, disk or a table of ids has reached its limit
  unavailable,  // the store is recovering from a failed write, or closing

  // The store itself is in trouble.
  unknown_outcome,  // may have been applied, may not: repeat it with the same id
  io_error,         // the disk or the connection failed
  corrupt,          // what was read is not what was written
};

// The name of the code as it appears in JSON and logs, such as "lease_lost".
std::string_view to_string(Errc code);

// A failure: a code for programs, a sentence for people (what happened, to which thing, what to
// do).
struct Error {
  Errc code = Errc::invalid_argument;
  std::string message;

  // Whether the same request may succeed later without anyone changing it.
  [[nodiscard]] bool retryable() const {
    return code == Errc::queue_full || code == Errc::store_full || code == Errc::unavailable ||
           code == Errc::unknown_outcome;
  }
};

template <class T>
using Result = std::expected<T, Error>;

// Shorthand for returning a failure: `return failure(Errc::not_found, "...")`.
inline std::unexpected<Error> failure(Errc code, std::string message) {
  return std::unexpected(Error{code, std::move(message)});
}

}  // namespace strand
