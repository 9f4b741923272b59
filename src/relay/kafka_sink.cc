#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "relay/producer.h"
#include "relay/sink.h"

// Kafka, by librdkafka: idempotent, acks=all, keys where the Java client puts them.

namespace strand::relay {
namespace {

// What order and safety depend on, and defaults that a user may change.
KafkaSettings complete(const TableSettings& table, KafkaSettings settings, const std::string& id) {
  settings.try_emplace("client.id", id);
  settings.try_emplace("partitioner", "murmur2_random");
  settings.try_emplace("linger.ms", "1");
  settings.try_emplace("socket.nagle.disable", "true");  // as the Java client has it
  // A topic that is not there is told before the batch has to be given up.
  const Duration patience = std::max<Duration>(table.delivery_timeout / 3, Duration{500});
  settings.try_emplace("topic.metadata.propagation.max.ms", fmt::to_string(patience.count()));
  settings["enable.idempotence"] = "true";
  settings["acks"] = "all";
  if (table.transactional) {
    // A gap cannot be committed.
    settings["message.timeout.ms"] = fmt::to_string((table.lease * 9 / 10).count());
    settings.try_emplace("transaction.timeout.ms", fmt::to_string(table.lease.count()));
  } else {
    // Only the relay gives up, and then everything. If messages were given up one by one, in a
    // process that was paused for long a message could be too old when it wakes up, and the one
    // behind it, a moment younger, could still be sent: the guarantee against gaps does not cover
    // that.
    settings["message.timeout.ms"] = "0";
    settings["enable.gapless.guarantee"] = "true";
  }
  return settings;
}

class KafkaSink final : public Sink {
 public:
  KafkaSink(const TableSettings& table, KafkaSettings settings)
      : table_(table), settings_(std::move(settings)) {}

  std::vector<Delivery> publish(std::span<const Message> messages,
                                std::chrono::steady_clock::time_point deadline,
                                const std::function<bool()>& go_on) override {
    // With transactions there is a producer for each shard, otherwise one for all.
    std::map<std::string, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < messages.size(); ++i)
      groups[table_.transactional ? messages[i].slot : ""].push_back(i);
    std::vector<Delivery> deliveries(messages.size());
    for (const auto& [slot, indexes] : groups) {
      std::vector<const Message*> part;
      for (const std::size_t i : indexes)
        part.push_back(&messages[i]);
      auto results = publish_group(slot, part, deadline, go_on);
      for (std::size_t i = 0; i < indexes.size(); ++i)
        deliveries[indexes[i]] = std::move(results[i]);
    }
    return deliveries;
  }

 private:
  std::vector<Delivery> publish_group(const std::string& slot,
                                      const std::vector<const Message*>& messages,
                                      std::chrono::steady_clock::time_point deadline,
                                      const std::function<bool()>& go_on) {
    auto& producer = producers_[slot];
    if (producer == nullptr) {
      auto opened = open(slot);
      if (!opened) {
        return std::vector<Delivery>(
            messages.size(), {.kind = Delivery::Kind::failed, .reason = opened.error().message});
      }
      producer = std::move(*opened);
    }
    auto deliveries = producer->publish(messages, deadline, go_on);
    if (!producer->usable()) producer.reset();
    return deliveries;
  }

  Result<std::unique_ptr<Producer>> open(const std::string& slot) {
    KafkaSettings settings = settings_;
    if (table_.transactional) {
      auto id =
          fill_template(table_.transactional_id, {{"relay", table_.full_name()}, {"shard", slot}});
      if (!id) return std::unexpected(id.error());
      settings["transactional.id"] = *id;
    }
    return Producer::open(settings, table_.transactional);
  }

  const TableSettings& table_;
  KafkaSettings settings_;
  std::map<std::string, std::unique_ptr<Producer>> producers_;
};

}  // namespace

Result<std::unique_ptr<Sink>> make_kafka_sink(const TableSettings& settings,
                                              const std::map<std::string, std::string>& kafka,
                                              const std::string& id) {
  if (!kafka.contains("bootstrap.servers") && !kafka.contains("metadata.broker.list") &&
      !kafka.contains("test.mock.num.brokers")) {
    return failure(Errc::invalid_argument,
                   "[kafka] \"bootstrap.servers\": name the brokers, such as \"localhost:9092\"");
  }
  KafkaSettings complete_settings = complete(settings, kafka, id);
  // Settings are tried at once, so that a mistake is told before the first row.
  const auto tried = make_kafka(RD_KAFKA_PRODUCER, complete_settings, nullptr);
  if (!tried) return std::unexpected(tried.error());
  return std::make_unique<KafkaSink>(settings, std::move(complete_settings));
}

Result<std::map<std::string, std::int32_t>> kafka_topics(
    const std::map<std::string, std::string>& kafka, Duration timeout) {
  const auto client = make_kafka(RD_KAFKA_PRODUCER, kafka, nullptr);
  if (!client) return std::unexpected(client.error());
  const struct rd_kafka_metadata* metadata = nullptr;
  const rd_kafka_resp_err_t error =
      rd_kafka_metadata(client->get(), 1, nullptr, &metadata, static_cast<int>(timeout.count()));
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return failure(Errc::unavailable,
                   fmt::format("no broker answers ({}): look at [kafka] \"bootstrap.servers\"",
                               rd_kafka_err2str(error)));
  }
  std::map<std::string, std::int32_t> topics;
  for (int i = 0; i < metadata->topic_cnt; ++i)
    topics[metadata->topics[i].topic] = metadata->topics[i].partition_cnt;
  rd_kafka_metadata_destroy(metadata);
  return topics;
}

}  // namespace strand::relay
