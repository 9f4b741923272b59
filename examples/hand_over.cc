// Work is handed from queue to queue: the ack of an order and the send of its shipment are one
// transaction. The worker fails in the middle, twice, and still each order is shipped exactly once.

#include <atomic>
#include <iostream>
#include <stdexcept>
#include <string>

#include <strand/strand.h>

int main() {
  const auto store = strand::open("memory:").value();
  strand::Transaction setup;
  strand::QueueSettings settings;
  settings.backoff = {};  // try again at once
  setup.admin = strand::ConfigureQueue{.queue = "orders", .settings = settings};
  store->apply(setup).value();

  strand::Producer orders(*store, "orders");
  for (const char* order : {"tea", "milk", "sugar"})
    orders.send(order, {.key = "customer-7"}).value();

  strand::Producer shipments(*store, "shipments");
  std::atomic<int> failures = 0;
  strand::ConsumerOptions options;
  options.queues = {"orders"};
  const auto consumer =
      strand::Consumer::start(*store, options, [&](strand::Work& work) {
        for (const strand::Message& order : work.messages()) {
          shipments.add(work.transaction(), "a parcel of " + order.body, {.key = work.key()})
              .value();
        }
        // What was added is forgotten with the failure, and the orders come again.
        if (++failures <= 2) throw std::runtime_error("the printer is out of paper");
      }).value();
  consumer->wait_idle();

  int parcels = 0;
  for (const strand::Lease& lease : store->lease({.queue = "shipments", .lanes = 10}).value()) {
    for (const strand::Message& parcel : lease.messages) {
      std::cout << *lease.key << ": " << parcel.body << "\n";
      ++parcels;
    }
  }
  std::cout << "the handler ran " << failures << " times, and there are " << parcels
            << " parcels\n";
  return parcels == 3 ? 0 : 1;
}
