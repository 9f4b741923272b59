#include "server/grpc_status.h"

#include <string>

#include "store/remote/connection.h"

namespace strand::server {

namespace {

grpc::StatusCode code_of(Errc code) {
  switch (code) {
    case Errc::invalid_argument:
    case Errc::limit_exceeded:
    case Errc::transaction_too_large:
    case Errc::invalid_token:
    case Errc::invalid_cursor:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Errc::unsupported:
      return grpc::StatusCode::UNIMPLEMENTED;
    case Errc::forbidden:
      return grpc::StatusCode::PERMISSION_DENIED;
    case Errc::not_found:
      return grpc::StatusCode::NOT_FOUND;
    case Errc::already_exists:
    case Errc::name_taken:
      return grpc::StatusCode::ALREADY_EXISTS;
    case Errc::in_use:
    case Errc::lease_lost:
    case Errc::message_not_leased:
    case Errc::version_mismatch:
    case Errc::history_mismatch:
    case Errc::transaction_conflict:
    case Errc::transaction_expired:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case Errc::queue_full:
    case Errc::store_full:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Errc::unavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case Errc::unknown_outcome:
      return grpc::StatusCode::UNKNOWN;
    case Errc::io_error:
      return grpc::StatusCode::INTERNAL;
    case Errc::corrupt:
      return grpc::StatusCode::DATA_LOSS;
  }
  return grpc::StatusCode::INTERNAL;
}

}  // namespace

grpc::Status status_of(const Error& error, grpc::ServerContextBase& context) {
  context.AddTrailingMetadata(remote::error_key, std::string(to_string(error.code)));
  return {code_of(error.code), error.message};
}

}  // namespace strand::server
