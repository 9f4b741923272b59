// One publisher, subscribers by patterns: `*` is one segment of a topic, `#` any number of them. A
// subscription is a queue; one that comes late may start in the past.

#include <iostream>
#include <string>

#include <strand/strand.h>

struct Reading {
  std::string sensor = {};
  double celsius = 0;
};
STRAND_JSON(Reading, sensor, celsius)

namespace {

// Takes and counts all that a queue holds.
std::size_t show(strand::Store& store, const std::string& queue) {
  strand::MessageQueue messages(store);
  std::size_t count = 0;
  while (const auto batch = messages.dequeue_batch(queue).value()) {
    for (const strand::Bytes& body : batch->messages) {
      const Reading reading = strand::from_body<Reading>(body).value();
      std::cout << queue << ": " << reading.sensor << " " << reading.celsius << " °C\n";
      ++count;
    }
    messages.ack(batch->lock_token).value();
  }
  return count;
}

}  // namespace

int main() {
  const auto store = strand::open("memory:").value();
  strand::Topics topics(*store);
  topics.subscribe("everything", "#").value();
  topics.subscribe("kitchens", "*.kitchen.temperature").value();
  topics.subscribe("house-1", "house-1.#").value();
  topics.retain("house-1.cellar.temperature", std::chrono::hours{1}).value();

  const auto publish = [&](const std::string& place, double celsius) {
    // With a key, readings of one sensor stay in order, whoever consumes them.
    return topics
        .publish(place + ".temperature", Reading{.sensor = place, .celsius = celsius},
                 {.key = place})
        .value()
        .matched;
  };
  std::cout << "house-1.kitchen reaches " << publish("house-1.kitchen", 21.5) << "\n";
  std::cout << "house-2.kitchen reaches " << publish("house-2.kitchen", 19) << "\n";
  std::cout << "house-1.cellar reaches " << publish("house-1.cellar", 12.5) << "\n";

  topics.subscribe("late", "*.cellar.*", strand::Time{}).value();
  const bool right = show(*store, "everything") == 3 && show(*store, "kitchens") == 2 &&
                     show(*store, "house-1") == 2 && show(*store, "late") == 1;
  return right ? 0 : 1;
}
