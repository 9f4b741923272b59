#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_set>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>

#include "server/http/api.h"
#include "server/http/http_server.h"
#include "server/http/stats_source.h"
#include "server/http/workers.h"

namespace strand::server::http {

class Connection;

// What all connections of a server have in common.
//
// Threads: by the thread that runs `io`, but for what says otherwise.
struct Hub {
  boost::asio::io_context& io;
  const Api& api;
  Workers& workers;
  StatsSource& stats;
  std::function<void(const HttpRequestDone&)> on_request = {};
  std::function<void()> on_last_closed = {};  // called while draining
  std::unordered_set<Connection*> open = {};
  std::list<Connection*> waiting = {};  // for a request, or for all of its head; the longest first
  std::atomic<std::size_t> connections = 0;  // as many; by any thread
  std::atomic<std::size_t> streams = 0;      // by any thread
  std::size_t refusals = 0;                  // of connections, under way
  std::size_t held_bytes = 0;                // bodies and answers in memory
  std::atomic<bool> draining = false;
};

// One caller. It keeps itself alive until it has been served.
class Connection {
 public:
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  virtual ~Connection() = default;

  // Ends it as soon as nothing is under way: at once if it waits for a request.
  virtual void drain() = 0;
  // Ends it now.
  virtual void close() = 0;
  // Of one of those that wait.
  [[nodiscard]] virtual Duration waited() const = 0;

 protected:
  Connection() = default;
};

// Serves what comes over the socket; with a context by TLS.
void serve_connection(Hub& hub, boost::asio::ip::tcp::socket socket,
                      std::shared_ptr<boost::asio::ssl::context> tls);

// Ends the connection that has waited longest, if that is long enough.
bool make_room(Hub& hub);

// Says that there are too many connections, and hangs up.
void refuse_connection(Hub& hub, boost::asio::ip::tcp::socket socket);

}  // namespace strand::server::http
