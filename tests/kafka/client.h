#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <librdkafka/rdkafka.h>

namespace strand::kafka {

// Frees what librdkafka hands out.
struct Free {
  // A consumer of ours is in no group that it would have to leave.
  void operator()(rd_kafka_t* client) const {
    rd_kafka_destroy_flags(client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
  }
  void operator()(rd_kafka_queue_t* queue) const { rd_kafka_queue_destroy(queue); }
  void operator()(rd_kafka_error_t* error) const { rd_kafka_error_destroy(error); }
  void operator()(rd_kafka_event_t* event) const { rd_kafka_event_destroy(event); }
  void operator()(rd_kafka_message_t* message) const { rd_kafka_message_destroy(message); }
  void operator()(rd_kafka_NewTopic_t* topic) const { rd_kafka_NewTopic_destroy(topic); }
  void operator()(const rd_kafka_metadata_t* metadata) const {
    rd_kafka_metadata_destroy(metadata);
  }
  void operator()(rd_kafka_topic_partition_list_t* list) const {
    rd_kafka_topic_partition_list_destroy(list);
  }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

// One message with headers, copied. Throws std::runtime_error if librdkafka does not take it.
void produce(rd_kafka_t* producer, const std::string& topic, std::int32_t partition,
             std::string_view key, const std::optional<std::string>& value,
             const std::map<std::string, std::string>& headers);

// A client of a broker, with events of these kinds (RD_KAFKA_EVENT_…) in its main queue. Throws
// std::runtime_error when librdkafka refuses a setting.
Owned<rd_kafka_t> make_client(rd_kafka_type_t type,
                              const std::map<std::string, std::string>& settings, int events = 0);

}  // namespace strand::kafka
