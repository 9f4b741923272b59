#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <strand/error.h>
#include <strand/message.h>
#include <strand/time.h>

namespace strand {

// What happened to an execution, or what its code decided.
enum class EventKind : std::uint8_t {
  // What came in.
  started = 1,
  begun = 2,  // an execution that had to wait for its beginning
  activity_completed = 3,
  activity_failed = 4,
  timer_fired = 5,
  child_completed = 6,
  child_failed = 7,
  event_received = 8,
  cancel_requested = 9,
  resumed = 10,     // after `parked`
  terminated = 11,  // by force; the code was not asked
  timed_out = 12,   // its time was over; the code was not asked

  // What the code decided.
  activity_scheduled = 32,
  local_activity = 33,
  timer_started = 34,
  child_started = 35,
  call_cancelled = 36,
  message_sent = 37,
  message_published = 38,
  event_sent = 39,
  other_started = 40,
  other_cancelled = 41,
  patched = 42,
  parked = 43,
  completed = 44,
  failed = 45,
  cancelled = 46,
  continued = 47,   // as a new execution
  checkpoint = 48,  // from where the code begins again
};
std::string_view to_string(EventKind kind);
// Decided by the code, and therefore compared in a replay.
[[nodiscard]] constexpr bool is_decision(EventKind kind) {
  return kind >= EventKind::activity_scheduled;
}
// The last event of an execution.
[[nodiscard]] bool ends_execution(EventKind kind);

// One event of a history, with its number left to its place.
struct HistoryEvent {
  EventKind kind = EventKind::started;
  Time at{};
  std::uint64_t call = 0;  // of the execution, from 1: what an answer answers
  std::string name = {};   // of the activity, child, event, queue, …
  Bytes data = {};         // input, result, …
  Headers details = {};

  // "" if there is none.
  [[nodiscard]] std::string_view detail(std::string_view detail_name) const;
  void add(std::string detail_name, std::string value) {
    details.push_back({std::move(detail_name), std::move(value)});
  }
  friend bool operator==(const HistoryEvent&, const HistoryEvent&) = default;
};

// As it is stored, and back. What is not an event is `corrupt`.
Bytes encode_event(const HistoryEvent& event);
Result<HistoryEvent> decode_event(std::string_view bytes);

// One line for people: "activity_scheduled 3 charge_card {"id":7}".
std::string describe(const HistoryEvent& event);

}  // namespace strand
