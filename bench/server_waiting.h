#pragma once

#include <cstddef>

#include <boost/json.hpp>

namespace strand::bench {

// Many clients that wait for a message, and how soon the right one gets it. In ms and MB.
struct WaitingReport {
  std::size_t clients = 0;
  std::size_t connections = 0;
  double server_mb = 0;       // of the server, with all of them waiting
  double server_mb_idle = 0;  // and with none
  double wake_p50 = 0;        // one queue each
  double wake_p99 = 0;
  double same_queue_p50 = 0;  // all of them at one queue
  double same_queue_p99 = 0;
};

WaitingReport measure_waiting(std::size_t clients, std::size_t connections);
boost::json::object to_json(const WaitingReport& report);
void print(const WaitingReport& report);

}  // namespace strand::bench
