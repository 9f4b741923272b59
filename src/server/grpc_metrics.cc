#include "server/grpc_metrics.h"

namespace strand::server {

void GrpcMetrics::count(const CallReport& call) {
  prometheus::Counter* counter = nullptr;
  prometheus::Histogram* seconds = nullptr;
  {
    const std::lock_guard lock(mutex_);
    auto found = methods_.find(call.method);
    if (found == methods_.end()) found = methods_.emplace(std::string(call.method), Method{}).first;
    Method& method = found->second;
    const Metrics::Labels labels = {{"method", std::string(call.method)}};
    if (method.seconds == nullptr) {
      method.seconds = &metrics_.histogram("strand_grpc_call_seconds",
                                           "How long calls over gRPC took, waiting included",
                                           Metrics::latency_bounds(), labels);
    }
    auto status = method.by_status.find(call.status);
    if (status == method.by_status.end()) {
      Metrics::Labels both = labels;
      both.emplace("status", call.status);
      prometheus::Counter& made =
          metrics_.counter("strand_grpc_calls_total", "Calls over gRPC that are over", both);
      status = method.by_status.emplace(std::string(call.status), &made).first;
    }
    counter = status->second;
    seconds = method.seconds;
  }
  counter->Increment();
  seconds->Observe(static_cast<double>(call.took.count()) / 1e6);
}

void GrpcMetrics::add_gauges(const GrpcServer& server, std::vector<Metric>& to) {
  const auto gauge = [&](const char* name, const char* help, std::size_t value) {
    to.push_back({.name = name,
                  .help = help,
                  .kind = Metric::Kind::gauge,
                  .labels = {},
                  .value = static_cast<double>(value)});
  };
  gauge("strand_grpc_waiting_clients", "Clients that wait for a lane",
        server.service().waiting_clients());
  gauge("strand_grpc_streams", "Streams of transactions and of watches that are open",
        server.service().open_streams());
  to.push_back({.name = "strand_grpc_refused_connections_total",
                .help = "Connections over gRPC that were one too many",
                .kind = Metric::Kind::counter,
                .labels = {},
                .value = static_cast<double>(server.refused_connections())});
}

}  // namespace strand::server
