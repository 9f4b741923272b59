#include <iostream>

#include <strand/consumer.h>
#include <strand/strand.h>

// A project of its own, which knows of Strand what was installed.
int main(int argc, char** argv) {
  const auto store = strand::open(argc > 1 ? argv[1] : "memory:").value();
  strand::Transaction work;
  strand::Send& send = work.sends.emplace_back();
  send.queue = "greetings";
  send.key = "world";
  send.body = "hello";
  store->apply(work).value();

  strand::ConsumerOptions options;
  options.queues = {"greetings"};
  const auto consumer = strand::Consumer::start(*store, options, [](strand::Work& batch) {
    for (const strand::Message& message : batch.messages())
      std::cout << message.body << ", " << *batch.key() << "\n";
  });
  (*consumer)->wait_idle();
}
