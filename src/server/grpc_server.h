#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

#include <strand/store.h>

#include "server/access.h"
#include "server/connection_gate.h"
#include "server/store_service.h"

namespace strand::server {

// Certificates as files in PEM. They are read anew when they change.
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string client_ca;  // "": clients need no certificate
};

struct GrpcServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 7481;  // 0: any free one
  std::optional<TlsFiles> tls;
  std::size_t message_bytes_max = std::size_t{32} << 20U;
  // For what is on its way in and out, of all connections together. Beyond it those that take most
  // are cut off (RESOURCE_EXHAUSTED).
  std::size_t memory_bytes_max = std::size_t{1} << 30U;
  std::size_t metadata_bytes_max = std::size_t{16} << 10U;
  std::size_t connections_max = 20'000;  // 0: no limit
  std::size_t calls_per_connection_max = 1000;
  Duration handshake_timeout = std::chrono::seconds{10};
  Duration keepalive = std::chrono::seconds{60};
  Duration idle_timeout{0};  // of connections without a call; 0: none
  ServiceOptions service;
};

// A store over gRPC on one address, with the standard health service and reflection.
class GrpcServer {
 public:
  // `store` and `access` outlive it.
  static Result<std::unique_ptr<GrpcServer>> start(Store& store, const Access& access,
                                                   const GrpcServerOptions& options);
  // A drain with little patience.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return gate_->port(); }
  // Connections that were one too many.
  [[nodiscard]] std::uint64_t refused_connections() const { return gate_->refused(); }
  [[nodiscard]] const StoreService& service() const { return service_; }

  // Takes no new calls, answers those who wait, finishes what has begun; at most for so long.
  void drain(Duration patience);

 private:
  GrpcServer(Store& store, const Access& access, const ServiceOptions& options)
      : service_(store, access, options) {}

  StoreService service_;
  std::unique_ptr<ConnectionGate> gate_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace strand::server
