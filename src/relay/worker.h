#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <strand/error.h>

#include "pq/backoff.h"
#include "pq/connection.h"
#include "pq/stop_signal.h"
#include "relay/claims.h"
#include "relay/counters.h"
#include "relay/outbox.h"
#include "relay/sink.h"
#include "relay/source.h"
#include "relay/trace.h"
#include "relay/wakeups.h"

namespace strand::relay {

// What the workers of one table in one process have in common.
struct Crew {
  const Outbox& outbox;
  const std::string& conninfo;
  Wakeups& wakeups;
  Counters& counters;
  const Trace* trace = nullptr;       // or none
  const postgres::StopSignal& hurry;  // ends attempts to connect
  std::function<void(std::string_view)> log;
};

// Settings of a session that runs the relay's statements: plans by index whatever the statistics
// say, because a table of waiting rows is empty at one moment and full at the next.
std::string session_script();

// One worker: a connection, its claims, a sink, and the loop around them.
//
// Threads: one runs it.
class Worker {
 public:
  Worker(const Crew& crew, Owner owner, std::unique_ptr<Sink> sink);

  // Until the wake-ups stop. Finishes the batch at hand, then gives everything back.
  void run();

 private:
  using Moment = std::chrono::steady_clock::time_point;
  enum class Step : std::uint8_t { sent, nothing, held_back, outage };
  struct Session;
  struct Entity;  // one claim of a batch, with its rows

  Result<void> connect();
  Result<Step> work();
  Result<Step> relay(std::vector<Claim>& claims, const std::vector<Row>& rows);
  void wait_after(Step step);
  Result<void> upkeep(Moment now);
  Result<bool> register_worker();
  void unregister_worker();

  // Whether the claims still are ours, as far as can be told; asked while Kafka is waited for.
  bool still_ours(std::span<const Claim> claims);
  Result<void> publish(std::vector<Entity>& entities, std::span<const Claim> claims);
  Result<void> isolate(std::vector<Entity>& entities, std::span<const Claim> claims);
  void bury(Entity& entity, std::span<const Claim> claims);
  Result<Step> settle(std::vector<Entity>& entities, std::span<const Claim> claims);

  void log_once(const std::string& line);
  void trace(std::string_view event, const Claim& claim, std::span<const std::string> rows = {},
             std::string_view reason = {}) const;

  const Crew& crew_;
  const TableSettings& settings_;
  Owner owner_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<postgres::Connection> connection_;
  std::unique_ptr<Claims> claims_;
  std::unique_ptr<Source> source_;
  postgres::Backoff database_backoff_;
  postgres::Backoff kafka_backoff_;
  bool connected_before_ = false;
  bool waits_for_others_ = false;  // of another strategy
  std::uint64_t woken_ = 0;
  std::uint64_t rows_ = 0;  // since the start
  Moment kept_at_;          // when the claims were known to be ours
  Moment registered_at_;
  Moment upkeep_at_;
  std::string last_log_;
};

}  // namespace strand::relay
