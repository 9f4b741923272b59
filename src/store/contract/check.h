#pragma once

#include <string_view>

#include <strand/store.h>

// What can be refused without looking at a store: sizes, ranges, empty names. Every store asks
// here, so that bad input gets the same error everywhere.

namespace strand {

Result<void> check_transaction(const Transaction& transaction, const Limits& limits);
Result<void> check_lease_request(const LeaseRequest& request, const Limits& limits);
Result<void> check_pull_limits(const PullLimits& pull, const Limits& limits);
Result<void> check_lease_duration(Duration lease, const Limits& limits);
// `what` names the field in the error: "queue", "topic", "label".
Result<void> check_name(std::string_view what, std::string_view name, const Limits& limits);
Result<void> check_key(std::string_view what, std::string_view key, const Limits& limits);
Result<void> check_page(std::size_t limit, const Limits& limits);

// Bytes of a message as limits count them: body, header names and header values.
std::size_t content_bytes(const Bytes& body, const Headers& headers);

}  // namespace strand
