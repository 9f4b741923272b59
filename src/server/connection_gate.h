#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include <sys/types.h>

#include <strand/error.h>

namespace strand::server {

// Listens, and lets in as many connections as there may be at a time; who comes then is cut off.
// For gRPC, which has no such limit of its own.
//
// Whoever gets a connection closes it without a word. So those that were let in are remembered by
// descriptor and inode, and looked at again when there seem to be too many.
//
// Threads: one of its own.
class ConnectionGate {
 public:
  struct Options {
    std::string host;
    std::uint16_t port = 0;           // 0: any free one
    std::size_t connections_max = 0;  // 0: no limit
  };
  // Takes over the descriptor.
  using Enter = std::function<void(int descriptor)>;

  static Result<std::unique_ptr<ConnectionGate>> listen(const Options& options);
  ~ConnectionGate();
  ConnectionGate(const ConnectionGate&) = delete;
  ConnectionGate& operator=(const ConnectionGate&) = delete;

  // From now on connections are let in.
  void open(Enter enter);
  // From now on none is.
  void close();

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }

 private:
  ConnectionGate(int listener, std::uint16_t port, std::size_t connections_max);
  void run(const Enter& enter);
  void admit(int descriptor, const Enter& enter);
  void forget_closed();

  int listener_;
  int wake_;
  const std::uint16_t port_;
  const std::size_t connections_max_;
  std::atomic<std::uint64_t> refused_ = 0;
  // Of the thread.
  std::map<int, ino_t> connections_;
  std::chrono::steady_clock::time_point looked_at_{};
  std::thread thread_;
};

}  // namespace strand::server
