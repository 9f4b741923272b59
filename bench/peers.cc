#include "peers.h"

#include <cstdlib>

#include <fmt/format.h>

namespace strand::bench {

std::vector<std::string> all_peers() { return {}; }

std::unique_ptr<Contender> make_peer(const std::string& name) {
  fmt::print(stderr, "bench: there is no peer {}\n", name);
  std::exit(2);
}

}  // namespace strand::bench
