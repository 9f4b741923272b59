#include "server/metered_store.h"

#include <chrono>
#include <string>

#include "base/assert.h"
#include "base/planted.h"

namespace strand::server {

namespace {

prometheus::Counter& outcome(Metrics& metrics, const char* name) {
  return metrics.counter("strand_messages_total", "Messages, by what this server did with them",
                         {{"outcome", name}});
}

}  // namespace

// Adds the time of its scope to a histogram.
class MeteredStore::Timer {
 public:
  explicit Timer(prometheus::Histogram& seconds) : seconds_(seconds) {}
  ~Timer() {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began_;
    seconds_.Observe(took.count());
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  prometheus::Histogram& seconds_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

std::string_view MeteredStore::name_of(Call call) {
  static constexpr std::array<std::string_view, calls> names = {
      "apply",   "lease", "pull",         "renew", "history", "instances",     "record",
      "records", "peek",  "dead_letters", "stats", "queues",  "subscriptions", "topics"};
  return names[static_cast<std::size_t>(call)];
}

MeteredStore::MeteredStore(Store& store, Metrics& metrics)
    : ForwardingStore(store),
      metrics_(metrics),
      transactions_(metrics.histogram("strand_apply_transactions",
                                      "Transactions in one call of apply", Metrics::size_bounds())),
      leases_(metrics.counter("strand_leases_total", "Leases granted")),
      delivered_(metrics.counter("strand_delivered_total", "Messages that leases have carried")),
      outcomes_{.sent = outcome(metrics, "sent"),
                .duplicate = outcome(metrics, "duplicate"),
                .published = outcome(metrics, "published"),
                .acked = outcome(metrics, "acked"),
                .retried = outcome(metrics, "retried"),
                .dead = outcome(metrics, "dead"),
                .released = outcome(metrics, "released"),
                .cancelled = outcome(metrics, "cancelled")} {
  for (std::size_t i = 0; i < calls; ++i) {
    seconds_.push_back(&metrics.histogram(
        "strand_store_call_seconds", "Of one call of the store, until its answer is durable",
        Metrics::latency_bounds(),
        {{"call", std::string(name_of(Call{static_cast<std::uint8_t>(i)}))}}));
  }
}

void MeteredStore::count_error(Call call, const Error& error) {
  metrics_
      .counter("strand_store_errors_total", "Failures of the store, by call and code",
               {{"call", std::string(name_of(call))}, {"code", std::string(to_string(error.code))}})
      .Increment();
}

template <class Ask>
auto MeteredStore::measured(Call call, Ask ask) -> std::invoke_result_t<Ask> {
  auto answer = [&] {
    const Timer timer(*seconds_[static_cast<std::size_t>(call)]);
    return ask();
  }();
  if (!answer) count_error(call, answer.error());
  return answer;
}

void MeteredStore::count_messages(const Transaction& transaction, const Receipt& receipt) {
  for (const Sent& sent : receipt.sent)
    (sent.duplicate ? outcomes_.duplicate : outcomes_.sent).Increment();
  for (const Published& published : receipt.published)
    (published.duplicate ? outcomes_.duplicate : outcomes_.published).Increment();
  for (const bool cancelled : receipt.cancelled)
    if (cancelled) outcomes_.cancelled.Increment();
  for (const Settle& settle : transaction.settles) {
    for (const Outcome& outcome : settle.outcomes) {
      switch (outcome.kind) {
        case Outcome::Kind::ack:
          outcomes_.acked.Increment();
          break;
        case Outcome::Kind::retry:
          outcomes_.retried.Increment();
          break;
        case Outcome::Kind::dead:
          outcomes_.dead.Increment();
          break;
        case Outcome::Kind::release:
          outcomes_.released.Increment();
          break;
      }
    }
  }
}

std::vector<Result<Receipt>> MeteredStore::apply(std::span<const Transaction> transactions) {
  auto receipts = [&] {
    const Timer timer(*seconds_[static_cast<std::size_t>(Call::apply)]);
    return behind().apply(transactions);
  }();
  transactions_.Observe(static_cast<double>(transactions.size()));
  STRAND_ASSERT(receipts.size() == transactions.size(), "one result for each transaction");
  for (std::size_t i = 0; i < receipts.size(); ++i) {
    if (receipts[i] || STRAND_PLANTED("refused-messages-counted")) {
      count_messages(transactions[i], receipts[i].value_or(Receipt{}));
    }
    if (!receipts[i]) count_error(Call::apply, receipts[i].error());
  }
  return receipts;
}

Result<std::vector<Lease>> MeteredStore::lease(const LeaseRequest& request) {
  auto leases = measured(Call::lease, [&] { return behind().lease(request); });
  if (!leases) return leases;
  leases_.Increment(static_cast<double>(leases->size()));
  for (const Lease& lease : *leases)
    delivered_.Increment(static_cast<double>(lease.messages.size()));
  return leases;
}

Result<Pulled> MeteredStore::pull(const Token& token, Cursor cursor, PullLimits limits) {
  auto pulled = measured(Call::pull, [&] { return behind().pull(token, cursor, limits); });
  if (pulled) delivered_.Increment(static_cast<double>(pulled->messages.size()));
  return pulled;
}

std::vector<Result<Time>> MeteredStore::renew(std::span<const Token> tokens, Duration lease) {
  auto ends = [&] {
    const Timer timer(*seconds_[static_cast<std::size_t>(Call::renew)]);
    return behind().renew(tokens, lease);
  }();
  for (const Result<Time>& end : ends)
    if (!end) count_error(Call::renew, end.error());
  return ends;
}

Result<History> MeteredStore::history(const HistoryQuery& query) {
  return measured(Call::history, [&] { return behind().history(query); });
}
Result<Page<Execution>> MeteredStore::instances(const InstancesQuery& query) {
  return measured(Call::instances, [&] { return behind().instances(query); });
}
Result<std::optional<Record>> MeteredStore::record(std::string_view space, std::string_view key) {
  return measured(Call::record, [&] { return behind().record(space, key); });
}
Result<Page<Record>> MeteredStore::records(const RecordsQuery& query) {
  return measured(Call::records, [&] { return behind().records(query); });
}
Result<Page<PeekedMessage>> MeteredStore::peek(const PeekQuery& query) {
  return measured(Call::peek, [&] { return behind().peek(query); });
}
Result<Page<DeadLetter>> MeteredStore::dead_letters(const DeadLettersQuery& query) {
  return measured(Call::dead_letters, [&] { return behind().dead_letters(query); });
}
Result<QueueStats> MeteredStore::stats(std::string_view queue) {
  return measured(Call::stats, [&] { return behind().stats(queue); });
}
Result<std::vector<QueueInfo>> MeteredStore::queues() {
  return measured(Call::queues, [&] { return behind().queues(); });
}
Result<std::vector<Subscription>> MeteredStore::subscriptions() {
  return measured(Call::subscriptions, [&] { return behind().subscriptions(); });
}
Result<std::vector<Topic>> MeteredStore::topics() {
  return measured(Call::topics, [&] { return behind().topics(); });
}

}  // namespace strand::server
