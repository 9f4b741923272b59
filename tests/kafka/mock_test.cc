#include "kafka/mock.h"

#include <gtest/gtest.h>

#include "kafka/client.h"

namespace strand::kafka {
namespace {

// Reports come as events, which wait for us.
Owned<rd_kafka_t> producer(const MockBroker& broker, int events = 0) {
  return make_client(RD_KAFKA_PRODUCER,
                     {{"bootstrap.servers", broker.address()},
                      {"reconnect.backoff.ms", "20"},
                      {"reconnect.backoff.max.ms", "50"}},
                     events);
}

// Of one message, as its report says it.
rd_kafka_resp_err_t send(rd_kafka_t* producer, int timeout_ms) {
  rd_kafka_resp_err_t outcome = RD_KAFKA_RESP_ERR__IN_PROGRESS;
  rd_kafka_queue_t* queue = rd_kafka_queue_get_main(producer);
  produce(producer, "orders", 0, "key", "value", {});
  if (const Owned<rd_kafka_event_t> event{rd_kafka_queue_poll(queue, timeout_ms)}) {
    const rd_kafka_message_t* message = rd_kafka_event_message_next(event.get());
    if (message != nullptr) outcome = message->err;
  }
  rd_kafka_queue_destroy(queue);
  return outcome;
}

TEST(MockBrokerTest, A_message_is_refused_as_often_as_it_was_told_to) {
  MockBroker broker;
  broker.create_topic("orders");
  const auto client = producer(broker, RD_KAFKA_EVENT_DR);
  broker.refuse_produce({RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE});
  EXPECT_EQ(send(client.get(), 10'000), RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
  EXPECT_EQ(send(client.get(), 10'000), RD_KAFKA_RESP_ERR_NO_ERROR);
}

TEST(MockBrokerTest, A_broker_that_is_down_confirms_nothing_until_it_is_up) {
  MockBroker broker;
  broker.create_topic("orders");
  const auto client = producer(broker);
  broker.down();
  produce(client.get(), "orders", 0, "key", "value", {});
  EXPECT_EQ(rd_kafka_flush(client.get(), 300), RD_KAFKA_RESP_ERR__TIMED_OUT);
  broker.up();
  EXPECT_EQ(rd_kafka_flush(client.get(), 30'000), RD_KAFKA_RESP_ERR_NO_ERROR);
}

}  // namespace
}  // namespace strand::kafka
