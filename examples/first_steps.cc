#include <iostream>

#include <strand/strand.h>

int main() {
  const auto store = strand::open("rocksdb:first-steps").value();

  strand::Producer orders(*store, "orders");
  for (const char* step : {"charge", "pack", "ship"})
    orders.send(step, {.key = "order-7"}).value();  // on disk when it returns

  // One key, one lane: its messages in order, in one worker's hands at a time.
  strand::ConsumerOptions options{.queues = {"orders"}, .workers = 4};
  const auto handler = [](strand::Work& work) {
    for (const strand::Message& message : work.messages())
      std::cout << *work.key() << ": " << message.body << "\n";
  };  // acked when it returns; an exception is a retry
  strand::Consumer::start(*store, options, handler).value()->wait_idle();
}
