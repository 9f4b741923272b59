#pragma once

#include <string>

#include <boost/json.hpp>

namespace strand::bench {

// One durable send at low load, beside a bare append and fdatasync, in turns. In ms.
struct LatencyReport {
  double sync_p50 = 0;
  double sync_p99 = 0;
  double send_p50 = 0;
  double send_p99 = 0;
  double embedded_p50 = 0;
  double embedded_p99 = 0;
};

LatencyReport measure_latency(const std::string& url, double seconds);
boost::json::object to_json(const LatencyReport& report);
void print(const LatencyReport& report);

}  // namespace strand::bench
