#pragma once

#include <strand/store.h>

#include "server/access.h"

namespace strand::server {

// Which role a request needs, and for which name. One place for all ways in.
//
// A token of a lease is a proof by itself: only who was given the lane has it. So settling, pulling
// and renewing need the role `receive` somewhere, and not for a certain queue.

Result<void> permit_transaction(const Permit& permit, const Transaction& transaction);
Result<void> permit_lease(const Permit& permit, const LeaseRequest& request);
Result<void> permit_watch(const Permit& permit, const WatchTarget& target);
Result<void> permit_holder(const Permit& permit);
// Reading what is in a queue, a history or a space of records.
Result<void> permit_read(const Permit& permit, std::string_view name);
// Seeing that it exists, and its counts.
Result<void> permit_look(const Permit& permit, std::string_view name);

}  // namespace strand::server
