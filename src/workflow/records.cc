#include "workflow/records.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "base/text.h"
#include "workflow/wire.h"

namespace strand {

namespace {

template <class E, std::size_t n>
std::string_view name_in(const std::array<std::string_view, n>& names, E value) {
  const auto index = static_cast<std::size_t>(value);
  return index < n ? names[index] : std::string_view{};
}

template <class E, std::size_t n>
Result<void> find_in(const std::array<std::string_view, n>& names, const json::View& in, E& value) {
  const auto text = in.text();
  if (!text) return std::unexpected(text.error());
  const auto found = std::ranges::find(names, *text);
  if (found == names.end()) return in.fail("not one of the known words");
  value = static_cast<E>(found - names.begin());
  return {};
}

constexpr std::array<std::string_view, 7> instance_states = {
    "pending", "running", "completed", "failed", "cancelled", "terminated", "timed_out"};
constexpr std::array<std::string_view, 5> saga_states = {"pending", "in_progress", "completed",
                                                         "compensating", "failed"};
constexpr std::array<std::string_view, 4> step_states = {"pending", "completed", "failed",
                                                         "compensated"};

}  // namespace

std::string_view to_string(InstanceState state) { return name_in(instance_states, state); }
std::string_view to_string(SagaStatus status) { return name_in(saga_states, status); }
std::string_view to_string(StepStatus status) { return name_in(step_states, status); }

Result<InstanceState> parse_instance_state(std::string_view text) {
  const auto found = std::ranges::find(instance_states, text);
  if (found == instance_states.end()) {
    return failure(Errc::invalid_argument,
                   fmt::format("'{}' is no state of an instance; there are {}",
                               base::printable(text), fmt::join(instance_states, ", ")));
  }
  return static_cast<InstanceState>(found - instance_states.begin());
}

void write_json(json::Writer& out, InstanceState state) { out.text(to_string(state)); }
Result<void> read_json(const json::View& in, InstanceState& state) {
  return find_in(instance_states, in, state);
}
void write_json(json::Writer& out, SagaStatus status) { out.text(to_string(status)); }
Result<void> read_json(const json::View& in, SagaStatus& status) {
  return find_in(saga_states, in, status);
}
void write_json(json::Writer& out, StepStatus status) { out.text(to_string(status)); }
Result<void> read_json(const json::View& in, StepStatus& status) {
  return find_in(step_states, in, status);
}

namespace workflow {

namespace {

// Bodies are any bytes, and JSON is text: what is not UTF-8 is written in hexadecimal.
struct AnyBytes {
  Bytes bytes = {};
};
constexpr std::string_view hex_prefix = "\\x";

void write_json(json::Writer& out, const AnyBytes& value) {
  if (base::is_utf8(value.bytes) && !value.bytes.starts_with(hex_prefix)) {
    out.text(value.bytes);
    return;
  }
  std::string text(hex_prefix);
  for (const char c : value.bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  out.text(text);
}

Result<void> read_json(const json::View& in, AnyBytes& value) {
  const auto text = in.text();
  if (!text) return std::unexpected(text.error());
  if (!text->starts_with(hex_prefix)) {
    value.bytes = *text;
    return {};
  }
  value.bytes.clear();
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (std::size_t i = hex_prefix.size(); i + 1 < text->size(); i += 2) {
    const int high = digit((*text)[i]);
    const int low = digit((*text)[i + 1]);
    if (high < 0 || low < 0) return in.fail("expected hexadecimal digits");
    value.bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return {};
}

// As they are stored.
struct StoredSaga {
  std::string coordinator;
  std::uint64_t execution = 0;
  std::uint64_t number = 0;
  std::string name;
  AnyBytes data;
  SagaStatus status{};
  std::optional<std::string> reason;
  Time started_at{};
  std::optional<Time> ended_at;
};
STRAND_JSON(StoredSaga, coordinator, execution, number, name, data, status, reason, started_at,
            ended_at)

struct StoredStep {
  std::string name;
  std::string agent;
  AnyBytes data;
  StepStatus status{};
  std::optional<std::string> compensates;
  std::optional<Time> completed_at;
  std::optional<std::string> error;
};
STRAND_JSON(StoredStep, name, agent, data, status, compensates, completed_at, error)

}  // namespace

STRAND_JSON(CheckpointsRecord, execution, events)
STRAND_JSON(InstanceRecord, name, version, state, execution, status, parent, created_at, ended_at,
            error, error_type, input_hash, start)

Bytes encode_record(const InstanceRecord& record) {
  // Texts that people wrote may be anything.
  InstanceRecord clean = record;
  const auto cleaned = [](std::string& text) {
    if (!base::is_utf8(text)) text = base::escaped(text);
  };
  cleaned(clean.status);
  if (clean.error) cleaned(*clean.error);
  if (clean.error_type) cleaned(*clean.error_type);
  return json::write(clean).value_or(Bytes{});
}

Result<InstanceRecord> decode_record(std::string_view id, std::string_view bytes) {
  auto record = json::read<InstanceRecord>(bytes);
  if (!record) {
    return failure(Errc::corrupt, fmt::format("the record of instance '{}' cannot be read: {}",
                                              base::printable(id), record.error().message));
  }
  return record;
}

std::string hash_of(std::string_view input) {
  const XXH128_hash_t hash = XXH3_128bits(input.data(), input.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

Bytes encode_saga(const SagaInfo& saga) {
  StoredSaga stored{.coordinator = saga.coordinator,
                    .execution = saga.execution,
                    .number = saga.number,
                    .name = saga.name,
                    .data = {saga.data},
                    .status = saga.status,
                    .reason = saga.reason,
                    .started_at = saga.started_at,
                    .ended_at = saga.ended_at};
  if (stored.reason && !base::is_utf8(*stored.reason))
    stored.reason = base::escaped(*stored.reason);
  return json::write(stored).value_or(Bytes{});
}

Result<SagaInfo> decode_saga(std::string_view bytes) {
  auto stored = json::read<StoredSaga>(bytes);
  if (!stored) return failure(Errc::corrupt, "a saga cannot be read: " + stored.error().message);
  SagaInfo saga;
  saga.coordinator = std::move(stored->coordinator);
  saga.execution = stored->execution;
  saga.number = stored->number;
  saga.name = std::move(stored->name);
  saga.data = std::move(stored->data.bytes);
  saga.status = stored->status;
  saga.reason = std::move(stored->reason);
  saga.started_at = stored->started_at;
  saga.ended_at = stored->ended_at;
  return saga;
}

Bytes encode_step(const SagaStep& step) {
  StoredStep stored{step.name,        step.agent,        {step.data}, step.status,
                    step.compensates, step.completed_at, step.error};
  if (stored.error && !base::is_utf8(*stored.error)) stored.error = base::escaped(*stored.error);
  return json::write(stored).value_or(Bytes{});
}

Result<SagaStep> decode_step(std::string_view bytes) {
  auto stored = json::read<StoredStep>(bytes);
  if (!stored) {
    return failure(Errc::corrupt, "a step of a saga cannot be read: " + stored.error().message);
  }
  SagaStep step;
  step.name = std::move(stored->name);
  step.agent = std::move(stored->agent);
  step.data = std::move(stored->data.bytes);
  step.status = stored->status;
  step.compensates = std::move(stored->compensates);
  step.completed_at = stored->completed_at;
  step.error = std::move(stored->error);
  return step;
}

Bytes encode_checkpoints(const CheckpointsRecord& record) {
  return json::write(record).value_or(Bytes{});
}

Result<CheckpointsRecord> decode_checkpoints(std::string_view id, std::string_view bytes) {
  auto record = json::read<CheckpointsRecord>(bytes);
  if (record) return record;
  return failure(Errc::corrupt,
                 fmt::format("the record of the checkpoints of '{}' cannot be read: {}",
                             base::printable(id), record.error().message));
}

Result<std::optional<CheckpointsRecord>> read_checkpoints(Store& store, std::string_view id) {
  const auto found = store.record(checkpoints_space, id);
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::nullopt;
  auto record = decode_checkpoints(id, (*found)->value);
  if (!record) return std::unexpected(std::move(record.error()));
  return *std::move(record);
}

std::string joined(std::string_view first, std::string_view second) {
  std::string key(first);
  key.push_back(separator);
  key.append(second);
  return key;
}

std::string saga_key(std::string_view id, std::uint64_t execution, std::uint64_t number) {
  return joined(id, fmt::format("{:010}.{:04}", execution, number));
}

std::string step_key(std::string_view saga, std::size_t step) {
  return joined(saga, fmt::format("{:06}", step));
}

std::string random_name() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{:016x}", random());
}

Result<void> check_id(std::string_view id) {
  if (id.empty()) return failure(Errc::invalid_argument, "an instance needs an id");
  if (id.size() > id_bytes_max) {
    return failure(Errc::limit_exceeded, fmt::format("the id '{}' has {} bytes; {} are allowed",
                                                     base::printable(id), id.size(), id_bytes_max));
  }
  if (!base::is_plain_text(id)) {
    return failure(
        Errc::invalid_argument,
        fmt::format("the id '{}' has control characters or is not UTF-8", base::printable(id)));
  }
  return {};
}

Result<void> check_name(std::string_view name) {
  constexpr std::size_t bytes_max = 200;
  if (name.empty() || name.size() > bytes_max || !base::is_plain_text(name) ||
      name.find('@') != std::string_view::npos) {
    return failure(Errc::invalid_argument,
                   fmt::format("'{}' is no name for a workflow or an activity: 1 to {} bytes of "
                               "text without control characters and without '@'",
                               base::printable(name), bytes_max));
  }
  return {};
}

std::optional<std::pair<std::string, std::uint32_t>> parse_label(std::string_view label) {
  const std::size_t at = label.rfind('@');
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  const auto version = wire::number(label.substr(at + 1));
  if (!version || *version > UINT32_MAX) return std::nullopt;
  return std::pair{std::string(label.substr(0, at)), static_cast<std::uint32_t>(*version)};
}

WriteRecord put_record(std::string_view space, std::string key, Bytes value) {
  return {.space = std::string(space), .key = std::move(key), .value = std::move(value)};
}

WriteRecord drop_record(std::string_view space, std::string key) {
  return {.space = std::string(space), .key = std::move(key)};
}

}  // namespace workflow

}  // namespace strand
