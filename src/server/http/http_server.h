#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <strand/metrics.h>
#include <strand/store.h>

#include "server/access.h"
#include "server/http/limits.h"

namespace strand::server {

// PEM files. With `client_ca`, callers must bring a certificate that it signed.
struct HttpTls {
  std::string certificate = {};
  std::string key = {};
  std::optional<std::string> client_ca = {};
};

// A request that was answered, for the log.
struct HttpRequestDone {
  std::string method = {};
  std::string path = {};  // without what is behind the '?', which may be anybody's secret
  unsigned status = 0;
  Duration took{0};
  std::size_t bytes_in = 0;  // of bodies
  std::size_t bytes_out = 0;
  std::string caller = {};  // the name of a token; "" if nobody was admitted
  std::string request_id = {};
  std::string peer = {};  // address
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 7480;  // 0: any that is free, see HttpServer::port
  std::optional<HttpTls> tls = {};
  HttpLimits limits = {};
  std::size_t worker_threads = 4;
  std::string version = {};

  // The text for GET /metrics. Called by any worker thread.
  std::function<std::string()> metrics = {};
  // Figures of the workers of workflows in this process, if there are any. Called likewise.
  std::function<std::vector<Metric>()> worker_metrics = {};
  // None: ready as soon as there is a store. Called by the thread that serves all connections, so
  // it must not block.
  std::function<Result<void>()> readiness = {};
  // Called by the same thread, after the answer was written.
  std::function<void(const HttpRequestDone&)> on_request = {};
};

// The admin API of a store over HTTP, and what tells others how the server is: health, figures,
// the OpenAPI document, a first page. See README.md for what is refused.
//
// Threads: one of its own for all connections, and some that work on the store. Every method may
//          be called concurrently, but for the destructor.
// Failure: whatever callers do, others are served: each limit of HttpLimits is kept.
class HttpServer {
 public:
  // Listens from now on. `access` must outlive it.
  static Result<std::unique_ptr<HttpServer>> start(HttpOptions options, const Access& access);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  // Cuts off whoever is connected; waits for calls of the store that are under way.
  ~HttpServer();

  // From now on there is a store, which must outlive this. Until then what needs one is answered
  // with 503: loading.
  void serve(Store& store);

  [[nodiscard]] std::uint16_t port() const;

  // Reads the files of the certificate anew, for connections that come from now on. After a failure
  // the old ones stay in use.
  Result<void> reload_certificates();

  // Accepts nobody any more, finishes what is under way, ends streams with a last event. Returns
  // whether all of that was done within `patience`; who is left then is cut off.
  bool drain(Duration patience);

  // For figures.
  struct Load {
    std::size_t connections = 0;
    std::size_t requests = 0;  // that wait for a worker thread, or have one
    std::size_t streams = 0;
  };
  [[nodiscard]] Load load() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace strand::server
