#include "store/check/inspector.h"

#include <algorithm>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "store/engine/bounds.h"

namespace strand::check {

using engine::Family;

namespace {

constexpr std::uint32_t format = 1;
constexpr std::uint64_t progress_every = 100'000;
// How far numbers go on above the highest one that is in use, when the reservation is lost: those
// that were in use and are gone must not come again either.
constexpr std::uint64_t numbers_margin = std::uint64_t{1} << 40U;
constexpr std::uint64_t numbers_end = engine::numbers_max - numbers_margin;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, 32)) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  }
  if (bytes.size() > 32) text += "…";
  return text;
}

}  // namespace

std::uint64_t hash_of(std::string_view lane_key) {
  return std::hash<std::string_view>{}(lane_key) | 1U;
}

bool is_absurd(Time time) { return engine::is_absurd(time); }

const Limits& widest_limits() {
  static const Limits limits = [] {
    Limits widest;
    widest.name_bytes_max = widest.key_bytes_max = std::numeric_limits<std::size_t>::max();
    widest.backoff_steps_max = std::numeric_limits<std::size_t>::max();
    widest.delay_max = widest.lease_max = engine::last_time.time_since_epoch();
    return widest;
  }();
  return limits;
}

// In an order in which everything that decides about an entry has been read before it, or is
// judged when all is read.
Result<void> Inspector::run() {
  using Step = Result<void> (Inspector::*)();
  static constexpr Step steps[] = {
      &Inspector::read_meta,     &Inspector::read_queues,         &Inspector::read_queue_names,
      &Inspector::read_counters, &Inspector::read_subscriptions,  &Inspector::read_lanes,
      &Inspector::read_topics,   &Inspector::read_retained,       &Inspector::read_instances,
      &Inspector::read_open,     &Inspector::read_executions,     &Inspector::read_events,
      &Inspector::read_messages, &Inspector::judge_message_names, &Inspector::read_states,
      &Inspector::read_dead,     &Inspector::read_requests,       &Inspector::read_leases,
      &Inspector::read_dedup,    &Inspector::read_clients,        &Inspector::read_receipts,
      &Inspector::read_bodies,   &Inspector::read_pins,           &Inspector::read_records,
      &Inspector::judge_lanes,   &Inspector::judge_queues,        &Inspector::judge_meta};
  for (const Step step : steps) {
    if (auto done = (this->*step)(); !done) return done;
  }
  return {};
}

Result<void> Inspector::each(Family family, const Read& read) {
  const std::string_view name = engine::family_name(family);
  if (progress_) progress_(name, entries_read_);
  Report::FamilyTotal& total = report_.families[static_cast<std::size_t>(family)];
  return archive_.scan(family, {}, {}, [&](std::string_view key, std::string_view value) {
    ++total.entries;
    total.bytes += key.size() + value.size();
    if (++entries_read_ % progress_every == 0 && progress_) progress_(name, entries_read_);
    read(key, value);
    return true;
  });
}

void Inspector::found(Kind kind, bool repairable, std::string what) {
  Report::Count& count = report_.counts[static_cast<std::size_t>(kind)];
  ++count.found;
  if (repairable) ++count.repairable;
  if (report_.findings.size() < findings_max) {
    report_.findings.push_back({.kind = kind, .what = std::move(what), .repairable = repairable});
  }
}

void Inspector::unreadable(Family family, std::string_view key, bool repairable,
                           std::string_view then) {
  found(Kind::unreadable_entry, repairable,
        fmt::format("the {} entry with key {} is not what Strand wrote: {}",
                    engine::family_name(family), hex(key), then));
}

void Inspector::check_number(std::uint64_t number, std::string_view what) {
  // One that leaves no room above it must be damaged, and the others are still to be reserved.
  if (number < numbers_end) highest_number_ = std::max(highest_number_, number);
  if (!meta_ || number < meta_->numbers_reserved) return;
  numbers_low_ = true;
  found(Kind::number_not_reserved, number < numbers_end,
        fmt::format("the number {} of {} is not below {}, up to which numbers are reserved, and "
                    "could come again; repair reserves more",
                    number, what, meta_->numbers_reserved));
}

