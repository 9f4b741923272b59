#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <strand/strand.h>

#include "conformance/suite.h"

// Parts of transactions, and how they are put together, for tests that need more than one part:
//
//   apply(together(settlement(lease, {acked(id)}), send("next", unkeyed, "b"), write("s", "k",
//   "v")));

namespace strand::conformance {

// Acks all that the lease carries.
inline Settle all_acked(const Lease& lease, Then then = Then::end) {
  std::vector<Outcome> outcomes;
  for (const Message& message : lease.messages) {
    outcomes.push_back(acked(message.id));
  }
  return settlement(lease, std::move(outcomes), then);
}

inline Append append(const Lease& lease, std::uint64_t execution, std::uint64_t expected_length,
                     std::vector<Bytes> events, std::optional<std::string> close = {}) {
  return Append{.token = lease.token,
                .execution = execution,
                .expected_length = expected_length,
                .events = std::move(events),
                .close = std::move(close)};
}

inline TrimHistory trim(const Lease& lease, std::uint64_t execution, std::uint64_t before) {
  return TrimHistory{.token = lease.token, .execution = execution, .before = before};
}

inline WriteRecord write(std::string space, std::string key, std::optional<Bytes> value,
                         std::optional<Version> expected = {}) {
  return WriteRecord{.space = std::move(space),
                     .key = std::move(key),
                     .value = std::move(value),
                     .expected = expected};
}

inline Publish publication(std::string topic, const Key& key, Bytes body) {
  Publish publish;
  publish.topic = std::move(topic);
  publish.key = key.value;
  publish.body = std::move(body);
  return publish;
}

// A publication with a dedup id.
inline Publish publication_once(std::string topic, std::string dedup_id, Bytes body) {
  Publish publish = publication(std::move(topic), unkeyed, std::move(body));
  publish.dedup_id = std::move(dedup_id);
  return publish;
}

// The value of a record that is there; ends the test if it is not.
inline Record read_record(Store& store, std::string_view space, std::string_view key,
                          std::source_location where = std::source_location::current()) {
  const std::optional<Record> record = Answer(store.record(space, key)).value(where);
  if (!record) throw CannotGoOn("no record " + std::string(key), where);
  return *record;
}

inline void add(Transaction& to, RemoveHistory part) {
  to.remove_histories.push_back(std::move(part));
}
inline void add(Transaction& to, Append part) { to.appends.push_back(std::move(part)); }
inline void add(Transaction& to, TrimHistory part) { to.trim_histories.push_back(std::move(part)); }
inline void add(Transaction& to, Settle part) { to.settles.push_back(std::move(part)); }
inline void add(Transaction& to, Cancel part) { to.cancels.push_back(std::move(part)); }
inline void add(Transaction& to, Send part) { to.sends.push_back(std::move(part)); }
inline void add(Transaction& to, Publish part) { to.publishes.push_back(std::move(part)); }
inline void add(Transaction& to, WriteRecord part) { to.records.push_back(std::move(part)); }
inline void add(Transaction& to, TransactionId id) { to.id = id; }
inline void add(Transaction& to, Administration administration) {
  to.admin = std::move(administration);
}

// One transaction of all these parts.
template <class... Parts>
Transaction together(Parts... parts) {
  Transaction transaction;
  (add(transaction, std::move(parts)), ...);
  return transaction;
}

}  // namespace strand::conformance
