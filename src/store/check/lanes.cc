#include <algorithm>
#include <ranges>

#include <fmt/format.h>

#include "base/text.h"
#include "store/check/inspector.h"

// Lanes, leases and their requests.

namespace strand::check {

using engine::DedupRecord;
using engine::Family;
using engine::LaneRecord;
using engine::LeaseRecord;

namespace {

// How long a request is remembered whose entry is lost.
constexpr Duration recovered_request_window = std::chrono::minutes{5};

std::uint64_t lane_hash(const LeaseRecord& lease) {
  return lease.key ? hash_of(engine::lane_key(lease.queue, *lease.key)) : 0;
}

bool is_plain(const LaneRecord& record) {
  return record.label.empty() && !record.park_reason && !record.isolate_next && !record.hint;
}

}  // namespace

Result<void> Inspector::read_lanes() {
  return each(Family::lane, [&](std::string_view key, std::string_view value) {
    const auto place = engine::decode_lane_key(key);
    auto record = decode_exactly<LaneRecord>(value);
    if (!place || place->key.empty() || !record) {
      unreadable(Family::lane, key, true,
                 "label, park, hint and isolation of the lane are lost; repair drops it, and the "
                 "lane goes on without");
      repairs_.erase(Family::lane, key);
      return;
    }
    lanes_.emplace_hint(lanes_.end(), key, LaneSeen{.record = std::move(*record)});
  });
}

Result<void> Inspector::judge_lanes() {
  for (const auto& [key, lane] : lanes_)
    judge_lane(key, lane);
  return {};
}

void Inspector::judge_lane(const std::string& key, const LaneSeen& lane) {
  const auto place = engine::decode_lane_key(key);
  const auto queue = static_cast<std::uint32_t>(place->queue);
  const std::string what =
      fmt::format("the lane '{}' of {}", base::printable(place->key), queue_text(queue));
  LaneRecord right = lane.record;
  // A message that cannot be read might stand in it.
  const bool sure = unreadable_messages_.empty();
  const bool needed = lane.has_messages || lane.leased || right.park_reason || right.hint;
  if (!queue_exists(place->queue) || (!needed && sure)) {
    found(Kind::orphan_lane, sure,
          fmt::format("{} has an entry, and neither messages, lease, park nor hint, or no queue; "
                      "repair drops it",
                      what));
    if (sure) repairs_.erase(Family::lane, key);
    return;
  }
  bool good = true;
  if (right.isolate_next && !lane.has_messages && sure) {
    found(Kind::bad_lane, true,
          fmt::format("{} isolates its next message and has none; repair corrects it", what));
    right.isolate_next = good = false;
  }
  if (right.hint && !check_time(right.hint->until, what, true)) {
    right.hint.reset();
    good = false;
  }
  if (lane.execution_label && *lane.execution_label != right.label) {
    found(Kind::lane_label_differs, true,
          fmt::format("{} has the label '{}', and its open execution '{}'; repair takes the second",
                      what, base::printable(right.label), base::printable(*lane.execution_label)));
    right.label = *lane.execution_label;
    good = false;
  }
  if (good && is_plain(right)) {
    found(Kind::bad_lane, true, fmt::format("the entry of {} says nothing; repair drops it", what));
    good = false;
  }
  if (good) return;
  if (is_plain(right)) {
    repairs_.erase(Family::lane, key);
  } else {
    repairs_.put_record(Family::lane, key, right);
  }
}

Result<void> Inspector::read_requests() {
  return each(Family::request, [&](std::string_view key, std::string_view value) {
    const auto request = engine::decode_request_key(key);
    const auto record = decode_exactly<DedupRecord>(value);
    const auto drop = [&] { repairs_.erase(Family::request, key); };
    if (!request || !record) {
      unreadable(Family::request, key, true,
                 "repair drops it; if that request is repeated, it leases anew");
      return drop();
    }
    const std::string what =
        fmt::format("the lease request {} of client {}", request->number, request->client);
    if (record->first != MessageId{0}) {
      found(Kind::bad_request, true, fmt::format("{} names a message; repair drops it", what));
      return drop();
    }
    if (!check_time(record->ends_at, what + " (repair drops it)", true)) return drop();
    requests_.insert(*request);
  });
}

// From the latest lease to the earliest: of two that exclude each other, the earlier must have been
// over when the later was granted.
Result<void> Inspector::read_leases() {
  std::vector<std::pair<std::uint64_t, LeaseRecord>> leases;
  auto done = each(Family::lease, [&](std::string_view key, std::string_view value) {
    const auto epoch = engine::decode_number_key(key);
    auto record = decode_exactly<LeaseRecord>(value);
    if (!epoch || !record) {
      unreadable(Family::lease, key, true,
                 "repair drops it: its holder loses the lease, its messages are given back");
      repairs_.erase(Family::lease, key);
      return;
    }
    check_number(*epoch, "a lease");
    leases.emplace_back(*epoch, std::move(*record));
  });
  if (!done) return done;
  for (const auto& [epoch, lease] : leases | std::views::reverse) {
    const auto why = judge_lease(lease);
    if (!why) {
      keep_lease(epoch, lease);
      continue;
    }
    found(why->first, true,
          fmt::format("the lease with epoch {} {}; repair ends it, and gives its messages back",
                      epoch, why->second));
    repairs_.erase(Family::lease, engine::number_key(epoch));
  }
  return {};
}

std::optional<std::pair<Kind, std::string>> Inspector::judge_lease(const LeaseRecord& lease) {
  const auto queue = static_cast<std::uint32_t>(lease.queue);
  if (!queue_exists(lease.queue)) {
    return std::pair{Kind::orphan_lease,
                     fmt::format("is of queue {}, which does not exist", queue)};
  }
  if (is_absurd(lease.expires_at)) {
    return std::pair{Kind::absurd_time, std::string("never ends")};
  }
  const bool cursors = std::ranges::all_of(
      lease.messages,
      [&](const LeaseRecord::Carried& carried) { return carried.pull < lease.cursor; });
  if (lease.cursor == 0 || !cursors || (lease.key && lease.key->empty())) {
    return std::pair{Kind::bad_lease, std::string("has a cursor or a key that no lease has")};
  }
  if (lease.key) {
    const std::string key = engine::lane_key(lease.queue, *lease.key);
    const std::string what =
        fmt::format("the lane '{}' of {}", base::printable(*lease.key), queue_text(queue));
    const auto other = leased_lanes_.find(key);
    if (other != leased_lanes_.end()) {
      return std::pair{Kind::lane_leased_twice,
                       fmt::format("is of {}, which is leased with epoch {}", what, other->second)};
    }
    const auto lane = lanes_.find(key);
    if (lane != lanes_.end() && lane->second.record.park_reason) {
      return std::pair{Kind::lease_of_parked_lane, fmt::format("is of {}, which is parked", what)};
    }
  }
  return judge_carried(lease);
}

std::optional<std::pair<Kind, std::string>> Inspector::judge_carried(const LeaseRecord& lease) {
  std::set<std::uint64_t> live;
  bool unsure = false;
  for (const LeaseRecord::Carried& carried : lease.messages) {
    const auto id = static_cast<std::uint64_t>(carried.id);
    check_number(id, "a leased message");
    const MessageSeen* message = find_message(id);
    if (message == nullptr) {
      if (is_dead(id)) {
        return std::pair{Kind::lease_of_foreign_message,
                         fmt::format("carries message {}, which is a dead letter", id)};
      }
      unsure = unsure || std::ranges::binary_search(unreadable_messages_, id);
      continue;  // acked since
    }
    if (message->queue != static_cast<std::uint32_t>(lease.queue) ||
        message->lane != lane_hash(lease)) {
      return std::pair{Kind::lease_of_foreign_message,
                       fmt::format("carries message {}, which is not of its lane", id)};
    }
    if (message->leased || !live.insert(id).second) {
      return std::pair{Kind::message_leased_twice,
                       fmt::format("carries message {}, which is leased already", id)};
    }
  }
  const bool crowded = (!lease.key || lease.isolated) && live.size() > 1;
  if (crowded || (!lease.key && live.empty() && !unsure)) {
    return std::pair{Kind::bad_lease,
                     fmt::format("carries {} messages and should carry one", live.size())};
  }
  return std::nullopt;
}

void Inspector::keep_lease(std::uint64_t epoch, const LeaseRecord& lease) {
  for (const LeaseRecord::Carried& carried : lease.messages) {
    if (MessageSeen* message = find_message(static_cast<std::uint64_t>(carried.id))) {
      message->leased = true;
    }
  }
  if (lease.key) {
    std::string key = engine::lane_key(lease.queue, *lease.key);
    if (const auto lane = lanes_.find(key); lane != lanes_.end()) lane->second.leased = true;
    leased_lanes_.emplace(std::move(key), epoch);
  }
  if (!lease.request || !requests_.insert(*lease.request).second) return;
  found(Kind::unknown_request, true,
        fmt::format("the lease with epoch {} was granted to request {} of client {}, which is "
                    "forgotten; repair remembers it",
                    epoch, lease.request->number, lease.request->client));
  const Time until = (meta_ && !time_lost_ ? meta_->time : latest_) + recovered_request_window;
  repairs_.put_record(Family::request, engine::request_key(*lease.request),
                      DedupRecord{.first = MessageId{0}, .ends_at = until});
}

}  // namespace strand::check
