// Histories that all fail at once, or do one thing only, would prove nothing.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "differential/history.h"
#include "differential/stores.h"

namespace strand::differential {
namespace {

Openers memory_twice() {
  const Opener memory = [](const OpenOptions& options) { return opened("memory:", options); };
  return {.reference = memory, .other = memory};
}

// How often each must have been seen in 200 histories: well below what they do now, and far above
// nothing. Everything that a store can do or refuse is here.
struct Floor {
  const char* what;
  std::uint64_t times;
};
constexpr auto floors = std::to_array<Floor>({
    // Transactions, and why they were refused.
    {"apply ok", 5000},
    {"apply already_exists", 20},
    {"apply history_mismatch", 20},
    {"apply in_use", 1},
    {"apply invalid_argument", 50},
    {"apply invalid_token", 20},
    {"apply lease_lost", 200},
    {"apply limit_exceeded", 20},
    {"apply message_not_leased", 8},
    {"apply name_taken", 100},
    {"apply not_found", 30},
    {"apply queue_full", 100},
    {"apply transaction_conflict", 20},
    {"apply transaction_expired", 50},
    {"apply transaction_too_large", 2},
    {"apply version_mismatch", 50},
    // What they did.
    {"ack", 400},
    {"retry", 400},
    {"dead", 100},
    {"release", 100},
    {"lease ended", 500},
    {"lease kept", 300},
    {"lane parked", 50},
    {"label given", 50},
    {"owner hint given", 100},
    {"send duplicate", 50},
    {"publish matched", 200},
    {"publish duplicate", 3},
    {"cancelled", 100},
    {"record with its version", 100},
    {"record removed", 50},
    {"history appended", 100},
    {"history closed", 30},
    {"history removed", 8},
    {"history trimmed", 20},
    {"much trimmed", 2},
    {"transaction repeated", 30},
    // Administration, where it concerned something.
    {"configured", 200},
    {"paused", 20},
    {"queue resumed", 20},
    {"lane resumed some", 15},
    {"purged some", 15},
    {"queue removed some", 5},
    {"redriven some", 50},
    {"redriven elsewhere", 5},
    {"dropped some", 10},
    {"subscribed", 100},
    {"subscribed some", 2},
    {"unsubscribed", 30},
    {"topic configured", 50},
    // Leases, pulls, renewals.
    {"leased", 1000},
    {"leased isolated", 80},
    {"leased with more behind", 100},
    {"leased with history", 15},
    {"leased with a part of the history", 2},
    {"leased again after a failure", 200},
    {"several leases at once", 100},
    {"notice leased", 100},
    {"lease not_found", 8},
    {"lease invalid_argument", 20},
    {"lease limit_exceeded", 5},
    {"request repeated", 50},
    {"request repeated, nothing left", 50},
    {"pulled", 40},
    {"pull repeated", 12},
    {"pull invalid_cursor", 8},
    {"pull invalid_token", 4},
    {"pull lease_lost", 30},
    {"renew ok", 80},
    {"renew lease_lost", 50},
    {"renew invalid_token", 4},
    // Where messages stood, and how they ended.
    {"seen ready", 2000},
    {"seen delayed", 300},
    {"seen backoff", 150},
    {"seen waiting", 300},
    {"seen leased", 500},
    {"seen parked", 300},
    {"seen an expired lease", 300},
    {"seen dead letter", 1000},
    {"seen dead by TTL", 300},
    {"seen dead for want of room", 50},
    {"ended acked", 1000},
    {"ended expired", 200},
    {"ended dropped", 100},
    {"ended moved", 10},
    {"ended purged", 50},
    // Reads.
    {"second page of messages", 30},
    {"second page of dead letters", 8},
    {"history ok", 300},
    {"history not_found", 100},
    {"stats not_found", 2},
    {"peek not_found", 4},
    {"instances not_found", 4},
    {"dead_letters not_found", 2},
    {"advanced to what is due", 200},
    {"drained", 200},
});

// The histories are those that every store is compared on.
TEST(Histories, Do_everything_that_a_store_can_do) {
  Coverage seen;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const HistoryResult result = run(Plan(seed, {}), memory_twice, false);
    ASSERT_FALSE(result.difference) << "seed " << seed << ": " << *result.difference;
    for (const auto& [what, count] : result.coverage)
      seen[what] += count;
  }
  for (const Floor& floor : floors)
    EXPECT_GE(seen[floor.what], floor.times) << floor.what;
  // Two engines name the same reason: the exception is for others.
  EXPECT_EQ(seen["another reason accepted"], 0U);
}

// The same history on every machine and every day, or no difference could be repeated.
TEST(Histories, Depend_on_their_seed_alone) {
  const auto trace_of = [](std::uint64_t seed) {
    std::vector<std::string> trace = run(Plan(seed, {}), memory_twice, true).trace;
    // These errors quote the token, whose seal is a secret of its store.
    std::erase_if(trace, [](const std::string& line) { return line.contains("invalid_token ("); });
    return trace;
  };
  EXPECT_EQ(trace_of(3), trace_of(3));
  EXPECT_NE(trace_of(3), trace_of(4));
}

}  // namespace
}  // namespace strand::differential
