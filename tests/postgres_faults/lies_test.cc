// Processes that lie about what the store did, one at a time: the model must notice each lie in the
// joint record, or it would notice nothing else either.

#include "postgres_faults/lies.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "model/violation.h"
#include "postgres/server.h"
#include "postgres_faults/crew.h"

namespace strand::postgres_faults {
namespace {

using model::Invariant;

struct Told {
  std::string role;
  std::string lie;
  std::vector<Invariant> noticed;  // as the breach of one of these
};

void PrintTo(const Told& told, std::ostream* out) { *out << told.lie; }

class PostgresLies : public ::testing::TestWithParam<Told> {
 protected:
  void SetUp() override {
    if (const auto reason = postgres::TestServer::missing()) GTEST_SKIP() << *reason;
  }
};

TEST_P(PostgresLies, A_lie_of_one_process_is_noticed) {
  const auto& [role, lie, noticed] = GetParam();
  Crew crew(postgres::shared_server().fresh_database(), 1,
            {.producers = 1, .consumers = 1, .hands = 1});
  crew.lie(role, lie);
  crew.wait_for_progress();
  try {
    crew.finish();
    ADD_FAILURE() << "nobody noticed that a " << role << " " << lie;
  } catch (const model::Violation& violation) {
    std::cout << violation.what() << std::endl;
    std::filesystem::remove_all(crew.folder());
    EXPECT_NE(std::ranges::find(noticed, violation.invariant()), noticed.end())
        << "noticed as something else: " << violation.what();
  }
}

std::vector<Told> all_lies() {
  // A message that is missing in its lane is noticed by those behind it, or in the end.
  return {
      {"producer", "loses_a_message", {Invariant::nothing_lost, Invariant::lane_order}},
      {"producer", "sends_twice", {Invariant::contract}},
      {"producer", "refuses_what_it_applies", {Invariant::contract}},
      {"producer", "changes_a_body", {Invariant::nothing_lost}},
      {"producer", "changes_a_receipt", {Invariant::exactly_once_id}},
      {"hand", "forgets_an_ack", {Invariant::one_end}},
      {"hand", "ignores_the_fence", {Invariant::one_end, Invariant::current_epoch}},
      {"hand", "reverses_a_lease", {Invariant::lane_order}},
      {"hand", "repeats_an_epoch", {Invariant::current_epoch}},
      {"hand", "has_two_holders", {Invariant::lane_order, Invariant::current_epoch}},
  };
}

INSTANTIATE_TEST_SUITE_P(Each, PostgresLies, ::testing::ValuesIn(all_lies()),
                         [](const auto& info) { return info.param.lie; });

TEST(PostgresLies, Every_lie_is_told) {
  std::vector<std::string> told;
  for (const Told& lie : all_lies())
    told.push_back(lie.lie);
  std::vector<std::string> known = lies_of_producers();
  std::ranges::copy(lies_of_consumers(), std::back_inserter(known));
  EXPECT_EQ(told, known);
}

}  // namespace
}  // namespace strand::postgres_faults
