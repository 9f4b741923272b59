// The program that the tests of stopped processes stop and continue.
//
//   strand-stop-child URL
//
// A slow worker leases the one message of a queue for 300 ms and says "leased EPOCH"; a line on
// standard input lets it ack, and it says "slow ok" or "slow ERROR". A quick worker waits for the
// message meanwhile, and says "quick EPOCH ok" when it has leased and acked it. In the end
// "acked COUNT" says how many acks the store has counted.

#include <atomic>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>

#include <strand/strand.h>

namespace {

using namespace std::chrono_literals;

std::optional<strand::Lease> lease_one(strand::Store& store, strand::Duration length) {
  strand::LeaseRequest request;
  request.queue = "orders";
  request.lease = length;
  auto leases = store.lease(request);
  if (!leases || leases->empty()) return std::nullopt;
  return std::move(leases->front());
}

strand::Result<strand::Receipt> ack(strand::Store& store, const strand::Lease& lease) {
  strand::Transaction transaction;
  strand::Settle& settle = transaction.settles.emplace_back();
  settle.token = lease.token;
  for (const strand::Message& message : lease.messages)
    settle.outcomes.emplace_back().id = message.id;
  return store.apply(transaction);
}

std::uint64_t epoch(const strand::Lease& lease) {
  return static_cast<std::uint64_t>(lease.token.epoch());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto store = strand::open(argv[1]).value();
  strand::Transaction work;
  strand::Send& send = work.sends.emplace_back();
  send.queue = "orders";
  send.key = "order-7";
  send.body = "charge";
  store->apply(work).value();

  const auto slow = lease_one(*store, 300ms);
  if (!slow) return 3;
  std::cout << "leased " << epoch(*slow) << std::endl;
  std::string line;
  std::getline(std::cin, line);  // and meanwhile the process is stopped

  const auto late = ack(*store, *slow);
  std::cout << "slow " << (late ? "ok" : strand::to_string(late.error().code)) << std::endl;
  std::optional<strand::Lease> quick;
  for (int tries = 0; !late && tries < 500 && !quick; ++tries) {
    quick = lease_one(*store, 1min);
    if (!quick) std::this_thread::sleep_for(10ms);
  }
  if (quick) {
    const auto done = ack(*store, *quick);
    std::cout << "quick " << epoch(*quick) << " "
              << (done ? "ok" : strand::to_string(done.error().code)) << std::endl;
  }
  std::cout << "acked " << store->stats("orders")->acked << std::endl;
  return 0;
}
