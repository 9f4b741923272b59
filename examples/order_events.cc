// Events of many orders, handled by four workers at the same time: those of one order in their
// order, and never two at once.

#include <cstdint>
#include <iostream>
#include <map>
#include <mutex>
#include <string>

#include <strand/strand.h>

struct OrderEvent {
  std::string order;
  std::string what;
  std::int64_t cents = 0;
};
STRAND_JSON(OrderEvent, order, what, cents)

int main() {
  const auto store = strand::open("memory:").value();

  strand::Producer events(*store, "order-events");
  for (int order = 1; order <= 3; ++order) {
    const std::string id = "order-" + std::to_string(order);
    const std::int64_t cents = std::int64_t{1'000} * order;
    for (const OrderEvent& event : {OrderEvent{id, "placed", cents}, OrderEvent{id, "paid", cents},
                                    OrderEvent{id, "refunded", -400}}) {
      events.send(event, {.key = event.order}).value();
    }
  }

  std::mutex mutex;  // between orders; events of one order never meet
  std::map<std::string, std::int64_t> balances;
  strand::ConsumerOptions options;
  options.queues = {"order-events"};
  options.workers = 4;
  const auto consumer =
      strand::Consumer::start(
          *store, options,
          strand::handle_each<OrderEvent>([&](const OrderEvent& event, strand::Work&) {
            const std::lock_guard lock(mutex);
            std::cout << event.order << " " << event.what << "\n";
            if (event.what != "placed") {
              balances[event.order] += event.cents;
            }
          }))
          .value();
  consumer->wait_idle();

  for (const auto& [order, cents] : balances)
    std::cout << order << ": " << cents << " cents\n";
  return balances["order-2"] == 1'600 ? 0 : 1;
}
