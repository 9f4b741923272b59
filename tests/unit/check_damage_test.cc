#include <chrono>
#include <limits>

#include "unit/check_fixture.h"

// One damage at a time, by hand, to the rich store of the fixture: it is found under its name, and
// what can be repaired is.

namespace strand {

using namespace std::chrono_literals;
using engine::CountersRecord;
using engine::dead_key;
using engine::DeadEntry;
using engine::DedupRecord;
using engine::event_key;
using engine::execution_key;
using engine::InstanceRecord;
using engine::lane_key;
using engine::LaneRecord;
using engine::LeaseRecord;
using engine::message_key;
using engine::MessageRecord;
using engine::meta_key;
using engine::MetaRecord;
using engine::number_key;
using engine::pin_key;
using engine::PublicationRecord;
using engine::queue_key;
using engine::QueueId;
using engine::QueueRecord;
using engine::receipt_key;
using engine::StateRecord;

namespace {

constexpr std::uint64_t nobody = 999;
constexpr QueueId no_queue{77};

// A lease of no message, as it would be granted.
LeaseRecord empty_lease(QueueId queue, std::optional<std::string> key, Time expires_at) {
  LeaseRecord lease;
  lease.queue = queue;
  lease.key = std::move(key);
  lease.expires_at = expires_at;
  return lease;
}

std::string lease_key(Epoch epoch) { return number_key(static_cast<std::uint64_t>(epoch)); }

}  // namespace

using CheckDamage = CheckFixture;

// --- The store ---

TEST_F(CheckDamage, A_lost_meta_is_made_anew) {
  erase(Family::meta, meta_key());
  expect_repaired(Kind::missing_meta);
}

TEST_F(CheckDamage, An_unreadable_meta_is_made_anew) {
  put(Family::meta, meta_key(), "rubbish");
  expect_repaired(Kind::missing_meta);
}

TEST_F(CheckDamage, A_newer_format_is_an_error) {
  change<MetaRecord>(Family::meta, meta_key(), [](MetaRecord& meta) { meta.format = 2; });
  const auto report = check::inspect(store_.backend());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Errc::unsupported);
}

TEST_F(CheckDamage, A_format_that_never_was_is_reported) {
  change<MetaRecord>(Family::meta, meta_key(), [](MetaRecord& meta) { meta.format = 0; });
  expect_reported(Kind::bad_meta);
}

TEST_F(CheckDamage, An_absurd_store_time_is_counted_anew) {
  change<MetaRecord>(Family::meta, meta_key(),
                     [](MetaRecord& meta) { meta.time = Time{Duration{-5}}; });
  expect_repaired(Kind::bad_meta);
}

TEST_F(CheckDamage, Numbers_that_could_come_again_are_reserved) {
  change<MetaRecord>(Family::meta, meta_key(), [](MetaRecord& meta) { meta.numbers_reserved = 3; });
  expect_repaired(Kind::number_not_reserved, {Family::meta});
  const Receipt sent = must(send("orders", "next", "k1"));
  EXPECT_GT(sent.sent.front().id, publication_);
}

TEST_F(CheckDamage, Messages_below_the_mark_where_reading_begins_are_shown_again) {
  change<MetaRecord>(Family::meta, meta_key(),
                     [](MetaRecord& meta) { meta.lowest_message = meta.numbers_reserved; });
  expect_repaired(Kind::hidden_message, {Family::meta});
}

TEST_F(CheckDamage, A_number_with_no_room_above_it_is_reported_and_the_others_reserved) {
  put(Family::message, number_key(UINT64_MAX - 5), get(Family::message, message_key(waiting_)));
  change<MetaRecord>(Family::meta, meta_key(), [](MetaRecord& meta) { meta.numbers_reserved = 3; });
  EXPECT_GT(inspect().count(Kind::number_not_reserved).repairable, 0U);
  write_repair();
  const auto report = inspect();
  EXPECT_EQ(report.total().found, 1U) << to_text(report);
  EXPECT_EQ(report.total().repairable, 0U) << to_text(report);
}

TEST_F(CheckDamage, A_time_ahead_of_the_store_is_reported) {
  change<MetaRecord>(Family::meta, meta_key(), [](MetaRecord& meta) { meta.time -= 1h; });
  expect_reported(Kind::time_ahead);
}

// --- Queues ---

