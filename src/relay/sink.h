#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <strand/error.h>

#include "relay/config.h"
#include "relay/message.h"

namespace strand::relay {

// What became of a message.
struct Delivery {
  enum class Kind : std::uint8_t {
    confirmed,  // it is in the log, as safe as acks=all makes it
    refused,    // for good: it, or one that went with it, can never be taken
    failed,     // not confirmed; it may be in the log or not
  };
  Kind kind = Kind::failed;
  std::string reason = {};
};

// Where messages go. One belongs to one worker.
//
// Threads: one at a time.
class Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;

  // Sends messages in order, and waits until each is confirmed or not. Messages of one key are in
  // the log without gaps: behind one that is not confirmed none of the same key is.
  //
  // Calls `go_on` again and again while it waits. When that says no, or the deadline has passed,
  // whatever is not on the wire is thrown away, and the rest can do no more than repeat what was
  // asked for here.
  virtual std::vector<Delivery> publish(std::span<const Message> messages,
                                        std::chrono::steady_clock::time_point deadline,
                                        const std::function<bool()>& go_on) = 0;
};

// Lines of JSON on standard output.
std::unique_ptr<Sink> make_stdout_sink();

// Kafka. `id` is for its logs.
// Failure: invalid_argument (a setting that librdkafka does not know or take).
Result<std::unique_ptr<Sink>> make_kafka_sink(const TableSettings& settings,
                                              const std::map<std::string, std::string>& kafka,
                                              const std::string& id);

// Topics of a broker, for check: the number of partitions; nothing for a topic that is not there.
Result<std::map<std::string, std::int32_t>> kafka_topics(
    const std::map<std::string, std::string>& kafka, Duration timeout);

// A message as one line of JSON, as the stdout sink and a dry run print it.
std::string to_json_line(const Message& message);

}  // namespace strand::relay
