#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <strand/error.h>
#include <strand/metrics.h>

#include "relay/config.h"

namespace strand::relay {

enum class SinkKind : std::uint8_t { kafka, standard_output };

struct RelayOptions {
  SinkKind sink = SinkKind::kafka;
  std::string process = {};     // empty: host, process id and a random part
  std::string trace_file = {};  // empty: no trace
  // What happens, a line each, for people. Called by any thread, one at a time.
  std::function<void(std::string_view)> log = [](std::string_view) {};
};

// Relays tables, until it is stopped.
//
// Threads: every method may be called concurrently.
// Failure: start() fails on what will not mend itself (a table that is not there, a setting that
//          Kafka does not know, a pooler in transaction mode). Later, databases and brokers that go
//          away are waited for.
class Relay {
 public:
  static Result<std::unique_ptr<Relay>> start(Config config, RelayOptions options);
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  // Stops.
  ~Relay();

  // Lets every worker finish the batch at hand, and gives all claims back. Returns when they have.
  void stop();

  // Whether no row waits but those of entities that have stopped.
  Result<bool> empty();

  [[nodiscard]] std::vector<Metric> metrics() const;
  [[nodiscard]] const std::string& process() const;

 private:
  struct Shared;
  class Table;
  explicit Relay(std::unique_ptr<Shared> shared);

  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Table>> tables_;
};

// Prints to `print` what would be sent now, at most settings.rows of each table, and changes
// nothing.
Result<void> dry_run(const Config& config, const std::function<void(std::string_view)>& print);

}  // namespace strand::relay
