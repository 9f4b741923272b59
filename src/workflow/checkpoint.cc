#include "workflow/checkpoint.h"

#include <utility>

#include <xxhash.h>

#include "base/bytes.h"
#include "workflow/wire.h"

namespace strand::workflow {

namespace {

// Names of details, or what they begin with.
constexpr std::string_view version_detail = "version";
constexpr std::string_view run_detail = "run";
constexpr std::string_view started_detail = "started";
constexpr std::string_view calls_detail = "calls";
constexpr std::string_view random_detail = "random";
constexpr std::string_view sagas_detail = "sagas";
constexpr std::string_view status_detail = "status";
constexpr std::string_view underway_detail = "underway";
constexpr std::string_view shown_prefix = "state.";
constexpr std::string_view patch_prefix = "patch.";
constexpr std::string_view mail_prefix = "mail.";

Bytes encode_underway(const Underway& one) {
  Bytes bytes;
  base::ByteWriter out(bytes);
  out.u8(std::to_underlying(one.kind));
  out.varint(one.call);
  out.text(one.name);
  out.text(one.queue);
  out.text(one.label);
  out.text(one.when_parent_ends);
  out.u8(one.has_progress ? 1 : 0);
  out.u8(one.held ? 1 : 0);
  out.varint(one.input_hash);
  return bytes;
}

bool decode_underway(std::string_view bytes, Underway& one) {
  base::ByteReader in(bytes);
  one.kind = static_cast<EventKind>(in.u8());
  one.call = in.varint();
  one.name = in.text();
  one.queue = in.text();
  one.label = in.text();
  one.when_parent_ends = in.text();
  one.has_progress = in.u8() != 0;
  one.held = in.u8() != 0;
  one.input_hash = in.varint();
  return in.done() &&
         (one.kind == EventKind::activity_scheduled || one.kind == EventKind::timer_started ||
          one.kind == EventKind::child_started);
}

std::unexpected<Error> not_whole() {
  return failure(Errc::corrupt,
                 "a checkpoint cannot be read: it is damaged, or was written by a newer version of "
                 "this program");
}

// What is there once for each of something: false if it cannot be read.
bool read_detail(const Header& detail, Checkpoint& checkpoint) {
  const std::string_view name = detail.name;
  if (name == underway_detail) {
    return decode_underway(detail.value, checkpoint.underway.emplace_back());
  }
  if (name.starts_with(shown_prefix)) {
    checkpoint.shown[detail.name.substr(shown_prefix.size())] = detail.value;
  } else if (name.starts_with(patch_prefix)) {
    checkpoint.patches[detail.name.substr(patch_prefix.size())] = detail.value == "yes";
  } else if (name.starts_with(mail_prefix)) {
    checkpoint.mail.emplace_back(detail.name.substr(mail_prefix.size()), detail.value);
  }
  return true;
}

}  // namespace

HistoryEvent to_event(const Checkpoint& checkpoint) {
  HistoryEvent event{.kind = EventKind::checkpoint, .data = checkpoint.state};
  const auto add = [&](std::string_view name, std::string value) {
    event.add(std::string(name), std::move(value));
  };
  add(version_detail, std::to_string(checkpoint.version));
  add(run_detail, std::string(checkpoint.started.detail("run")));
  add(started_detail, encode_event(checkpoint.started));
  add(calls_detail, std::to_string(checkpoint.calls));
  add(random_detail, std::to_string(checkpoint.random_numbers));
  add(sagas_detail, std::to_string(checkpoint.sagas));
  if (!checkpoint.status.empty()) add(status_detail, checkpoint.status);
  for (const auto& [key, value] : checkpoint.shown)
    add(std::string(shown_prefix) + key, value);
  for (const auto& [change, answer] : checkpoint.patches)
    add(std::string(patch_prefix) + change, answer ? "yes" : "no");
  for (const auto& [name, value] : checkpoint.mail)
    add(std::string(mail_prefix) + name, value);
  for (const Underway& one : checkpoint.underway)
    add(underway_detail, encode_underway(one));
  return event;
}

Result<Checkpoint> read_checkpoint(const HistoryEvent& event) {
  if (event.kind != EventKind::checkpoint) return not_whole();
  Checkpoint checkpoint{.state = event.data};
  const auto version = wire::number(event.detail(version_detail));
  const auto calls = wire::number(event.detail(calls_detail));
  const auto random_numbers = wire::number(event.detail(random_detail));
  const auto sagas = wire::number(event.detail(sagas_detail));
  auto started = decode_event(event.detail(started_detail));
  if (!version || *version > UINT32_MAX || !calls || !random_numbers || !sagas || !started ||
      started->kind != EventKind::started) {
    return not_whole();
  }
  checkpoint.version = static_cast<std::uint32_t>(*version);
  checkpoint.calls = *calls;
  checkpoint.random_numbers = *random_numbers;
  checkpoint.sagas = *sagas;
  checkpoint.started = *std::move(started);
  checkpoint.status = event.detail(status_detail);
  for (const Header& detail : event.details) {
    if (!read_detail(detail, checkpoint)) return not_whole();
  }
  return checkpoint;
}

std::uint64_t hash_of_input(std::string_view input) {
  return XXH3_64bits(input.data(), input.size());
}

HistoryEvent unreadable_checkpoint() { return {.kind = EventKind::checkpoint}; }

Result<HistoryEvent> started_of(std::span<const HistoryEvent> events) {
  if (events.empty()) return failure(Errc::corrupt, "an open execution has no event");
  if (events.front().kind == EventKind::started) return events.front();
  auto checkpoint = read_checkpoint(events.front());
  if (!checkpoint) return std::unexpected(std::move(checkpoint.error()));
  return std::move(checkpoint->started);
}

std::vector<Underway> underway(std::span<const HistoryEvent> events) {
  std::map<std::uint64_t, Underway> open;
  for (const HistoryEvent& event : events) {
    switch (event.kind) {
      case EventKind::activity_scheduled:
      case EventKind::timer_started:
      case EventKind::child_started:
      case EventKind::parked:
        open[event.call] = {.kind = event.kind,
                            .call = event.call,
                            .name = event.name,
                            .queue = std::string(event.detail("queue")),
                            .label = std::string(event.detail("workflow")),
                            .when_parent_ends = std::string(event.detail("when_parent_ends")),
                            .has_progress = !event.detail("heartbeat").empty()};
        break;
      case EventKind::activity_completed:
      case EventKind::activity_failed:
      case EventKind::timer_fired:
      case EventKind::child_completed:
      case EventKind::child_failed:
      case EventKind::resumed:
      case EventKind::call_cancelled:
        open.erase(event.call);
        break;
      case EventKind::checkpoint:
        if (const auto checkpoint = read_checkpoint(event)) {
          for (const Underway& one : checkpoint->underway)
            open[one.call] = one;
        }
        break;
      default:
        break;
    }
  }
  std::vector<Underway> result;
  for (auto& [call, one] : open)
    result.push_back(std::move(one));
  return result;
}

}  // namespace strand::workflow
