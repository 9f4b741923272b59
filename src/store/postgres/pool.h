#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <strand/error.h>
#include <strand/time.h>

#include "pq/connection.h"
#include "pq/stop_signal.h"

namespace strand::postgres {

class Pool;

// A connection on loan from a pool. Goes back at the end; one that broke is thrown away.
//
// Threads: one at a time.
class PooledConnection {
 public:
  PooledConnection(PooledConnection&& other) noexcept = default;
  PooledConnection& operator=(PooledConnection&& other) noexcept;
  ~PooledConnection();

  Connection& operator*() const { return *connection_; }
  Connection* operator->() const { return connection_.get(); }

 private:
  friend class Pool;
  PooledConnection(Pool& pool, std::unique_ptr<Connection> connection)
      : pool_(&pool), connection_(std::move(connection)) {}
  void give_back();

  Pool* pool_;
  std::unique_ptr<Connection> connection_;  // none after it was moved from
};

// Connections for many threads. They are opened when they are needed, and kept.
//
// Threads: every method may be called concurrently.
// Failure: a connection that the server closed while it lay idle is not handed out. It may still
//          break while it is used: see Failure.
class Pool {
 public:
  // `on_connect` is a script for every new connection, such as the settings of its session; may be
  // empty.
  Pool(std::string conninfo, std::size_t size_max, std::string on_connect);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  // All connections must have been given back.
  ~Pool();

  // Waits while all connections are in use. While the server cannot be reached, tries again and
  // again. `unavailable` with the reason when that has taken `wait`, and after close(); other
  // errors of connect() at once, since trying again does not mend them.
  Result<PooledConnection> acquire(Duration wait);

  // Whoever waits in acquire() gives up, and nobody gets a connection any more.
  void close();

  // Those that are open, used or not.
  [[nodiscard]] std::size_t size() const;

 private:
  friend class PooledConnection;
  using SteadyTime = std::chrono::steady_clock::time_point;

  Result<std::unique_ptr<Connection>> open(SteadyTime deadline) const;
  void give_back(std::unique_ptr<Connection> connection);

  const std::string conninfo_;
  const std::size_t size_max_;
  const std::string on_connect_;
  const StopSignal stop_;

  mutable std::mutex mutex_;
  std::condition_variable room_;                   // for one more
  std::condition_variable given_back_;             // for those who wait until they try again
  std::vector<std::unique_ptr<Connection>> idle_;  // the last one was used last
  std::size_t in_use_ = 0;                         // or being opened
  bool closed_ = false;
};

}  // namespace strand::postgres
