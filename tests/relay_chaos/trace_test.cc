#include "relay_chaos/trace.h"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strand::relay_chaos {
namespace {

using Event = Step::Event;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t second = 1'000'000;

// A step for the entity `e`, at a time in seconds.
Step step(int time_s, Event event, const std::string& process, std::vector<std::string> rows = {},
          std::int64_t epoch = 1) {
  return {.time_us = time_s * second,
          .event = event,
          .process = process,
          .entity = "e",
          .epoch = epoch,
          .rows = std::move(rows)};
}

// A whole hold, in which these rows are sent.
std::vector<Step> hold(int from_s, const std::string& process, const std::vector<std::string>& rows,
                       std::int64_t epoch) {
  return {step(from_s, Event::claim, process, {}, epoch),
          step(from_s + 1, Event::publish, process, rows, epoch),
          step(from_s + 2, Event::confirmed, process, rows, epoch),
          step(from_s + 3, Event::released, process, {}, epoch),
          step(from_s + 4, Event::marked, process, rows, epoch)};
}

std::vector<Step> join(std::vector<std::vector<Step>> parts) {
  std::vector<Step> all;
  for (auto& part : parts)
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(RelayTrace, Workers_one_after_another_are_right) {
  const auto judged =
      judge_traces(join({hold(0, "p", {"1", "2"}, 1), hold(3, "q", {"3"}, 2)}), {}, true);
  EXPECT_THAT(judged.violations, IsEmpty());
  EXPECT_EQ(judged.totals.holds, 2U);
  EXPECT_EQ(judged.totals.takeovers, 0U);
  EXPECT_EQ(judged.totals.marked, 3U);
}

TEST(RelayTrace, Two_workers_at_a_time_are_found) {
  const auto judged =
      judge_traces(join({hold(0, "p", {"1"}, 1), hold(2, "q", {"2"}, 2)}), {}, true);
  EXPECT_THAT(judged.violations, ElementsAre(HasSubstr("two workers at a time")));
}

// The long hold is not the one just before the third.
TEST(RelayTrace, Two_workers_at_a_time_are_found_behind_a_third) {
  const auto judged = judge_traces(join({{step(0, Event::claim, "p")},
                                         hold(0, "q", {"1"}, 2),
                                         hold(10, "r", {"2"}, 3),
                                         {step(20, Event::released, "p")}}),
                                   {}, false);
  EXPECT_EQ(judged.violations.size(), 2U);
}

TEST(RelayTrace, A_claim_may_be_taken_from_a_process_that_was_paused_and_says_so) {
  const std::vector<Step> steps =
      join({{step(0, Event::claim, "p"), step(1, Event::publish, "p", {"1"})},
            hold(5, "q", {"1"}, 2),
            {step(7, Event::lost, "p", {"1"})}});
  const Fault paused{.process = "p", .from_us = 2 * second, .until_us = 6 * second};
  const auto judged = judge_traces(steps, {paused}, true);
  EXPECT_THAT(judged.violations, IsEmpty());
  EXPECT_EQ(judged.totals.takeovers, 1U);
  EXPECT_EQ(judged.totals.lost, 1U);

  // Nothing befell it: then nothing explains it.
  EXPECT_THAT(judge_traces(steps, {}, true).violations, ElementsAre(HasSubstr("at a time")));
  const Fault elsewhere{.process = "q", .from_us = 2 * second, .until_us = 6 * second};
  EXPECT_THAT(judge_traces(steps, {elsewhere}, true).violations,
              ElementsAre(HasSubstr("at a time")));
}

// Paused between the grant and the line in the trace, which then comes after that of the next one.
TEST(RelayTrace, A_claim_may_be_written_down_after_it_was_taken) {
  const std::vector<Step> steps =
      join({hold(5, "q", {"1"}, 2), {step(6, Event::claim, "p"), step(9, Event::released, "p")}});
  const Fault paused{.process = "p", .from_us = 1 * second, .until_us = 6 * second};
  EXPECT_THAT(judge_traces(steps, {paused}, true).violations, IsEmpty());
  // Where epochs fence, the higher one cannot have been taken.
  const Fault other{.process = "q", .from_us = 1 * second, .until_us = 6 * second};
  EXPECT_THAT(judge_traces(steps, {other}, true).violations,
              ::testing::Contains(HasSubstr("at a time")));
}

TEST(RelayTrace, A_loser_that_marks_is_found) {
  const Fault paused{.process = "p", .from_us = 2 * second, .until_us = 6 * second};
  // It goes on as if nothing had happened.
  std::vector<Step> steps =
      join({{step(0, Event::claim, "p"), step(1, Event::publish, "p", {"1"})},
            hold(5, "q", {"2"}, 2),
            {step(7, Event::confirmed, "p", {"1"}), step(7, Event::released, "p"),
             step(7, Event::marked, "p", {"1"})}});
  EXPECT_THAT(judge_traces(steps, {paused}, true).violations, ElementsAre(HasSubstr("at a time")));

  steps.push_back(step(8, Event::claim, "p", {}, 3));
  steps.push_back(step(8, Event::lost, "p", {}, 3));
  steps.push_back(step(8, Event::marked, "p", {}, 3));
  EXPECT_THAT(judge_traces(steps, {paused}, true).violations,
              ::testing::Contains(HasSubstr("after it had lost the entity")));
}

TEST(RelayTrace, A_row_that_is_marked_twice_is_found) {
  const auto judged =
      judge_traces(join({hold(0, "p", {"1"}, 1), hold(10, "q", {"1"}, 2)}), {}, true);
  EXPECT_THAT(judged.violations, ElementsAre(HasSubstr("row 1 a second time")));
}

TEST(RelayTrace, A_process_that_was_killed_has_nothing_from_then_on) {
  const std::vector<Step> steps = join(
      {{step(0, Event::claim, "p"), step(1, Event::publish, "p", {"1"})}, hold(5, "q", {"1"}, 2)});
  const Fault killed{.process = "p", .from_us = 4 * second, .until_us = 4 * second, .fatal = true};
  const auto judged = judge_traces(steps, {killed}, true);
  EXPECT_THAT(judged.violations, IsEmpty());
  EXPECT_EQ(judged.totals.cut, 1U);
  EXPECT_EQ(judged.totals.takeovers, 0U);

  EXPECT_THAT(judge_traces(steps, {}, true).violations,
              ::testing::Contains(HasSubstr("never given it back")));
}

TEST(RelayTrace, What_a_worker_does_without_having_the_entity_is_found) {
  const std::vector<Step> never{step(0, Event::publish, "p", {"1"})};
  EXPECT_THAT(judge_traces(never, {}, true).violations, ElementsAre(HasSubstr("without ever")));

  const std::vector<Step> after =
      join({hold(0, "p", {"1"}, 1), {step(5, Event::publish, "p", {"2"})}});
  EXPECT_THAT(judge_traces(after, {}, true).violations, ElementsAre(HasSubstr("given")));

  const std::vector<Step> twice{step(0, Event::claim, "p"), step(1, Event::claim, "p"),
                                step(2, Event::released, "p")};
  EXPECT_THAT(judge_traces(twice, {}, true).violations,
              ::testing::Contains(HasSubstr("has already")));
}

TEST(RelayTrace, A_mark_without_a_confirmation_is_found) {
  const std::vector<Step> steps{step(0, Event::claim, "p"), step(1, Event::publish, "p", {"1"}),
                                step(2, Event::released, "p"), step(3, Event::marked, "p", {"1"})};
  EXPECT_THAT(judge_traces(steps, {}, true).violations, ElementsAre(HasSubstr("not confirmed")));
}

TEST(RelayTrace, An_epoch_that_does_not_grow_is_found_where_epochs_fence) {
  const std::vector<Step> steps = join({hold(0, "p", {"1"}, 2), hold(10, "q", {"2"}, 2)});
  EXPECT_THAT(judge_traces(steps, {}, true).violations, ElementsAre(HasSubstr("epoch")));
  EXPECT_THAT(judge_traces(steps, {}, false).violations, IsEmpty());
}

TEST(RelayTrace, A_line_that_was_cut_off_is_left_out_and_one_that_is_wrong_is_named) {
  constexpr std::string_view whole =
      R"({"time_us": 7, "event": "publish", "relay": "outbox", "process": "p", "worker": 3, )"
      R"("entity": "e", "epoch": 12, "rows": ["1", "2"]})"
      "\n";
  const auto steps = parse_trace(std::string(whole) + R"({"time_us": 8, "event)");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].time_us, 7);
  EXPECT_EQ(steps[0].event, Event::publish);
  EXPECT_EQ(steps[0].process, "p");
  EXPECT_EQ(steps[0].worker, 3);
  EXPECT_EQ(steps[0].epoch, 12);
  EXPECT_THAT(steps[0].rows, ElementsAre("1", "2"));
  EXPECT_THROW(parse_trace("{\"time_us\": 8}\n"), std::runtime_error);
}

}  // namespace
}  // namespace strand::relay_chaos
