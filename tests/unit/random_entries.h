#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/engine/mutations.h"
#include "store/engine/records.h"

namespace strand {

// Entries of every family as an engine could write them, and far beyond what it would: empty and
// absent parts, zero bytes, text that is none, the highest numbers.
class RandomEntries {
 public:
  explicit RandomEntries(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t end) { return random_() % end; }

  std::string key(engine::Family family) {
    using engine::Family;
    switch (family) {
      case Family::meta:
        return engine::meta_key();
      case Family::queue:
      case Family::counters:
      case Family::subscription:
        return engine::queue_key(queue());
      case Family::message:
      case Family::body:
      case Family::state:
      case Family::lease:
        return engine::number_key(id());
      case Family::lane:
      case Family::instance:
      case Family::open:
        return engine::lane_key(queue(), bytes());
      case Family::request:
      case Family::receipt:
        return engine::receipt_key(number(), number());
      case Family::dedup:
        return coin() ? engine::queue_dedup_key(queue(), bytes())
                      : engine::topic_dedup_key(bytes(), bytes());
      case Family::client:
        return engine::number_key(number());
      case Family::dead:
        return engine::dead_key(queue(), MessageId{id()});
      case Family::topic:
      case Family::queue_name:
        return bytes();
      case Family::retained:
        return engine::retained_key(bytes(), MessageId{id()});
      case Family::execution:
        return engine::execution_key(id(), id());
      case Family::event:
        return engine::event_key(id(), id(), id());
      case Family::record:
        return engine::record_key(bytes(), bytes());
      case Family::pin:
        return engine::pin_key(MessageId{id()}, MessageId{id()});
    }
    return {};
  }

  std::string value(engine::Family family, std::string_view key) {
    using engine::Family;
    switch (family) {
      case Family::meta:
        return encoded(meta());
      case Family::queue:
        return encoded(queue_record());
      case Family::counters:
        return encoded(engine::CountersRecord{number(), number(), number(), number(), number(),
                                              number(), number()});
      case Family::message:
        return encoded(message(queue()));
      case Family::state:
        return encoded(state());
      case Family::lane:
        return encoded(lane());
      case Family::lease:
        return encoded(lease());
      case Family::request:
      case Family::dedup:
        return encoded(engine::DedupRecord{MessageId{number()}, time()});
      case Family::client:
        return encoded(engine::ClientRecord{number(), time()});
      case Family::receipt:
        return encoded(receipt());
      case Family::dead:
        return encoded(dead()) + encoded(message(engine::decode_dead_key(key).value().first));
      case Family::topic:
        return encoded(TopicSettings{duration()});
      case Family::retained:
        return encoded(publication());
      case Family::instance:
        return encoded(instance(number(), number()));
      case Family::execution: {
        const auto name = engine::decode_pair_key(key).value();
        return encoded(instance(name.first, name.second));
      }
      case Family::record: {
        const std::string text = bytes();
        return encoded(engine::RecordRecord{Version{number()}, text});
      }
      case Family::queue_name:
        return engine::queue_key(queue());
      case Family::open:
      case Family::pin:
        return {};
      case Family::body:
      case Family::subscription:
      case Family::event:
        return bytes();
    }
    return {};
  }

  engine::DeadRecord dead() { return {number32(), number32(), time(), bytes(), failures()}; }
  engine::MessageRecord message(engine::QueueId queue) {
    engine::MessageRecord record;
    record.queue = queue;
    record.key = maybe(bytes());
    record.priority = static_cast<Priority>(below(4));
    record.enqueued_at = time();
    record.due = record.enqueued_at + duration();
    record.expires_at = maybe(time());
    record.name = maybe(bytes());
    record.label = bytes();
    record.max_attempts = maybe(number32());
    record.dead_notice_to = maybe(Address{bytes(), maybe(bytes())});
    record.notice = below(2) == 0;
    record.topic = maybe(bytes());
    record.headers = headers();
    record.body_at = maybe(MessageId{number()});
    if (record.body_at) {
      record.body_bytes = number32();
    } else {
      record.body = bytes();
    }
    return record;
  }

  // Bytes that make keys collide, stand side by side and begin with each other.
  std::string bytes() {
    static constexpr std::array<char, 8> letters = {'\0', '\1',   '\2',   'a',
                                                    'b',  '\x80', '\xfe', '\xff'};
    std::string text;
    for (std::uint64_t left = below(6); left > 0; --left)
      text.push_back(letters[below(letters.size())]);
    if (below(8) == 0) text += "\xc3\xa9 \"quoted\" \\ \n\t and long enough to be no small string";
    return text;
  }

