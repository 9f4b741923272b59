#include "queue/json.h"

#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace strand::shown {

namespace json = boost::json;

std::string_view name_of(RetryPolicy policy) {
  return policy == RetryPolicy::block ? "block" : "skip";
}
std::string_view name_of(OnExhausted policy) {
  return policy == OnExhausted::dead ? "dead" : "park";
}
std::string_view name_of(OnExpired policy) { return policy == OnExpired::drop ? "drop" : "dead"; }

Result<MessageState> parse_message_state(std::string_view text) {
  using enum MessageState;
  std::string names;
  for (const MessageState state : {ready, delayed, backoff, waiting, leased, parked}) {
    if (to_string(state) == text) return state;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", to_string(state));
  }
  return failure(Errc::invalid_argument,
                 fmt::format("'{}' is not a state; there are {}", base::printable(text), names));
}

void put_bytes(json::object& object, std::string_view name, std::string_view bytes) {
  if (base::is_utf8(bytes)) {
    object[name] = bytes;
  } else {
    object[std::string(name) + "_base64"] = base::base64(bytes);
  }
}

void put_optional(json::object& object, std::string_view name,
                  const std::optional<std::string>& bytes) {
  if (bytes) {
    put_bytes(object, name, *bytes);
  } else {
    object[name] = nullptr;
  }
}

json::value to_json(const std::optional<Time>& time) {
  return time ? json::value(format_time(*time)) : json::value(nullptr);
}

json::value to_json(const std::optional<Duration>& duration) {
  return duration ? json::value(duration->count()) : json::value(nullptr);
}

json::array to_json(const Headers& headers) {
  json::array list;
  for (const Header& header : headers) {
    json::object object;
    put_bytes(object, "name", header.name);
    put_bytes(object, "value", header.value);
    list.push_back(std::move(object));
  }
  return list;
}

json::object to_json(const Sent& sent) {
  return {{"id", number(sent.id)}, {"duplicate", sent.duplicate}};
}

json::object to_json(const Published& published) {
  return {{"id", number(published.id)},
          {"duplicate", published.duplicate},
          {"matched", published.matched}};
}

json::object to_json(const Message& message) {
  json::object object{{"id", number(message.id)}};
  put_bytes(object, "body", message.body);
  object["headers"] = to_json(message.headers);
  object["priority"] = static_cast<unsigned>(message.priority);
  object["deliveries"] = message.deliveries;
  object["attempts"] = message.attempts;
  object["enqueued_at"] = format_time(message.enqueued_at);
  object["due"] = format_time(message.due);
  object["expires_at"] = to_json(message.expires_at);
  put_optional(object, "name", message.name);
  put_optional(object, "topic", message.topic);
  return object;
}

json::object to_json(const Lease& lease) {
  json::object object{{"token", lease.token.to_string()}, {"queue", lease.queue}};
  put_optional(object, "key", lease.key);
  object["label"] = lease.label;
  object["expires_at"] = format_time(lease.expires_at);
  object["isolated"] = lease.isolated;
  object["more"] = lease.more;
  json::array messages;
  for (const Message& message : lease.messages)
    messages.push_back(to_json(message));
  object["messages"] = std::move(messages);
  return object;
}

json::object to_json(const PeekedMessage& message) {
  json::object object = to_json(static_cast<const Message&>(message));
  put_optional(object, "key", message.key);
  object["label"] = message.label;
  object["state"] = to_string(message.state);
  object["retry_at"] = to_json(message.retry_at);
  put_optional(object, "last_reason", message.last_reason);
  put_optional(object, "park_reason", message.park_reason);
  return object;
}

json::object to_json(const DeadLetter& letter) {
  json::object object = to_json(static_cast<const Message&>(letter));
  object["queue"] = letter.queue;
  put_optional(object, "key", letter.key);
  object["label"] = letter.label;
  object["dead_at"] = format_time(letter.dead_at);
  put_bytes(object, "reason", letter.reason);
  json::array failures;
  for (const Failure& failure : letter.failures) {
    json::object entry{{"at", format_time(failure.at)}};
    put_bytes(entry, "reason", failure.reason);
    failures.push_back(std::move(entry));
  }
  object["failures"] = std::move(failures);
  return object;
}

json::object to_json(const QueueSettings& settings) {
  json::array backoff;
  for (const Duration step : settings.backoff)
    backoff.push_back(step.count());
  json::value notice_to = nullptr;
  if (settings.dead_notice_to) {
    json::object address{{"queue", settings.dead_notice_to->queue}};
    put_optional(address, "key", settings.dead_notice_to->key);
    notice_to = std::move(address);
  }
  return {{"max_attempts", settings.max_attempts},
          {"backoff_ms", std::move(backoff)},
          {"backoff_jitter_percent", settings.backoff_jitter_percent},
          {"retry_policy", name_of(settings.retry_policy)},
          {"on_exhausted", name_of(settings.on_exhausted)},
          {"ttl_ms", to_json(settings.ttl)},
          {"on_expired", name_of(settings.on_expired)},
          {"dedup_window_ms", settings.dedup_window.count()},
          {"lease_ms", settings.lease.count()},
          {"starvation_after_ms", settings.starvation_after.count()},
          {"max_length", settings.max_length},
          {"dead_notice_to", std::move(notice_to)}};
}

json::object to_json(const QueueStats& stats) {
  return {{"accepted", stats.accepted}, {"acked", stats.acked},
          {"expired", stats.expired},   {"dropped", stats.dropped},
          {"moved", stats.moved},       {"purged", stats.purged},
          {"dead", stats.dead},         {"ready", stats.ready},
          {"delayed", stats.delayed},   {"waiting", stats.waiting},
          {"leased", stats.leased},     {"parked", stats.parked},
          {"backoff", stats.backoff},   {"lanes_ready", stats.lanes_ready},
          {"leases", stats.leases},     {"oldest_ready", to_json(stats.oldest_ready)}};
}

json::object to_json(const QueueInfo& info, const QueueStats& stats) {
  return {{"name", info.name},
          {"paused", info.paused},
          {"stats", to_json(stats)},
          {"settings", to_json(info.settings)}};
}

json::object to_json(const Topic& topic) {
  return {{"name", topic.name}, {"retain_ms", topic.settings.retain.count()}};
}

json::object to_json(const Subscription& subscription) {
  return {{"queue", subscription.queue}, {"pattern", subscription.pattern}};
}

}  // namespace strand::shown
