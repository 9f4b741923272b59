#include "server/grpc_server.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "base/planted.h"
#include "store/remote/connection.h"

namespace strand::server {

namespace {

constexpr unsigned look_at_certificates_every_s = 1;
constexpr Duration destructor_patience = std::chrono::seconds{2};

Result<void> check_readable(const std::string& path, std::string_view what) {
  std::ifstream file(path, std::ios::binary);
  if (file && file.peek() != std::ifstream::traits_type::eof()) return {};
  return failure(Errc::invalid_argument,
                 fmt::format("the {} \"{}\" cannot be read, or is empty", what, path));
}

Result<std::shared_ptr<grpc::ServerCredentials>> credentials_of(
    const std::optional<TlsFiles>& files) {
  if (!files) return grpc::InsecureServerCredentials();
  if (auto good = check_readable(files->certificate, "certificate"); !good) {
    return std::unexpected(std::move(good).error());
  }
  if (auto good = check_readable(files->key, "key of the certificate"); !good) {
    return std::unexpected(std::move(good).error());
  }
  const bool ask_clients = !files->client_ca.empty();
  if (ask_clients) {
    if (auto good = check_readable(files->client_ca, "certificate authority of clients"); !good) {
      return std::unexpected(std::move(good).error());
    }
  }
  auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      files->key, files->certificate, files->client_ca, look_at_certificates_every_s);
  grpc::experimental::TlsServerCredentialsOptions options(std::move(provider));
  options.watch_identity_key_cert_pairs();
  if (ask_clients) options.watch_root_certs();
  options.set_cert_request_type(ask_clients
                                    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                    : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return grpc::experimental::TlsServerCredentials(options);
}

int milliseconds(Duration duration) { return static_cast<int>(duration.count()); }

void add_limits(grpc::ServerBuilder& builder, const GrpcServerOptions& options) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes_max));
  builder.SetMaxSendMessageSize(-1);  // a lease may bring as much as the client asked for
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                             static_cast<int>(options.metadata_bytes_max));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(options.calls_per_connection_max));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             milliseconds(options.handshake_timeout));
  // A message is received whole before its size is looked at, however large it is; this is what
  // stops it.
  grpc::ResourceQuota quota("strand");
  quota.Resize(options.memory_bytes_max);
  if (!STRAND_PLANTED("giants-received-whole")) builder.SetResourceQuota(quota);
  // gRPC 1.51 unpacks a whole message before it looks how large it has become, and before anyone
  // looks who sent it: a megabyte can become a thousand. So nothing packed is taken.
  const bool unpack = STRAND_PLANTED("compressed-requests-taken");
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, unpack);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, unpack);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, unpack ? 1 : 0);
  // Finds clients that are gone without a word.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds(options.keepalive));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  if (options.idle_timeout > Duration{0}) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, milliseconds(options.idle_timeout));
  }
}

}  // namespace

Result<std::unique_ptr<GrpcServer>> GrpcServer::start(Store& store, const Access& access,
                                                      const GrpcServerOptions& options) {
  remote::keep_callback_threads();
  static std::once_flag plugins;
  std::call_once(plugins, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
  const auto credentials = credentials_of(options.tls);
  if (!credentials) return std::unexpected(credentials.error());

  std::unique_ptr<GrpcServer> server(new GrpcServer(store, access, options.service));
  auto gate = ConnectionGate::listen(
      {.host = options.host, .port = options.port, .connections_max = options.connections_max});
  if (!gate) return std::unexpected(std::move(gate).error());
  server->gate_ = *std::move(gate);
  grpc::ServerBuilder builder;
  add_limits(builder, options);
  server->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, *credentials);
  builder.RegisterService(&server->service_);
  server->server_ = builder.BuildAndStart();
  if (!server->server_) return failure(Errc::io_error, "gRPC could not be started");
  server->gate_->open([acceptor = server->acceptor_.get()](int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd;
    acceptor->HandleNewConnection(&connection);
  });
  server->server_->GetHealthCheckService()->SetServingStatus(true);
  return server;
}

GrpcServer::~GrpcServer() {
  // Not at once: gRPC 1.51 has been seen to crash when it must cut off many calls in a moment.
  if (server_) drain(destructor_patience);
}

void GrpcServer::drain(Duration patience) {
  if (auto* health = server_->GetHealthCheckService()) health->Shutdown();
  gate_->close();
  service_.drain();
  server_->Shutdown(std::chrono::system_clock::now() + patience);
  server_->Wait();
}

}  // namespace strand::server
