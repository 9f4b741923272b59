#pragma once

#include <string>
#include <string_view>

#include <strand/store.h>
#include <strand/transaction.h>

namespace strand::workflow {

// The lane of an instance in the hands of an administrator: whoever worked on it has lost it.
Result<Lease> seize_lane(Store& store, const std::string& queue, std::string_view id);

// Settles all that the lease carries, for a transaction that ends the instance.
Settle settle_all(const Lease& lease);

// Ends the execution that the lease has brought, if one is open: everything under way is called
// off, its parent and its record are told.
Result<void> add_end(const Lease& lease, const std::string& reason, Time now,
                     Transaction& transaction);

}  // namespace strand::workflow
