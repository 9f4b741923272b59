#pragma once

#include <grpcpp/grpcpp.h>

#include <strand/error.h>

namespace strand::server {

// The error as the status of a call. Its name goes along in the trailing metadata `strand-error`.
grpc::Status status_of(const Error& error, grpc::ServerContextBase& context);

}  // namespace strand::server
