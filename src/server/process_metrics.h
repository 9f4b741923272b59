#pragma once

#include <string_view>
#include <vector>

#include <strand/metrics.h>

namespace strand::server {

// Memory, time, descriptors and threads of this process, by the names that Prometheus has for them,
// and `strand_build_info`. A source for Metrics; what the system does not tell is left out.
std::vector<Metric> process_metrics(std::string_view version);

}  // namespace strand::server
