#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "kafka/broker.h"
#include "postgres/server.h"
#include "pq/connection.h"
#include "relay_chaos/trace.h"
#include "sim/random.h"

namespace strand::relay_chaos {

struct FleetOptions {
  std::string strategy = "advisory";
  int processes = 4;
  int workers = 4;  // of each process
  std::chrono::milliseconds lease{2000};
  std::string relay = {};  // more lines of [relay]
};

// Relay processes (`strand relay run`) on one outbox, what is done to them, and what they wrote
// down about it.
//
// Threads: one, the one that made it: the kernel ends the processes with that thread.
// Failure: throws std::runtime_error when the processes do not do as they should.
class Fleet {
 public:
  // Writes the configuration and makes the outbox by `strand relay init`. Nothing runs yet.
  Fleet(postgres::TestServer& server, kafka::TestBroker& broker, FleetOptions options);
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;
  ~Fleet();

  void start();
  // SIGTERM to all; each must end with exit code 0.
  void stop();

  // --- Faults. Each is written down for the judge of the traces. ---

  // A process, any but a paused one, vanishes; another takes its place at once.
  void kill_one(sim::Random& random);
  // It stands still for longer than its lease, while others go on.
  void pause_one(sim::Random& random);
  // The server ends the connection of a worker.
  void end_connection(sim::Random& random);
  void restart_postgres(postgres::TestServer::Stop how);
  void restart_kafka(bool kill);

  // To be called now and then: lets processes go on that were paused for long enough, and throws if
  // one has ended by itself.
  void look_after();
  // Calls look_after() until `done`, at most so long.
  void wait_until(const std::function<bool()>& done, std::chrono::seconds at_most,
                  const std::string& what);

  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] const std::string& topic() const { return topic_; }
  [[nodiscard]] std::filesystem::path config() const { return folder_.path() / "relay.toml"; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  // Those that can take a claim from a worker.
  [[nodiscard]] const std::vector<Fault>& faults() const { return faults_; }
  // All of them.
  [[nodiscard]] std::size_t faults_count() const { return faults_.size() + kafka_faults_; }
  // What all processes wrote.
  [[nodiscard]] std::vector<Step> steps() const;
  // What they said on stderr.
  [[nodiscard]] std::string log() const;

  // Runs the program with this configuration, and waits for its end: its output. Throws unless it
  // ends so.
  std::string run(const std::vector<std::string>& words, int exit = 0) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Relay {
    int number = 0;
    int run = 0;
    std::string name = {};
    pid_t pid = -1;
    std::int64_t started_us = 0;
    bool paused = false;
    Clock::time_point resume_at = {};
    std::size_t fault = 0;  // that of the pause
  };

  void start(Relay& relay);
  void resume(Relay& relay);
  Relay* pick(sim::Random& random);
  [[nodiscard]] const Relay* owner_of(int port) const;
  [[nodiscard]] std::filesystem::path trace_of(const Relay& relay) const;
  [[nodiscard]] bool was_disturbed_at_its_start(const Relay& relay) const;
  void everybody(std::int64_t from_us);

  postgres::TestServer& server_;
  kafka::TestBroker& broker_;
  const FleetOptions options_;
  postgres::ServerFolder folder_;
  std::string url_;
  std::string topic_;
  std::vector<Relay> relays_;
  std::vector<Fault> faults_;
  std::size_t kafka_faults_ = 0;
};

}  // namespace strand::relay_chaos
