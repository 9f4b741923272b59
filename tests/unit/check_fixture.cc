#include "unit/check_fixture.h"

#include <array>
#include <chrono>

namespace strand {

using namespace std::chrono_literals;

namespace {

Send to(std::string queue, std::optional<std::string> key, Bytes body = "body") {
  Send message;
  message.queue = std::move(queue);
  message.key = std::move(key);
  message.body = std::move(body);
  return message;
}

constexpr std::string_view full_subscriber = "full";

}  // namespace

void CheckFixture::start_again() {
  store_.start_again();
  ASSERT_TRUE(store_.opened());
  QueueSettings settings;
  settings.max_attempts = 3;
  must(administer(ConfigureQueue{"orders", settings}));
  send_messages();
  make_dead_letters();
  publish();
  make_histories();
  make_ids();
  make_leases();
  orders_ = id_of("orders");
  jobs_ = id_of("jobs");
  flows_ = id_of("flows");
  subscriber_ = id_of(full_subscriber);
  const auto report = inspect();
  ASSERT_TRUE(report.clean()) << to_text(report);
  for (std::size_t i = 0; i < engine::family_count; ++i) {
    EXPECT_GT(report.families[i].entries, 0U)
        << "the rich store has no entry of " << engine::family_name(static_cast<Family>(i));
  }
  sound_ = entries();
}

Receipt CheckFixture::must(const Transaction& transaction) {
  auto receipt = store_.apply(transaction);
  if (!receipt) {
    ADD_FAILURE() << receipt.error().message;
    return {};
  }
  return std::move(*receipt);
}

MessageId CheckFixture::must_send(Send message) {
  Transaction transaction;
  transaction.sends.push_back(std::move(message));
  const Receipt receipt = must(transaction);
  return receipt.sent.empty() ? MessageId{0} : receipt.sent.front().id;
}

engine::Grant CheckFixture::must_lease(const std::string& queue, std::optional<std::string> key,
                                       std::optional<RequestId> request) {
  LeaseRequest wanted = from(queue);
  wanted.key = std::move(key);
  wanted.request = request;
  auto grants = store_.lease(wanted);
  if (!grants || grants->empty()) {
    ADD_FAILURE() << "nothing to lease in " << queue;
    return {};
  }
  return std::move(grants->front());
}

void CheckFixture::send_messages() {
  waiting_ = must_send(to("orders", "k1"));
  must_send(to("orders", "k1"));
  Send delayed = to("orders", "k2");
  delayed.delay = 1h;
  delayed.ttl = 2h;
  delayed.label = "gpu";
  must_send(delayed);
  with_body_ = must_send(to("orders", "k3", Bytes(2'000, 'x')));
  Send named = to("jobs", std::nullopt);
  named.name = "timer";
  named.delay = 5min;
  named.max_attempts = 0;
  named.headers = {{.name = "a", .value = "1"}};
  named.dead_notice_to = Address{.queue = "orders", .key = "k1"};
  named_ = must_send(named);
  failed_ = must_send(to("orders", "k4"));
  must(settle(must_lease("orders", "k4").token, {outcome(failed_, Outcome::Kind::retry, 10min)}));
  const MessageId parked = must_send(to("orders", "parked"));
  must(settle(must_lease("orders", "parked").token, {outcome(parked, Outcome::Kind::release)},
              Settle::Then::park));
  must_send(to("jobs", std::nullopt));
  must(settle(must_lease("jobs", std::nullopt).token, {}, Settle::Then::park));
}

void CheckFixture::make_leases() {
  leased_ = must_send(to("orders", "leased"));
  must_send(to("orders", "leased"));
  const engine::Grant keyed = must_lease("orders", "leased", RequestId{.client = 7, .number = 1});
  keyed_lease_ = keyed.token.epoch();
  must_send(to("orders", "leased"));
  EXPECT_TRUE(store_.pull(keyed.token, keyed.cursor));
  leased_alone_ = must_send(to("jobs", std::nullopt));
  unkeyed_lease_ = must_lease("jobs", std::nullopt).token.epoch();
  const MessageId acked = must_send(to("orders", "held"));
  const engine::Grant held = must_lease("orders", "held");
  empty_lease_ = held.token.epoch();
  Transaction keep = settle(held.token, {outcome(acked, Outcome::Kind::ack)}, Settle::Then::keep);
  keep.settles.front().outcomes.front().reason.clear();
  keep.settles.front().owner_hint = OwnerHint{.owner = "me", .valid_for = 1h, .grace = 1s};
  must(keep);
}

void CheckFixture::make_dead_letters() {
  const auto bury = [&](Bytes body) {
    const MessageId id = must_send(to("orders", "dead", std::move(body)));
    must(settle(must_lease("orders", "dead").token, {outcome(id, Outcome::Kind::dead)}));
    return id;
  };
  dead_ = bury("short");
  bury(Bytes(1'000, 'd'));
  const MessageId redriven = bury(Bytes(900, 'r'));
  must(administer(Redrive{"orders", {redriven}, std::nullopt}));
}

void CheckFixture::publish() {
  must(administer(ConfigureTopic{"events.a", TopicSettings{.retain = 1h}}));
  must(administer(Subscribe{"all", "events.#", std::nullopt}));
  must(administer(Subscribe{std::string(full_subscriber), "events.*", std::nullopt}));
  must_send(to(std::string(full_subscriber), std::nullopt));
  QueueSettings one;
  one.max_length = 1;
  must(administer(ConfigureQueue{std::string(full_subscriber), one}));
  Publish message;
  message.topic = "events.a";
  message.body = "shared";
  message.key = "k";
  message.dedup_id = "p1";
  Transaction transaction;
  transaction.publishes.push_back(message);
  publication_ = must(transaction).published.front().id;
  bool found = false;
  EXPECT_TRUE(store_.backend().scan(Family::pin, {}, {}, [&](std::string_view key, auto) {
    shared_dead_ = MessageId{engine::decode_pair_key(key)->second};
    return found = true;
  }));
  EXPECT_TRUE(found) << "the full subscriber has a dead letter";
}

void CheckFixture::make_histories() {
  must_send(to("flows", "order-1"));
  must_send(to("flows", "order-2"));
  const auto append = [](const Token& token, std::uint64_t execution, std::uint64_t length,
                         std::vector<Bytes> events, std::optional<std::string> close) {
    return Append{.token = token,
                  .execution = execution,
                  .expected_length = length,
                  .events = std::move(events),
                  .close = std::move(close)};
  };
  const Token first = must_lease("flows", "order-1").token;
  Transaction turns;
  turns.appends = {append(first, 1, 0, {"a", "b"}, "again"), append(first, 2, 0, {"c"}, "again"),
                   append(first, 3, 0, {"d", "e", "f"}, std::nullopt)};
  must(turns);
  Transaction shortened;
  shortened.remove_histories = {{.token = first, .through_execution = 1}};
  shortened.trim_histories = {{.token = first, .execution = 3, .before = 1}};
  must(shortened);
  Transaction labelled = settle(first, {}, Settle::Then::end);
  labelled.settles.front().label = "flow@1";
  must(labelled);
  const Token second = must_lease("flows", "order-2").token;
  Transaction closed;
  closed.appends = {append(second, 1, 0, {"x"}, "completed")};
  must(closed);
  const auto record = engine::decode<engine::InstanceRecord>(
      get(Family::instance, engine::lane_key(id_of("flows"), "order-1")));
  ASSERT_TRUE(record);
  instance_ = record->number;
}

void CheckFixture::make_ids() {
  Send message = to("orders", "k1");
  message.dedup_id = "d1";
  Transaction transaction;
  transaction.sends.push_back(message);
  transaction.records.push_back({.space = "s", .key = "r", .value = "v", .expected = std::nullopt});
  for (std::uint64_t number = 1; number <= 3; ++number) {
    transaction.id = TransactionId{
        .client = 9, .number = number, .time = store_.now(), .lowest_unanswered = number / 2};
    must(transaction);
  }
}

engine::QueueId CheckFixture::id_of(std::string_view queue) {
  const auto place = engine::decode_lane_key(get(Family::queue_name, queue));
  return place ? place->queue : engine::QueueId{0};
}

void CheckFixture::put(Family family, std::string_view key, std::string_view value) {
  engine::MutationBatch batch;
  batch.put(family, key, value);
  ASSERT_TRUE(store_.backend().write(batch, Durability::async));
}

void CheckFixture::erase(Family family, std::string_view key) {
  ASSERT_NE(get(family, key), "absent") << "there is nothing to erase";
  engine::MutationBatch batch;
  batch.erase(family, key);
  ASSERT_TRUE(store_.backend().write(batch, Durability::async));
}

std::string CheckFixture::get(Family family, std::string_view key) {
  auto value = store_.backend().get(family, key);
  return value && *value ? std::move(**value) : "absent";
}

check::Report CheckFixture::inspect() {
  auto report = check::inspect(store_.backend());
  if (!report) {
    ADD_FAILURE() << report.error().message;
    return {};
  }
  return std::move(*report);
}

CheckFixture::Entries CheckFixture::entries() {
  Entries all;
  for (std::size_t i = 0; i < engine::family_count; ++i) {
    const auto family = static_cast<Family>(i);
    EXPECT_TRUE(store_.backend().scan(family, {}, {}, [&](auto key, auto value) {
      all.emplace(std::pair{family, std::string(key)}, value);
      return true;
    }));
  }
  return all;
}

void CheckFixture::write_repair() {
  const auto repair = check::repair(store_.backend(), {.store = 5, .secret = {6, 7}});
  ASSERT_TRUE(repair) << repair.error().message;
  for (const engine::MutationBatch& batch : repair->batches) {
    ASSERT_TRUE(store_.backend().write(batch, Durability::sync));
  }
}

void CheckFixture::expect_sound_kept(const Entries& damaged, const std::set<Family>& changed) {
  const Entries now = entries();
  for (const auto& [place, value] : sound_) {
    const auto before = damaged.find(place);
    const bool untouched = before != damaged.end() && before->second == value;
    if (!untouched || changed.contains(place.first)) continue;
    const auto after = now.find(place);
    EXPECT_TRUE(after != now.end() && after->second == value)
        << "repair has " << (after == now.end() ? "dropped" : "changed") << " a sound "
        << engine::family_name(place.first) << " entry";
  }
}

void CheckFixture::expect_repaired(Kind kind, const std::set<Family>& changed) {
  const auto report = inspect();
  EXPECT_GT(report.count(kind).found, 0U) << to_string(kind) << " expected, found:\n"
                                          << to_text(report);
  EXPECT_EQ(report.total().found, report.total().repairable) << to_text(report);
  const Entries damaged = entries();
  write_repair();
  const auto after = inspect();
  EXPECT_TRUE(after.clean()) << "after repair:\n" << to_text(after);
  expect_sound_kept(damaged, changed);
  store_.open();
  ASSERT_TRUE(store_.opened()) << store_.opened().error().message;
  const auto reopened = inspect();
  EXPECT_TRUE(reopened.clean()) << "after repair and open:\n" << to_text(reopened);
}

void CheckFixture::expect_reported(Kind kind) {
  const auto report = inspect();
  EXPECT_GT(report.count(kind).found, 0U) << to_string(kind) << " expected, found:\n"
                                          << to_text(report);
  EXPECT_EQ(report.count(kind).repairable, 0U) << to_text(report);
  const Entries damaged = entries();
  write_repair();
  const auto after = inspect();
  EXPECT_GT(after.count(kind).found, 0U) << "what cannot be repaired stays reported";
  EXPECT_EQ(after.total().repairable, 0U) << to_text(after);
  expect_sound_kept(damaged, {});
}

}  // namespace strand
