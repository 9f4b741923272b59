#pragma once

#include <chrono>
#include <cstddef>

#include <strand/time.h>

namespace strand::server {

// What callers of the admin API may take of the server. What is above a limit is refused with an
// answer that says so, except that who is too slow to be answered is cut off.
struct HttpLimits {
  std::size_t header_bytes = std::size_t{16} << 10U;  // request line and fields
  std::size_t body_bytes = std::size_t{1} << 20U;
  std::size_t json_depth = 32;
  std::size_t connections = 1'000;
  std::size_t in_flight = 64;  // requests that wait for a worker thread, or have one
  std::size_t streams = 100;   // of events
  // Bodies and answers in memory, of all callers together. Short ones are always taken.
  std::size_t held_bytes = std::size_t{128} << 20U;

  Duration idle_timeout = std::chrono::seconds{60};  // between two requests
  // When there are as many connections as there may be, one that has waited this long for a whole
  // head of a request makes room; if there is none, the newcomer is refused.
  Duration idle_kept = std::chrono::seconds{1};
  Duration header_timeout = std::chrono::seconds{10};  // from the first byte to the last field
  Duration body_timeout = std::chrono::seconds{30};
  Duration write_timeout = std::chrono::seconds{30};  // of an answer, or of one event
};

}  // namespace strand::server
