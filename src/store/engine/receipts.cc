#include <algorithm>

#include <fmt/format.h>

#include "base/planted.h"
#include "store/engine/state.h"

// Transaction ids and request ids: what makes repeats harmless.

namespace strand::engine {

namespace {

// A client's lowest unanswered number is kept a little longer than it must be, so that its entry
// is not written again with every transaction.
constexpr Duration client_slack = std::chrono::minutes{1};

}  // namespace

Result<std::optional<Receipt>> Engine::State::find_receipt(const Transaction& transaction) const {
  if (!transaction.id) return std::nullopt;
  const auto client = clients_.find(transaction.id->client);
  if (client == clients_.end()) return std::nullopt;
  const auto found = client->second.receipts.find(transaction.id->number);
  if (found == client->second.receipts.end()) return std::nullopt;
  if (found->second.fingerprint != store::fingerprint(transaction)) {
    return failure(Errc::transaction_conflict,
                   fmt::format("transaction {} of client {} was applied with other content: a new "
                               "transaction needs a new number",
                               transaction.id->number, transaction.id->client));
  }
  return found->second.receipt;
}

Result<void> Engine::State::check_transaction_id(const TransactionId& id) const {
  const auto client = clients_.find(id.client);
  if (client != clients_.end() && id.number < client->second.lowest_unanswered) {
    return failure(Errc::transaction_expired,
                   fmt::format("transaction {} of client {} is below {}, up to which the client "
                               "said it has all answers",
                               id.number, id.client, client->second.lowest_unanswered));
  }
  const bool known =
      client != clients_.end() || !STRAND_PLANTED("old-transaction-id-unknown-client");
  if (known && id.time <= now_ - limits_.transaction_window) {
    return failure(Errc::transaction_expired,
                   fmt::format("transaction {} of client {} was made more than {} ago; whether it "
                               "was applied is not known any more",
                               id.number, id.client, format_duration(limits_.transaction_window)));
  }
  // Store time may lag behind the clock from which the client took its time.
  if (id.time > std::max(now_, wanted_) + limits_.transaction_window) {
    return failure(Errc::invalid_argument,
                   fmt::format("transaction {} of client {} has a time far ahead of the store's: "
                               "take it from Store::now() or a receipt",
                               id.number, id.client));
  }
  if (id.lowest_unanswered > id.number) {
    return failure(Errc::invalid_argument,
                   fmt::format("transaction {} of client {} says that all below {} are answered, "
                               "itself included",
                               id.number, id.client, id.lowest_unanswered));
  }
  if (receipt_count_ >= limits_.transaction_ids_max) {
    return failure(Errc::store_full,
                   fmt::format("the store remembers {} transactions, its limit "
                               "(transaction_ids_max): raise the lowest unanswered number",
                               receipt_count_));
  }
  return {};
}

void Engine::State::store_receipt(const Transaction& transaction, const Receipt& receipt) {
  const TransactionId& id = *transaction.id;
  ClientState& client = clients_[id.client];
  bool changed = false;
  const Time forget_at = id.time + limits_.transaction_window;
  if (client.forget_at < forget_at) {
    client.forget_at = forget_at + client_slack;
    client_ends_.emplace(client.forget_at, id.client);
    changed = true;
  }
  if (client.lowest_unanswered < id.lowest_unanswered) {
    forget_receipts_below(id.client, client, id.lowest_unanswered);
    changed = true;
  }
  if (changed) {
    put(Family::client, number_key(id.client),
        ClientRecord{.lowest_unanswered = client.lowest_unanswered, .forget_at = client.forget_at});
  }
  ReceiptRecord record{
      .fingerprint = store::fingerprint(transaction), .forget_at = forget_at, .receipt = receipt};
  put(Family::receipt, receipt_key(id.client, id.number), record);
  receipt_ends_.emplace(forget_at, std::pair{id.client, id.number});
  if (client.receipts.insert_or_assign(id.number, std::move(record)).second) ++receipt_count_;
}

void Engine::State::forget_receipts_below(std::uint64_t client, ClientState& state,
                                          std::uint64_t lowest) {
  state.lowest_unanswered = lowest;
  while (!state.receipts.empty() && state.receipts.begin()->first < lowest) {
    erase(Family::receipt, receipt_key(client, state.receipts.begin()->first));
    state.receipts.erase(state.receipts.begin());
    --receipt_count_;
  }
}

void Engine::State::remember_request(const RequestId& request, const std::vector<Grant>& grants) {
  RequestState state{
      .forget_at = now_ + limits_.request_window, .leases = {}, .live = grants.size()};
  for (const Grant& grant : grants)
    state.leases.push_back(grant.token.epoch());
  std::string value;
  encode(DedupRecord{.first = MessageId{0}, .ends_at = state.forget_at}, value);
  decisions_.mutations.put(Family::request, request_key(request), value);
  request_ends_.emplace(state.forget_at, request);
  requests_.insert_or_assign(request, std::move(state));
}

void Engine::State::request_lease_ended(const LeaseNode& lease) {
  if (!lease.request) return;
  const auto found = requests_.find(*lease.request);
  if (found == requests_.end()) return;
  RequestState& request = found->second;
  // A lease that is being granted by this very call is not counted yet.
  if (request.live > 0) --request.live;
  const bool remembered =
      now_ < request.forget_at && !STRAND_PLANTED("request-id-forgotten-when-leases-end");
  if (request.live > 0 || remembered) return;
  erase(Family::request, request_key(*lease.request));
  requests_.erase(found);
}

std::vector<Grant> Engine::State::repeat_request(const RequestState& request) {
  std::vector<Grant> grants;
  for (const Epoch epoch : request.leases) {
    const auto lease = leases_.find(static_cast<std::uint64_t>(epoch));
    if (lease != leases_.end()) grants.push_back(grant(*lease->second));
  }
  return grants;
}

// Forgets ids whose windows have ended. Entries of these timers may be stale: the id may have been
// forgotten before, or be remembered for longer now.
void Engine::State::forget_due_ids() {
  while (!dedup_ends_.empty() && dedup_ends_.begin()->first <= now_) {
    ++applied_;
    const auto found = dedup_.find(dedup_ends_.begin()->second);
    if (found != dedup_.end() && found->second.ends_at <= now_) {
      erase(Family::dedup, found->first);
      dedup_.erase(found);
    }
    dedup_ends_.erase(dedup_ends_.begin());
  }
  while (!receipt_ends_.empty() && receipt_ends_.begin()->first <= now_) {
    ++applied_;
    const auto [client, number] = receipt_ends_.begin()->second;
    receipt_ends_.erase(receipt_ends_.begin());
    const auto found = clients_.find(client);
    if (found == clients_.end()) continue;
    const auto receipt = found->second.receipts.find(number);
    if (receipt == found->second.receipts.end() || receipt->second.forget_at > now_) continue;
    erase(Family::receipt, receipt_key(client, number));
    found->second.receipts.erase(receipt);
    --receipt_count_;
  }
  while (!client_ends_.empty() && client_ends_.begin()->first <= now_) {
    ++applied_;
    const std::uint64_t client = client_ends_.begin()->second;
    client_ends_.erase(client_ends_.begin());
    const auto found = clients_.find(client);
    if (found == clients_.end() || found->second.forget_at > now_) continue;
    STRAND_ASSERT(found->second.receipts.empty(), "a client is kept longer than its receipts");
    erase(Family::client, number_key(client));
    clients_.erase(found);
  }
  while (!request_ends_.empty() && request_ends_.begin()->first <= now_) {
    ++applied_;
    const auto found = requests_.find(request_ends_.begin()->second);
    request_ends_.erase(request_ends_.begin());
    if (found == requests_.end() || found->second.forget_at > now_ || found->second.live > 0) {
      continue;
    }
    erase(Family::request, request_key(found->first));
    requests_.erase(found);
  }
}

}  // namespace strand::engine
