#include "peers.h"

#include <functional>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "child.h"
#include "peers_made.h"

namespace strand::bench {

std::vector<std::string> all_peers() { return {"redis", "postgres", "rabbitmq", "beanstalkd"}; }

std::unique_ptr<Contender> make_peer(const std::string& name) {
  static const std::map<std::string, std::function<std::unique_ptr<Contender>()>> makers = {
      {"redis", redis_streams},
      {"postgres", postgres_table},
      {"rabbitmq", rabbitmq_quorum},
      {"beanstalkd", beanstalkd},
  };
  const auto found = makers.find(name);
  if (found == makers.end()) {
    give_up(fmt::format("there is no peer {}; there are {}", name, fmt::join(all_peers(), ", ")));
  }
  return found->second();
}

}  // namespace strand::bench
