#include <iostream>

#include <strand/strand.h>

int main() {
  const auto store = strand::open("rocksdb:first-steps").value();

  strand::Transaction work;  // all of it happens, or nothing
  for (const char* step : {"charge", "pack", "ship"}) {
    strand::Send& send = work.sends.emplace_back();
    send.queue = "orders";
    send.key = "order-7";  // one key, one lane: in order, and in one worker's hands at a time
    send.body = step;
  }
  store->apply(work).value();

  const auto leases = store->lease({.queue = "orders", .lanes = 10}).value();
  strand::Transaction done;
  for (const strand::Lease& lease : leases) {
    strand::Settle& settle = done.settles.emplace_back();
    settle.token = lease.token;  // fails with lease_lost once another worker has the lane
    for (const strand::Message& message : lease.messages) {
      std::cout << *lease.key << ": " << message.body << "\n";
      settle.outcomes.emplace_back().id = message.id;  // ack, unless told otherwise
    }
  }
  return store->apply(done) ? 0 : 1;
}