TEST_F(CheckDamage, An_unreadable_queue_is_made_anew_under_its_name) {
  put(Family::queue, queue_key(orders_), "rubbish");
  expect_repaired(Kind::unreadable_entry);
  EXPECT_EQ(id_of("orders"), orders_);
  EXPECT_TRUE(store_.engine().stats("orders"));
}

TEST_F(CheckDamage, A_lost_queue_is_made_anew_under_its_name) {
  erase(Family::queue, queue_key(orders_));
  expect_repaired(Kind::missing_queue);
  EXPECT_EQ(id_of("orders"), orders_);
}

TEST_F(CheckDamage, A_queue_that_lost_its_name_too_is_recovered) {
  erase(Family::queue, queue_key(orders_));
  erase(Family::queue_name, "orders");
  expect_repaired(Kind::missing_queue);
  const auto stats =
      store_.engine().stats("recovered-" + std::to_string(static_cast<std::uint32_t>(orders_)));
  ASSERT_TRUE(stats);
  EXPECT_GT(stats->dead, 0U);
}

TEST_F(CheckDamage, A_queue_id_that_could_come_again_is_reserved) {
  change<MetaRecord>(Family::meta, meta_key(), [](MetaRecord& meta) { meta.next_queue = 1; });
  expect_repaired(Kind::queue_id_not_reserved, {Family::meta});
}

TEST_F(CheckDamage, Of_two_queues_with_one_name_one_is_renamed) {
  change<QueueRecord>(Family::queue, queue_key(jobs_),
                      [](QueueRecord& queue) { queue.name = "orders"; });
  expect_repaired(Kind::queue_name_taken, {Family::queue_name});
  EXPECT_EQ(id_of("orders"), orders_);
}

TEST_F(CheckDamage, A_name_that_leads_nowhere_is_dropped) {
  put(Family::queue_name, "ghost", queue_key(no_queue));
  expect_repaired(Kind::orphan_queue_name);
}

TEST_F(CheckDamage, A_queue_without_its_name_gets_it_back) {
  erase(Family::queue_name, "jobs");
  expect_repaired(Kind::missing_queue_name);
  EXPECT_EQ(id_of("jobs"), jobs_);
}

TEST_F(CheckDamage, An_unreadable_name_is_written_anew) {
  put(Family::queue_name, "jobs", "x");
  expect_repaired(Kind::unreadable_entry);
  EXPECT_EQ(id_of("jobs"), jobs_);
}

TEST_F(CheckDamage, Impossible_settings_are_reported) {
  change<QueueRecord>(Family::queue, queue_key(jobs_),
                      [](QueueRecord& queue) { queue.settings.lease = Duration{0}; });
  expect_reported(Kind::bad_queue);
}

TEST_F(CheckDamage, Lost_counters_are_counted_anew) {
  erase(Family::counters, queue_key(orders_));
  expect_repaired(Kind::missing_counters);
}

TEST_F(CheckDamage, Unreadable_counters_are_counted_anew) {
  put(Family::counters, queue_key(orders_), "\xff");
  expect_repaired(Kind::unreadable_entry);
}

TEST_F(CheckDamage, Counters_of_no_queue_are_dropped) {
  put_record(Family::counters, queue_key(no_queue), CountersRecord{});
  expect_repaired(Kind::orphan_counters);
}

TEST_F(CheckDamage, A_wrong_count_of_dead_letters_is_corrected) {
  change<CountersRecord>(Family::counters, queue_key(orders_), [](CountersRecord& counters) {
    ++counters.dead;
    ++counters.accepted;
  });
  expect_repaired(Kind::wrong_dead_count);
}

TEST_F(CheckDamage, What_was_accepted_is_made_equal_to_what_became_of_it) {
  change<CountersRecord>(Family::counters, queue_key(orders_),
                         [](CountersRecord& counters) { --counters.acked; });
  expect_repaired(Kind::not_conserved);
}

TEST_F(CheckDamage, A_subscription_of_no_queue_is_dropped) {
  put(Family::subscription, queue_key(no_queue), "events.#");
  expect_repaired(Kind::orphan_subscription);
}

TEST_F(CheckDamage, A_subscription_to_no_pattern_is_dropped) {
  put(Family::subscription, queue_key(jobs_), "events..#.x");
  expect_repaired(Kind::bad_subscription);
}

// --- Messages ---

