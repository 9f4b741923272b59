#include "server/apply_batch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/planted.h"
#include "server/permits.h"
#include "store/remote/convert.h"

namespace strand::server {

namespace {

constexpr std::string_view trace_header = "traceparent";
// As W3C has it: version, trace, parent, flags.
constexpr std::size_t trace_bytes = 55;

void add_trace(Content& content, std::string_view trace) {
  const bool has_one =
      std::ranges::any_of(content.headers, [](const Header& h) { return h.name == trace_header; });
  if (!has_one) content.headers.push_back({std::string(trace_header), std::string(trace)});
}

Result<Transaction> read(::strand::v1::Transaction& wire, const Permit& permit) {
  auto transaction = remote::read_transaction(wire);
  if (!transaction || STRAND_PLANTED("transactions-need-no-permit")) return transaction;
  if (auto permitted = permit_transaction(permit, *transaction); !permitted) {
    return std::unexpected(std::move(permitted).error());
  }
  return transaction;
}

}  // namespace

ApplyBatch::ApplyBatch(::strand::v1::ApplyRequest& request, const Permit& permit,
                       std::optional<std::string_view> trace) {
  const auto count = static_cast<std::size_t>(request.transactions_size());
  transactions_.reserve(count);
  refused_.reserve(count);
  for (::strand::v1::Transaction& wire : *request.mutable_transactions()) {
    auto transaction = read(wire, permit);
    if (!transaction) {
      refused_.emplace_back(std::move(transaction).error());
      continue;
    }
    if (trace && trace->size() == trace_bytes) {
      for (Send& send : transaction->sends)
        add_trace(send, *trace);
      for (Publish& publish : transaction->publishes)
        add_trace(publish, *trace);
    }
    refused_.emplace_back(std::nullopt);
    transactions_.push_back(*std::move(transaction));
  }
}

void ApplyBatch::write(std::vector<Result<Receipt>> results,
                       ::strand::v1::ApplyResponse& response) const {
  response.mutable_results()->Reserve(static_cast<int>(refused_.size()));
  auto next = results.begin();
  for (const std::optional<Error>& error : refused_) {
    ::strand::v1::ApplyResult& one = *response.add_results();
    remote::write(error ? Result<Receipt>(std::unexpected(*error)) : std::move(*next++), one);
  }
}

}  // namespace strand::server
