#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include <strand/store.h>

#include "server_chaos/client.h"

namespace strand::server_chaos {

// Messages go from each of these to the next; what is acked in the last one is done.
inline constexpr const char* pipeline[] = {"in", "middle", "out"};
inline constexpr Duration lease_length{400};

struct LoadOptions {
  std::uint64_t seed = 0;
  // Of 1000 leases so many are forgotten. A lease that meets the end of its server lives for 10 s
  // more, so where servers die there must be few.
  std::uint64_t forgotten_permille = 2;
  // Makes another handle; for clients that close theirs now and then.
  std::function<std::shared_ptr<Store>()> reopen = {};
};

// Sends to all queues, in transactions of one or more messages, one or more a call.
void produce(Client& client, const LoadOptions& options, const std::stop_token& stop);

// Leases, and acks, fails, gives back, pulls more, renews, passes on to the next queue, forgets, or
// stalls until its lease is over and settles all the same. One that doubts always passes on, so
// that it can be seen later what became of it.
void consume(Client& client, const LoadOptions& options, const std::stop_token& stop);

// Acks all that can be leased.
void drain(Client& client);

}  // namespace strand::server_chaos
