#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <strand/store.h>

#include "proto/strand/v1/store.pb.h"
#include "server/access.h"

namespace strand::server {

// The transactions of one request: those that are refused here, and those that go to the store.
class ApplyBatch {
 public:
  // Takes the transactions out of the request. `trace` (a traceparent) becomes a header of the
  // messages that have none of their own.
  ApplyBatch(::strand::v1::ApplyRequest& request, const Permit& permit,
             std::optional<std::string_view> trace);

  // Those for the store, in order. Once.
  std::vector<Transaction> take() { return std::move(transactions_); }
  // One result for each transaction of the request, from one for each that went to the store.
  void write(std::vector<Result<Receipt>> results, ::strand::v1::ApplyResponse& response) const;

 private:
  std::vector<Transaction> transactions_;
  std::vector<std::optional<Error>> refused_;  // one for each of the request
};

}  // namespace strand::server
