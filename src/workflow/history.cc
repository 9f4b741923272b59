#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <strand/history.h>

#include "base/bytes.h"
#include "base/text.h"

namespace strand {

namespace {

constexpr std::uint8_t format = 1;

constexpr std::array names = std::to_array<std::pair<EventKind, std::string_view>>({
    {EventKind::started, "started"},
    {EventKind::begun, "begun"},
    {EventKind::activity_completed, "activity_completed"},
    {EventKind::activity_failed, "activity_failed"},
    {EventKind::timer_fired, "timer_fired"},
    {EventKind::child_completed, "child_completed"},
    {EventKind::child_failed, "child_failed"},
    {EventKind::event_received, "event_received"},
    {EventKind::cancel_requested, "cancel_requested"},
    {EventKind::resumed, "resumed"},
    {EventKind::terminated, "terminated"},
    {EventKind::timed_out, "timed_out"},
    {EventKind::activity_scheduled, "activity_scheduled"},
    {EventKind::local_activity, "local_activity"},
    {EventKind::timer_started, "timer_started"},
    {EventKind::child_started, "child_started"},
    {EventKind::call_cancelled, "call_cancelled"},
    {EventKind::message_sent, "message_sent"},
    {EventKind::message_published, "message_published"},
    {EventKind::event_sent, "event_sent"},
    {EventKind::other_started, "other_started"},
    {EventKind::other_cancelled, "other_cancelled"},
    {EventKind::patched, "patched"},
    {EventKind::parked, "parked"},
    {EventKind::completed, "completed"},
    {EventKind::failed, "failed"},
    {EventKind::cancelled, "cancelled"},
    {EventKind::continued, "continued"},
    {EventKind::checkpoint, "checkpoint"},
});

}  // namespace

std::string_view to_string(EventKind kind) {
  const auto found = std::ranges::find(names, kind, &std::pair<EventKind, std::string_view>::first);
  return found == names.end() ? "unknown" : found->second;
}

bool ends_execution(EventKind kind) {
  const bool decided = kind >= EventKind::completed && kind <= EventKind::continued;
  return decided || kind == EventKind::terminated || kind == EventKind::timed_out;
}

std::string_view HistoryEvent::detail(std::string_view detail_name) const {
  const auto found = std::ranges::find(details, detail_name, &Header::name);
  return found == details.end() ? std::string_view{} : std::string_view(found->value);
}

Bytes encode_event(const HistoryEvent& event) {
  Bytes bytes;
  base::ByteWriter out(bytes);
  out.u8(format);
  out.u8(std::to_underlying(event.kind));
  out.time(event.at);
  out.varint(event.call);
  out.text(event.name);
  out.text(event.data);
  out.varint(event.details.size());
  for (const Header& detail : event.details) {
    out.text(detail.name);
    out.text(detail.value);
  }
  return bytes;
}

Result<HistoryEvent> decode_event(std::string_view bytes) {
  base::ByteReader in(bytes);
  const std::uint8_t found = in.u8();
  if (in.ok() && found != format) {
    return failure(Errc::corrupt, fmt::format("an event has format {}; this program knows {}, "
                                              "perhaps a newer one wrote it",
                                              found, format));
  }
  HistoryEvent event;
  event.kind = static_cast<EventKind>(in.u8());
  event.at = in.time();
  event.call = in.varint();
  event.name = in.text();
  event.data = in.text();
  const std::uint64_t details = in.varint();
  for (std::uint64_t i = 0; i < details && in.ok(); ++i) {
    Header& detail = event.details.emplace_back();
    detail.name = in.text();
    detail.value = in.text();
  }
  const bool known = to_string(event.kind) != "unknown";
  if (!in.done() || !known) {
    return failure(Errc::corrupt,
                   "an event of a history cannot be read: it is damaged, or was "
                   "written by a newer version of this program");
  }
  return event;
}

std::string describe(const HistoryEvent& event) {
  std::string text(to_string(event.kind));
  if (event.call > 0) text += fmt::format(" {}", event.call);
  if (!event.name.empty()) text += " " + base::printable(event.name);
  if (!event.data.empty()) text += " " + base::printable(event.data);
  return text;
}

}  // namespace strand
