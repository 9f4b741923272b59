#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include <strand/error.h>

#include "cli/bench/relay_bench.h"
#include "pq/connection.h"

namespace strand::cli {

// Where the relay is measured: a schema, topics and a folder that did not exist before, and go
// afterwards.
//
// Threads: one at a time.
class RelayPlace {
 public:
  // `suffix` tells places of one process apart.
  static Result<std::unique_ptr<RelayPlace>> open(const RelayBenchOptions& options,
                                                  std::string_view suffix = "");
  RelayPlace(const RelayPlace&) = delete;
  RelayPlace& operator=(const RelayPlace&) = delete;
  ~RelayPlace();

  // A new, empty outbox and a new topic for this strategy, and the configuration for them.
  Result<void> make_outbox(std::string_view strategy);
  // Waiting rows, 1 to 10 of an entity, those of different entities mixed.
  Result<void> fill(std::uint64_t rows);
  // Rows that were sent before.
  Result<void> fill_sent(std::uint64_t rows);
  Result<bool> anything_waits();

  Result<void> run_script(const std::string& sql);
  [[nodiscard]] postgres::Connection& connection() { return *connection_; }
  [[nodiscard]] const std::string& schema() const { return schema_; }
  [[nodiscard]] const std::string& topic() const { return topics_.back(); }
  [[nodiscard]] std::filesystem::path config() const { return folder_ / "relay.toml"; }
  [[nodiscard]] std::filesystem::path trace() const { return folder_ / "trace"; }

  Result<void> make_topic();

 private:
  RelayPlace(const RelayBenchOptions& options, std::unique_ptr<postgres::Connection> connection,
             std::string_view suffix);
  void write_config(std::string_view strategy) const;

  const RelayBenchOptions& options_;
  std::unique_ptr<postgres::Connection> connection_;
  const std::string schema_;
  std::filesystem::path folder_;
  std::vector<std::string> topics_;
};

// Processes of `strand relay run`, ended with this object at the latest.
class RelayProcesses {
 public:
  RelayProcesses() = default;
  RelayProcesses(const RelayProcesses&) = delete;
  RelayProcesses& operator=(const RelayProcesses&) = delete;
  ~RelayProcesses();

  Result<void> start(const std::vector<std::string>& arguments);
  // An error if one has ended by itself.
  Result<void> look();
  // SIGTERM, and their end.
  void stop();

 private:
  std::vector<pid_t> running_;
};

// Runs this program, and waits for its success.
Result<void> run_self(const std::vector<std::string>& arguments);

}  // namespace strand::cli
