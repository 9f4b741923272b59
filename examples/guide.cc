// The snippets of docs/guide/queue.md, in the order in which it shows them. A check compares the
// two.

#include <atomic>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <strand/strand.h>

using namespace std::chrono_literals;

struct Order {
  std::string id;
  std::string customer;
  std::vector<std::string> items;
};
STRAND_JSON(Order, id, customer, items)

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::cerr << "not so: " << what << "\n";
  std::exit(1);
}

void four_methods(strand::Store& store) {
  strand::MessageQueue queue(store);
  queue.enqueue("orders", "customer-7", "an order").value();

  if (auto batch = queue.dequeue_batch("orders").value()) {
    for (const std::string& message : batch->messages)
      std::cout << *batch->routing_key << ": " << message << "\n";
    queue.ack(batch->lock_token).value();  // or abandon(batch->lock_token, 5s)
  }
}

void produce(strand::Store& store) {
  const Order order{"o-1", "customer-7", {"tea"}};
  strand::Producer orders(store, "orders");
  orders.send(order, {.key = order.customer}).value();
  orders.send(order, {.key = order.customer, .delay = 1h, .dedup_id = order.id}).value();
  orders.send_at(store.now() + 24h, order, {.key = order.customer}).value();

  auto batch = orders.batch();  // all of them or none, one sync
  for (const char* id : {"o-2", "o-3"})
    batch.add(Order{id, "customer-8", {}}, {.key = "customer-8"}).value();
  batch.send().value();
}

void consume(strand::Store& store) {
  strand::ConsumerOptions options;
  options.queues = {"orders"};
  options.workers = 4;
  auto consumer = strand::Consumer::start(store, options, [](strand::Work& work) {
                    for (const strand::Message& message : work.messages()) {
                      const auto order = strand::from_body<Order>(message.body);
                      if (!order) {
                        work.decide(message, strand::Verdict::dead(order.error().message));
                        continue;
                      }
                      std::cout << order->customer << " ordered " << order->id << "\n";
                    }
                  }).value();
  consumer->wait_idle();
  consumer->stop();
}

void hand_over(strand::Store& store) {
  strand::Producer(store, "orders").send(Order{"o-4", "customer-9", {}}).value();
  strand::Producer mails(store, "mails");
  const auto handler = [&](strand::Work& work) {
    mails.add(work.transaction(), "thank you", {.key = work.key()}).value();
    return strand::Verdict::ok();
  };
  strand::ConsumerOptions options;
  options.queues = {"orders"};
  strand::Consumer::start(store, options, handler).value()->wait_idle();
  require(store.stats("mails").value().ready == 1, "one mail");
}

void verdicts(strand::Store& store) {
  strand::Producer(store, "cards").send("4711").value();
  const auto charge = [](const std::string& card) { return card == "4711" ? 503 : 200; };
  const auto handler = [&](strand::Work& work) {
    const int status = charge(work.message().body);
    if (status == 503) return strand::Verdict::retry("the bank is busy", 30s);
    if (status != 200) return strand::Verdict::dead("refused with " + std::to_string(status));
    return strand::Verdict::ok();
  };
  strand::ConsumerOptions options;
  options.queues = {"cards"};
  options.hand_out = strand::HandOut::messages;
  strand::Consumer::start(store, options, handler).value()->wait_idle();
}

void settings(strand::Store& store) {
  strand::QueueSettings settings;
  settings.max_attempts = 4;
  settings.backoff = {1min, 5min, 30min};
  settings.ttl = 7 * 24h;
  strand::Transaction change;
  change.admin = strand::ConfigureQueue{.queue = "cards", .settings = settings};
  store.apply(change).value();
}

void dead_letters(strand::Store& store) {
  strand::DeadLetters dead(store, "cards");
  for (const strand::PeekedMessage& message : dead.in_backoff().value().items)
    std::cout << "again at " << strand::format_time(*message.retry_at) << "\n";
  for (const strand::DeadLetter& letter : dead.list().value().items)
    std::cout << letter.reason << " after " << letter.attempts << " attempts\n";
  dead.redrive_all().value();
}

void topics(strand::Store& store) {
  strand::Topics topics(store);
  topics.subscribe("mail-on-payment", "orders.*.paid").value();
  topics.publish("orders.eu.paid", "o-1", {.key = "customer-7"}).value();
  require(store.stats("mail-on-payment").value().ready == 1, "one publication");
}

}  // namespace

int main() {
  const auto store = strand::open("memory:").value();
  four_methods(*store);
  produce(*store);
  consume(*store);
  hand_over(*store);
  verdicts(*store);
  settings(*store);
  dead_letters(*store);
  topics(*store);
}
