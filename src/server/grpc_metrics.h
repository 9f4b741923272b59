#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <strand/metrics.h>

#include "server/grpc_server.h"
#include "server/metrics.h"

namespace strand::server {

// Figures of the calls over gRPC.
//
// Threads: every method may be called concurrently.
class GrpcMetrics {
 public:
  explicit GrpcMetrics(Metrics& metrics) : metrics_(metrics) {}

  void count(const CallReport& call);
  static void add_gauges(const GrpcServer& server, std::vector<Metric>& to);

 private:
  struct Method {
    prometheus::Histogram* seconds = nullptr;
    std::map<std::string, prometheus::Counter*, std::less<>> by_status;
  };

  Metrics& metrics_;
  std::mutex mutex_;
  // Methods are those of the schema, and statuses the names of errors: both are few.
  std::map<std::string, Method, std::less<>> methods_;
};

}  // namespace strand::server
