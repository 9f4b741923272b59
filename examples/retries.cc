// A message that fails is tried again after the backoff of its queue, and ends as a dead letter
// with every reason; a person redrives it when the cause is gone. Time is a ManualClock: an hour
// passes at once.

#include <iostream>
#include <memory>
#include <string>

#include <strand/strand.h>

using namespace std::chrono_literals;

namespace {

// One try: the first message of the queue fails, for a reason.
void fail_one(strand::Store& store, const std::string& reason) {
  const strand::Lease lease = store.lease({.queue = "charges"}).value().at(0);
  strand::Transaction transaction;
  transaction.settles.push_back({.token = lease.token,
                                 .outcomes = {{.id = lease.messages.at(0).id,
                                               .kind = strand::Outcome::Kind::retry,
                                               .reason = reason}}});
  store.apply(transaction).value();
}

}  // namespace

int main() {
  const auto clock = std::make_shared<strand::ManualClock>();
  strand::OpenOptions options;
  options.clock = clock;
  const auto store = strand::open("memory:", options).value();
  strand::Transaction setup;
  setup.admin = strand::ConfigureQueue{.queue = "charges",
                                       .settings = {.max_attempts = 3, .backoff = {1min, 10min}}};
  store->apply(setup).value();

  strand::Producer charges(*store, "charges");
  charges.send("charge 12 EUR", {.key = "order-7"}).value();
  charges.send("send the receipt", {.key = "order-7"}).value();  // waits for the charge

  strand::DeadLetters dead(*store, "charges");
  for (const char* const reason : {"bank: timeout", "bank: 503"}) {
    fail_one(*store, reason);
    const strand::PeekedMessage waiting = dead.in_backoff().value().items.at(0);
    std::cout << *waiting.last_reason << ", tried again in "
              << strand::format_duration(*waiting.retry_at - store->now()) << "\n";
    clock->advance(*waiting.retry_at - store->now());
  }
  fail_one(*store, "bank: unknown card");

  const strand::DeadLetter letter = dead.list().value().items.at(0);
  std::cout << "dead: " << letter.body << "\n";
  for (const strand::Failure& failure : letter.failures)
    std::cout << "  " << strand::format_time(failure.at) << " " << failure.reason << "\n";

  dead.redrive({letter.id}).value();  // back in its old place, in front of the receipt
  strand::MessageQueue worker(*store);
  const auto batch = worker.dequeue_batch("charges").value().value();
  for (const strand::Bytes& body : batch.messages)
    std::cout << "done: " << body << "\n";
  worker.ack(batch.lock_token).value();
  return letter.failures.size() == 3 && batch.messages.size() == 2 ? 0 : 1;
}
