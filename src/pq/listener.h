#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "pq/connect.h"
#include "pq/stop_signal.h"

namespace strand::postgres {

struct ListenerOptions {
  std::string conninfo = {};
  std::string channel = {};
  // A script for every new connection, before it listens: settings, or a lock that the session
  // holds. May wait, and may be empty.
  std::string on_connect = {};
};

// Hears the notifications of a channel, on a connection and a thread of its own, and connects again
// when it has lost the connection.
//
// Threads: the callbacks are called on the listener's thread, one at a time. They must not block
//          for long, nor destroy the listener. connected() may be called concurrently.
// Failure: while there is no connection, notifications are lost: look for yourself in
//          on_reconnect().
class Listener {
 public:
  // For each notification, with its payload.
  using OnNotify = std::function<void(std::string_view)>;
  // After each time that it had to connect, the first time included: from now on notifications are
  // heard, those before may have been lost.
  using OnReconnect = std::function<void()>;

  // Returns before there is a connection.
  Listener(ListenerOptions options, OnNotify on_notify, OnReconnect on_reconnect);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  // No callback comes after it; takes as long as one that runs.
  ~Listener();

  // Whether notifications are heard now, as far as is known.
  [[nodiscard]] bool connected() const { return connected_; }
  // Why the last attempt to connect failed, or the last connection ended; for people.
  [[nodiscard]] std::string last_trouble() const;

 private:
  void run();
  // Connects and starts to listen; nothing if that failed.
  Handle begin();
  // Until the connection is lost, or the listener stops.
  void hear(pg_conn* connection);
  void call_back(pg_conn* connection);
  void note_trouble(std::string message);
  // False: the listener stops.
  [[nodiscard]] bool pause(Duration duration) const;

  const ListenerOptions options_;
  const OnNotify on_notify_;
  const OnReconnect on_reconnect_;
  const StopSignal stop_;
  std::atomic<bool> connected_ = false;
  mutable std::mutex mutex_;
  std::string trouble_;  // under mutex_
  std::thread thread_;
};

}  // namespace strand::postgres
