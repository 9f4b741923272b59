#pragma once

#include <memory>
#include <string>
#include <vector>

#include "contender.h"

namespace strand::bench {

// Other queues, from Debian's packages. Names: redis, postgres, rabbitmq, beanstalkd.
std::vector<std::string> all_peers();
// Starts it. One that is not installed ends the benchmark with a message that names its package.
std::unique_ptr<Contender> make_peer(const std::string& name);

}  // namespace strand::bench
