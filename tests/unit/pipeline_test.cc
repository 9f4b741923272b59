// The way from a decision to a durable one: outcomes, and what becomes of failed writes (S21).

#include "store/local/pipeline.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "unit/requests.h"
#include "unit/scripted_backend.h"

namespace strand::local {
namespace {

using namespace std::chrono_literals;
using engine::CommitNumber;
using Fault = ScriptedBackend::Fault;

constexpr Time start{1'000'000s};
const engine::Identity identity{.store = 1, .secret = {2, 3}};

class PipelineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(pipeline_.open(start));
    if (pipeline_.can_take()) complete(write());
  }

  // Decides on a message, and returns the number that its outcome is known by.
  CommitNumber decide_send(const std::string& body) {
    EXPECT_TRUE(pipeline_.engine().apply(send("orders", body), now_));
    return pipeline_.decided();
  }
  Result<void> write() {
    const engine::Decisions& batch = pipeline_.take();
    return backend_.write(batch.mutations, batch.durability);
  }
  Pipeline::Woken complete(const Result<void>& written) {
    return pipeline_.complete(written, now_);
  }

  bool succeeded(CommitNumber commit) const {
    const auto outcome = pipeline_.outcome(commit);
    return outcome && *outcome;
  }
  std::optional<Errc> error(CommitNumber commit) const {
    const auto outcome = pipeline_.outcome(commit);
    if (!outcome || *outcome) return std::nullopt;
    return outcome->error().code;
  }
  std::uint64_t ready() {
    const auto stats = pipeline_.engine().stats("orders");
    return stats ? stats->ready : 0;
  }

  Time now_ = start;
  ScriptedBackend backend_;
  Pipeline pipeline_{backend_, Limits{}, identity};
};

TEST_F(PipelineTest, What_was_loaded_is_durable) {
  EXPECT_TRUE(pipeline_.all_written());
  EXPECT_FALSE(pipeline_.can_take());
  EXPECT_TRUE(succeeded(pipeline_.decided()));
}

TEST_F(PipelineTest, A_decision_has_no_outcome_before_its_batch_is_written) {
  const CommitNumber commit = decide_send("a");
  EXPECT_FALSE(pipeline_.outcome(commit));
  EXPECT_FALSE(pipeline_.all_written());
  const auto written = write();
  EXPECT_TRUE(pipeline_.in_flight());
  EXPECT_FALSE(pipeline_.outcome(commit));
  complete(written);
  EXPECT_TRUE(succeeded(commit));
  EXPECT_TRUE(pipeline_.all_written());
}

TEST_F(PipelineTest, What_is_decided_meanwhile_is_one_more_batch) {
  const CommitNumber first = decide_send("a");
  const auto written = write();
  EXPECT_EQ(pipeline_.decided(), first) << "nothing new: an answer now waits for the one in flight";
  const CommitNumber second = decide_send("b");
  EXPECT_EQ(decide_send("c"), second);
  EXPECT_GT(second, first);
  EXPECT_FALSE(pipeline_.can_take()) << "one batch is in flight at a time";

  complete(written);
  EXPECT_TRUE(succeeded(first));
  EXPECT_FALSE(pipeline_.outcome(second));
  ASSERT_TRUE(pipeline_.can_take());
  complete(write());
  EXPECT_TRUE(succeeded(second));
}

TEST_F(PipelineTest, Those_to_wake_are_told_with_their_own_batch) {
  decide_send("a");
  const auto written = write();
  const Pipeline::Woken woken = complete(written);
  EXPECT_EQ(woken.wakes.queues, std::vector<std::string>{"orders"});
  EXPECT_FALSE(woken.everyone);
}

TEST_F(PipelineTest, A_write_that_failed_before_it_did_anything_leaves_no_trace) {
  decide_send("kept");
  complete(write());
  const CommitNumber failed = decide_send("a");
  backend_.fail_next_write(Fault::before);
  const auto written = write();
  const CommitNumber behind = decide_send("b");
  const Pipeline::Woken woken = complete(written);

  EXPECT_EQ(error(failed), Errc::unavailable);
  EXPECT_EQ(error(behind), Errc::unavailable);
  EXPECT_TRUE(woken.everyone);
  EXPECT_FALSE(pipeline_.broken());
  EXPECT_EQ(pipeline_.rebuilds(), 1U);
  EXPECT_EQ(ready(), 1U);
  EXPECT_TRUE(succeeded(pipeline_.decided())) << "what was read again is durable";
}

