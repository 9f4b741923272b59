#include "server_chaos/record.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <variant>

#include <fmt/format.h>

#include "model/text.h"
#include "model/violation.h"

namespace strand::server_chaos {

namespace {

using model::Invariant;
using model::Recorder;

// The first time that anybody saw a message.
struct Sighting {
  MessageId id{};
  Time enqueued_at{};
  model::Call call = {};
  std::string by = {};
};

// What was seen of each body.
class Sightings {
 public:
  Sightings(std::span<const ClientRecord> records, std::span<const model::Remains> remains) {
    for (const ClientRecord& record : records) {
      for (const Recorder::Entry& entry : record.entries) {
        if (const auto* leased = std::get_if<Recorder::Leased>(&entry)) {
          see(leased->lease.messages, leased->call, record.client);
        } else if (const auto* pulled = std::get_if<Recorder::PulledMore>(&entry)) {
          see(pulled->messages, pulled->call, record.client);
        }
      }
    }
    // In the end, after all calls.
    model::Call end{.begin = last_, .end = last_, .store_time = Time::max()};
    for (const model::Remains& queue : remains) {
      see(queue.left, end, "the end");
      see(queue.dead, end, "the end");
    }
  }

  [[nodiscard]] const Sighting* find(const Bytes& body) const {
    const auto found = seen_.find(body);
    return found == seen_.end() ? nullptr : &found->second;
  }

 private:
  template <class Messages>
  void see(const Messages& messages, const model::Call& call, const std::string& by) {
    last_ = std::max(last_, call.end);
    for (const Message& message : messages) {
      const Sighting sighting{
          .id = message.id, .enqueued_at = message.enqueued_at, .call = call, .by = by};
      const auto [known, first] = seen_.try_emplace(message.body, sighting);
      model::expect(first || known->second.id == message.id, Invariant::exactly_once_id, [&] {
        return fmt::format(
            "{} was sent once and is there twice: as {} for {}, and as {} for {}; a transaction "
            "was applied twice",
            model::quote(message.body), model::text(known->second.id), known->second.by,
            model::text(message.id), by);
      });
      if (call.end < known->second.call.end) known->second = sighting;
    }
  }

  std::map<Bytes, Sighting> seen_;
  std::chrono::steady_clock::time_point last_{};
};

// As if it had been answered when its first message was seen; none if it was not applied.
std::optional<Recorder::Applied> resolve(const ClientRecord& record, const Doubtful& doubtful,
                                         const Sightings& sightings) {
  const std::vector<Send>& sends = doubtful.transaction.sends;
  if (sends.empty()) throw std::logic_error("a doubtful transaction sends nothing");
  Receipt receipt;
  std::optional<model::Call> first;
  for (const Send& send : sends) {
    const Sighting* seen = sightings.find(send.body);
    if (seen == nullptr) continue;
    receipt.time = seen->enqueued_at;
    receipt.sent.push_back({.id = seen->id});
    if (!first || seen->call.end < first->end) first = seen->call;
  }
  if (receipt.sent.empty()) return std::nullopt;
  model::expect(receipt.sent.size() == sends.size(), Invariant::one_end, [&] {
    return fmt::format(
        "half a transaction: {} sent {} messages at once, the first was {}, and {} of them were "
        "ever seen",
        record.client, sends.size(), model::quote(sends.front().body), receipt.sent.size());
  });
  const model::Call call{.begin = doubtful.call.begin,
                         .end = std::max(doubtful.call.end, first->end),
                         .store_time = std::max(doubtful.call.store_time, first->store_time)};
  return Recorder::Applied{
      .call = call, .transaction = doubtful.transaction, .answer = std::move(receipt)};
}

// Transactions of one call are applied in order; to the recorder they are all at once.
void check_order(const ClientRecord& record) {
  for (const Together& together : record.together) {
    const auto wrong = std::ranges::adjacent_find(together.sent, std::greater_equal{});
    model::expect(wrong == together.sent.end(), Invariant::lane_order, [&] {
      return fmt::format("{} sent in one call, one after the other: {} came before {}",
                         record.client, model::text(*std::next(wrong)), model::text(*wrong));
    });
  }
}

}  // namespace

Totals& Totals::operator+=(const Totals& other) {
  applied += other.applied;
  sent += other.sent;
  settled += other.settled;
  refused += other.refused;
  leased += other.leased;
  pulled += other.pulled;
  renewed += other.renewed;
  repeated += other.repeated;
  doubtful += other.doubtful;
  woken += other.woken;
  return *this;
}

void judge(std::span<const ClientRecord> records, std::span<const model::Remains> remains) {
  for (const ClientRecord& record : records) {
    model::expect(record.wrong.empty(), Invariant::contract, [&] {
      return fmt::format("{} was told what no client may be told, {} times: {}", record.client,
                         record.wrong.size(), record.wrong.front());
    });
  }
  const Sightings sightings(records, remains);
  Recorder recorder(0);
  for (const ClientRecord& record : records) {
    check_order(record);
    Recorder::Log& log = recorder.log();
    for (const Recorder::Entry& entry : record.entries)
      log.add(entry);
    for (const Doubtful& doubtful : record.doubtful) {
      if (auto applied = resolve(record, doubtful, sightings)) log.add(*std::move(applied));
    }
  }
  recorder.check(remains);
}

}  // namespace strand::server_chaos
