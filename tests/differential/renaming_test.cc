// Stores may give other names, and no others than names may differ.

#include "differential/renaming.h"

#include <cstdint>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "differential/history.h"
#include "differential/reasons.h"
#include "differential/renamed_store.h"
#include "differential/stores.h"

namespace strand::differential {
namespace {

Openers memory_and_renamed() {
  return {.reference = [](const OpenOptions& options) { return opened("memory:", options); },
          .other = [](const OpenOptions& options) -> std::unique_ptr<Store> {
            return std::make_unique<RenamedStore>(opened("memory:", options));
          }};
}

Receipt receipt_of(std::uint64_t id) {
  Receipt receipt;
  receipt.sent.push_back({.id = MessageId{id}});
  return receipt;
}

Message notice_of(std::uint64_t id, const std::string& ended) {
  Message notice;
  notice.id = MessageId{id};
  notice.headers.push_back({std::string(notice_id_header), ended});
  return notice;
}

TEST(RenamingTest, A_store_with_other_names_is_equal) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const HistoryResult result = run(Plan(seed, {.same_ids = false}), memory_and_renamed, false);
    ASSERT_FALSE(result.difference) << "seed " << seed << ": " << *result.difference;
  }
}

TEST(RenamingTest, Names_that_were_paired_stay_with_each_other) {
  Renaming renaming;
  renaming.learn(receipt_of(1), receipt_of(70));
  EXPECT_EQ(renaming.to_reference(receipt_of(70)), receipt_of(1));
  EXPECT_EQ(renaming.to_other(MessageId{1}), MessageId{70});

  // The other store gives an old name to a new message.
  renaming.learn(receipt_of(2), receipt_of(70));
  EXPECT_NE(renaming.to_reference(receipt_of(70)), receipt_of(2));
  // It gives a second name to an old one.
  renaming.learn(receipt_of(1), receipt_of(71));
  EXPECT_NE(renaming.to_reference(receipt_of(71)), receipt_of(1));
}

TEST(RenamingTest, A_notice_tells_of_a_message_in_the_words_of_its_store) {
  Renaming renaming;
  renaming.learn(notice_of(2, "1"), notice_of(80, "70"));
  EXPECT_EQ(renaming.to_other(MessageId{1}), MessageId{70});
  EXPECT_EQ(renaming.to_reference(notice_of(80, "70")), notice_of(2, "1"));
}

TEST(RenamingTest, A_publication_may_have_the_id_of_a_message) {
  Renaming renaming;
  Receipt reference = receipt_of(1);
  reference.published.push_back({.id = MessageId{2}});
  Receipt other = receipt_of(1);
  other.published.push_back({.id = MessageId{1}});
  renaming.learn(reference, other);
  EXPECT_EQ(renaming.to_reference(other), reference);
}

TEST(RenamingTest, A_cursor_belongs_to_its_lease) {
  const Token one{Epoch{1}, 0, 0};
  const Token two{Epoch{2}, 0, 0};
  Renaming renaming;
  renaming.learn(PulledFor{.token = one, .pulled = {.cursor = Cursor{1}}},
                 PulledFor{.token = one, .pulled = {.cursor = Cursor{40}}});
  renaming.learn(PulledFor{.token = two, .pulled = {.cursor = Cursor{1}}},
                 PulledFor{.token = two, .pulled = {.cursor = Cursor{50}}});
  EXPECT_EQ(renaming.to_other(one, Cursor{1}), Cursor{40});
  EXPECT_EQ(renaming.to_other(two, Cursor{1}), Cursor{50});
}

// "Of several reasons for which a transaction must fail, any may be named": of several.
TEST(Reasons, Two_parts_that_can_fail_may_be_named_in_any_order) {
  Transaction transaction;
  transaction.settles.push_back({});
  EXPECT_FALSE(either_may_be_named(transaction, Errc::lease_lost, Errc::name_taken));

  Send send;
  send.name = "n";
  transaction.sends.push_back(send);
  EXPECT_TRUE(either_may_be_named(transaction, Errc::lease_lost, Errc::name_taken));
  EXPECT_TRUE(either_may_be_named(transaction, Errc::queue_full, Errc::name_taken));
  EXPECT_FALSE(either_may_be_named(transaction, Errc::lease_lost, Errc::version_mismatch));
  EXPECT_FALSE(either_may_be_named(transaction, Errc::lease_lost, Errc::invalid_token));
}

}  // namespace
}  // namespace strand::differential
