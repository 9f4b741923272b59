#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <strand/error.h>

#include "server/config.h"
#include "server/log.h"

namespace strand::server {

// A store as a service, from its configuration: gRPC for clients, HTTP for people and machines that
// look after it.
//
// Life:    HTTP listens before the store is open, and says that it loads; gRPC when it is open.
// Threads: start, reload, drain and the destructor by one thread at a time.
class Server {
 public:
  // Everything that is wrong with the configuration, or in the way, is an error. `log` outlives it.
  static Result<std::unique_ptr<Server>> start(const ServerConfig& config,
                                               const std::string& version, Log& log);
  // Without a drain: cuts off whoever is connected.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where it listens; 0: not at all.
  [[nodiscard]] std::uint16_t http_port() const;
  [[nodiscard]] std::uint16_t grpc_port() const;

  // Reads certificates and tokens anew. What cannot be read stays as it was; the log says so, too.
  Result<void> reload();

  // Takes no new calls, answers those who wait, finishes what has begun, within the patience of the
  // configuration. Then closes the store.
  void drain();

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// Lets this process have as many files open as it may: each connection is one.
void raise_file_limit();

}  // namespace strand::server
