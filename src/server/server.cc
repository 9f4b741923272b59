#include "server/server.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "server/access.h"
#include "server/grpc_log.h"
#include "server/grpc_metrics.h"
#include "server/grpc_server.h"
#include "server/http/http_server.h"
#include "server/metered_store.h"
#include "server/metrics.h"
#include "server/process_metrics.h"
#include "server/store_metrics.h"
#include "server/systemd.h"
#include "server/tokens.h"

namespace strand::server {

// In the order in which they come up; they come down the other way round.
struct Server::Parts {
  Parts(const ServerConfig& server_config, std::string server_version, Log& server_log)
      : config(server_config), version(std::move(server_version)), log(server_log) {}

  ServerConfig config;
  std::string version;
  Log& log;
  GrpcLog grpc_log{log};
  Metrics metrics;
  GrpcMetrics calls{metrics};
  std::unique_ptr<OpenAccess> everybody;
  std::unique_ptr<TokenAccess> tokens;
  std::unique_ptr<Store> store;
  std::unique_ptr<StoreMetrics> store_metrics;
  std::unique_ptr<MeteredStore> metered;
  std::unique_ptr<HttpServer> http;
  std::unique_ptr<GrpcServer> grpc;
  std::vector<std::shared_ptr<void>> sources;  // of metrics

  [[nodiscard]] const Access& access() const {
    return tokens ? static_cast<const Access&>(*tokens) : *everybody;
  }
  Result<void> open_access();
  Result<void> start_http();
  Result<void> open_store();
  Result<void> start_grpc();
  void add_sources();
};

namespace {

HttpLimits limits_of(const HttpConfig& config) {
  HttpLimits limits;
  limits.header_bytes = config.header_bytes;
  limits.body_bytes = config.body_bytes;
  limits.json_depth = config.json_depth;
  limits.connections = config.connections;
  limits.in_flight = config.in_flight;
  limits.streams = config.streams;
  limits.idle_timeout = config.idle_timeout;
  limits.header_timeout = config.header_timeout;
  limits.body_timeout = config.body_timeout;
  limits.write_timeout = config.write_timeout;
  return limits;
}

// The first failure of several, if there is one.
Result<void> first_of(std::initializer_list<Result<void>> results) {
  for (const Result<void>& result : results) {
    if (!result) return result;
  }
  return {};
}

}  // namespace

Result<void> Server::Parts::open_access() {
  if (config.tokens.empty()) {
    everybody = std::make_unique<OpenAccess>();
    return {};
  }
  auto opened = TokenAccess::open(config.tokens);
  if (!opened) return std::unexpected(std::move(opened).error());
  tokens = *std::move(opened);
  log.info("server.tokens", "only those with a token may do something",
           {{"file", config.tokens}, {"tokens", tokens->size()}});
  return {};
}

Result<void> Server::Parts::start_http() {
  if (config.http.listen.empty()) return {};
  const auto address = parse_address(config.http.listen);
  if (!address) return std::unexpected(address.error());
  HttpOptions options;
  options.host = address->host;
  options.port = address->port;
  options.limits = limits_of(config.http);
  options.version = version;
  options.metrics = [this] { return metrics.text(); };
  if (config.tls.on()) {
    options.tls = HttpTls{.certificate = config.tls.certificate, .key = config.tls.key};
    if (!config.tls.client_ca.empty()) options.tls->client_ca = config.tls.client_ca;
  }
  options.on_request = [this](const HttpRequestDone& done) {
    const LogLevel level = done.status >= 500 ? LogLevel::warning : LogLevel::info;
    log.write(level, "http.request", "",
              {{"method", done.method},
               {"path", done.path},
               {"status", done.status},
               {"took_s", done.took},
               {"bytes_in", done.bytes_in},
               {"bytes_out", done.bytes_out},
               {"caller", done.caller},
               {"peer", done.peer},
               {"request_id", done.request_id}});
  };
  auto started = HttpServer::start(std::move(options), access());
  if (!started) return std::unexpected(std::move(started).error());
  http = *std::move(started);
  log.info("http.listening", "the admin API and /metrics",
           {{"address", address->host}, {"port", http->port()}, {"tls", config.tls.on()}});
  return {};
}

Result<void> Server::Parts::open_store() {
  const auto began = std::chrono::steady_clock::now();
  log.info("store.opening", "", {{"store", config.store.url}});
  auto opened = open(config.store.url, config.store.open_options());
  if (!opened) return std::unexpected(std::move(opened).error());
  store = *std::move(opened);
  metered = std::make_unique<MeteredStore>(*store, metrics);
  store_metrics = std::make_unique<StoreMetrics>(
      *store, StoreMetrics::Options{.queues_max = config.metrics.queues_max,
                                    .interval = config.metrics.interval,
                                    .url = config.store.url});
  const auto took = std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - began);
  log.info("store.open", "", {{"store", config.store.url}, {"took_s", took}});
  return {};
}

