// The cache of messages in front of a disk: it may forget, but never tell anything else.

#include "store/local/message_cache.h"

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "unit/scripted_backend.h"

namespace strand {
namespace {

using engine::Family;
using engine::MutationBatch;
using local::MessageCache;

std::string key(std::uint64_t id) {
  std::string bytes(8, '\0');
  for (int i = 7; i >= 0; --i, id >>= 8U)
    bytes[static_cast<std::size_t>(i)] = static_cast<char>(id);
  return bytes;
}

class MessageCacheTest : public ::testing::Test {
 protected:
  void make(std::size_t budget) {
    auto disk = std::make_unique<ScriptedBackend>(contents_);
    disk_ = disk.get();
    cache_ = std::make_unique<MessageCache>(std::move(disk), budget);
  }
  void SetUp() override { make(std::size_t{1} << 20U); }

  bool put(std::uint64_t id, const std::string& value, Family family = Family::message) {
    MutationBatch batch;
    batch.put(family, key(id), value);
    return cache_->write(batch, Durability::sync).has_value();
  }
  bool erase(std::uint64_t id, Family family = Family::message) {
    MutationBatch batch;
    batch.erase(family, key(id));
    return cache_->write(batch, Durability::sync).has_value();
  }
  std::optional<std::string> get(std::uint64_t id, Family family = Family::message) {
    return cache_->get(family, key(id)).value();
  }
  MessageCache& cache() { return *cache_; }
  ScriptedBackend& disk() { return *disk_; }

 private:
  ScriptedBackend::Contents contents_ = std::make_shared<memory::MemoryBackend>();
  ScriptedBackend* disk_ = nullptr;  // owned by the cache
  std::unique_ptr<MessageCache> cache_;
};

TEST_F(MessageCacheTest, What_was_just_written_is_read_without_the_disk) {
  ASSERT_TRUE(put(1, "a"));
  EXPECT_EQ(get(1), "a");
  EXPECT_EQ(cache().hits(), 1U);
}

TEST_F(MessageCacheTest, What_was_removed_is_gone) {
  ASSERT_TRUE(put(1, "a"));
  ASSERT_TRUE(erase(1));
  EXPECT_EQ(get(1), std::nullopt);
  EXPECT_EQ(cache().entries(), 0U);
}

TEST_F(MessageCacheTest, What_was_buried_is_gone_and_is_a_dead_letter) {
  ASSERT_TRUE(put(7, "message"));
  MutationBatch batch;
  const std::string dead_key = std::string(4, '\1') + key(7);
  batch.bury(key(7), dead_key, "dead");
  ASSERT_TRUE(cache().write(batch, Durability::sync));
  EXPECT_EQ(get(7), std::nullopt);
  EXPECT_EQ(cache().get(Family::dead, dead_key).value(), "deadmessage");
}

TEST_F(MessageCacheTest, A_body_and_a_message_of_one_id_are_two_things) {
  ASSERT_TRUE(put(1, "message"));
  ASSERT_TRUE(put(1, "body", Family::body));
  EXPECT_EQ(get(1), "message");
  EXPECT_EQ(get(1, Family::body), "body");
  ASSERT_TRUE(erase(1, Family::body));
  EXPECT_EQ(get(1), "message");
}

TEST_F(MessageCacheTest, A_batch_that_was_not_written_leaves_nothing_behind) {
  disk().fail_next_write(ScriptedBackend::Fault::before);
  EXPECT_FALSE(put(1, "a"));
  EXPECT_EQ(cache().entries(), 0U);
  EXPECT_EQ(get(1), std::nullopt);
}

TEST_F(MessageCacheTest, A_batch_that_failed_and_is_there_is_read_from_the_disk) {
  disk().fail_next_write(ScriptedBackend::Fault::after);
  EXPECT_FALSE(put(1, "a"));
  ASSERT_TRUE(cache().reopen());
  EXPECT_EQ(get(1), "a");
  EXPECT_EQ(cache().hits(), 0U);
}

TEST_F(MessageCacheTest, A_reopened_disk_is_asked_anew) {
  ASSERT_TRUE(put(1, "a"));
  ASSERT_TRUE(cache().reopen());
  EXPECT_EQ(cache().entries(), 0U);
  EXPECT_EQ(get(1), "a");
}

TEST_F(MessageCacheTest, Beyond_the_budget_the_disk_answers) {
  const std::string value(1'000, 'x');
  for (std::uint64_t id = 1; id <= 2'000; ++id)
    ASSERT_TRUE(put(id, value));
  EXPECT_LT(cache().entries(), 1'100U);
  EXPECT_GT(cache().entries(), 900U);
  for (std::uint64_t id = 1; id <= 2'000; ++id)
    ASSERT_EQ(get(id), value);
}

TEST_F(MessageCacheTest, Those_that_stay_for_ever_give_way_in_the_end) {
  const std::string value(1'000, 'x');
  for (std::uint64_t id = 1; id <= 2'000; ++id)
    ASSERT_TRUE(put(id, value));
  for (std::uint64_t id = 2'001; id <= 40'000; ++id) {  // these come and go
    ASSERT_TRUE(put(id, value));
    if (id > 2'010) ASSERT_TRUE(erase(id - 10));
  }
  const std::uint64_t before = cache().hits();
  EXPECT_EQ(get(39'999), value);
  EXPECT_EQ(cache().hits(), before + 1);
}

TEST_F(MessageCacheTest, It_never_tells_anything_but_what_the_disk_would) {
  std::random_device device;
  const auto seed = device();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  make(std::size_t{512} << 10U);
  std::map<std::uint64_t, std::string> expected;
  std::uint64_t next = 1;
  for (int step = 0; step < 20'000; ++step) {
    if (expected.empty() || random() % 2 == 0) {
      const std::string value(random() % 900, static_cast<char>('a' + next % 26));
      ASSERT_TRUE(put(next, value));
      expected[next++] = value;
    } else {
      auto victim = expected.lower_bound(random() % next);
      if (victim == expected.end()) victim = expected.begin();
      ASSERT_EQ(get(victim->first), victim->second);
      ASSERT_TRUE(erase(victim->first));
      expected.erase(victim);
    }
  }
  for (const auto& [id, value] : expected)
    ASSERT_EQ(get(id), value);
  EXPECT_GT(cache().hits(), 0U);
}

}  // namespace
}  // namespace strand
