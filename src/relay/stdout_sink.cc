#include <cstdio>

#include <boost/json.hpp>

#include "base/text.h"
#include "relay/sink.h"

// For trying: what would go to Kafka, one line of JSON for each message.

namespace strand::relay {
namespace {

void put(boost::json::object& object, const std::string& name,
         const std::optional<std::string>& bytes) {
  if (!bytes) {
    object[name] = nullptr;
  } else if (base::is_utf8(*bytes)) {
    object[name] = *bytes;
  } else {
    object[name + "_base64"] = base::base64(*bytes);
  }
}

class StdoutSink final : public Sink {
 public:
  std::vector<Delivery> publish(std::span<const Message> messages,
                                std::chrono::steady_clock::time_point deadline,
                                const std::function<bool()>& go_on) override {
    static_cast<void>(deadline);
    static_cast<void>(go_on);
    std::string lines;
    for (const Message& message : messages)
      lines += to_json_line(message);
    // One call for all, so that lines of several workers are not mixed.
    const bool written = std::fwrite(lines.data(), 1, lines.size(), stdout) == lines.size() &&
                         std::fflush(stdout) == 0;
    Delivery delivery{.kind = Delivery::Kind::confirmed};
    if (!written) delivery = {.kind = Delivery::Kind::failed, .reason = "cannot write to stdout"};
    return std::vector<Delivery>(messages.size(), delivery);
  }
};

}  // namespace

std::string to_json_line(const Message& message) {
  boost::json::object object{{"topic", message.topic}};
  object["partition"] =
      message.partition ? boost::json::value(*message.partition) : boost::json::value(nullptr);
  put(object, "key", message.key);
  boost::json::array headers;
  for (const auto& [name, value] : message.headers) {
    boost::json::object header{{"name", name}};
    put(header, "value", value);
    headers.push_back(std::move(header));
  }
  object["headers"] = std::move(headers);
  put(object, "value", message.value);
  return boost::json::serialize(object) + "\n";
}

std::unique_ptr<Sink> make_stdout_sink() { return std::make_unique<StdoutSink>(); }

}  // namespace strand::relay
