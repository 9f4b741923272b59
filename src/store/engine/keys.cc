#include <fmt/format.h>

#include "base/bytes.h"
#include "store/engine/records.h"

namespace strand::engine {

using base::ByteReader;
using base::ByteWriter;

namespace {

std::string two_numbers(std::uint64_t first, std::uint64_t second) {
  std::string key;
  ByteWriter out(key);
  out.fixed64(first);
  out.fixed64(second);
  return key;
}

}  // namespace

std::string_view family_name(Family family) {
  static constexpr std::string_view names[family_count] = {
      "meta",     "queue", "counters",  "message", "body",   "state", "lane",         "lease",
      "request",  "dedup", "client",    "receipt", "dead",   "topic", "subscription", "retained",
      "instance", "open",  "execution", "event",   "record", "pin",   "queue_name"};
  return names[static_cast<std::size_t>(family)];
}

std::string meta_key() { return "strand"; }

std::string queue_key(QueueId queue) {
  std::string key;
  ByteWriter(key).fixed32(static_cast<std::uint32_t>(queue));
  return key;
}

std::string number_key(std::uint64_t number) {
  std::string key;
  ByteWriter(key).fixed64(number);
  return key;
}

std::string lane_key(QueueId queue, std::string_view key) {
  std::string bytes = queue_key(queue);
  bytes.append(key);
  return bytes;
}

std::string dead_key(QueueId queue, MessageId id) {
  std::string key = queue_key(queue);
  ByteWriter(key).fixed64(static_cast<std::uint64_t>(id));
  return key;
}

std::string request_key(const RequestId& request) {
  return two_numbers(request.client, request.number);
}

std::string receipt_key(std::uint64_t client, std::uint64_t number) {
  return two_numbers(client, number);
}

std::string queue_dedup_key(QueueId queue, std::string_view dedup_id) {
  std::string key = queue_key(queue);
  key.append(dedup_id);
  return key;
}

// Queue ids start at 1, so that 0 is free for topics.
std::string topic_dedup_key(std::string_view topic, std::string_view dedup_id) {
  std::string key = queue_key(QueueId{0});
  ByteWriter(key).sortable(topic);
  key.append(dedup_id);
  return key;
}

std::string retained_prefix(std::string_view topic) {
  std::string key;
  ByteWriter(key).sortable(topic);
  return key;
}

std::string retained_key(std::string_view topic, MessageId publication) {
  std::string key = retained_prefix(topic);
  ByteWriter(key).fixed64(static_cast<std::uint64_t>(publication));
  return key;
}

std::string execution_key(std::uint64_t instance, std::uint64_t execution) {
  return two_numbers(instance, execution);
}

std::string event_key(std::uint64_t instance, std::uint64_t execution, std::uint64_t index) {
  std::string key = two_numbers(instance, execution);
  ByteWriter(key).fixed64(index);
  return key;
}

std::string record_prefix(std::string_view space) {
  std::string key;
  ByteWriter(key).sortable(space);
  return key;
}

std::string record_key(std::string_view space, std::string_view key) {
  std::string bytes = record_prefix(space);
  bytes.append(key);
  return bytes;
}

std::string pin_key(MessageId body, MessageId message) {
  return two_numbers(static_cast<std::uint64_t>(body), static_cast<std::uint64_t>(message));
}

std::optional<std::uint64_t> decode_number_key(std::string_view bytes) {
  ByteReader in(bytes);
  const std::uint64_t number = in.fixed64();
  if (!in.done()) return std::nullopt;
  return number;
}

std::optional<QueueAndKey> decode_lane_key(std::string_view bytes) {
  ByteReader in(bytes);
  QueueAndKey result{.queue = QueueId{in.fixed32()}, .key = {}};
  if (!in.ok()) return std::nullopt;
  result.key = in.rest();
  return result;
}

std::optional<std::pair<QueueId, MessageId>> decode_dead_key(std::string_view bytes) {
  ByteReader in(bytes);
  const QueueId queue{in.fixed32()};
  const MessageId id{in.fixed64()};
  if (!in.done()) return std::nullopt;
  return std::pair{queue, id};
}

std::optional<RequestId> decode_request_key(std::string_view bytes) {
  const auto pair = decode_pair_key(bytes);
  if (!pair) return std::nullopt;
  return RequestId{.client = pair->first, .number = pair->second};
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> decode_pair_key(std::string_view bytes) {
  ByteReader in(bytes);
  const std::uint64_t first = in.fixed64();
  const std::uint64_t second = in.fixed64();
  if (!in.done()) return std::nullopt;
  return std::pair{first, second};
}

std::optional<std::pair<std::string, MessageId>> decode_retained_key(std::string_view bytes) {
  ByteReader in(bytes);
  std::string topic = in.sortable();
  const MessageId id{in.fixed64()};
  if (!in.done()) return std::nullopt;
  return std::pair{std::move(topic), id};
}

std::optional<std::pair<std::string, std::string>> decode_record_key(std::string_view bytes) {
  ByteReader in(bytes);
  std::string space = in.sortable();
  if (!in.ok()) return std::nullopt;
  return std::pair{std::move(space), std::string(in.rest())};
}

Error damaged(Family family, std::string_view key) {
  std::string hex;
  for (const char c : key.substr(0, 32)) {
    hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  }
  return {Errc::corrupt,
          fmt::format("the store has a damaged {} entry (key {}): restore a backup of it, or run "
                      "`strand check --repair` on a copy",
                      family_name(family), hex)};
}

}  // namespace strand::engine
