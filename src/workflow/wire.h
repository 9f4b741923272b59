#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <strand/activity.h>
#include <strand/message.h>

// The messages of workflows: what is written on them. docs/guide/workflows.md tells it to those who
// write workers in other languages.

namespace strand::workflow::wire {

// What a message in the lane of an instance is.
inline constexpr std::string_view kind_header = "strand-kind";
inline constexpr std::string_view start_kind = "start";
inline constexpr std::string_view begin_kind = "begin";  // an execution that waits for it
inline constexpr std::string_view result_kind = "result";
inline constexpr std::string_view error_kind = "error";
inline constexpr std::string_view timer_kind = "timer";
inline constexpr std::string_view deadline_kind = "deadline";  // of the whole run
inline constexpr std::string_view child_result_kind = "child-result";
inline constexpr std::string_view child_error_kind = "child-error";
inline constexpr std::string_view event_kind = "event";
inline constexpr std::string_view cancel_kind = "cancel";
inline constexpr std::string_view query_kind = "query";
inline constexpr std::string_view resumed_kind = "resumed";

// Which call an answer answers: the run's name, a dot, a number.
inline constexpr std::string_view call_header = "strand-call";

// Of an activity.
inline constexpr std::string_view activity_header = "strand-activity";
inline constexpr std::string_view instance_header = "strand-instance";
inline constexpr std::string_view reply_queue_header = "strand-reply-queue";
inline constexpr std::string_view reply_key_header = "strand-reply-key";
inline constexpr std::string_view reply_label_header = "strand-reply-label";
inline constexpr std::string_view retry_header = "strand-retry";
inline constexpr std::string_view timeout_header = "strand-timeout-ms";
inline constexpr std::string_view heartbeat_header = "strand-heartbeat-ms";

// Of an error; its details are the body.
inline constexpr std::string_view error_header = "strand-error";  // the text
inline constexpr std::string_view error_type_header = "strand-error-type";
inline constexpr std::string_view error_how_header = "strand-error-kind";  // failed, timed_out, …

// Of a start, an event, a query.
inline constexpr std::string_view parent_header = "strand-parent";
inline constexpr std::string_view parent_call_header = "strand-parent-call";
inline constexpr std::string_view parent_label_header = "strand-parent-label";
inline constexpr std::string_view start_delay_header = "strand-start-delay-ms";
inline constexpr std::string_view name_header = "strand-name";
inline constexpr std::string_view reason_header = "strand-reason";
inline constexpr std::string_view reply_record_header = "strand-reply-record";

// "" if there is none.
[[nodiscard]] std::string_view header(const Headers& headers, std::string_view name);
void add(Headers& headers, std::string_view name, std::string_view value);
[[nodiscard]] std::optional<std::uint64_t> number(std::string_view text);
[[nodiscard]] std::optional<Duration> milliseconds(const Headers& headers, std::string_view name);

// A retry policy as text, and back; what cannot be read is the default.
[[nodiscard]] std::string to_text(const Retry& retry);
[[nodiscard]] Retry retry_from(std::string_view text);

// The label of an activity's message.
[[nodiscard]] std::string activity_label(std::string_view activity, std::string_view label);

// Kinds of errors as they are written.
[[nodiscard]] WorkflowError::Kind kind_from(std::string_view text);

}  // namespace strand::workflow::wire
