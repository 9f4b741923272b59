#pragma once

#include <optional>
#include <string>
#include <utility>

#include <strand/store.h>

#include "proto/strand/v1/types.pb.h"

// What requests and answers have in common. For convert*.cc alone.

namespace strand::remote {

namespace v1 = ::strand::v1;

inline Time time_of(std::int64_t ms) { return Time{Duration{ms}}; }
inline std::int64_t ms(Time time) { return time.time_since_epoch().count(); }
inline std::int64_t ms(Duration duration) { return duration.count(); }

void write(const Headers& headers, google::protobuf::RepeatedPtrField<v1::Header>& to);
void write(Headers&& headers, google::protobuf::RepeatedPtrField<v1::Header>& to);
Headers read_headers(google::protobuf::RepeatedPtrField<v1::Header>& from);

v1::Priority wire_priority(Priority priority);
Result<Priority> read_priority(v1::Priority priority);

v1::MessageState wire_state(MessageState state);
std::optional<MessageState> read_state(v1::MessageState state);

void write(const Address& address, v1::Address& to);
Address read_address(const v1::Address& from);

void write(const QueueSettings& settings, v1::QueueSettings& to);
Result<QueueSettings> read_settings(const v1::QueueSettings& from);

void write(const TopicSettings& settings, v1::TopicSettings& to);
TopicSettings read_settings(const v1::TopicSettings& from);

// Enumerations of the schema begin with "unspecified", and go on as ours do: so a value has the
// next number there. One that is not ours has none of theirs, and is refused by the server, as by
// every store.
template <class Wire, class Value>
Wire one_more(Value value) {
  return static_cast<Wire>(static_cast<int>(value) + 1);
}

std::unexpected<Error> no_such_value(const char* field, int value);

}  // namespace strand::remote