// The persisted commit number tells: the calls of the batch have succeeded.
TEST_F(PipelineTest, A_write_that_failed_after_it_was_done_has_succeeded) {
  const CommitNumber failed = decide_send("a");
  backend_.fail_next_write(Fault::after);
  const auto written = write();
  const CommitNumber behind = decide_send("b");
  complete(written);

  EXPECT_TRUE(succeeded(failed));
  EXPECT_EQ(error(behind), Errc::unavailable);
  EXPECT_EQ(ready(), 1U);
}

TEST_F(PipelineTest, A_store_that_cannot_be_read_again_does_not_know_the_outcome) {
  const CommitNumber failed = decide_send("a");
  backend_.fail_next_write(Fault::after);
  backend_.fail_reopens(2);
  const auto written = write();
  const CommitNumber behind = decide_send("b");
  EXPECT_TRUE(complete(written).everyone) << "those who wait must find out";

  EXPECT_EQ(error(failed), Errc::unknown_outcome);
  EXPECT_EQ(error(behind), Errc::unavailable);
  EXPECT_TRUE(pipeline_.broken());
  EXPECT_FALSE(pipeline_.can_take());
  EXPECT_FALSE(pipeline_.all_written());

  EXPECT_FALSE(pipeline_.recover(now_));
  EXPECT_TRUE(pipeline_.broken());
  EXPECT_TRUE(pipeline_.recover(now_));
  EXPECT_FALSE(pipeline_.broken());
  EXPECT_EQ(ready(), 1U) << "it was applied after all";
  EXPECT_EQ(error(failed), Errc::unknown_outcome) << "an outcome that was told does not change";
  EXPECT_TRUE(succeeded(pipeline_.decided()));
}

TEST_F(PipelineTest, After_a_failure_the_store_goes_on_with_higher_numbers) {
  decide_send("a");
  backend_.fail_next_write(Fault::before);
  const auto written = write();
  const CommitNumber behind = decide_send("b");
  complete(written);

  while (pipeline_.can_take())
    complete(write());
  const CommitNumber next = decide_send("c");
  EXPECT_GT(next, behind);
  complete(write());
  EXPECT_TRUE(succeeded(next));
  EXPECT_EQ(error(behind), Errc::unavailable) << "the old number keeps its outcome";
  EXPECT_EQ(ready(), 1U);
}

TEST_F(PipelineTest, A_second_failure_is_told_from_the_first) {
  const CommitNumber first = decide_send("a");
  backend_.fail_next_write(Fault::before);
  complete(write());
  while (pipeline_.can_take())
    complete(write());
  const CommitNumber second = decide_send("b");
  backend_.fail_next_write(Fault::after);
  complete(write());
  EXPECT_EQ(error(first), Errc::unavailable);
  EXPECT_TRUE(succeeded(second));
  EXPECT_EQ(pipeline_.rebuilds(), 2U);
}

TEST_F(PipelineTest, A_rebuilt_engine_does_not_go_back_in_time) {
  now_ = start + 1h;
  decide_send("a");
  now_ = start + 2h;
  backend_.fail_next_write(Fault::before);
  complete(write());
  EXPECT_GE(pipeline_.engine().now(), start + 2h);
}

// Tokens that were handed out before must stay genuine.
TEST_F(PipelineTest, A_rebuilt_engine_knows_the_tokens_of_the_one_before) {
  decide_send("a");
  complete(write());
  const auto grants = pipeline_.engine().lease(from("orders"), now_);
  ASSERT_TRUE(grants && grants->size() == 1);
  complete(write());
  decide_send("b");
  backend_.fail_next_write(Fault::before);
  complete(write());
  EXPECT_TRUE(pipeline_.engine().is_current(grants->front().token));
}

}  // namespace
}  // namespace strand::local
