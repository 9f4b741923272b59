#include "relay/message.h"

#include <algorithm>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/text.h"

namespace strand::relay {
namespace {

std::unexpected<Error> poison(std::string message) {
  return failure(Errc::invalid_argument, std::move(message));
}

constexpr std::size_t topic_bytes_max = 249;

// As Kafka has them.
Result<void> check_topic(std::string_view topic) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  if (topic.empty() || topic == "." || topic == ".." || topic.size() > topic_bytes_max ||
      !std::ranges::all_of(topic, good)) {
    return poison(
        fmt::format("'{}' is no name of a topic: letters, digits, '.', '_' and '-', at "
                    "most 249 of them",
                    base::printable(topic)));
  }
  return {};
}

Result<std::string> topic_of(const TableSettings& settings, const Row& row) {
  if (row.topic && !row.topic->empty()) return *row.topic;
  return fill_template(
      settings.topic,
      {{"aggregatetype", row.aggregatetype}, {"type", row.type}, {"key", row.entity}});
}

// Adds those of the JSON object in the column `headers`.
Result<void> add_json_headers(const std::string& text, Message& message) {
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse(text, error);
  if (error) return poison("the column headers is no JSON");
  if (value.is_null()) return {};
  if (!value.is_object()) return poison("the column headers is no JSON object");
  for (const auto& [name, header] : value.as_object()) {
    if (header.is_null()) continue;
    message.headers.emplace_back(name, header.is_string() ? std::string(header.as_string())
                                                          : boost::json::serialize(header));
  }
  return {};
}

void add_headers(const TableSettings& settings, const Row& row, Message& message) {
  message.headers.emplace_back("id", row.id);
  if (row.type) message.headers.emplace_back("type", *row.type);
  if (row.traceparent) message.headers.emplace_back("traceparent", *row.traceparent);
  std::size_t index = 0;
  for (const auto& [name, column] : settings.header_columns) {
    const auto& value = row.header_columns[index++];
    if (value) message.headers.emplace_back(name, *value);
  }
  for (const auto& [name, value] : settings.headers)
    message.headers.emplace_back(name, value);
}

}  // namespace

Result<std::string> fill_template(
    std::string_view text,
    const std::vector<std::pair<std::string_view, std::optional<std::string>>>& values) {
  std::string result;
  while (true) {
    const std::size_t begin = text.find("${");
    const std::size_t end = text.find('}', begin == std::string_view::npos ? text.size() : begin);
    if (begin == std::string_view::npos || end == std::string_view::npos) {
      return result.append(text);
    }
    result.append(text.substr(0, begin));
    const std::string_view name = text.substr(begin + 2, end - begin - 2);
    const auto found = std::ranges::find(values, name, [](const auto& v) { return v.first; });
    if (found == values.end() || !found->second) {
      return poison(fmt::format("the template has ${{{}}}, and the row has no {}", name, name));
    }
    result.append(*found->second);
    text.remove_prefix(end + 1);
  }
}

Result<Message> make_message(const TableSettings& settings, const Row& row) {
  Message message;
  auto topic = topic_of(settings, row);
  if (!topic) return std::unexpected(topic.error());
  if (auto good = check_topic(*topic); !good) return std::unexpected(good.error());
  if (row.partition && *row.partition < 0) {
    return poison(fmt::format("the partition {} is negative", *row.partition));
  }
  message.topic = std::move(*topic);
  message.partition = row.partition;
  message.key = row.entity;
  message.value = row.payload;
  message.timestamp_ms = row.timestamp_ms;
  add_headers(settings, row, message);
  if (row.headers) {
    if (auto added = add_json_headers(*row.headers, message); !added) {
      return std::unexpected(added.error());
    }
  }
  return message;
}

Message make_dead_letter(const TableSettings& settings, const Row& row, std::string_view reason) {
  Message message;
  const std::string topic = topic_of(settings, row).value_or("unknown");
  const std::string wanted = check_topic(topic) ? topic : "unknown";
  message.topic =
      fill_template(settings.dead_letter_topic, {{"topic", wanted}}).value_or(wanted + ".dead");
  message.key = row.entity;
  message.value = row.payload;
  message.timestamp_ms = row.timestamp_ms;
  add_headers(settings, row, message);
  if (row.headers) std::ignore = add_json_headers(*row.headers, message);
  message.headers.emplace_back("strand-relay-reason", reason);
  message.headers.emplace_back("strand-relay-topic", topic);
  message.headers.emplace_back("strand-relay-table", settings.full_name());
  return message;
}

}  // namespace strand::relay
