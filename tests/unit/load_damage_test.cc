// Damage that a load must notice, because the engine would rely on what is not so. What a repair
// makes of it is tested in check_damage_test.cc.

#include <chrono>
#include <cstdint>
#include <string>

#include "unit/check_fixture.h"

namespace strand {

using namespace std::chrono_literals;

class LoadDamage : public CheckFixture {
 protected:
  void expect_refused() {
    store_.open();
    ASSERT_FALSE(store_.opened());
    EXPECT_EQ(store_.opened().error().code, Errc::corrupt) << store_.opened().error().message;
  }
};

TEST_F(LoadDamage, Two_queues_of_one_name_are_refused) {
  change<engine::QueueRecord>(Family::queue, engine::queue_key(jobs_),
                              [](engine::QueueRecord& queue) { queue.name = "orders"; });
  expect_refused();
}

TEST_F(LoadDamage, A_queue_whose_id_could_come_again_is_refused) {
  change<engine::MetaRecord>(Family::meta, engine::meta_key(),
                             [](engine::MetaRecord& meta) { meta.next_queue = 1; });
  expect_refused();
}

TEST_F(LoadDamage, Two_messages_of_one_name_are_refused) {
  change<engine::MessageRecord>(Family::message, engine::message_key(leased_alone_),
                                [](engine::MessageRecord& message) { message.name = "timer"; });
  expect_refused();
}

TEST_F(LoadDamage, Numbers_that_could_come_again_are_refused) {
  change<engine::MetaRecord>(Family::meta, engine::meta_key(),
                             [](engine::MetaRecord& meta) { meta.numbers_reserved = 2; });
  expect_refused();
}

TEST_F(LoadDamage, Numbers_that_have_run_out_are_refused_and_counted_anew) {
  change<engine::MetaRecord>(Family::meta, engine::meta_key(),
                             [](engine::MetaRecord& meta) { meta.numbers_reserved = UINT64_MAX; });
  expect_refused();
  expect_repaired(Kind::bad_meta);
}

TEST_F(LoadDamage, An_absurd_store_time_is_refused) {
  change<engine::MetaRecord>(Family::meta, engine::meta_key(), [](engine::MetaRecord& meta) {
    meta.time = Time{Duration{INT64_MAX}};
  });
  expect_refused();
}

TEST_F(LoadDamage, A_receipt_that_outlives_its_client_is_refused) {
  change<engine::ReceiptRecord>(
      Family::receipt, engine::receipt_key(9, 3),
      [](engine::ReceiptRecord& receipt) { receipt.forget_at += 24h * 365; });
  expect_refused();
}

TEST_F(LoadDamage, An_unkeyed_lease_of_two_messages_is_refused) {
  change<engine::LeaseRecord>(
      Family::lease, engine::number_key(static_cast<std::uint64_t>(unkeyed_lease_)),
      [&](engine::LeaseRecord& lease) { lease.messages.push_back({.id = named_, .pull = 0}); });
  expect_refused();
}

// Else they could not be configured again.
TEST_F(LoadDamage, Absurd_settings_count_as_ten_years) {
  change<engine::QueueRecord>(
      Family::queue, engine::queue_key(orders_), [](engine::QueueRecord& queue) {
        queue.settings.lease = queue.settings.dedup_window = Duration{INT64_MAX};
        queue.settings.backoff = {Duration{INT64_MIN}};
      });
  store_.open();
  ASSERT_TRUE(store_.opened()) << store_.opened().error().message;
  const auto grants = store_.lease(from("orders"));
  ASSERT_TRUE(grants);
  ASSERT_FALSE(grants->empty());
  EXPECT_EQ(grants->front().expires_at, store_.now() + 24h * 3650);
  must(administer(ConfigureQueue{"orders", QueueSettings{}}));
  EXPECT_TRUE(inspect().clean()) << to_text(inspect());
}

TEST_F(LoadDamage, A_due_time_beyond_all_times_does_not_decode) {
  engine::MessageRecord record;
  record.queue = orders_;
  record.enqueued_at = Time{};
  record.due = Time{Duration{INT64_MAX}};
  std::string value;
  engine::encode(record, value);
  EXPECT_TRUE(engine::decode<engine::MessageRecord>(value));
  // Flags, queue and priority take a byte each; then comes the time to which the delay is added.
  ASSERT_EQ(value[3], '\0');
  value[3] = '\1';
  EXPECT_FALSE(engine::decode<engine::MessageRecord>(value));
}

TEST_F(LoadDamage, A_dead_letter_without_its_pin_can_be_dropped) {
  engine::MutationBatch batch;
  batch.erase_prefix(Family::pin, {});
  batch.erase_prefix(Family::retained, {});
  ASSERT_TRUE(store_.backend().write(batch, Durability::async));
  must(administer(PurgeQueue{"all", std::nullopt}));
  store_.open();
  ASSERT_TRUE(store_.opened()) << store_.opened().error().message;
  must(administer(PurgeQueue{"all", std::nullopt}));
  EXPECT_EQ(must(administer(DropDead{"full", {shared_dead_}})).affected, 1U);
}

// What cannot be read is nothing to keep for a message that might belong to it.
TEST_F(LoadDamage, Unreadable_counters_of_no_queue_are_dropped_beside_an_unreadable_message) {
  put(Family::counters, engine::queue_key(engine::QueueId{77}), "x");
  put(Family::message, engine::message_key(waiting_), "x");
  write_repair();
  const auto after = inspect();
  EXPECT_EQ(after.total().repairable, 0U) << to_text(after);
  EXPECT_EQ(after.count(Kind::orphan_counters).found, 0U) << to_text(after);
}

}  // namespace strand
