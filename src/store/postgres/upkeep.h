#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/alarm.h"
#include "pq/listener.h"
#include "store/postgres/location.h"

namespace strand::postgres {

class Connection;
class PostgresStore;

// What a store does by itself: hears what other processes did, applies what is due, forgets what is
// over, and says by a lock of its session that somebody has the store open.
//
// Threads: two of its own, which it ends in its destructor.
class Upkeep {
 public:
  Upkeep(PostgresStore& store, const Location& location);
  ~Upkeep();
  Upkeep(const Upkeep&) = delete;
  Upkeep& operator=(const Upkeep&) = delete;

  // Waits until notifications are heard, so that no watch misses one; says why they are not.
  Result<void> start();

 private:
  void hear(std::string_view payload);
  void run();
  // Applies what is due, and says when to look again.
  Duration serve();
  Result<void> connect();

  PostgresStore& store_;
  const Location location_;
  std::unique_ptr<Connection> connection_;  // of the thread, once it runs
  base::Alarm alarm_;
  std::mutex mutex_;
  std::optional<Time> sooner_;  // something is due then, said another process
  std::chrono::steady_clock::time_point cleaned_at_{};
  std::shared_ptr<void> clock_handle_;
  std::thread thread_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace strand::postgres
