#include "store/remote/convert_parts.h"

#include <fmt/format.h>

namespace strand::remote {

std::unexpected<Error> no_such_value(const char* field, int value) {
  return failure(
      Errc::invalid_argument,
      fmt::format("{} has no value {} in this version of the schema; see proto/", field, value));
}

void write(const Headers& headers, google::protobuf::RepeatedPtrField<v1::Header>& to) {
  to.Reserve(static_cast<int>(headers.size()));
  for (const Header& header : headers) {
    v1::Header& one = *to.Add();
    one.set_name(header.name);
    one.set_value(header.value);
  }
}

void write(Headers&& headers, google::protobuf::RepeatedPtrField<v1::Header>& to) {
  to.Reserve(static_cast<int>(headers.size()));
  for (Header& header : headers) {
    v1::Header& one = *to.Add();
    one.set_name(std::move(header.name));
    one.set_value(std::move(header.value));
  }
}

Headers read_headers(google::protobuf::RepeatedPtrField<v1::Header>& from) {
  Headers headers;
  headers.reserve(static_cast<std::size_t>(from.size()));
  for (v1::Header& one : from) {
    headers.push_back(
        {.name = std::move(*one.mutable_name()), .value = std::move(*one.mutable_value())});
  }
  return headers;
}

v1::Priority wire_priority(Priority priority) {
  switch (priority) {
    case Priority::urgent:
      return v1::PRIORITY_URGENT;
    case Priority::high:
      return v1::PRIORITY_HIGH;
    case Priority::normal:
      return v1::PRIORITY_UNSPECIFIED;
    case Priority::low:
      return v1::PRIORITY_LOW;
  }
  return one_more<v1::Priority>(priority);
}

Result<Priority> read_priority(v1::Priority priority) {
  switch (priority) {
    case v1::PRIORITY_UNSPECIFIED:
    case v1::PRIORITY_NORMAL:
      return Priority::normal;
    case v1::PRIORITY_URGENT:
      return Priority::urgent;
    case v1::PRIORITY_HIGH:
      return Priority::high;
    case v1::PRIORITY_LOW:
      return Priority::low;
    default:
      return no_such_value("priority", priority);
  }
}

v1::MessageState wire_state(MessageState state) {
  switch (state) {
    case MessageState::ready:
      return v1::MESSAGE_STATE_READY;
    case MessageState::delayed:
      return v1::MESSAGE_STATE_DELAYED;
    case MessageState::backoff:
      return v1::MESSAGE_STATE_BACKOFF;
    case MessageState::waiting:
      return v1::MESSAGE_STATE_WAITING;
    case MessageState::leased:
      return v1::MESSAGE_STATE_LEASED;
    case MessageState::parked:
      return v1::MESSAGE_STATE_PARKED;
  }
  return one_more<v1::MessageState>(state);
}

std::optional<MessageState> read_state(v1::MessageState state) {
  switch (state) {
    case v1::MESSAGE_STATE_READY:
      return MessageState::ready;
    case v1::MESSAGE_STATE_DELAYED:
      return MessageState::delayed;
    case v1::MESSAGE_STATE_BACKOFF:
      return MessageState::backoff;
    case v1::MESSAGE_STATE_WAITING:
      return MessageState::waiting;
    case v1::MESSAGE_STATE_LEASED:
      return MessageState::leased;
    case v1::MESSAGE_STATE_PARKED:
      return MessageState::parked;
    default:
      return std::nullopt;
  }
}

void write(const Address& address, v1::Address& to) {
  to.set_queue(address.queue);
  if (address.key) to.set_key(*address.key);
}

Address read_address(const v1::Address& from) {
  Address address{.queue = from.queue(), .key = {}};
  if (from.has_key()) address.key = from.key();
  return address;
}

void write(const QueueSettings& settings, v1::QueueSettings& to) {
  to.set_max_attempts(settings.max_attempts);
  v1::Backoff& backoff = *to.mutable_backoff();
  for (const Duration step : settings.backoff)
    backoff.add_steps_ms(ms(step));
  to.set_backoff_jitter_percent(settings.backoff_jitter_percent);
  // All values are those of the schema less one, and stay in their order.
  to.set_retry_policy(one_more<v1::RetryPolicy>(settings.retry_policy));
  to.set_on_exhausted(one_more<v1::OnExhausted>(settings.on_exhausted));
  if (settings.ttl) to.set_ttl_ms(ms(*settings.ttl));
  to.set_on_expired(one_more<v1::OnExpired>(settings.on_expired));
  to.set_dedup_window_ms(ms(settings.dedup_window));
  to.set_lease_ms(ms(settings.lease));
  to.set_starvation_after_ms(ms(settings.starvation_after));
  to.set_max_length(settings.max_length);
  if (settings.dead_notice_to) write(*settings.dead_notice_to, *to.mutable_dead_notice_to());
}

Result<QueueSettings> read_settings(const v1::QueueSettings& from) {
  if (!v1::RetryPolicy_IsValid(from.retry_policy())) {
    return no_such_value("retry_policy", from.retry_policy());
  }
  if (!v1::OnExhausted_IsValid(from.on_exhausted())) {
    return no_such_value("on_exhausted", from.on_exhausted());
  }
  if (!v1::OnExpired_IsValid(from.on_expired())) {
    return no_such_value("on_expired", from.on_expired());
  }
  QueueSettings settings;
  if (from.has_max_attempts()) settings.max_attempts = from.max_attempts();
  if (from.has_backoff()) {
    settings.backoff.clear();
    for (const std::int64_t step : from.backoff().steps_ms())
      settings.backoff.emplace_back(step);
  }
  if (from.has_backoff_jitter_percent()) {
    settings.backoff_jitter_percent = from.backoff_jitter_percent();
  }
  if (from.retry_policy() == v1::RETRY_POLICY_SKIP) settings.retry_policy = RetryPolicy::skip;
  if (from.on_exhausted() == v1::ON_EXHAUSTED_PARK) settings.on_exhausted = OnExhausted::park;
  if (from.has_ttl_ms()) settings.ttl = Duration{from.ttl_ms()};
  if (from.on_expired() == v1::ON_EXPIRED_DEAD) settings.on_expired = OnExpired::dead;
  if (from.has_dedup_window_ms()) settings.dedup_window = Duration{from.dedup_window_ms()};
  if (from.has_lease_ms()) settings.lease = Duration{from.lease_ms()};
  if (from.has_starvation_after_ms()) {
    settings.starvation_after = Duration{from.starvation_after_ms()};
  }
  settings.max_length = from.max_length();
  if (from.has_dead_notice_to()) settings.dead_notice_to = read_address(from.dead_notice_to());
  return settings;
}

void write(const TopicSettings& settings, v1::TopicSettings& to) {
  to.set_retain_ms(ms(settings.retain));
}

TopicSettings read_settings(const v1::TopicSettings& from) {
  return {.retain = Duration{from.retain_ms()}};
}

}  // namespace strand::remote
