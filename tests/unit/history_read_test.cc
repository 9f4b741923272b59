// Reads of histories beside a writer: an execution and its events are read one after the other.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "store/engine/reads.h"
#include "store/engine/records.h"
#include "unit/check_fixture.h"

namespace strand {
namespace {

using engine::Family;

// What a store has written, to which something happens just before events are read.
class InterruptedArchive final : public engine::Archive {
 public:
  InterruptedArchive(const engine::Archive& behind, std::function<void()> interruption)
      : behind_(behind), interruption_(std::move(interruption)) {}

  Result<std::optional<std::string>> get(Family family, std::string_view key) const override {
    return behind_.get(family, key);
  }
  Result<void> scan(Family family, std::string_view first, std::string_view last,
                    const Visit& visit) const override {
    if (family == Family::event) interruption_();
    return behind_.scan(family, first, last, visit);
  }

 private:
  const engine::Archive& behind_;
  const std::function<void()> interruption_;
};

class HistoryRead : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(store_.apply(send("flows", "start", "7")));
    grants_ = store_.lease(from("flows")).value();
    append(0, 6);
  }

  void append(std::uint64_t length, std::uint64_t count) {
    Transaction transaction;
    Append& part = transaction.appends.emplace_back();
    part.token = grants_.front().token;
    part.expected_length = length;
    for (std::uint64_t i = length; i < length + count; ++i)
      part.events.push_back(std::to_string(i));
    ASSERT_TRUE(store_.apply(transaction));
  }
  void trim(std::uint64_t before) {
    Transaction transaction;
    transaction.trim_histories = {
        {.token = grants_.front().token, .execution = 1, .before = before}};
    ASSERT_TRUE(store_.apply(transaction));
  }
  void remove() {
    Transaction transaction;
    transaction.remove_histories = {{.token = grants_.front().token, .through_execution = 0}};
    ASSERT_TRUE(store_.apply(transaction));
  }

  // Reads from the beginning, while `meanwhile` is done at each turn of reading events.
  Result<History> read(std::function<void()> meanwhile, std::size_t limit = 1000) {
    const InterruptedArchive archive(store_.backend(), std::move(meanwhile));
    return engine::read_history(
        archive, Limits{},
        {.queue = "flows", .key = "7", .execution = 0, .from = 0, .limit = limit});
  }

  QuietStore store_;
  std::vector<engine::Grant> grants_;
};

using Events = std::vector<Bytes>;

TEST_F(HistoryRead, Begins_again_if_the_history_is_trimmed_meanwhile) {
  const auto history = read([this] { trim(4); });
  ASSERT_TRUE(history) << history.error().message;
  EXPECT_EQ(history->execution.first, 4U);
  EXPECT_EQ(history->first, 4U);
  EXPECT_EQ(history->events, (Events{"4", "5"}));
}

// As many events as were asked for are still there, but they are others.
TEST_F(HistoryRead, Gives_no_event_the_number_of_another) {
  const auto history = read([this] { trim(3); }, 2);
  ASSERT_TRUE(history) << history.error().message;
  EXPECT_EQ(history->first, 3U);
  EXPECT_EQ(history->events, (Events{"3", "4"}));
}

TEST_F(HistoryRead, Does_not_give_up_if_it_is_trimmed_again_and_again) {
  std::uint64_t before = 0;
  const auto history = read([&] {
    if (before < 5) trim(++before);
  });
  ASSERT_TRUE(history) << history.error().message;
  EXPECT_EQ(history->events, Events{"5"});
}

TEST_F(HistoryRead, Of_an_instance_that_is_removed_meanwhile_finds_nothing) {
  EXPECT_EQ(read([this] { remove(); }).error().code, Errc::not_found);
}

// What is missing for no reason is damage, also where the limit would hide it.
TEST_F(HistoryRead, Finds_a_gap) {
  const std::string lane = *store_.backend().get(Family::queue_name, "flows").value() + "7";
  const auto instance =
      engine::decode<engine::InstanceRecord>(*store_.backend().get(Family::instance, lane).value());
  ASSERT_TRUE(instance);
  engine::MutationBatch batch;
  batch.erase(Family::event, engine::event_key(instance->number, 1, 1));
  ASSERT_TRUE(store_.backend().write(batch, Durability::async));
  EXPECT_EQ(read([] {}).error().code, Errc::corrupt);
  EXPECT_EQ(read([] {}, 3).error().code, Errc::corrupt);
}

}  // namespace
}  // namespace strand
