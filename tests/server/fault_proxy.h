#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

namespace strand::server {

// How often something happens to a piece of what passes, as one in so many; 0: never.
struct Faults {
  std::uint32_t lose_answer = 0;  // what the server says is thrown away, and the connection cut
  std::uint32_t cut = 0;          // the connection is cut before a piece is passed on
  std::uint32_t duplicate = 0;    // a piece comes twice
  std::uint32_t delay = 0;        // a piece comes late, by up to delay_ms
  std::uint32_t delay_ms = 50;
  std::uint32_t throttle = 0;    // from now on the connection passes 1 kB in each ms
  std::uint32_t half_close = 0;  // no more from the client to the server
};

// Stands between clients and a server on this machine, and spoils the conversation. What happens
// follows from the seed and from how the bytes come in.
class FaultProxy {
 public:
  FaultProxy(std::uint16_t server_port, std::uint64_t seed, Faults faults);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  // Connections go to another server from now on: one that was restarted.
  void set_server(std::uint16_t port) { server_port_ = port; }
  // How often something was spoilt.
  [[nodiscard]] std::uint64_t faults() const { return count_; }

 private:
  class Loop;

  std::atomic<std::uint16_t> server_port_;
  std::uint16_t port_ = 0;
  std::atomic<std::uint64_t> count_ = 0;
  int wake_[2] = {-1, -1};
  std::thread thread_;
};

}  // namespace strand::server
