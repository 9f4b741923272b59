#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json.hpp>

#include <strand/store.h>

// What a store holds, as JSON for people and scripts: the command line prints it, the admin API
// answers it. The names are fixed: scripts depend on them.

namespace strand::shown {

std::string_view name_of(RetryPolicy policy);
std::string_view name_of(OnExhausted policy);
std::string_view name_of(OnExpired policy);
// As to_string writes it; the refusal says which there are.
Result<MessageState> parse_message_state(std::string_view text);

// Adds `name` with the text, or, if it is not UTF-8, `name_base64` with its bytes.
void put_bytes(boost::json::object& object, std::string_view name, std::string_view bytes);
// The same; none is null.
void put_optional(boost::json::object& object, std::string_view name,
                  const std::optional<std::string>& bytes);

boost::json::value to_json(const std::optional<Time>& time);
boost::json::value to_json(const std::optional<Duration>& duration);  // milliseconds
inline std::uint64_t number(MessageId id) { return static_cast<std::uint64_t>(id); }

// A list of {"name", "value"}: a name may occur more than once, and their order counts.
boost::json::array to_json(const Headers& headers);
boost::json::object to_json(const Sent& sent);
boost::json::object to_json(const Published& published);
boost::json::object to_json(const Message& message);
boost::json::object to_json(const Lease& lease);
boost::json::object to_json(const PeekedMessage& message);
boost::json::object to_json(const DeadLetter& letter);
boost::json::object to_json(const QueueSettings& settings);
boost::json::object to_json(const QueueStats& stats);
boost::json::object to_json(const QueueInfo& info, const QueueStats& stats);
boost::json::object to_json(const Topic& topic);
boost::json::object to_json(const Subscription& subscription);

}  // namespace strand::shown