Result<void> Server::Parts::start_grpc() {
  if (config.grpc.listen.empty()) return {};
  const auto address = parse_address(config.grpc.listen);
  if (!address) return std::unexpected(address.error());
  GrpcServerOptions options;
  options.host = address->host;
  options.port = address->port;
  options.message_bytes_max = config.grpc.message_bytes;
  options.memory_bytes_max = config.grpc.memory_bytes;
  options.connections_max = config.grpc.connections;
  options.calls_per_connection_max = config.grpc.in_flight;
  options.idle_timeout = config.grpc.idle_timeout;
  options.service.waiters_max = config.grpc.waits_max;
  options.service.streams_max = config.grpc.streams;
  if (config.tls.on()) {
    options.tls = TlsFiles{.certificate = config.tls.certificate,
                           .key = config.tls.key,
                           .client_ca = config.tls.client_ca};
  }
  options.service.on_call = [this](const CallReport& call) {
    calls.count(call);
    const bool good = call.status == "ok";
    if (!log.on(good ? LogLevel::debug : LogLevel::info)) return;
    const Log::Fields fields = {{"method", call.method},
                                {"status", call.status},
                                {"took_us", call.took.count()},
                                {"caller", call.caller},
                                {"request_id", call.request_id}};
    if (good) {
      log.write(LogLevel::debug, "grpc.call", "", fields);
    } else {
      log.seldom(LogLevel::info, "grpc.failed", "", fields);
    }
  };
  auto started = GrpcServer::start(*metered, access(), options);
  if (!started) return std::unexpected(std::move(started).error());
  grpc = *std::move(started);
  log.info("grpc.listening", "clients connect here",
           {{"address", address->host}, {"port", grpc->port()}, {"tls", config.tls.on()}});
  return {};
}

void Server::Parts::add_sources() {
  sources.push_back(metrics.add([this] { return process_metrics(version); }));
  sources.push_back(metrics.add([this] { return store_metrics->read(); }));
  sources.push_back(metrics.add([this] {
    std::vector<Metric> all;
    if (http) {
      const HttpServer::Load load = http->load();
      const auto gauge = [&](const char* name, const char* help, std::size_t value) {
        all.push_back({.name = name,
                       .help = help,
                       .kind = Metric::Kind::gauge,
                       .labels = {},
                       .value = static_cast<double>(value)});
      };
      gauge("strand_http_connections", "Connections over HTTP", load.connections);
      gauge("strand_http_requests", "HTTP requests that are worked on, or wait for it",
            load.requests);
      gauge("strand_http_streams", "Streams of events that are open", load.streams);
    }
    if (grpc) GrpcMetrics::add_gauges(*grpc, all);
    return all;
  }));
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Result<std::unique_ptr<Server>> Server::start(const ServerConfig& config,
                                              const std::string& version, Log& log) {
  if (auto good = check(config); !good) return std::unexpected(std::move(good).error());
  raise_file_limit();
  auto parts = std::make_unique<Parts>(config, version, log);
  log.info("server.starting", "", {{"version", version}});
  if (auto opened = parts->open_access(); !opened) return std::unexpected(opened.error());
  if (auto started = parts->start_http(); !started) return std::unexpected(started.error());
  if (auto opened = parts->open_store(); !opened) return std::unexpected(opened.error());
  if (auto started = parts->start_grpc(); !started) return std::unexpected(started.error());
  parts->add_sources();
  if (parts->http) parts->http->serve(*parts->metered);
  if (auto told = notify("READY=1"); !told) {
    log.warning("server.notify", told.error().message);
  }
  log.info("server.ready", "");
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

Server::~Server() {
  if (!parts_) return;
  // Those who look at figures must be gone before what they show.
  parts_->http.reset();
  parts_->sources.clear();
  parts_->grpc.reset();
}

std::uint16_t Server::http_port() const { return parts_->http ? parts_->http->port() : 0; }
std::uint16_t Server::grpc_port() const { return parts_->grpc ? parts_->grpc->port() : 0; }

Result<void> Server::reload() {
  std::ignore = notify_reloading();
  const auto report = [&](Result<void> result, std::string_view what) {
    if (result) {
      parts_->log.info("server.reloaded", "", {{"what", what}});
    } else {
      parts_->log.error("server.reload_failed", result.error().message, {{"what", what}});
    }
    return result;
  };
  Result<void> tokens;
  Result<void> certificates;
  if (parts_->tokens) tokens = report(parts_->tokens->reload(), "tokens");
  // gRPC looks at its files by itself.
  if (parts_->http && parts_->config.tls.on()) {
    certificates = report(parts_->http->reload_certificates(), "certificates");
  }
  std::ignore = notify("READY=1");
  return first_of({std::move(tokens), std::move(certificates)});
}

void Server::drain() {
  std::ignore = notify("STOPPING=1");
  const auto began = std::chrono::steady_clock::now();
  parts_->log.info("server.draining", "takes no new calls",
                   {{"patience_s", parts_->config.patience}});
  const auto left = [&] {
    const auto passed =
        std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - began);
    return std::max(Duration{0}, parts_->config.patience - passed);
  };
  if (parts_->grpc) parts_->grpc->drain(left());
  const bool all = !parts_->http || parts_->http->drain(left());
  parts_->http.reset();
  parts_->sources.clear();
  parts_->grpc.reset();
  parts_->metered.reset();
  parts_->store_metrics.reset();
  parts_->store.reset();
  parts_->log.info("server.stopped", all ? "" : "some were cut off");
}

void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  std::ignore = ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace strand::server
