#include "peers.h"

#include <functional>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "child.h"
#include "peer_socket.h"
#include "peers_made.h"
#include "postgres/server.h"

namespace strand::bench {

namespace {

struct Peer {
  std::function<std::unique_ptr<Contender>()> make;
  std::function<void()> require;  // ends the benchmark if it cannot be made
};

// A program, from the package of the same name.
std::function<void()> needs(const std::string& program) {
  return [=] { program_of_package(program, program); };
}

void need_postgres() {
  if (const auto reason = postgres::TestServer::missing()) give_up(*reason);
}

const Peer& peer(const std::string& name) {
  static const std::map<std::string, Peer> peers = {
      {"redis", {redis_streams, needs("redis-server")}},
      {"postgres", {postgres_table, need_postgres}},
      {"rabbitmq", {rabbitmq_quorum, needs("rabbitmq-server")}},
      {"beanstalkd", {beanstalkd, needs("beanstalkd")}},
  };
  const auto found = peers.find(name);
  if (found == peers.end())
    give_up(fmt::format("there is no peer {}; there are {}", name, fmt::join(all_peers(), ", ")));
  return found->second;
}

}  // namespace

std::vector<std::string> all_peers() { return {"redis", "postgres", "rabbitmq", "beanstalkd"}; }

void require_peer(const std::string& name) { peer(name).require(); }

std::unique_ptr<Contender> make_peer(const std::string& name) { return peer(name).make(); }

}  // namespace strand::bench