TEST_F(CheckDamage, An_unreadable_message_is_reported_and_what_it_may_need_is_kept) {
  put(Family::message, message_key(with_body_), "\x7f");
  expect_reported(Kind::unreadable_entry);
  EXPECT_EQ(inspect().total().found, 1U) << to_text(inspect());
}

TEST_F(CheckDamage, A_message_with_bytes_behind_it_is_unreadable) {
  put(Family::message, message_key(with_body_),
      get(Family::message, message_key(with_body_)) + "x");
  expect_reported(Kind::unreadable_entry);
}

TEST_F(CheckDamage, A_message_with_an_empty_key_is_reported) {
  change<MessageRecord>(Family::message, message_key(waiting_),
                        [](MessageRecord& message) { message.key = ""; });
  expect_reported(Kind::bad_message);
}

TEST_F(CheckDamage, A_message_of_no_queue_gets_one) {
  change<MessageRecord>(Family::message, message_key(waiting_),
                        [](MessageRecord& message) { message.queue = no_queue; });
  expect_repaired(Kind::missing_queue, {Family::counters, Family::meta});
  EXPECT_EQ(store_.engine().stats("recovered-77")->ready, 1U);
}

TEST_F(CheckDamage, A_message_that_is_due_in_the_year_20000_is_reported) {
  change<MessageRecord>(Family::message, message_key(waiting_), [](MessageRecord& message) {
    message.due = Time{std::chrono::hours{24 * 365 * 18'000}};
  });
  expect_reported(Kind::absurd_time);
}

TEST_F(CheckDamage, A_lost_message_shows_in_the_count) {
  erase(Family::message, message_key(waiting_));
  expect_repaired(Kind::not_conserved, {Family::counters});
}

TEST_F(CheckDamage, Of_two_messages_with_one_name_the_second_loses_it) {
  const MessageId other = waiting_;
  change<MessageRecord>(Family::message, message_key(other), [&](MessageRecord& message) {
    message.queue = jobs_;
    message.key.reset();
    message.name = "timer";
  });
  expect_repaired(Kind::message_name_taken, {Family::counters, Family::message});
  EXPECT_EQ(store_.engine().peek(all_of("jobs"))->items.size(), 4U);
}

TEST_F(CheckDamage, A_state_of_no_message_is_dropped) {
  put_record(Family::state, number_key(nobody), StateRecord{});
  expect_repaired(Kind::orphan_state);
}

TEST_F(CheckDamage, An_unreadable_state_is_dropped) {
  put(Family::state, message_key(failed_), "\xff");
  expect_repaired(Kind::unreadable_entry);
}

TEST_F(CheckDamage, More_failures_than_deliveries_are_corrected) {
  change<StateRecord>(Family::state, message_key(failed_),
                      [](StateRecord& state) { state.attempts = 2; });
  expect_repaired(Kind::bad_state);
}

TEST_F(CheckDamage, A_block_without_a_wait_is_corrected) {
  change<StateRecord>(Family::state, message_key(failed_),
                      [](StateRecord& state) { state.not_before.reset(); });
  expect_repaired(Kind::bad_state);
}

TEST_F(CheckDamage, A_backoff_without_end_is_ended) {
  change<StateRecord>(Family::state, message_key(failed_), [](StateRecord& state) {
    state.not_before = Time{Duration{std::numeric_limits<std::int64_t>::max()}};
  });
  expect_repaired(Kind::absurd_time);
}

// --- Dead letters and bodies ---

TEST_F(CheckDamage, A_dead_letter_that_is_live_is_dropped) {
  const std::string message = get(Family::message, message_key(with_body_));
  std::string letter;
  engine::encode(engine::DeadRecord{}, letter);
  put(Family::dead, dead_key(orders_, with_body_), letter + message);
  expect_repaired(Kind::live_and_dead);
}

TEST_F(CheckDamage, An_unreadable_dead_letter_is_reported_and_what_it_may_need_is_kept) {
  put(Family::dead, dead_key(subscriber_, shared_dead_), "\xff");
  expect_reported(Kind::unreadable_entry);
}

TEST_F(CheckDamage, A_dead_letter_in_the_wrong_queue_is_moved) {
  const std::string letter = get(Family::dead, dead_key(orders_, dead_));
  erase(Family::dead, dead_key(orders_, dead_));
  put(Family::dead, dead_key(jobs_, dead_), letter);
  expect_repaired(Kind::dead_in_wrong_queue);
  EXPECT_EQ(get(Family::dead, dead_key(orders_, dead_)), letter);
}

TEST_F(CheckDamage, A_dead_letter_that_is_in_two_queues_is_dropped_from_the_wrong_one) {
  put(Family::dead, dead_key(jobs_, dead_), get(Family::dead, dead_key(orders_, dead_)));
  expect_repaired(Kind::dead_in_wrong_queue);
}

TEST_F(CheckDamage, A_dead_letter_that_failed_more_often_than_it_was_delivered_is_reported) {
  const auto entry = engine::decode<DeadEntry>(get(Family::dead, dead_key(orders_, dead_)));
  ASSERT_TRUE(entry);
  engine::DeadRecord dead = entry->dead;
  dead.attempts = 50;
  std::string letter;
  engine::encode(dead, letter);
  engine::encode(entry->message, letter);
  put(Family::dead, dead_key(orders_, dead_), letter);
  expect_reported(Kind::bad_dead_letter);
}

TEST_F(CheckDamage, A_dead_letter_of_no_queue_gets_one) {
  auto entry = engine::decode<DeadEntry>(get(Family::dead, dead_key(orders_, dead_)));
  ASSERT_TRUE(entry);
  erase(Family::dead, dead_key(orders_, dead_));
  entry->message.queue = no_queue;
  std::string letter;
  engine::encode(entry->dead, letter);
  engine::encode(entry->message, letter);
  put(Family::dead, dead_key(no_queue, dead_), letter);
  expect_repaired(Kind::missing_queue, {Family::counters, Family::meta});
}

TEST_F(CheckDamage, A_body_of_nothing_is_dropped) {
  put(Family::body, number_key(nobody), "rubbish");
  expect_repaired(Kind::orphan_body);
}

TEST_F(CheckDamage, A_body_of_nothing_is_kept_while_something_is_unreadable) {
  put(Family::body, number_key(nobody), "may be precious");
  put(Family::message, message_key(waiting_), "\x7f");
  expect_reported(Kind::orphan_body);
  EXPECT_EQ(get(Family::body, number_key(nobody)), "may be precious");
}

TEST_F(CheckDamage, A_missing_body_is_reported) {
  erase(Family::body, message_key(with_body_));
  expect_reported(Kind::missing_body);
}

TEST_F(CheckDamage, A_body_that_its_message_does_not_find_any_more_is_kept) {
  change<MessageRecord>(Family::message, message_key(with_body_),
                        [](MessageRecord& message) { message.body_at = MessageId{nobody}; });
  expect_reported(Kind::orphan_body);
}

TEST_F(CheckDamage, A_missing_shared_body_is_reported_for_each_who_needs_it) {
  erase(Family::body, message_key(publication_));
  expect_reported(Kind::missing_body);
  EXPECT_EQ(inspect().count(Kind::missing_body).found, 3U);
}

TEST_F(CheckDamage, A_body_of_another_size_is_reported) {
  put(Family::body, message_key(with_body_), "short");
  expect_reported(Kind::wrong_body_size);
}

TEST_F(CheckDamage, A_body_of_one_message_that_another_shares_is_reported) {
  change<MessageRecord>(Family::message, message_key(waiting_), [&](MessageRecord& message) {
    message.body.clear();
    message.body_at = with_body_;
    message.body_bytes = 2'000;
  });
  expect_reported(Kind::own_body_shared);
}

TEST_F(CheckDamage, A_pin_for_nobody_is_dropped) {
  put(Family::pin, pin_key(publication_, MessageId{nobody}), {});
  expect_repaired(Kind::orphan_pin);
}

TEST_F(CheckDamage, A_missing_pin_is_put) {
  erase(Family::pin, pin_key(publication_, shared_dead_));
  expect_repaired(Kind::missing_pin);
}

// --- Topics ---

TEST_F(CheckDamage, A_topic_that_retains_and_is_lost_is_made_anew) {
  erase(Family::topic, "events.a");
  expect_repaired(Kind::missing_topic);
}

TEST_F(CheckDamage, An_unreadable_topic_that_retains_is_made_anew) {
  put(Family::topic, "events.a", "");
  expect_repaired(Kind::unreadable_entry);
}

TEST_F(CheckDamage, An_unreadable_topic_that_retains_nothing_is_dropped) {
  put(Family::topic, "other", "");
  expect_repaired(Kind::unreadable_entry);
}

TEST_F(CheckDamage, A_topic_that_keeps_nothing_is_reported) {
  put_record(Family::topic, "other", TopicSettings{.retain = Duration{0}});
  expect_reported(Kind::bad_topic);
}

TEST_F(CheckDamage, An_unreadable_publication_is_reported_and_its_body_kept) {
  put(Family::retained, engine::retained_key("events.a", publication_), "");
  expect_reported(Kind::unreadable_entry);
}

TEST_F(CheckDamage, A_publication_with_an_empty_key_is_reported) {
  change<PublicationRecord>(Family::retained, engine::retained_key("events.a", publication_),
                            [](PublicationRecord& record) { record.content.key = ""; });
  expect_reported(Kind::bad_publication);
}

// --- Lanes and leases ---

TEST_F(CheckDamage, An_unreadable_lane_is_dropped) {
  put(Family::lane, lane_key(orders_, "parked"), "\xff");
  expect_repaired(Kind::unreadable_entry);
}

TEST_F(CheckDamage, A_lane_of_no_queue_is_dropped) {
  put_record(Family::lane, lane_key(no_queue, "k"),
             LaneRecord{.label = "x", .park_reason = "y", .hint = std::nullopt});
  expect_repaired(Kind::orphan_lane);
}

TEST_F(CheckDamage, A_lane_with_nothing_in_it_is_dropped) {
  put_record(Family::lane, lane_key(orders_, "nobody"),
             LaneRecord{.label = "x", .park_reason = std::nullopt, .hint = std::nullopt});
  expect_repaired(Kind::orphan_lane);
}

TEST_F(CheckDamage, A_lane_entry_that_says_nothing_is_dropped) {
  put_record(Family::lane, lane_key(orders_, "k1"), LaneRecord{});
  expect_repaired(Kind::bad_lane);
}

TEST_F(CheckDamage, An_empty_lane_does_not_isolate) {
  change<LaneRecord>(Family::lane, lane_key(orders_, "held"),
                     [](LaneRecord& lane) { lane.isolate_next = true; });
  expect_repaired(Kind::bad_lane);
}

TEST_F(CheckDamage, A_lane_gets_the_label_of_its_open_execution) {
  put_record(Family::lane, lane_key(flows_, "order-1"),
             LaneRecord{.label = "other", .park_reason = std::nullopt, .hint = std::nullopt});
  expect_repaired(Kind::lane_label_differs);
}

TEST_F(CheckDamage, An_unreadable_lease_is_dropped_and_its_messages_wait_again) {
  put(Family::lease, lease_key(keyed_lease_), "\xff");
  expect_repaired(Kind::unreadable_entry);
  EXPECT_EQ(must_lease("orders", "leased").messages.size(), 3U);
}

TEST_F(CheckDamage, A_lease_of_no_queue_is_dropped) {
  put_record(Family::lease, number_key(nobody), empty_lease(no_queue, "k", store_.now() + 1min));
  expect_repaired(Kind::orphan_lease);
}

TEST_F(CheckDamage, Of_two_leases_of_one_lane_the_later_stays) {
  put_record(Family::lease, number_key(1), empty_lease(orders_, "leased", store_.now() + 1min));
  expect_repaired(Kind::lane_leased_twice);
}

TEST_F(CheckDamage, A_lease_of_a_parked_lane_is_dropped) {
  put_record(Family::lease, number_key(nobody),
             empty_lease(orders_, "parked", store_.now() + 1min));
  expect_repaired(Kind::lease_of_parked_lane);
}

TEST_F(CheckDamage, A_lease_of_messages_of_another_lane_is_dropped) {
  change<LeaseRecord>(Family::lease, lease_key(keyed_lease_), [&](LeaseRecord& lease) {
    lease.messages.push_back({.id = waiting_, .pull = 0});
  });
  expect_repaired(Kind::lease_of_foreign_message);
}

TEST_F(CheckDamage, A_lease_of_a_dead_letter_is_dropped) {
  change<LeaseRecord>(Family::lease, lease_key(keyed_lease_), [&](LeaseRecord& lease) {
    lease.messages.push_back({.id = dead_, .pull = 0});
  });
  expect_repaired(Kind::lease_of_foreign_message);
}

TEST_F(CheckDamage, A_lease_that_carries_a_message_twice_is_dropped) {
  change<LeaseRecord>(Family::lease, lease_key(keyed_lease_), [&](LeaseRecord& lease) {
    lease.messages.push_back(lease.messages.front());
  });
  expect_repaired(Kind::message_leased_twice);
}

TEST_F(CheckDamage, Of_two_leases_of_one_unkeyed_message_the_later_stays) {
  LeaseRecord earlier = empty_lease(jobs_, std::nullopt, store_.now() + 1min);
  earlier.messages.push_back({.id = leased_alone_, .pull = 0});
  put_record(Family::lease, number_key(1), earlier);
  expect_repaired(Kind::message_leased_twice);
}

TEST_F(CheckDamage, A_lease_of_an_unkeyed_message_that_is_gone_is_dropped) {
  change<LeaseRecord>(Family::lease, lease_key(unkeyed_lease_),
                      [](LeaseRecord& lease) { lease.messages.clear(); });
  expect_repaired(Kind::bad_lease);
}

TEST_F(CheckDamage, A_lease_with_an_impossible_cursor_is_dropped) {
  change<LeaseRecord>(Family::lease, lease_key(keyed_lease_),
                      [](LeaseRecord& lease) { lease.cursor = 0; });
  expect_repaired(Kind::bad_lease);
}

TEST_F(CheckDamage, A_lease_that_never_ends_is_dropped) {
  change<LeaseRecord>(Family::lease, lease_key(keyed_lease_),
                      [](LeaseRecord& lease) { lease.expires_at = Time{Duration{INT64_MAX}}; });
  expect_repaired(Kind::absurd_time);
}

TEST_F(CheckDamage, A_forgotten_request_of_a_lease_is_remembered) {
  erase(Family::request, engine::request_key({.client = 7, .number = 1}));
  expect_repaired(Kind::unknown_request);
  LeaseRequest again = from("orders");
  again.request = RequestId{.client = 7, .number = 1};
  const auto grants = store_.lease(again);
  ASSERT_TRUE(grants);
  ASSERT_EQ(grants->size(), 1U);
  EXPECT_EQ(grants->front().token.epoch(), keyed_lease_);
}

TEST_F(CheckDamage, A_request_that_names_a_message_is_dropped) {
  put_record(Family::request, engine::request_key({.client = 8, .number = 8}),
             DedupRecord{.first = waiting_, .ends_at = store_.now() + 1min});
  expect_repaired(Kind::bad_request);
}

// --- Ids ---

TEST_F(CheckDamage, A_dedup_id_of_no_queue_is_dropped) {
  put_record(Family::dedup, engine::queue_dedup_key(no_queue, "d"),
             DedupRecord{.first = waiting_, .ends_at = store_.now() + 1min});
  expect_repaired(Kind::orphan_dedup);
}

TEST_F(CheckDamage, An_unreadable_dedup_id_is_dropped) {
  put(Family::dedup, engine::queue_dedup_key(orders_, "d1"), "x");
  expect_repaired(Kind::unreadable_entry);
}

TEST_F(CheckDamage, A_dedup_id_of_a_topic_without_its_end_is_dropped) {
  std::string key = queue_key(QueueId{0});
  key += "events";
  put_record(Family::dedup, key, DedupRecord{.first = waiting_, .ends_at = store_.now() + 1min});
  expect_repaired(Kind::unreadable_entry);
}

TEST_F(CheckDamage, A_dedup_id_of_no_message_is_dropped) {
  put_record(Family::dedup, engine::queue_dedup_key(orders_, "d"),
             DedupRecord{.first = MessageId{0}, .ends_at = store_.now() + 1min});
  expect_repaired(Kind::bad_dedup);
}

TEST_F(CheckDamage, A_dedup_id_that_is_never_forgotten_is_dropped) {
  put_record(Family::dedup, engine::queue_dedup_key(orders_, "d"),
             DedupRecord{.first = waiting_, .ends_at = Time{Duration{INT64_MAX}}});
  expect_repaired(Kind::absurd_time);
}

TEST_F(CheckDamage, A_lost_client_is_made_anew_for_its_receipts) {
  erase(Family::client, number_key(9));
  expect_repaired(Kind::missing_client);
}

TEST_F(CheckDamage, An_unreadable_client_is_made_anew_for_its_receipts) {
  put(Family::client, number_key(9), "\xff");
  expect_repaired(Kind::unreadable_entry);
}

TEST_F(CheckDamage, A_client_is_kept_as_long_as_its_receipts) {
  change<engine::ClientRecord>(Family::client, number_key(9), [&](engine::ClientRecord& client) {
    client.forget_at = store_.now() + 1s;
  });
  expect_repaired(Kind::client_forgotten_early);
  store_.advance(1h);
  EXPECT_TRUE(inspect().clean());
}

TEST_F(CheckDamage, A_receipt_that_the_client_has_is_dropped) {
  change<engine::ClientRecord>(Family::client, number_key(9),
                               [](engine::ClientRecord& client) { client.lowest_unanswered = 3; });
  expect_repaired(Kind::answered_receipt, {Family::receipt});
}

TEST_F(CheckDamage, An_unreadable_receipt_is_dropped) {
  put(Family::receipt, receipt_key(9, 3), "x");
  expect_repaired(Kind::unreadable_entry);
}

// --- Histories and records ---

TEST_F(CheckDamage, An_unreadable_instance_is_reported_and_its_history_kept) {
  put(Family::instance, lane_key(flows_, "order-1"), "\xff");
  expect_reported(Kind::unreadable_entry);
}

TEST_F(CheckDamage, Executions_that_cannot_be_are_reported) {
  change<InstanceRecord>(Family::instance, lane_key(flows_, "order-1"),
                         [](InstanceRecord& instance) { instance.first_execution = 5; });
  expect_reported(Kind::bad_instance);
}

TEST_F(CheckDamage, A_history_that_was_trimmed_beyond_its_length_is_reported) {
  change<InstanceRecord>(Family::instance, lane_key(flows_, "order-1"),
                         [](InstanceRecord& instance) { instance.last.first = 4; });
  expect_reported(Kind::bad_instance);
}

TEST_F(CheckDamage, Two_instances_with_one_history_are_reported) {
  change<InstanceRecord>(Family::instance, lane_key(flows_, "order-2"),
                         [&](InstanceRecord& instance) { instance.number = instance_; });
  expect_reported(Kind::instance_number_taken);
}

TEST_F(CheckDamage, A_history_that_its_instance_does_not_find_any_more_is_kept) {
  change<InstanceRecord>(Family::instance, lane_key(flows_, "order-1"),
                         [](InstanceRecord& instance) { instance.number = nobody; });
  expect_reported(Kind::orphan_event);
}

TEST_F(CheckDamage, An_open_execution_is_marked_again) {
  erase(Family::open, lane_key(flows_, "order-1"));
  expect_repaired(Kind::missing_open);
}

TEST_F(CheckDamage, A_closed_execution_is_not_marked) {
  put(Family::open, lane_key(flows_, "order-2"), {});
  expect_repaired(Kind::orphan_open);
}

TEST_F(CheckDamage, An_instance_that_does_not_exist_is_not_marked) {
  put(Family::open, lane_key(flows_, "order-3"), {});
  expect_repaired(Kind::orphan_open);
}

TEST_F(CheckDamage, A_missing_execution_is_reported) {
  erase(Family::execution, execution_key(instance_, 2));
  expect_reported(Kind::missing_execution);
}

TEST_F(CheckDamage, An_execution_that_was_removed_is_dropped) {
  put(Family::execution, execution_key(instance_, 1),
      get(Family::execution, execution_key(instance_, 2)));
  expect_repaired(Kind::orphan_execution);
}

TEST_F(CheckDamage, An_execution_of_no_instance_is_dropped) {
  put(Family::execution, execution_key(nobody, 1),
      get(Family::execution, execution_key(instance_, 2)));
  expect_repaired(Kind::orphan_execution);
}

TEST_F(CheckDamage, An_earlier_execution_that_is_open_is_reported) {
  change<InstanceRecord>(Family::execution, execution_key(instance_, 2),
                         [](InstanceRecord& instance) { instance.last.outcome.reset(); });
  expect_reported(Kind::bad_execution);
}

TEST_F(CheckDamage, An_earlier_execution_that_was_trimmed_beyond_its_length_is_reported) {
  change<InstanceRecord>(Family::execution, execution_key(instance_, 2),
                         [](InstanceRecord& instance) { instance.last.first = 2; });
  expect_reported(Kind::bad_execution);
}

TEST_F(CheckDamage, An_unreadable_execution_is_reported_and_its_events_kept) {
  put(Family::execution, execution_key(instance_, 2), "\xff");
  expect_reported(Kind::unreadable_entry);
}

TEST_F(CheckDamage, A_gap_in_a_history_is_reported) {
  erase(Family::event, event_key(instance_, 3, 1));
  expect_reported(Kind::missing_event);
}

TEST_F(CheckDamage, An_event_that_is_missing_though_it_was_not_trimmed_is_reported) {
  change<InstanceRecord>(Family::instance, lane_key(flows_, "order-1"),
                         [](InstanceRecord& instance) { instance.last.first = 0; });
  expect_reported(Kind::missing_event);
}

TEST_F(CheckDamage, An_event_that_was_trimmed_is_dropped) {
  put(Family::event, event_key(instance_, 3, 0), "forgotten");
  expect_repaired(Kind::orphan_event);
}

TEST_F(CheckDamage, A_lost_end_of_a_history_is_reported) {
  erase(Family::event, event_key(instance_, 3, 2));
  expect_reported(Kind::missing_event);
}

TEST_F(CheckDamage, An_event_behind_the_end_is_dropped) {
  put(Family::event, event_key(instance_, 3, 3), "later");
  expect_repaired(Kind::orphan_event);
}

TEST_F(CheckDamage, An_event_of_a_removed_execution_is_dropped) {
  put(Family::event, event_key(instance_, 1, 0), "earlier");
  expect_repaired(Kind::orphan_event);
}

TEST_F(CheckDamage, An_event_of_no_instance_is_dropped) {
  put(Family::event, event_key(nobody, 1, 0), "whose");
  expect_repaired(Kind::orphan_event);
}

TEST_F(CheckDamage, An_event_with_half_a_key_is_dropped) {
  put(Family::event, execution_key(instance_, 3), "whose");
  expect_repaired(Kind::unreadable_entry);
}

TEST_F(CheckDamage, An_unreadable_record_is_reported) {
  put(Family::record, engine::record_key("s", "r"), "short");
  expect_reported(Kind::unreadable_entry);
}

TEST_F(CheckDamage, A_record_without_a_version_is_reported) {
  put_record(Family::record, engine::record_key("s", "r"),
             engine::RecordRecord{.version = Version{0}, .value = "v"});
  expect_reported(Kind::bad_record);
}

// --- Reports ---

TEST_F(CheckDamage, Findings_are_counted_beyond_those_that_are_listed) {
  for (std::uint64_t i = 0; i < check::findings_max + 500; ++i)
    put(Family::body, number_key(10'000 + i), "rubbish");
  const auto report = inspect();
  EXPECT_EQ(report.findings.size(), check::findings_max);
  EXPECT_EQ(report.count(Kind::orphan_body).found, check::findings_max + 500);
  expect_repaired(Kind::orphan_body);
}

TEST_F(CheckDamage, Many_damages_are_repaired_at_once) {
  erase(Family::queue, queue_key(orders_));
  erase(Family::counters, queue_key(jobs_));
  erase(Family::pin, pin_key(publication_, shared_dead_));
  erase(Family::client, number_key(9));
  erase(Family::topic, "events.a");
  erase(Family::open, lane_key(flows_, "order-1"));
  put(Family::lane, lane_key(orders_, "parked"), "\xff");
  put(Family::lease, lease_key(unkeyed_lease_), "\xff");
  put(Family::body, number_key(nobody), "rubbish");
  erase(Family::meta, meta_key());
  expect_repaired(Kind::missing_queue);
}

// Every kind has a name of its own, which scripts depend on.
TEST(CheckKinds, Have_names_of_their_own) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < check::kind_count; ++i)
    names.insert(to_string(static_cast<check::Kind>(i)));
  EXPECT_EQ(names.size(), check::kind_count);
  EXPECT_EQ(to_string(check::Kind::bad_record), "bad_record");
  EXPECT_EQ(to_string(check::Kind::orphan_lane), "orphan_lane");
}

TEST(CheckEmpty, A_store_that_was_never_opened_is_clean) {
  const memory::MemoryBackend nothing;
  const auto report = check::inspect(nothing);
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->clean());
}

}  // namespace strand
