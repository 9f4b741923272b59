#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "postgres/server.h"

namespace strand::postgres {

// A real pgbouncer in front of a server, in a folder of its own. It does not outlive this process.
//
// Failure: throws std::runtime_error with what pgbouncer said.
class TestPooler {
 public:
  // Why there can be none on this machine; nothing if there can.
  static std::optional<std::string> missing();

  // `mode` is session, transaction or statement.
  TestPooler(const TestServer& server, std::string_view mode);
  TestPooler(const TestPooler&) = delete;
  TestPooler& operator=(const TestPooler&) = delete;
  ~TestPooler();

  // The database of a URL of the server, through the pooler.
  [[nodiscard]] std::string through(const std::string& url) const;

 private:
  void wait_until_ready() const;

  ServerFolder folder_;
  int port_ = 0;
  pid_t pid_ = -1;
};

}  // namespace strand::postgres
