#include "server/served_store.h"

#include <atomic>
#include <optional>
#include <utility>

#include "queue/forwarding_store.h"
#include "server/access.h"
#include "server/fault_proxy.h"
#include "server/grpc_server.h"
#include "store/remote/remote_store.h"

namespace strand::server {

namespace {

// The whole chain, in the order in which it must come down.
class ServedStore final : public ForwardingStore {
 public:
  ServedStore(std::unique_ptr<Store> store, std::unique_ptr<OpenAccess> access,
              std::unique_ptr<GrpcServer> server, std::unique_ptr<FaultProxy> proxy,
              std::unique_ptr<Store> remote)
      : ForwardingStore(*remote),
        store_(std::move(store)),
        access_(std::move(access)),
        server_(std::move(server)),
        proxy_(std::move(proxy)),
        remote_(std::move(remote)) {}

 private:
  std::unique_ptr<Store> store_;
  std::unique_ptr<OpenAccess> access_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<FaultProxy> proxy_;
  std::unique_ptr<Store> remote_;
};

}  // namespace

Result<std::unique_ptr<Store>> open_served(const std::string& url, const OpenOptions& options,
                                           bool badly) {
  auto store = open(url, options);
  if (!store) return store;
  auto access = std::make_unique<OpenAccess>();
  GrpcServerOptions server_options;
  server_options.port = 0;
  server_options.service.manual_clock = options.clock && options.clock->manual();
  auto server = GrpcServer::start(**store, *access, server_options);
  if (!server) return std::unexpected(std::move(server).error());

  remote::Location location;
  location.host = "127.0.0.1";
  location.port = (*server)->port();
  std::unique_ptr<FaultProxy> proxy;
  if (badly) {
    static std::atomic<std::uint64_t> seed{0};
    Faults faults;
    faults.lose_answer = 80;
    faults.cut = 300;
    proxy = std::make_unique<FaultProxy>(location.port, ++seed, faults);
    location.port = proxy->port();
  }
  // The first connection may be spoilt as well.
  Result<std::unique_ptr<Store>> remote = failure(Errc::unavailable, "");
  for (int attempt = 0; attempt < 20 && !remote; ++attempt)
    remote = remote::RemoteStore::open(location);
  if (!remote) return remote;
  return std::make_unique<ServedStore>(*std::move(store), std::move(access), *std::move(server),
                                       std::move(proxy), *std::move(remote));
}

}  // namespace strand::server