bool Inspector::check_time(Time time, std::string_view what, bool repairable) {
  if (!is_absurd(time)) return true;
  found(
      Kind::absurd_time, repairable,
      fmt::format("{} has a time that is {} ms from 1970{}", what, time.time_since_epoch().count(),
                  repairable ? "" : ": restore it from a backup, or remove it"));
  return false;
}

bool Inspector::check_past(Time time, std::string_view what) {
  if (!check_time(time, what)) return false;
  latest_ = std::max(latest_, time);
  if (!meta_ || time_lost_ || time <= meta_->time) return true;
  found(Kind::time_ahead, false,
        fmt::format("{} has the time {}, and store time is {}: harmless, and over when the clock "
                    "has passed it; see that the clock is right",
                    what, format_time(time), format_time(meta_->time)));
  return false;
}

Result<void> Inspector::read_meta() {
  std::optional<Error> wrong;
  auto done = each(Family::meta, [&](std::string_view key, std::string_view value) {
    if (key != engine::meta_key()) {
      unreadable(Family::meta, key, true, "repair drops it");
      repairs_.erase(Family::meta, key);
      return;
    }
    const auto meta = decode_exactly<engine::MetaRecord>(value);
    if (!meta) return;
    if (meta->format > format) {
      wrong = Error{Errc::unsupported,
                    fmt::format("the store has format {}, and this version of Strand knows formats "
                                "up to {}: use a newer version",
                                meta->format, format)};
    }
    meta_ = *meta;
  });
  if (!done) return done;
  if (wrong) return std::unexpected(*wrong);
  if (!meta_) return {};
  if (meta_->format < format) {
    found(Kind::bad_meta, false,
          fmt::format("the store has format {}, which never was: restore a backup", meta_->format));
  }
  time_lost_ = is_absurd(meta_->time);
  const bool numbers_lost =
      meta_->numbers_reserved == 0 || meta_->numbers_reserved > engine::numbers_max;
  if (numbers_lost || meta_->next_queue == 0 || time_lost_) {
    found(Kind::bad_meta, true,
          fmt::format("the store reserved numbers up to {} and queue ids up to {}, at {} ms from "
                      "1970; repair counts anew",
                      meta_->numbers_reserved, meta_->next_queue,
                      meta_->time.time_since_epoch().count()));
    numbers_low_ = numbers_low_ || numbers_lost;
    queue_ids_low_ = queue_ids_low_ || meta_->next_queue == 0;
  }
  return {};
}

// What was given out, and when, is counted anew if it is not known any more.
Result<void> Inspector::judge_meta() {
  if (!meta_) {
    if (entries_read_ == 0) return {};  // a store that nobody has opened yet
    found(Kind::missing_meta, true,
          "the store's own entry (identity, time, reserved numbers) is missing or unreadable; "
          "repair makes a new one, with which all tokens are void");
  } else if (!numbers_low_ && !queue_ids_low_ && !time_lost_ &&
             meta_->lowest_message <= lowest_message_) {
    return {};
  }
  engine::MetaRecord record;
  if (meta_) record = *meta_;
  if (!meta_) record.identity = fresh_;
  if (!meta_ || time_lost_) record.time = latest_;
  if (!meta_ || numbers_low_) record.numbers_reserved = highest_number_ + numbers_margin;
  for (const auto& [id, queue] : queues_) {
    if (queue.exists() && id < std::numeric_limits<std::uint32_t>::max()) {
      record.next_queue = std::max(record.next_queue, id + 1);
    }
  }
  record.next_queue = std::max(record.next_queue, 1U);
  record.lowest_message = std::min(record.lowest_message, lowest_message_);
  repairs_.put_record(Family::meta, engine::meta_key(), record);
  return {};
}

}  // namespace strand::check
