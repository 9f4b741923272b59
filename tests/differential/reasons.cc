#include "differential/reasons.h"

#include <set>
#include <vector>

namespace strand::differential {
namespace {

using Reasons = std::set<Errc>;

// What each part can fail with when it is well formed: only what depends on the state of the store.
// Malformed parts are not here, because every history plants one flaw at a time.
std::vector<Reasons> reasons_of_parts(const Transaction& transaction) {
  std::vector<Reasons> parts;
  for (std::size_t i = 0; i < transaction.remove_histories.size(); ++i)
    parts.push_back({Errc::lease_lost, Errc::history_mismatch});
  for (std::size_t i = 0; i < transaction.appends.size(); ++i)
    parts.push_back({Errc::lease_lost, Errc::history_mismatch});
  for (std::size_t i = 0; i < transaction.trim_histories.size(); ++i)
    parts.push_back({Errc::lease_lost, Errc::history_mismatch});
  for (const Settle& settle : transaction.settles) {
    parts.push_back({Errc::lease_lost});
    for (std::size_t i = 0; i < settle.outcomes.size(); ++i)
      parts.push_back({Errc::message_not_leased});
  }
  for (const Send& send : transaction.sends) {
    // The name and the room of one message are two matters.
    if (send.name) parts.push_back({Errc::name_taken});
    parts.push_back({Errc::queue_full});
  }
  for (const WriteRecord& write : transaction.records) {
    if (write.expected) parts.push_back({Errc::version_mismatch});
  }
  // Not transaction_conflict: a stored receipt goes before all other reasons.
  if (transaction.id) parts.push_back({Errc::transaction_expired});
  return parts;
}

}  // namespace

bool either_may_be_named(const Transaction& transaction, Errc one, Errc other) {
  const std::vector<Reasons> parts = reasons_of_parts(transaction);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::size_t j = 0; j < parts.size(); ++j) {
      if (i != j && parts[i].contains(one) && parts[j].contains(other)) return true;
    }
  }
  return false;
}

}  // namespace strand::differential
