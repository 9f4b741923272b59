#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "store/check/inspector.h"

// Dedup ids, clients and their receipts; and records, which nothing refers to.

namespace strand::check {

using engine::ClientRecord;
using engine::DedupRecord;
using engine::Family;
using engine::QueueId;
using engine::ReceiptRecord;
using engine::RecordRecord;

namespace {

// Whether what follows the queue id 0 is a topic and a dedup id.
bool is_topic_dedup(std::string_view key) {
  const auto parts = engine::decode_record_key(key.substr(4));
  return parts && !parts->second.empty() &&
         engine::topic_dedup_key(parts->first, parts->second) == key;
}

}  // namespace

Result<void> Inspector::read_dedup() {
  return each(Family::dedup, [&](std::string_view key, std::string_view value) {
    const auto drop = [&] { repairs_.erase(Family::dedup, key); };
    const auto place = engine::decode_lane_key(key);
    const auto record = decode_exactly<DedupRecord>(value);
    const bool of_topic = place && place->queue == QueueId{0};
    if (!place || !record || place->key.empty() || (of_topic && !is_topic_dedup(key))) {
      unreadable(Family::dedup, key, true,
                 "repair drops it; a message sent again under that id is taken again");
      return drop();
    }
    if (!of_topic && !queue_exists(place->queue)) {
      const bool sure = unreadable_messages_.empty();
      found(Kind::orphan_dedup, sure,
            fmt::format("there is a dedup id of queue {}, which does not exist; repair drops it",
                        static_cast<std::uint32_t>(place->queue)));
      if (sure) drop();
      return;
    }
    const std::string what = fmt::format(
        "a dedup id of {}",
        of_topic ? std::string("a topic") : queue_text(static_cast<std::uint32_t>(place->queue)));
    if (record->first == MessageId{0}) {
      found(Kind::bad_dedup, true, fmt::format("{} names no message; repair drops it", what));
      return drop();
    }
    if (!check_time(record->ends_at, what + " (repair drops it)", true)) return drop();
    check_number(static_cast<std::uint64_t>(record->first), what);
  });
}

Result<void> Inspector::read_clients() {
  return each(Family::client, [&](std::string_view key, std::string_view value) {
    const auto number = engine::decode_number_key(key);
    const auto record = decode_exactly<ClientRecord>(value);
    if (!number || !record) {
      unreadable(Family::client, key, true,
                 "which answers the client has is lost; repair keeps its receipts");
      repairs_.erase(Family::client, key);
      if (number) clients_[*number];
      return;
    }
    check_time(record->forget_at, fmt::format("client {}", *number));
    clients_.emplace_hint(clients_.end(), *number,
                          ClientSeen{.present = true,
                                     .lowest_unanswered = record->lowest_unanswered,
                                     .forget_at = record->forget_at,
                                     .receipts_until = {}});
  });
}

Result<void> Inspector::read_receipts() {
  auto done = each(Family::receipt, [&](std::string_view key, std::string_view value) {
    const auto record = decode_exactly<ReceiptRecord>(value);
    if (!record || !engine::decode_pair_key(key)) {
      unreadable(Family::receipt, key, true,
                 "repair drops it; if that transaction is repeated, it is applied again");
      repairs_.erase(Family::receipt, key);
      return;
    }
    judge_receipt(key, *record);
  });
  if (!done) return done;
  for (const auto& [number, client] : clients_)
    judge_client(number, client);
  clients_ = {};
  return {};
}

void Inspector::judge_receipt(std::string_view key, const ReceiptRecord& record) {
  const auto [client, number] = *engine::decode_pair_key(key);
  const std::string what = fmt::format("the receipt {} of client {}", number, client);
  ClientSeen& seen = clients_[client];
  if (seen.present && number < seen.lowest_unanswered) {
    found(Kind::answered_receipt, true,
          fmt::format("{} is below {}, up to which the client has its answers; repair drops it",
                      what, seen.lowest_unanswered));
    repairs_.erase(Family::receipt, key);
    return;
  }
  check_past(record.receipt.time, what);
  if (check_time(record.forget_at, what)) {
    seen.receipts_until = std::max(seen.receipts_until, record.forget_at);
  }
  for (const Sent& sent : record.receipt.sent)
    check_number(static_cast<std::uint64_t>(sent.id), what);
  for (const Published& published : record.receipt.published)
    check_number(static_cast<std::uint64_t>(published.id), what);
  for (const Version version : record.receipt.versions)
    check_number(static_cast<std::uint64_t>(version), what);
}

// A client has to be kept as long as its receipts: the engine relies on it.
void Inspector::judge_client(std::uint64_t number, const ClientSeen& client) {
  if (client.present && client.receipts_until <= client.forget_at) return;
  if (!client.present && client.receipts_until == Time{}) return;  // unreadable, without receipts
  if (client.present) {
    found(Kind::client_forgotten_early, true,
          fmt::format("client {} is to be forgotten before its receipts; repair keeps it as long",
                      number));
  } else {
    found(Kind::missing_client, true,
          fmt::format("client {} has receipts and no readable entry; repair makes one", number));
  }
  repairs_.put_record(Family::client, engine::number_key(number),
                      ClientRecord{.lowest_unanswered = client.lowest_unanswered,
                                   .forget_at = client.receipts_until});
}

Result<void> Inspector::read_records() {
  return each(Family::record, [&](std::string_view key, std::string_view value) {
    const auto place = engine::decode_record_key(key);
    const auto record = engine::decode<RecordRecord>(value);
    if (!place || !record || engine::record_key(place->first, place->second) != key) {
      unreadable(Family::record, key, false, "restore it from a backup, or write it again");
      return;
    }
    const std::string what =
        fmt::format("the record '{}' in space '{}'", base::printable(place->second),
                    base::printable(place->first));
    if (place->first.empty() || place->second.empty() || record->version == Version{0}) {
      found(Kind::bad_record, false,
            fmt::format("{} has an empty name or the version 0: write it again", what));
    }
    check_number(static_cast<std::uint64_t>(record->version), what);
  });
}

}  // namespace strand::check
