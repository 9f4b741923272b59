#include "kafka/client.h"

#include <array>
#include <stdexcept>

#include <fmt/format.h>

namespace strand::kafka {

Owned<rd_kafka_t> make_client(rd_kafka_type_t type,
                              const std::map<std::string, std::string>& settings) {
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
  rd_kafka_t* client = rd_kafka_new(type, conf, reason.data(), reason.size());
  if (client == nullptr) {
    rd_kafka_conf_destroy(conf);
    throw std::runtime_error(reason.data());
  }
  return Owned<rd_kafka_t>(client);
}

}  // namespace strand::kafka
