#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "e2e/program.h"
#include "proto/strand/v1/store.grpc.pb.h"

namespace strand::e2e {

// Looks again and again, for things that have no bell.
bool eventually(const std::function<bool()>& condition,
                std::chrono::milliseconds patience = std::chrono::seconds{10});

// `strand serve` as a process of its own, on free ports of this machine. Ready when it is made.
class ServerProcess {
 public:
  explicit ServerProcess(const std::string& store, const Words& more = {},
                         const ProcessOptions& options = {});

  [[nodiscard]] std::uint16_t grpc_port() const { return grpc_port_; }
  [[nodiscard]] std::uint16_t http_port() const { return http_port_; }
  // For clients: without TLS, unless it is "strands".
  [[nodiscard]] std::string url(const std::string& scheme = "strand") const;
  [[nodiscard]] Process& process() { return process_; }
  // What the log has by now, and has such a line.
  std::string log_until(const std::string& pattern) { return process_.read_errors_until(pattern); }

  // Asks it to end, and waits for it.
  Finished stop();

 private:
  Process process_;
  std::uint16_t grpc_port_ = 0;
  std::uint16_t http_port_ = 0;
};

// The words of the command that starts one, without those that choose ports.
Words serve_command(const std::string& store, const Words& more = {});

// A client of the schema, without our library.
std::unique_ptr<v1::Store::Stub> stub_for(const ServerProcess& server);

}  // namespace strand::e2e
