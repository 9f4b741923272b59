#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include <strand/store.h>

namespace strand::postgres_faults {

inline constexpr const char* work_queue = "work";
inline constexpr const char* done_queue = "done";

// Sends messages to the work queue, singly and in batches, by strand::Producer; waits when there
// are too many. Each body begins with `name` and a number that grows.
void produce(Store& store, const std::string& name, std::uint64_t seed,
             const std::stop_token& stop);

// Leases by hand, and acks, fails, gives back, pulls more, forwards to the done queue, or stalls
// until its lease is over and settles all the same.
void consume_by_hand(Store& store, const std::string& name, std::uint64_t seed,
                     const std::stop_token& stop);

// The same by strand::Consumer.
void consume(Store& store, const std::string& name, std::uint64_t seed,
             const std::stop_token& stop);

}  // namespace strand::postgres_faults
