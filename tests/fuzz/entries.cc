#include "fuzz/entries.h"

#include "store/engine/records.h"

namespace strand::fuzz {

namespace {

using engine::Family;

template <class Record>
std::optional<std::string> again(std::string_view value) {
  const auto record = engine::decode<Record>(value);
  if (!record) return std::nullopt;
  std::string bytes;
  engine::encode(*record, bytes);
  return bytes;
}

std::optional<std::string> dead_again(std::string_view value) {
  const auto entry = engine::decode<engine::DeadEntry>(value);
  if (!entry) return std::nullopt;
  std::string bytes;
  engine::encode(entry->dead, bytes);
  engine::encode(entry->message, bytes);
  return bytes;
}

// The id that a name leads to is the whole value.
std::optional<std::string> queue_id_again(std::string_view value) {
  const auto place = engine::decode_lane_key(value);
  if (!place || !place->key.empty()) return std::nullopt;
  return engine::queue_key(place->queue);
}

}  // namespace

std::optional<std::string> encoded_again(Family family, std::string_view value) {
  switch (family) {
    case Family::meta:
      return again<engine::MetaRecord>(value);
    case Family::queue:
      return again<engine::QueueRecord>(value);
    case Family::counters:
      return again<engine::CountersRecord>(value);
    case Family::message:
      return again<engine::MessageRecord>(value);
    case Family::state:
      return again<engine::StateRecord>(value);
    case Family::lane:
      return again<engine::LaneRecord>(value);
    case Family::lease:
      return again<engine::LeaseRecord>(value);
    case Family::request:
    case Family::dedup:
      return again<engine::DedupRecord>(value);
    case Family::client:
      return again<engine::ClientRecord>(value);
    case Family::receipt:
      return again<engine::ReceiptRecord>(value);
    case Family::dead:
      return dead_again(value);
    case Family::topic:
      return again<TopicSettings>(value);
    case Family::retained:
      return again<engine::PublicationRecord>(value);
    case Family::instance:
    case Family::execution:
      return again<engine::InstanceRecord>(value);
    case Family::record:
      return again<engine::RecordRecord>(value);
    case Family::queue_name:
      return queue_id_again(value);
    case Family::open:
    case Family::pin:
      return std::string();
    case Family::body:
    case Family::subscription:
    case Family::event:
      return std::string(value);
  }
  return std::nullopt;
}

}  // namespace strand::fuzz
