// A comparison that finds nothing must be able to find something: stores that are wrong in one
// thing are found out.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "differential/history.h"
#include "differential/lying_store.h"
#include "differential/stores.h"

namespace strand::differential {
namespace {

using std::chrono::milliseconds;

// Every n-th time.
class Every {
 public:
  explicit Every(std::uint64_t n) : n_(n) {}
  bool operator()() { return ++count_ % n_ == 0; }

 private:
  std::uint64_t n_;
  std::uint64_t count_ = 0;
};

struct NamedLie {
  std::string name;
  Lie (*make)();
  std::uint64_t seeds = 20;  // within which it must be found
};
void PrintTo(const NamedLie& lie, std::ostream* out) { *out << lie.name; }

// --- About answers ---

Lie forgets_a_delivery() {
  return {.of_leases = [now = Every(5)](Result<std::vector<Lease>>& leases) mutable {
    if (leases && !leases->empty() && now()) --leases->back().messages.at(0).deliveries;
  }};
}
Lie swaps_two_leases() {
  return {.of_leases = [](Result<std::vector<Lease>>& leases) {
    if (leases && leases->size() > 1) std::swap(leases->at(0), leases->at(1));
  }};
}
Lie swaps_two_messages() {
  return {.of_leases = [](Result<std::vector<Lease>>& leases) {
    if (!leases || leases->empty() || leases->front().messages.size() < 2) return;
    std::swap(leases->front().messages.at(0), leases->front().messages.at(1));
  }};
}
Lie names_another_error() {
  return {.of_receipt = [](const Transaction&, Result<Receipt>& receipt) {
    if (!receipt && receipt.error().code == Errc::lease_lost) {
      receipt.error().code = Errc::not_found;
    }
  }};
}
Lie miscounts_the_acked() {
  return {.of_stats = [](Result<QueueStats>& stats) {
    if (stats && stats->acked > 3) --stats->acked;
  }};
}
Lie misdates_the_oldest() {
  return {.of_stats = [now = Every(3)](Result<QueueStats>& stats) mutable {
    if (stats && stats->oldest_ready && now()) *stats->oldest_ready += milliseconds{1};
  }};
}
Lie hides_a_failure() {
  return {.of_dead_letters = [](Result<Page<DeadLetter>>& letters) {
    if (!letters) return;
    for (DeadLetter& letter : letters->items) {
      if (letter.failures.size() > 1) letter.failures.erase(letter.failures.begin());
    }
  }};
}
Lie says_there_is_no_more() {
  return {.of_leases = [](Result<std::vector<Lease>>& leases) {
    if (leases && !leases->empty()) leases->front().more = false;
  }};
}
Lie hands_out_one_epoch_twice() {
  return {.of_leases = [first = Token()](Result<std::vector<Lease>>& leases) mutable {
    if (!leases || leases->empty()) return;
    if (first == Token()) first = leases->front().token;
    leases->front().token = first;
  }};
}
Lie forgets_a_park_reason() {
  return {.of_peek = [](Result<Page<PeekedMessage>>& page) {
    if (!page) return;
    for (PeekedMessage& message : page->items) {
      if (message.park_reason) message.park_reason = "";
    }
  }};
}

// --- About what happens ---

// Says that it has taken the message, and has not.
Lie loses_a_message() {
  const auto lost = std::make_shared<bool>(false);
  return {.in_transaction =
              [lost, now = Every(10)](Transaction& transaction) mutable {
                *lost = transaction.sends.size() > 1 && now();
                if (*lost) transaction.sends.pop_back();
              },
          .of_receipt =
              [lost, next = std::uint64_t{1} << 50U](const Transaction&,
                                                     Result<Receipt>& receipt) mutable {
                if (*lost && receipt) receipt->sent.push_back({.id = MessageId{next++}});
              }};
}
Lie is_a_millisecond_late() {
  return {.in_transaction = [](Transaction& transaction) {
    for (Settle& settle : transaction.settles) {
      for (Outcome& outcome : settle.outcomes) {
        if (outcome.delay) *outcome.delay += milliseconds{1};
      }
    }
  }};
}
// And shows the time that would be right.
Lie leases_a_millisecond_longer() {
  const auto longer = std::make_shared<bool>(false);
  return {.in_request =
              [longer](LeaseRequest& request) {
                *longer = request.lease.has_value() && !request.request;
                if (*longer) *request.lease += milliseconds{1};
              },
          .of_leases =
              [longer](Result<std::vector<Lease>>& leases) {
                if (!leases || !*longer) return;
                for (Lease& lease : *leases)
                  lease.expires_at -= milliseconds{1};
              }};
}
Lie forgets_dedup_ids() {
  return {.in_transaction = [](Transaction& transaction) {
    for (Send& send : transaction.sends)
      send.dedup_id.reset();
  }};
}
Lie forgets_transaction_ids() {
  return {.in_transaction = [](Transaction& transaction) { transaction.id.reset(); }};
}
Lie forgets_request_ids() {
  return {.in_request = [](LeaseRequest& request) { request.request.reset(); }};
}
Lie forgets_owner_hints() {
  return {.in_transaction = [](Transaction& transaction) {
    for (Settle& settle : transaction.settles)
      settle.owner_hint.reset();
  }};
}
Lie ignores_the_expected_version() {
  return {.in_transaction = [](Transaction& transaction) {
    for (WriteRecord& write : transaction.records)
      write.expected.reset();
  }};
}
Lie releases_instead_of_retrying() {
  return {.in_transaction = [now = Every(7)](Transaction& transaction) mutable {
    for (Settle& settle : transaction.settles) {
      for (Outcome& outcome : settle.outcomes) {
        if (outcome.kind == Outcome::Kind::retry && now()) {
          outcome = {.id = outcome.id, .kind = Outcome::Kind::release, .delay = {}, .reason = {}};
        }
      }
    }
  }};
}
Lie keeps_a_lease_that_should_end() {
  return {.in_transaction = [now = Every(9)](Transaction& transaction) mutable {
    for (Settle& settle : transaction.settles) {
      if (settle.then == Settle::Then::end && now()) settle.then = Settle::Then::keep;
    }
  }};
}
Lie seizes_without_being_asked() {
  return {.in_request = [](LeaseRequest& request) { request.seize = request.key.has_value(); }};
}

// --- About settings, of which it shows the right ones ---

Lie blocks_always() {
  return {.in_settings = [](QueueSettings& s) { s.retry_policy = RetryPolicy::block; }};
}
Lie buries_instead_of_parking() {
  return {.in_settings = [](QueueSettings& s) { s.on_exhausted = OnExhausted::dead; }};
}
Lie has_room_for_one_more() {
  return {.in_settings = [](QueueSettings& s) { s.max_length += s.max_length > 0 ? 1 : 0; }};
}
Lie forgets_starvation() {
  return {.in_settings = [](QueueSettings& s) { s.starvation_after = std::chrono::hours{9}; }};
}
Lie waits_without_jitter() {
  return {.in_settings = [](QueueSettings& s) { s.backoff_jitter_percent = 0; }};
}
Lie tells_nobody_of_dead_letters() {
  return {.in_settings = [](QueueSettings& s) { s.dead_notice_to.reset(); }};
}
Lie drops_what_expires() {
  return {.in_settings = [](QueueSettings& s) { s.on_expired = OnExpired::drop; }};
}

std::vector<NamedLie> lies() {
  return {
      {"forgets_a_delivery", forgets_a_delivery},
      {"swaps_two_leases", swaps_two_leases},
      {"swaps_two_messages", swaps_two_messages},
      {"names_another_error", names_another_error},
      {"miscounts_the_acked", miscounts_the_acked},
      {"misdates_the_oldest", misdates_the_oldest},
      {"hides_a_failure", hides_a_failure},
      {"says_there_is_no_more", says_there_is_no_more},
      {"hands_out_one_epoch_twice", hands_out_one_epoch_twice},
      {"forgets_a_park_reason", forgets_a_park_reason},
      {"loses_a_message", loses_a_message},
      {"is_a_millisecond_late", is_a_millisecond_late},
      {"leases_a_millisecond_longer", leases_a_millisecond_longer},
      {"forgets_dedup_ids", forgets_dedup_ids},
      {"forgets_transaction_ids", forgets_transaction_ids},
      {"forgets_request_ids", forgets_request_ids},
      {"forgets_owner_hints", forgets_owner_hints},
      {"ignores_the_expected_version", ignores_the_expected_version},
      {"releases_instead_of_retrying", releases_instead_of_retrying},
      {"keeps_a_lease_that_should_end", keeps_a_lease_that_should_end},
      {"seizes_without_being_asked", seizes_without_being_asked},
      {"blocks_always", blocks_always},
      {"buries_instead_of_parking", buries_instead_of_parking},
      {"has_room_for_one_more", has_room_for_one_more},
      {"forgets_starvation", forgets_starvation},
      {"waits_without_jitter", waits_without_jitter},
      {"tells_nobody_of_dead_letters", tells_nobody_of_dead_letters},
      {"drops_what_expires", drops_what_expires},
  };
}

Stage stage_with(Lie (*make)()) {
  return [make]() -> Openers {
    return {.reference = [](const OpenOptions& options) { return opened("memory:", options); },
            .other = [make](const OpenOptions& options) -> std::unique_ptr<Store> {
              return std::make_unique<LyingStore>(opened("memory:", options), make());
            }};
  };
}

class Lies : public ::testing::TestWithParam<NamedLie> {};

TEST_P(Lies, Are_found_out) {
  const Stage stage = stage_with(GetParam().make);
  for (std::uint64_t seed = 1; seed <= GetParam().seeds; ++seed) {
    if (run(Plan(seed, {}), stage, false).difference) {
      RecordProperty("seed", static_cast<int>(seed));
      return;
    }
  }
  FAIL() << "not found within " << GetParam().seeds << " seeds";
}

Lie none() { return {}; }

// The others are found by what they say, and not because something stands between.
TEST(Honesty, Is_not_taken_for_a_lie) {
  const Stage stage = stage_with(none);
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const HistoryResult result = run(Plan(seed, {}), stage, false);
    ASSERT_FALSE(result.difference) << "seed " << seed << ": " << *result.difference;
  }
}

// A person must be able to read what is left.
TEST(Reports, Repeat_the_difference_with_few_steps) {
  const Stage stage = stage_with(forgets_dedup_ids);
  constexpr std::uint64_t seed = 2;  // one that shows it
  const Plan plan(seed, {});
  ASSERT_TRUE(run(plan, stage, false).difference);

  Plan small = shrink(plan, stage);
  EXPECT_LE(std::ranges::count(small.kept, true), 5);
  Plan read_back(seed, {});
  read_back.keep_only(small.kept_steps());
  EXPECT_EQ(read_back.kept, small.kept);
  EXPECT_TRUE(run(read_back, stage, false).difference);

  const std::string text = report(plan, stage, {.store = "sqlite", .test = "Stores.*"});
  EXPECT_NE(text.find("seed 2, step "), std::string::npos) << text;
  EXPECT_NE(text.find("reference: ok"), std::string::npos) << text;
  EXPECT_NE(text.find("STRAND_DIFF_SEED=2 STRAND_DIFF_STORE=sqlite STRAND_DIFF_STEPS=" +
                      small.kept_steps() + " build/release/differential_tests"),
            std::string::npos)
      << text;
}

INSTANTIATE_TEST_SUITE_P(, Lies, ::testing::ValuesIn(lies()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strand::differential
