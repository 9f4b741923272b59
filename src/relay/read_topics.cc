#include "relay/read_topics.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <librdkafka/rdkafka.h>

namespace strand::relay {
namespace {

struct Free {
  void operator()(rd_kafka_message_t* message) const { rd_kafka_message_destroy(message); }
  void operator()(rd_kafka_topic_t* topic) const { rd_kafka_topic_destroy(topic); }
  void operator()(const rd_kafka_metadata_t* metadata) const {
    rd_kafka_metadata_destroy(metadata);
  }
  void operator()(rd_kafka_topic_partition_list_t* list) const {
    rd_kafka_topic_partition_list_destroy(list);
  }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

std::unexpected<Error> refused(std::string_view what, rd_kafka_resp_err_t error) {
  const bool absent =
      error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART || error == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
  return failure(absent ? Errc::not_found : Errc::unavailable,
                 fmt::format("{}: {}", what, rd_kafka_err2str(error)));
}

// The first of that name: the relay puts its own before those of the row.
std::optional<std::string> header(const rd_kafka_message_t& message, const char* name) {
  rd_kafka_headers_t* headers = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
      rd_kafka_header_get(headers, 0, name, &value, &size) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return std::nullopt;
  }
  return std::string(static_cast<const char*>(value), size);
}

TopicMessage topic_message(const rd_kafka_message_t& message, std::uint32_t topic) {
  TopicMessage found{.id = header(message, "id"),
                     .topic = topic,
                     .partition = message.partition,
                     .offset = message.offset};
  if (message.key != nullptr) {
    found.key.assign(static_cast<const char*>(message.key), message.key_len);
  }
  return found;
}

}  // namespace

Result<std::unique_ptr<TopicReader>> TopicReader::open(std::map<std::string, std::string> settings,
                                                       Duration timeout) {
  // It is in no group: these are demanded, and nothing is ever written there.
  settings.insert_or_assign("group.id", "strand-relay-verify");
  settings.insert_or_assign("enable.auto.commit", "false");
  settings.insert_or_assign("enable.auto.offset.store", "false");
  settings.insert_or_assign("auto.offset.reset", "error");
  settings.insert_or_assign("enable.partition.eof", "true");
  settings.insert_or_assign("isolation.level", "read_committed");
  settings.try_emplace("fetch.wait.max.ms", "50");
  // Settings of producers are none of a consumer's business; librdkafka warns of each.
  settings.try_emplace("log_level", "3");
  std::array<char, 512> reason{};
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  for (const auto& [name, value] : settings) {
    if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), reason.data(), reason.size()) !=
        RD_KAFKA_CONF_OK) {
      rd_kafka_conf_destroy(conf);
      return failure(Errc::invalid_argument, fmt::format("[kafka] {}: {}", name, reason.data()));
    }
  }
  rd_kafka_t* client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, reason.data(), reason.size());
  if (client == nullptr) {
    rd_kafka_conf_destroy(conf);
    return failure(Errc::invalid_argument, fmt::format("[kafka]: {}", reason.data()));
  }
  rd_kafka_poll_set_consumer(client);
  return std::unique_ptr<TopicReader>(new TopicReader(client, timeout));
}

TopicReader::~TopicReader() {
  rd_kafka_destroy_flags(client_, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

Result<std::vector<TopicRange>> TopicReader::ranges(const std::vector<std::string>& topics,
                                                    std::vector<std::string>* missing) {
  const int timeout_ms = static_cast<int>(timeout_.count());
  std::vector<TopicRange> found;
  for (std::size_t i = 0; i < topics.size(); ++i) {
    const Owned<rd_kafka_topic_t> topic(rd_kafka_topic_new(client_, topics[i].c_str(), nullptr));
    const rd_kafka_metadata_t* raw = nullptr;
    if (const auto error = rd_kafka_metadata(client_, 0, topic.get(), &raw, timeout_ms)) {
      return refused(fmt::format("Kafka does not tell of topic {}", topics[i]), error);
    }
    const Owned<const rd_kafka_metadata_t> metadata(raw);
    if (metadata->topic_cnt != 1) {
      return failure(Errc::unavailable, fmt::format("Kafka does not tell of topic {}", topics[i]));
    }
    const rd_kafka_metadata_topic_t& told = metadata->topics[0];
    if (told.err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART && missing != nullptr) {
      missing->push_back(topics[i]);
      continue;
    }
    if (told.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
      return refused(fmt::format("topic {}", topics[i]), told.err);
    }
    for (int p = 0; p < told.partition_cnt; ++p) {
      TopicRange range{.topic = static_cast<std::uint32_t>(i), .partition = told.partitions[p].id};
      if (const auto error = rd_kafka_query_watermark_offsets(
              client_, topics[i].c_str(), range.partition, &range.begin, &range.end, timeout_ms)) {
        return refused(
            fmt::format("the offsets of topic {}, partition {}", topics[i], range.partition),
            error);
      }
      found.push_back(range);
    }
  }
  return found;
}

Result<std::vector<TopicMessage>> TopicReader::read(const std::vector<std::string>& topics,
                                                    const std::vector<TopicRange>& ranges) {
  const Owned<rd_kafka_topic_partition_list_t> wanted(
      rd_kafka_topic_partition_list_new(static_cast<int>(ranges.size())));
  // Of the partitions that have not been read to their end.
  std::map<std::pair<std::string_view, std::int32_t>, TopicRange> open;
  for (const TopicRange& range : ranges) {
    if (range.begin >= range.end) continue;
    rd_kafka_topic_partition_list_add(wanted.get(), topics[range.topic].c_str(), range.partition)
        ->offset = range.begin;
    open[{topics[range.topic], range.partition}] = range;
  }
  std::vector<TopicMessage> found;
  if (open.empty()) return found;
  if (const auto error = rd_kafka_assign(client_, wanted.get())) return refused("Kafka", error);
  while (!open.empty()) {
    const Owned<rd_kafka_message_t> message(
        rd_kafka_consumer_poll(client_, static_cast<int>(timeout_.count())));
    if (message == nullptr) {
      const auto& [place, range] = *open.begin();
      return failure(Errc::unavailable,
                     fmt::format("Kafka sent nothing for {} ms, and topic {}, partition {} has not "
                                 "been read up to offset {}; is the broker there?",
                                 timeout_.count(), place.first, place.second, range.end));
    }
    // Errors of the whole client come without a topic, and librdkafka mends them if it can.
    if (message->rkt == nullptr) continue;
    const auto at = open.find({rd_kafka_topic_name(message->rkt), message->partition});
    if (at == open.end()) continue;
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      open.erase(at);
      continue;
    }
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
      return refused(fmt::format("topic {}, partition {}", at->first.first, at->first.second),
                     message->err);
    }
    const TopicRange range = at->second;
    if (message->offset < range.end) found.push_back(topic_message(*message, range.topic));
    if (message->offset + 1 >= range.end) open.erase(at);
  }
  rd_kafka_assign(client_, nullptr);
  return found;
}

}  // namespace strand::relay
