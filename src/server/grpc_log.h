#pragma once

#include "server/log.h"

namespace strand::server {

// What gRPC and protobuf have to say, in our log: they write to stderr by themselves, in a form of
// their own, and as often as strangers make them. One at a time in a process; `log` outlives it.
class GrpcLog {
 public:
  explicit GrpcLog(Log& log);
  ~GrpcLog();
  GrpcLog(const GrpcLog&) = delete;
  GrpcLog& operator=(const GrpcLog&) = delete;
};

}  // namespace strand::server
