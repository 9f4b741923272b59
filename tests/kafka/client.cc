#include "kafka/client.h"

#include <array>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

namespace strand::kafka {

Owned<rd_kafka_t> make_client(rd_kafka_type_t type,
                              const std::map<std::string, std::string>& settings, int events) {
  std::array<char, 512> reason{};
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  for (const auto& [name, value] : settings) {
    if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), reason.data(), reason.size()) !=
        RD_KAFKA_CONF_OK) {
      rd_kafka_conf_destroy(conf);
      throw std::runtime_error(fmt::format("{}={}: {}", name, value, reason.data()));
    }
  }
  // A broker that is not there yet is no news for a test.
  rd_kafka_conf_set_log_cb(conf, nullptr);
  rd_kafka_conf_set_events(conf, events);
  rd_kafka_t* client = rd_kafka_new(type, conf, reason.data(), reason.size());
  if (client == nullptr) {
    rd_kafka_conf_destroy(conf);
    throw std::runtime_error(reason.data());
  }
  return Owned<rd_kafka_t>(client);
}

void produce(rd_kafka_t* producer, const std::string& topic, std::int32_t partition,
             std::string_view key, const std::optional<std::string>& value,
             const std::map<std::string, std::string>& headers) {
  std::vector<rd_kafka_vu_t> parts{
      {.vtype = RD_KAFKA_VTYPE_TOPIC, .u = {.cstr = topic.c_str()}},
      {.vtype = RD_KAFKA_VTYPE_PARTITION, .u = {.i32 = partition}},
      {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u = {.i = RD_KAFKA_MSG_F_COPY}},
      {.vtype = RD_KAFKA_VTYPE_KEY,
       .u = {.mem = {.ptr = const_cast<char*>(key.data()), .size = key.size()}}}};
  if (value) {
    parts.push_back(
        {.vtype = RD_KAFKA_VTYPE_VALUE,
         .u = {.mem = {.ptr = const_cast<char*>(value->data()), .size = value->size()}}});
  }
  for (const auto& [name, text] : headers) {
    parts.push_back({.vtype = RD_KAFKA_VTYPE_HEADER,
                     .u = {.header = {.name = name.c_str(),
                                      .val = text.data(),
                                      .size = static_cast<ssize_t>(text.size())}}});
  }
  const Owned<rd_kafka_error_t> error(rd_kafka_produceva(producer, parts.data(), parts.size()));
  if (error != nullptr) throw std::runtime_error(rd_kafka_error_string(error.get()));
}

}  // namespace strand::kafka
