#pragma once

#include <memory>
#include <string>

#include <strand/store.h>

#include "child.h"
#include "contender.h"

namespace strand::bench {

// A server of Strand on RocksDB.
class ServerProcess {
 public:
  ServerProcess();

  [[nodiscard]] std::string url() const;
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] pid_t pid() const { return child_.pid(); }

 private:
  Folder folder_;
  int port_ = 0;
  Child child_;
};

// Clients of one server, with a connection for each, or one handle for all.
std::unique_ptr<Contender> served_strand(std::string url, bool one_handle);
// The same store in this process.
std::unique_ptr<Contender> embedded_strand();

}  // namespace strand::bench
