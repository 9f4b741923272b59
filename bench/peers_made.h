#pragma once

#include <memory>

#include "contender.h"

namespace strand::bench {

// Each starts its queue, and ends the benchmark with a message if it cannot.
std::unique_ptr<Contender> redis_streams();
std::unique_ptr<Contender> postgres_table();
std::unique_ptr<Contender> rabbitmq_quorum();
std::unique_ptr<Contender> beanstalkd();

}  // namespace strand::bench
