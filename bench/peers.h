#pragma once

#include <memory>
#include <string>
#include <vector>

#include "contender.h"

namespace strand::bench {

// Other queues, from Debian's packages. Names: redis, postgres, rabbitmq, beanstalkd.
std::vector<std::string> all_peers();
// Ends the benchmark if there is no such peer, or it is not installed: with a message that names
// its package.
void require_peer(const std::string& name);
// Starts it.
std::unique_ptr<Contender> make_peer(const std::string& name);

}  // namespace strand::bench
