#pragma once

#include "server/log.h"

namespace strand::server {

// What the gRPC library has to say, in our log: it writes to stderr by itself, in a form of its
// own, and as often as strangers make it. One at a time in a process; `log` outlives it.
class GrpcLog {
 public:
  explicit GrpcLog(Log& log);
  ~GrpcLog();
  GrpcLog(const GrpcLog&) = delete;
  GrpcLog& operator=(const GrpcLog&) = delete;
};

}  // namespace strand::server
