#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <librdkafka/rdkafka.h>

#include "kafka/client.h"

struct rd_kafka_mock_cluster_s;

namespace strand::kafka {

// librdkafka's imitation of a broker, for faults that a real one cannot be made to show: it answers
// a request with the error that a test names. Real connections on 127.0.0.1, in this process.
//
// Limits: keeps 5 MiB or 100,000 messages of a partition; does not refuse what an idempotent
// producer
//         repeats; shows what transactions have not committed. So it proves nothing about order.
class MockBroker {
 public:
  MockBroker();
  MockBroker(const MockBroker&) = delete;
  MockBroker& operator=(const MockBroker&) = delete;
  ~MockBroker();

  // For bootstrap.servers.
  [[nodiscard]] std::string address() const;
  void create_topic(const std::string& name, int partitions = 1);

  // The next requests to produce are answered so, one after the other; then all is well again.
  void refuse_produce(const std::vector<rd_kafka_resp_err_t>& errors);
  // Closes all connections and takes no more, until up().
  void down();
  void up();
  // Every answer comes so late.
  void delay(std::chrono::milliseconds by);

 private:
  Owned<rd_kafka_t> client_;
  rd_kafka_mock_cluster_s* cluster_ = nullptr;
};

}  // namespace strand::kafka
