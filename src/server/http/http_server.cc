#include "server/http/http_server.h"

#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <openssl/ssl.h>

#include "base/text.h"
#include "server/http/api.h"
#include "server/http/connection.h"
#include "server/http/stats_source.h"
#include "server/http/workers.h"

namespace strand::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

using Tls = std::shared_ptr<asio::ssl::context>;

Result<Tls> make_tls(const HttpTls& files) {
  const auto wrong = [](const std::string& file, const error_code& error) {
    return failure(Errc::invalid_argument,
                   fmt::format("{}: {}", base::printable(file), error.message()));
  };
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context->native_handle(),
                      SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  static constexpr unsigned char name[] = "strand";
  SSL_CTX_set_session_id_context(context->native_handle(), name, sizeof(name) - 1);
  error_code error;
  context->use_certificate_chain_file(files.certificate, error);
  if (error) return wrong(files.certificate, error);
  context->use_private_key_file(files.key, asio::ssl::context::pem, error);
  if (error) return wrong(files.key, error);
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} is not the key of {}", base::printable(files.key),
                               base::printable(files.certificate)));
  }
  if (files.client_ca) {
    context->load_verify_file(*files.client_ca, error);
    if (error) return wrong(*files.client_ca, error);
    context->set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
  }
  return context;
}

Result<tcp::endpoint> find_endpoint(asio::io_context& io, const HttpOptions& options) {
  error_code error;
  const auto address = asio::ip::make_address(options.host, error);
  if (!error) return tcp::endpoint(address, options.port);
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(options.host, fmt::to_string(options.port), tcp::resolver::passive, error);
  if (error || found.empty()) {
    return failure(Errc::invalid_argument,
                   fmt::format("'{}' is not an address to listen on: {}",
                               base::printable(options.host), error.message()));
  }
  return found.begin()->endpoint();
}

http::Surroundings surroundings_of(const HttpOptions& options) {
  return {.limits = options.limits,
          .version = options.version,
          .readiness = options.readiness,
          .metrics = options.metrics,
          .worker_metrics = options.worker_metrics};
}

}  // namespace

// Connections that are still open when the server ends are held by `io`, and go with it: so what
// they use when they go, the hub, is declared before it. It only knows of the others.
struct HttpServer::State {
  State(HttpOptions wanted, const Access& access, const tcp::endpoint& endpoint)
      : options(std::move(wanted)),
        api(surroundings_of(options), access, endpoint.address().is_loopback()) {}

  Result<void> listen(const tcp::endpoint& endpoint) {
    error_code error;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return failure(Errc::unavailable,
                     fmt::format("cannot listen at {}:{}: {}; name another address with --http",
                                 base::printable(options.host), options.port, error.message()));
    }
    port = acceptor.local_endpoint(error).port();
    return {};
  }

  Tls current_tls() {
    const std::lock_guard lock(mutex);
    return tls;
  }

  asio::awaitable<void> accept() {
    while (acceptor.is_open()) {
      error_code error;
      tcp::socket socket =
          co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (!acceptor.is_open()) co_return;
      if (error) {
        // No more files, most likely: those who are served now will give some back.
        asio::steady_timer timer(io, std::chrono::milliseconds{50});
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
      } else if (hub.connections >= options.limits.connections && !http::make_room(hub)) {
        if (!options.tls) http::refuse_connection(hub, std::move(socket));
      } else {
        http::serve_connection(hub, std::move(socket), current_tls());
      }
    }
  }

  void close_all() {
    const auto open = hub.open;
    for (http::Connection* connection : open)
      connection->close();
  }

  const HttpOptions options;
  http::Api api;
  std::uint16_t port = 0;
  std::mutex mutex;
  std::condition_variable all_closed;
  Tls tls;  // under the lock

  http::Hub hub{.io = io, .api = api, .workers = workers, .stats = stats};
  asio::io_context io{1};
  http::Workers workers{io, options.worker_threads, options.limits.in_flight};
  http::StatsSource stats{io, workers, api};
  tcp::acceptor acceptor{io};
  asio::executor_work_guard<asio::io_context::executor_type> guard{io.get_executor()};
  std::thread thread;
};

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpOptions options, const Access& access) {
  asio::io_context for_names;
  const auto endpoint = find_endpoint(for_names, options);
  if (!endpoint) return std::unexpected(endpoint.error());
  auto state = std::make_unique<State>(std::move(options), access, *endpoint);
  if (state->options.tls) {
    auto tls = make_tls(*state->options.tls);
    if (!tls) return std::unexpected(std::move(tls.error()));
    state->tls = *std::move(tls);
  }
  if (auto listening = state->listen(*endpoint); !listening)
    return std::unexpected(std::move(listening.error()));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {
  State& s = *state_;
  s.hub.on_request = s.options.on_request;
  s.hub.on_last_closed = [&s] {
    const std::lock_guard lock(s.mutex);
    s.all_closed.notify_all();
  };
  asio::co_spawn(s.io, s.accept(), asio::detached);
  s.thread = std::thread([&s] { s.io.run(); });
}

HttpServer::~HttpServer() {
  state_->io.stop();
  state_->thread.join();
  state_->workers.stop();
  state_->hub.on_last_closed = nullptr;
}

void HttpServer::serve(Store& store) { state_->api.serve(store); }

std::uint16_t HttpServer::port() const { return state_->port; }

Result<void> HttpServer::reload_certificates() {
  if (!state_->options.tls) return {};
  auto tls = make_tls(*state_->options.tls);
  if (!tls) return std::unexpected(std::move(tls.error()));
  const std::lock_guard lock(state_->mutex);
  state_->tls = *std::move(tls);
  return {};
}

bool HttpServer::drain(Duration patience) {
  State& s = *state_;
  asio::post(s.io, [&s] {
    s.hub.draining = true;
    error_code ignored;
    s.acceptor.close(ignored);
    const auto open = s.hub.open;
    for (http::Connection* connection : open)
      connection->drain();
    s.hub.on_last_closed();
  });
  std::unique_lock lock(s.mutex);
  // Not before the thread has begun with it: until then somebody may still come.
  const bool done = s.all_closed.wait_for(
      lock, patience, [&s] { return s.hub.draining && s.hub.connections == 0; });
  lock.unlock();
  if (!done) asio::post(s.io, [&s] { s.close_all(); });
  return done;
}

HttpServer::Load HttpServer::load() const {
  const State& s = *state_;
  return {.connections = s.hub.connections,
          .requests = s.workers.under_way(),
          .streams = s.hub.streams};
}

}  // namespace strand::server
