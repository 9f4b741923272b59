#include <array>

#include "store/check/check.h"

namespace strand::check {

std::string_view to_string(Kind kind) {
  static constexpr std::array<std::string_view, kind_count> names = {
      "unreadable_entry",
      "number_not_reserved",
      "hidden_message",
      "absurd_time",
      "time_ahead",
      "missing_meta",
      "bad_meta",
      "bad_queue",
      "queue_id_not_reserved",
      "queue_name_taken",
      "missing_queue_name",
      "orphan_queue_name",
      "missing_queue",
      "missing_counters",
      "orphan_counters",
      "wrong_dead_count",
      "not_conserved",
      "orphan_subscription",
      "bad_subscription",
      "bad_message",
      "message_name_taken",
      "orphan_state",
      "bad_state",
      "live_and_dead",
      "bad_dead_letter",
      "dead_in_wrong_queue",
      "missing_body",
      "wrong_body_size",
      "orphan_body",
      "own_body_shared",
      "missing_pin",
      "orphan_pin",
      "bad_topic",
      "missing_topic",
      "bad_publication",
      "orphan_lane",
      "bad_lane",
      "lane_label_differs",
      "orphan_lease",
      "bad_lease",
      "lane_leased_twice",
      "lease_of_parked_lane",
      "message_leased_twice",
      "lease_of_foreign_message",
      "unknown_request",
      "bad_request",
      "orphan_dedup",
      "bad_dedup",
      "missing_client",
      "client_forgotten_early",
      "answered_receipt",
      "bad_instance",
      "instance_number_taken",
      "missing_open",
      "orphan_open",
      "missing_execution",
      "orphan_execution",
      "bad_execution",
      "missing_event",
      "orphan_event",
      "bad_record",
  };
  static_assert(!names.back().empty(), "every kind has a name");
  return names[static_cast<std::size_t>(kind)];
}

Report::Count Report::total() const {
  Count sum;
  for (const Count& count : counts) {
    sum.found += count.found;
    sum.repairable += count.repairable;
  }
  return sum;
}

}  // namespace strand::check
