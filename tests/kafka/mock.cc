#include "kafka/mock.h"

#include <stdexcept>

#include <librdkafka/rdkafka_mock.h>

namespace strand::kafka {
namespace {

constexpr std::int16_t produce_request = 0;  // its number in Kafka's protocol
constexpr std::int32_t only_broker = 1;

void check(rd_kafka_resp_err_t error, const char* what) {
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    throw std::runtime_error(std::string(what) + ": " + rd_kafka_err2str(error));
  }
}

}  // namespace

MockBroker::MockBroker()
    : client_(make_client(RD_KAFKA_PRODUCER, {})),
      cluster_(rd_kafka_mock_cluster_new(client_.get(), 1)) {
  if (cluster_ == nullptr) throw std::runtime_error("librdkafka has made no mock cluster");
}

MockBroker::~MockBroker() { rd_kafka_mock_cluster_destroy(cluster_); }

std::string MockBroker::address() const { return rd_kafka_mock_cluster_bootstraps(cluster_); }

void MockBroker::create_topic(const std::string& name, int partitions) {
  check(rd_kafka_mock_topic_create(cluster_, name.c_str(), partitions, 1), "a topic of the mock");
}

void MockBroker::refuse_produce(const std::vector<rd_kafka_resp_err_t>& errors) {
  rd_kafka_mock_push_request_errors_array(cluster_, produce_request, errors.size(), errors.data());
}

void MockBroker::down() { check(rd_kafka_mock_broker_set_down(cluster_, only_broker), "down"); }

void MockBroker::up() { check(rd_kafka_mock_broker_set_up(cluster_, only_broker), "up"); }

void MockBroker::delay(std::chrono::milliseconds by) {
  check(rd_kafka_mock_broker_set_rtt(cluster_, only_broker, static_cast<int>(by.count())), "delay");
}

}  // namespace strand::kafka
