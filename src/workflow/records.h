#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <strand/json.h>
#include <strand/saga.h>
#include <strand/store.h>
#include <strand/workflows.h>

// What is stored of instances besides their histories: records that anybody may read.
//
// | space                 | key                              | value                            |
// |-----------------------|----------------------------------|----------------------------------|
// | workflow/instances    | id                               | InstanceRecord                   |
// | workflow/children     | parent, separator, id            | nothing                          |
// | workflow/state        | id, separator, key               | what the workflow has set        |
// | workflow/sagas        | id, separator, execution.number  | SagaInfo without its steps       |
// | workflow/saga-steps   | the same, separator, step        | SagaStep                         |
// | workflow/progress     | run.call of an activity          | what its heartbeat has passed    |
// | workflow/answers      | as the query says                | the answer to a query            |
// | workflow/checkpoints  | id                               | CheckpointsRecord                |
// | workflow/workers      | the owner of a worker            | when it said last that it lives  |

namespace strand::workflow {

inline constexpr std::string_view instances_space = "workflow/instances";
inline constexpr std::string_view children_space = "workflow/children";
inline constexpr std::string_view state_space = "workflow/state";
inline constexpr std::string_view sagas_space = "workflow/sagas";
inline constexpr std::string_view saga_steps_space = "workflow/saga-steps";
inline constexpr std::string_view progress_space = "workflow/progress";
inline constexpr std::string_view answers_space = "workflow/answers";
inline constexpr std::string_view checkpoints_space = "workflow/checkpoints";
inline constexpr std::string_view workers_space = "workflow/workers";

// That nobody else has.
std::string random_name();

// Ids have no control characters, so that keys made of them are not ambiguous.
inline constexpr char separator = '\x1f';
inline constexpr std::size_t id_bytes_max = 200;
inline constexpr std::size_t state_key_bytes_max = 200;

struct InstanceRecord {
  std::string name = {};
  std::uint32_t version = 1;
  InstanceState state = InstanceState::pending;
  std::uint64_t execution = 0;
  std::string status = {};
  std::optional<std::string> parent = {};
  Time created_at{};
  std::optional<Time> ended_at = {};
  std::optional<std::string> error = {};
  std::optional<std::string> error_type = {};
  std::string input_hash = {};
  std::uint64_t start = 0;  // counts the starts of this id

  [[nodiscard]] std::string label() const { return name + "@" + std::to_string(version); }
};

Bytes encode_record(const InstanceRecord& record);
Result<InstanceRecord> decode_record(std::string_view id, std::string_view bytes);
// Which input it was started with, for those who start it again.
std::string hash_of(std::string_view input);
// Where the last checkpoints of an execution lie in its history, two at most.
struct CheckpointsRecord {
  std::uint64_t execution = 0;
  std::vector<std::uint64_t> events = {};
};
Bytes encode_checkpoints(const CheckpointsRecord& record);
Result<CheckpointsRecord> decode_checkpoints(std::string_view id, std::string_view bytes);
Result<std::optional<CheckpointsRecord>> read_checkpoints(Store& store, std::string_view id);

Bytes encode_saga(const SagaInfo& saga);
Result<SagaInfo> decode_saga(std::string_view bytes);
Bytes encode_step(const SagaStep& step);
Result<SagaStep> decode_step(std::string_view bytes);

// Both parts with the separator between them.
std::string joined(std::string_view first, std::string_view second);
std::string saga_key(std::string_view id, std::uint64_t execution, std::uint64_t number);
std::string step_key(std::string_view saga, std::size_t step);

Result<void> check_id(std::string_view id);
Result<void> check_name(std::string_view name);
// "checkout@2" as name and version.
std::optional<std::pair<std::string, std::uint32_t>> parse_label(std::string_view label);

WriteRecord put_record(std::string_view space, std::string key, Bytes value);
WriteRecord drop_record(std::string_view space, std::string key);

}  // namespace strand::workflow
