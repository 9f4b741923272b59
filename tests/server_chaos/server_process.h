#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "crash/child.h"

namespace strand::server_chaos {

// The program `strand serve` on a store in a folder, and what may befall it. It listens on this
// machine only, at another port each time.
//
// Failure: throws std::runtime_error when it does not start or end as it should, with the end of
//          its log.
class ServerProcess {
 public:
  // Starts it; returns when it listens.
  explicit ServerProcess(std::filesystem::path folder);

  [[nodiscard]] std::uint16_t port() const { return port_; }

  void kill();                                   // SIGKILL
  void drain();                                  // SIGTERM: it ends by itself, with exit code 0
  void pause(std::chrono::milliseconds length);  // SIGSTOP, and SIGCONT after so long
  // When it is gone. Returns when it listens.
  void start();

  // What `strand check` says of the store, if it has anything to complain of; it must be gone.
  [[nodiscard]] std::string check() const;

 private:
  [[nodiscard]] std::filesystem::path log() const;
  [[nodiscard]] std::string store() const;
  [[noreturn]] void fail(const std::string& what) const;

  const std::filesystem::path folder_;
  int starts_ = 0;
  std::uint16_t port_ = 0;
  std::unique_ptr<crash::Child> child_;
};

}  // namespace strand::server_chaos