 private:
  template <class T>
  std::optional<T> maybe(T value) {
    return coin() ? std::optional<T>{std::move(value)} : std::nullopt;
  }
  template <class Record>
  static std::string encoded(const Record& record) {
    std::string value;
    engine::encode(record, value);
    return value;
  }
  bool coin() { return below(2) == 0; }
  std::uint64_t number() {
    switch (below(5)) {
      case 0:
        return below(4);
      case 1:
        return UINT64_MAX - below(4);
      case 2:
        return (std::uint64_t{1} << 63U) - 2 + below(4);
      case 3:
        return std::uint64_t{1} << below(64);
      default:
        return random_();
    }
  }
  // What the store itself counts.
  std::uint64_t id() { return number() % ((std::uint64_t{1} << 63U) - 1); }
  std::uint32_t number32() { return static_cast<std::uint32_t>(number()); }
  engine::QueueId queue() {
    return engine::QueueId{coin() ? static_cast<std::uint32_t>(1 + below(3)) : number32()};
  }
  Time time() { return Time{duration()}; }
  Duration duration() {
    return Duration{static_cast<std::int64_t>(number() % (std::uint64_t{1} << 62U))};
  }
  Headers headers() {
    Headers headers(below(3));
    for (Header& header : headers)
      header = {coin() ? bytes() : "content-type", coin() ? bytes() : "text/plain"};
    return headers;
  }
  std::vector<Failure> failures() {
    std::vector<Failure> failures(below(3));
    for (Failure& failure : failures)
      failure = {time(), coin() ? bytes() : "timed out\nafter 5 s"};
    return failures;
  }
  engine::MetaRecord meta() {
    return {.format = number32(),
            .identity = {.store = number(), .secret = {number(), number()}},
            .commit = number(),
            .time = time(),
            .numbers_reserved = number(),
            .next_queue = number32(),
            .lowest_message = number()};
  }
  engine::QueueRecord queue_record() {
    engine::QueueRecord record{.id = {}, .name = bytes(), .settings = {}, .paused = coin()};
    QueueSettings& settings = record.settings;
    settings.max_attempts = number32();
    settings.backoff.resize(below(4));
    for (Duration& step : settings.backoff)
      step = duration();
    settings.backoff_jitter_percent = static_cast<std::uint32_t>(below(101));
    settings.dead_notice_to = maybe(Address{bytes(), maybe(bytes())});
    settings.retry_policy = static_cast<RetryPolicy>(below(2));
    settings.on_exhausted = static_cast<OnExhausted>(below(2));
    settings.ttl = maybe(duration());
    settings.on_expired = static_cast<OnExpired>(below(2));
    settings.dedup_window = duration();
    settings.lease = duration();
    settings.starvation_after = duration();
    settings.max_length = number();
    return record;
  }
  engine::StateRecord state() {
    return {number32(), number32(), maybe(time()), coin(), maybe(bytes()), failures()};
  }
  engine::LaneRecord lane() {
    return {bytes(), maybe(bytes()), coin(),
            maybe(engine::HintRecord{bytes(), time(), duration()})};
  }
  engine::LeaseRecord lease() {
    engine::LeaseRecord record{.queue = queue(),
                               .key = maybe(bytes()),
                               .expires_at = time(),
                               .cursor = number(),
                               .isolated = coin(),
                               .graced = coin(),
                               .request = maybe(RequestId{number(), number()}),
                               .messages = {}};
    record.messages.resize(below(4));
    for (auto& carried : record.messages)
      carried = {MessageId{number()}, coin() ? 0 : number()};
    return record;
  }
  engine::ReceiptRecord receipt() {
    engine::ReceiptRecord record{
        .fingerprint = {number(), number()}, .forget_at = time(), .receipt = {}};
    record.receipt.time = time();
    for (std::uint64_t left = below(3); left > 0; --left) {
      record.receipt.sent.push_back({MessageId{number()}, coin()});
      record.receipt.published.push_back({MessageId{number()}, coin(), number32()});
      record.receipt.cancelled.push_back(coin());
      record.receipt.versions.push_back(Version{number()});
    }
    record.receipt.affected = number();
    return record;
  }
  engine::PublicationRecord publication() {
    engine::PublicationRecord record;
    record.at = time();
    record.content.key = maybe(bytes());
    record.content.priority = static_cast<Priority>(below(4));
    record.content.ttl = maybe(duration());
    record.content.headers = headers();
    record.body_bytes = number32();
    return record;
  }
  engine::InstanceRecord instance(std::uint64_t instance, std::uint64_t execution) {
    engine::InstanceRecord record;
    record.number = instance;
    record.first_execution = number();
    record.last.number = execution;
    record.last.length = number();
    record.last.first = number();
    record.last.label = bytes();
    record.last.outcome = maybe(bytes());
    record.last.opened_at = time();
    record.last.updated_at = time();
    return record;
  }

  std::mt19937_64 random_;
};

}  // namespace strand
