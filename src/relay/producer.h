#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <librdkafka/rdkafka.h>

#include <strand/error.h>

#include "relay/sink.h"

namespace strand::relay {

struct DestroyKafka {
  void operator()(rd_kafka_t* kafka) const;
};
using KafkaHandle = std::unique_ptr<rd_kafka_t, DestroyKafka>;

// Settings of librdkafka, each by its name.
using KafkaSettings = std::map<std::string, std::string>;

// A client of the given kind.
// Failure: invalid_argument (a setting that librdkafka does not know or take: it says which).
Result<KafkaHandle> make_kafka(rd_kafka_type_t type, const KafkaSettings& settings, void* opaque);

// One producer of librdkafka. When something that was under way has failed it is of no more use:
// what may still be on the wire must not be followed by anything else.
//
// Threads: one at a time.
class Producer {
 public:
  // `transactional` runs each batch in a Kafka transaction; settings have its id.
  static Result<std::unique_ptr<Producer>> open(const KafkaSettings& settings, bool transactional);
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;
  ~Producer();

  using Deadline = std::chrono::steady_clock::time_point;
  // As Sink::publish().
  std::vector<Delivery> publish(std::span<const Message* const> messages, Deadline deadline,
                                const std::function<bool()>& go_on);

  // False after a failure: throw it away.
  [[nodiscard]] bool usable() const { return usable_; }

 private:
  class Batch;
  explicit Producer(bool transactional) : transactional_(transactional) {}

  Result<void> begin(Deadline deadline);
  Result<void> commit(Deadline deadline);
  // False: it was not taken; the batch knows why.
  bool enqueue(const Message& message, std::size_t index, Batch& batch);
  void wait(Batch& batch);
  void purge(Batch& batch);

  static void on_delivery(rd_kafka_t* kafka, const rd_kafka_message_t* message, void* opaque);
  static void on_error(rd_kafka_t* kafka, int error, const char* reason, void* opaque);

  bool transactional_;
  bool initialised_ = false;
  bool usable_ = true;
  std::string last_error_;
  Batch* batch_ = nullptr;  // while publish() runs
  KafkaHandle kafka_;
  friend Result<KafkaHandle> make_kafka(rd_kafka_type_t, const KafkaSettings&, void*);
};

}  // namespace strand::relay
