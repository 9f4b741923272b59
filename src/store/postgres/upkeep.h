#pragma once

#include <chrono>
#include <cstdint>
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
  // Sleeps for so long, or until there is a reason to look. False: stopped.
  bool sleep(Duration nap);
  Result<void> connect();

  PostgresStore& store_;
  const Location location_;
  std::unique_ptr<Connection> connection_;  // of the thread, once it runs
  base::Alarm alarm_;
  std::mutex mutex_;
  std::optional<Time> sooner_;  // something is due then, said another process
  // Lanes have owner hints, so that one may have become ready that is hidden for its grace. Then
  // somebody has to look when that ends, and look soon to know when.
  bool hinted_ = false;
  std::optional<std::chrono::steady_clock::time_point> glance_at_;
  bool urgent_ = false;           // rung for another reason
  std::int64_t shown_until_ = 0;  // lanes whose grace ended until then have been told of
  std::chrono::steady_clock::time_point cleaned_at_{};
  std::shared_ptr<void> clock_handle_;
  std::thread thread_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace strand::postgres
