#include "relay/verify.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strand::relay {
namespace {

using Kind = VerifyFinding::Kind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Two entities, rows in the order of their numbers: a1 a2 a3 of `a`, b1 b2 of `b`.
std::vector<ExpectedRow> table() {
  return {{.id = "a1", .entity = "a", .order = 1},
          {.id = "b1", .entity = "b", .order = 2},
          {.id = "a2", .entity = "a", .order = 3},
          {.id = "b2", .entity = "b", .order = 4},
          {.id = "a3", .entity = "a", .order = 5}};
}

// What lies in a topic of one partition; the key is the first letter of the id.
std::vector<TopicMessage> topic(const std::vector<std::string>& ids) {
  std::vector<TopicMessage> found;
  for (const std::string& id : ids)
    found.push_back(
        {.id = id, .key = id.substr(0, 1), .offset = static_cast<std::int64_t>(found.size())});
  return found;
}

std::vector<std::pair<Kind, std::string>> kinds(const VerifyReport& report) {
  std::vector<std::pair<Kind, std::string>> found;
  for (const VerifyFinding& finding : report.findings)
    found.emplace_back(finding.kind, finding.id);
  return found;
}

TEST(RelayVerify, All_rows_in_order_are_right_however_entities_are_mixed) {
  for (const auto& ids : std::vector<std::vector<std::string>>{{"a1", "b1", "a2", "b2", "a3"},
                                                               {"b1", "b2", "a1", "a2", "a3"}}) {
    const VerifyReport report = verify(table(), topic(ids));
    EXPECT_TRUE(report.ok);
    EXPECT_THAT(report.findings, IsEmpty());
    EXPECT_EQ(report.rows, 5U);
    EXPECT_EQ(report.entities, 2U);
    EXPECT_EQ(report.delivered, 5U);
    EXPECT_EQ(report.repeated, 0U);
  }
}

TEST(RelayVerify, A_row_that_was_sent_and_is_not_there_is_missing) {
  const VerifyReport report = verify(table(), topic({"a1", "b1", "a2", "b2"}));
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.missing, 1U);
  EXPECT_THAT(kinds(report), ElementsAre(std::pair(Kind::missing, "a3")));
}

TEST(RelayVerify, A_row_that_waits_may_be_missing_at_the_end_but_not_before_a_later_one) {
  std::vector<ExpectedRow> rows = table();
  rows[2].sent = rows[4].sent = false;
  EXPECT_TRUE(verify(rows, topic({"a1", "b1", "b2"})).ok);
  EXPECT_TRUE(verify(rows, topic({"a1", "b1", "b2", "a2"})).ok);
  const VerifyReport report = verify(rows, topic({"a1", "b1", "b2", "a3"}));
  EXPECT_EQ(report.gaps, 1U);
  EXPECT_THAT(kinds(report), ElementsAre(std::pair(Kind::gap, "a2")));
  EXPECT_EQ(report.findings.front().other, "a3");
}

TEST(RelayVerify, A_first_delivery_after_that_of_a_later_row_is_reordered) {
  const VerifyReport report = verify(table(), topic({"a1", "a3", "a2", "b1", "b2"}));
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.reordered, 1U);
  ASSERT_THAT(kinds(report), ElementsAre(std::pair(Kind::reordered, "a2")));
  EXPECT_EQ(report.findings.front().other, "a3");
  EXPECT_EQ(report.findings.front().at->offset, 2);
}

// A row that comes again after a takeover was there before; only what comes first is promised.
TEST(RelayVerify, Deliveries_that_come_again_are_counted_and_allowed_in_any_order) {
  const VerifyReport report = verify(
      table(), topic({"a1", "a2", "a1", "b1", "a2", "a3", "a1", "a2", "a3", "b1", "b2", "b1"}));
  EXPECT_TRUE(report.ok);
  EXPECT_EQ(report.repeated, 7U);
}

