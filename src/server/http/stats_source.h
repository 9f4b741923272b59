#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "server/http/api.h"
#include "server/http/live_stats.h"
#include "server/http/workers.h"

namespace strand::server::http {

// The counts of all queues for all who look on: however many they are, they are read at most once
// in a fifth of a second, by one worker thread.
//
// Threads: by the thread that runs `io`.
class StatsSource {
 public:
  using Snapshot = std::shared_ptr<const StatsSnapshot>;

  StatsSource(boost::asio::io_context& io, Workers& workers, const Api& api)
      : workers_(workers), api_(api), done_(io, std::chrono::steady_clock::time_point::max()) {}

  boost::asio::awaitable<Result<Snapshot>> get();

 private:
  static constexpr std::chrono::milliseconds fresh_for{200};

  Workers& workers_;
  const Api& api_;
  // Never rings, and is never set anew: those who wait for a reading are woken by cancel.
  boost::asio::steady_timer done_;
  bool reading_ = false;
  std::chrono::steady_clock::time_point read_at_;
  std::optional<Result<Snapshot>> last_;
};

}  // namespace strand::server::http
