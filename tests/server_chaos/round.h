#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <strand/store.h>

#include "server/fault_proxy.h"
#include "server_chaos/client.h"
#include "server_chaos/load.h"
#include "server_chaos/record.h"
#include "server_chaos/server_process.h"
#include "sim/random.h"

namespace strand::server_chaos {

// What happens to a server and to the connections to it.
struct Mix {
  std::string name = {};
  server::Faults faults = {};
  // In turn, what befalls the server: k(illed), p(aused for longer than a lease), d(rained).
  std::string befalls = {};
  std::uint64_t forgotten_permille = 2;

  friend void PrintTo(const Mix& mix, std::ostream* out) { *out << mix.name; }
};

struct RoundOutcome {
  Totals totals = {};
  std::uint64_t kills = 0;
  std::uint64_t pauses = 0;
  std::uint64_t drains = 0;
  std::uint64_t faults = 0;  // of connections
  std::uint64_t left = 0;    // messages in leases that nobody ended
};

// A server, clients that connect to it through a proxy, and what befalls them; in the end the
// judgement of what the clients were told.
//
// Failure: throws a model::Violation, or std::runtime_error when something does not go on.
class Round {
 public:
  Round(const Mix& mix, std::uint64_t seed);
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;
  ~Round();

  // Everything that befalls the server, so many times over.
  RoundOutcome run(std::size_t times);

 private:
  struct Worker {
    std::shared_ptr<Store> handle = {};
    std::unique_ptr<Client> client = {};
    LoadOptions options = {};
    bool producer = false;
    std::jthread thread = {};
  };

  [[nodiscard]] std::shared_ptr<Store> connect(std::uint16_t port, Duration patience) const;
  void hire(const std::string& name, Manner manner, bool producer, std::shared_ptr<Store> handle);
  void start_clients();
  void befall(char what);
  void wait_for_progress(std::uint64_t confirmations) const;
  void stop_clients();
  void finish();

  const Mix mix_;
  sim::Random random_;
  const std::filesystem::path folder_;
  ServerProcess server_;
  server::FaultProxy proxy_;
  std::atomic<std::uint64_t> confirmed_ = 0;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<ClientRecord> records_;
  RoundOutcome outcome_;
};

}  // namespace strand::server_chaos