// A batch that was cut off in the middle and is repeated from its beginning hides no reordering.
TEST(RelayVerify, A_row_that_comes_again_does_not_excuse_one_that_came_too_early) {
  const VerifyReport report = verify(table(), topic({"a2", "a1", "a2", "a3", "b1", "b2"}));
  EXPECT_THAT(kinds(report), ElementsAre(std::pair(Kind::reordered, "a1")));
}

TEST(RelayVerify, Order_is_that_of_the_rows_and_not_of_their_ids) {
  const std::vector<ExpectedRow> rows{{.id = "a1", .entity = "a", .order = 9},
                                      {.id = "a2", .entity = "a", .order = -1}};
  EXPECT_TRUE(verify(rows, topic({"a2", "a1"})).ok);
  EXPECT_FALSE(verify(rows, topic({"a1", "a2"})).ok);
}

TEST(RelayVerify, A_message_of_no_row_is_unknown_unless_that_is_allowed) {
  std::vector<TopicMessage> found = topic({"a1", "b1", "a2", "b2", "a3", "c7"});
  found.push_back({.key = "a", .offset = 6});
  const VerifyReport report = verify(table(), found);
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.unknown, 1U);
  EXPECT_EQ(report.without_id, 1U);
  EXPECT_THAT(kinds(report),
              ElementsAre(std::pair(Kind::unknown, "c7"), std::pair(Kind::without_id, "")));

  const VerifyReport allowed = verify(table(), found, {.allow_unknown = true});
  EXPECT_TRUE(allowed.ok);
  EXPECT_EQ(allowed.unknown, 1U);
  EXPECT_THAT(allowed.findings, IsEmpty());
}

// With another key it may be in another partition, where nothing is known of its order.
TEST(RelayVerify, A_message_with_the_key_of_another_entity_does_not_count_as_a_delivery) {
  std::vector<TopicMessage> found = topic({"a1", "b1", "a2", "b2", "a3"});
  found[2].key = "b";
  const VerifyReport report = verify(table(), found);
  EXPECT_EQ(report.wrong_key, 1U);
  EXPECT_EQ(report.missing, 1U);
  EXPECT_THAT(kinds(report),
              ElementsAre(std::pair(Kind::wrong_key, "a2"), std::pair(Kind::missing, "a2")));
}

TEST(RelayVerify, Rows_in_several_partitions_are_held_to_the_order_within_each) {
  std::vector<TopicMessage> found = topic({"a3", "a1", "a2", "b1", "b2"});
  found[0].partition = 1;
  EXPECT_TRUE(verify(table(), found).ok);
  EXPECT_EQ(verify(table(), found).spread, 1U);

  found = topic({"a3", "a1", "a2", "b1", "b2"});
  found[1].partition = 1;
  EXPECT_THAT(kinds(verify(table(), found)), ElementsAre(std::pair(Kind::reordered, "a2")));

  found = topic({"a3", "a1", "a2", "b1", "b2"});
  found[0].topic = 1;
  EXPECT_TRUE(verify(table(), found).ok);
}

TEST(RelayVerify, Two_rows_with_one_id_are_named) {
  std::vector<ExpectedRow> rows = table();
  rows.push_back({.id = "a1", .entity = "b", .order = 6});
  const VerifyReport report = verify(rows, topic({"a1", "b1", "a2", "b2", "a3"}));
  EXPECT_THAT(kinds(report), ElementsAre(std::pair(Kind::twice, "a1")));
}

TEST(RelayVerify, Of_many_faults_all_are_counted_and_some_described) {
  std::vector<ExpectedRow> rows;
  for (int i = 0; i < 100; ++i)
    rows.push_back({.id = std::to_string(i), .entity = "a", .order = i});
  const VerifyReport report = verify(rows, {}, {.findings_max = 3});
  EXPECT_EQ(report.missing, 100U);
  EXPECT_EQ(report.findings.size(), 3U);
}

}  // namespace
}  // namespace strand::relay
