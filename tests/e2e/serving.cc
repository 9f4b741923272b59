#include "e2e/serving.h"

#include <csignal>
#include <regex>
#include <thread>

#include <grpcpp/grpcpp.h>

namespace strand::e2e {

namespace {

// A port that a line of the log tells, in text or JSON.
std::uint16_t port_in(const std::string& log, const std::string& event) {
  std::smatch found;
  const std::regex line(event + "[^\n]*port\"?[=:]([0-9]+)");
  return std::regex_search(log, found, line) ? static_cast<std::uint16_t>(std::stoul(found[1])) : 0;
}

Words with_free_ports(Words words) {
  words.insert(words.begin() + 2, {"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"});
  return words;
}

}  // namespace

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return true;
}

Words serve_command(const std::string& store, const Words& more) {
  Words words = {STRAND_BINARY_DIR "/strand", "serve", "--store", store};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

ServerProcess::ServerProcess(const std::string& store, const Words& more,
                             const ProcessOptions& options)
    : process_(with_free_ports(serve_command(store, more)), options) {
  const std::string log = process_.read_errors_until("server\\.ready");
  grpc_port_ = port_in(log, "grpc\\.listening");
  http_port_ = port_in(log, "http\\.listening");
}

std::string ServerProcess::url(const std::string& scheme) const {
  return scheme + "://127.0.0.1:" + std::to_string(grpc_port_);
}

Finished ServerProcess::stop() {
  process_.signal(SIGTERM);
  return process_.finish();
}

std::unique_ptr<v1::Store::Stub> stub_for(const ServerProcess& server) {
  const std::string address = "127.0.0.1:" + std::to_string(server.grpc_port());
  return v1::Store::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
}

}  // namespace strand::e2e
